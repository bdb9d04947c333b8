"""Break the package one line at a time and see that a test notices: `python tests/mutants.py`.

Each mutant is one replacement in one file, with the tests that must fail under it. They run
against a copy of the package. Exit status 1 where a mutant survives, or where its line is not
found exactly once (the code moved on: move the mutant with it). Arguments select mutants whose
file name contains one of them. To add mutants, write `tests/mutants/<part>.py` with a list
MUTANTS of such rows.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "residua"
WORKERS = min(2, os.cpu_count() or 1)
TIMEOUT = 120  # seconds for one mutant; a mutant that hangs is caught
# Imported once, by a server of which every test process is a fork; never the package itself.
HEAVY = ["pytest", "torch", "transformers", "scipy.stats", "pyarrow.parquet", "rich.console"]
FAILED = 1  # pytest's exit status
UNUSABLE = 70  # where the tests could not be run, or ran on another package

Mutant = tuple[str, str, str, str]
"""(file within the package, old fragment, new fragment, test file or node within tests/)"""


def mutants(wanted: list[str]) -> list[Mutant]:
    rows: list[Mutant] = []
    for part in sorted((TESTS / "mutants").glob("*.py")):
        rows += runpy.run_path(str(part))["MUTANTS"]
    return [row for row in rows if not wanted or any(name in row[0] for name in wanted)]


def run(tests: str, source: Path) -> str:
    """What the tests say of the package at `source`: "passed", "failed", or why neither."""
    context = multiprocessing.get_context("forkserver")
    child = context.Process(target=test, args=(tests, str(source)))
    child.start()
    child.join(TIMEOUT)
    if child.exitcode is None:
        child.kill()
        child.join()
        return "failed"  # by hanging
    if child.exitcode == 0:
        return "passed"
    return "failed" if child.exitcode == FAILED else f"no test ran ({child.exitcode})"


def test(tests: str, source: str) -> None:
    """Run the tests on the package at `source`, silently, and exit with pytest's status."""
    import pytest

    os.chdir(TESTS.parent)
    os.environ |= {"PYTHONPATH": source, "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, source)  # before an editable install's
    with open(os.devnull, "w") as nothing:
        for stream in (1, 2):
            os.dup2(nothing.fileno(), stream)
        early = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what HEAVY brought along
        options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *early]
        try:
            code = int(pytest.main([*options, str(TESTS / tests)]))
        except BaseException:
            code = UNUSABLE
    package = sys.modules.get("residua")  # absent where the mutant cannot even be imported
    mine = package is None or Path(package.__file__ or "").is_relative_to(source)
    os._exit(code if mine else UNUSABLE)


def judge(row: Mutant, copies: Queue[Path]) -> tuple[str, str]:
    """The verdict on one mutant, judged in a copy of the package, and a line about it."""
    file, old, new, tests = row
    source = copies.get()
    path = source / "residua" / file
    text = path.read_text()
    start = time.perf_counter()
    if text.count(old) != 1:
        verdict = f"NOT FOUND ONCE ({text.count(old)} times)"
    else:
        path.write_text(text.replace(old, new))
        said = run(tests, source)
        path.write_text(text)
        verdict = {"passed": "SURVIVED", "failed": "caught"}.get(said, said.upper())
    copies.put(source)
    seconds = time.perf_counter() - start
    return verdict, f"{verdict:10} {seconds:5.1f} s  {file}: {old!r} -> {new!r}"


def main() -> int:
    rows, wrong = mutants(sys.argv[1:]), 0
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.set_forkserver_preload(HEAVY)
    copies: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(WORKERS):
            source = Path(folder).resolve() / str(number)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, source / "residua", ignore=ignored)
            copies.put(source)
        with ThreadPoolExecutor(WORKERS) as pool:
            nodes = sorted({tests for *_, tests in rows})
            said = dict(zip(nodes, pool.map(lambda node: run(node, source), nodes), strict=True))
            if unfit := {node: word for node, word in said.items() if word != "passed"}:
                print(f"these must pass on the package as it is: {unfit}")
                return 1
            for verdict, line in pool.map(lambda row: judge(row, copies), rows):
                wrong += verdict != "caught"
                print(line, flush=True)
    print(f"{len(rows)} mutants, {wrong} not caught")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
