"""Break the package one line at a time and see that a test notices: `python tests/mutants.py`.

Each mutant is one replacement in one file, with the tests that must fail under it. They run
against a copy of the package. Exit status 1 where a mutant survives, or where its line is not
found exactly once (the code moved on: move the mutant with it). Arguments select mutants whose
file name contains one of them. To add mutants, write `tests/mutants/<part>.py` with a list
MUTANTS of such rows.
"""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
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

Mutant = tuple[str, str, str, str]
"""(file within the package, old fragment, new fragment, test file or node within tests/)"""


def mutants(wanted: list[str]) -> list[Mutant]:
    rows: list[Mutant] = []
    for part in sorted((TESTS / "mutants").glob("*.py")):
        rows += runpy.run_path(str(part))["MUTANTS"]
    return [row for row in rows if not wanted or any(name in row[0] for name in wanted)]


def run(tests: str, source: Path) -> str:
    """What the tests say of the package at `source`: "passed", "failed", or why neither."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "not slow", str(TESTS / tests)]
    # A source tree on PYTHONPATH comes before an editable install's.
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["OMP_NUM_THREADS"] = "1"
    try:
        done = subprocess.run(
            command, cwd=TESTS.parent, env=environment, capture_output=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return "failed"  # by hanging
    if done.returncode == 0:
        return "passed"
    told = b"FAILED" in done.stdout or b"ERROR" in done.stdout
    return "failed" if done.returncode == 1 and told else f"no test ran ({done.returncode})"


def imported_from(source: Path) -> bool:
    """True if tests would import the copy, not the original."""
    code = "import residua; print(residua.__file__)"
    environment = os.environ | {"PYTHONPATH": str(source)}
    out = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return Path(out.stdout.strip()).is_relative_to(source)


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
    copies: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(WORKERS):
            source = Path(folder).resolve() / str(number)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, source / "residua", ignore=ignored)
            copies.put(source)
        if not imported_from(source):
            print("the copy of the package is not what Python imports; nothing was tested")
            return 1
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
