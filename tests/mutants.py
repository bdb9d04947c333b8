"""Break the package one line at a time and see that a test notices: `python tests/mutants.py`.

Each mutant is one replacement in one file, with the tests that must fail under it. They run
against a copy of the package. Exit status 1 where a mutant survives, or where its line is not
found exactly once (the code moved on: move the mutant with it). Arguments select mutants whose
file name contains one of them. To add mutants, write `tests/mutants/<part>.py` with a list
MUTANTS of such rows.
"""

from __future__ import annotations

import gc
import importlib
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "leakbound"
WORKERS = min(2, os.cpu_count() or 1)
TIMEOUT = 120  # seconds for one mutant; a mutant that hangs is caught
PATIENCE = 5  # times as many for the package as it is, which must end, on a busy machine too
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not slow")
ASSERTED = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # of what was imported before
FORK = "--fork"
HEAVY = (
    "accelerate",
    "jinja2",
    "mpmath",
    "pyarrow.compute",
    "pyarrow.parquet",
    "rapidfuzz",
    "rich.console",
    "rich.progress",
    "rich.table",
    "rouge_score.rouge_scorer",
    "scipy.special",
    "scipy.stats",
    "sklearn.decomposition",
    "sklearn.mixture",
    "tokenizers",
)

Mutant = tuple[str, str, str, str]
"""(file within the package, old fragment, new fragment, test file or node within tests/)"""


def mutants(wanted: list[str]) -> list[Mutant]:
    rows: list[Mutant] = []
    for part in sorted((TESTS / "mutants").glob("*.py")):
        rows += runpy.run_path(str(part))["MUTANTS"]
    return [row for row in rows if not wanted or any(name in row[0] for name in wanted)]


@dataclass
class Worker:
    """A process with the heavy libraries imported, which forks for each test of one copy."""

    source: Path

    def __post_init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, FORK],
            cwd=TESTS.parent,
            env=environment(self.source),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, tests: str, seconds: int) -> str:
        """What the tests say of the copy; asked again in a process of its own if the fork died."""
        assert self.process.stdin
        assert self.process.stdout
        print(seconds, tests, file=self.process.stdin, flush=True)
        said = self.process.stdout.readline().strip()
        return said if said in ("passed", "failed") else run(tests, self.source, seconds)


def serve() -> None:
    """Answer each line, seconds and the tests to run, with what they say; a fork runs them."""
    import pytest
    import torch
    import transformers

    for name in HEAVY:
        importlib.import_module(name)
    torch.set_num_threads(1)
    _ = (transformers.LlamaForCausalLM, transformers.Trainer, transformers.PreTrainedTokenizerFast)
    gc.freeze()  # what is here is not looked through again, and copied, after each fork
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        if number != 0:
            os.dup2(nowhere, number)
    for line in sys.stdin:
        seconds, _, tests = line.strip().partition(" ")
        child = os.fork()
        if child == 0:
            signal.alarm(int(seconds))
            status = 3
            try:
                status = int(pytest.main([*ASSERTED, *OPTIONS, str(TESTS / tests)]))
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        hung = code == -signal.SIGALRM
        print("passed" if code == 0 else "failed" if code == 1 or hung else "lost", file=answers)


def environment(source: Path) -> dict[str, str]:
    """A source tree on PYTHONPATH comes before an editable install's."""
    settings = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return os.environ | settings


def run(tests: str, source: Path, seconds: int) -> str:
    """What the tests say of the package at `source`: "passed", "failed", or why neither."""
    command = [sys.executable, "-m", "pytest", *OPTIONS, str(TESTS / tests)]
    try:
        done = subprocess.run(
            command,
            cwd=TESTS.parent,
            env=environment(source),
            capture_output=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return "failed"  # by hanging
    if done.returncode == 0:
        return "passed"
    told = b"FAILED" in done.stdout or b"ERROR" in done.stdout
    return "failed" if done.returncode == 1 and told else f"no test ran ({done.returncode})"


def imported_from(source: Path) -> bool:
    """True if tests would import the copy, not the original."""
    code = "import leakbound; print(leakbound.__file__)"
    out = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(source),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(out.stdout.strip()).is_relative_to(source)


def judge(row: Mutant, workers: Queue[Worker]) -> tuple[str, str]:
    """The verdict on one mutant, judged in a copy of the package, and a line about it."""
    file, old, new, tests = row
    worker = workers.get()
    path = worker.source / "leakbound" / file
    text = path.read_text()
    start = time.perf_counter()
    if text.count(old) != 1:
        verdict = f"NOT FOUND ONCE ({text.count(old)} times)"
    else:
        path.write_text(text.replace(old, new))
        said = worker.run(tests, TIMEOUT)
        path.write_text(text)
        verdict = {"passed": "SURVIVED", "failed": "caught"}.get(said, said.upper())
    workers.put(worker)
    seconds = time.perf_counter() - start
    return verdict, f"{verdict:10} {seconds:5.1f} s  {file}: {old!r} -> {new!r}"


def check(tests: str, workers: Queue[Worker]) -> str:
    """What the tests say of the package as it is."""
    worker = workers.get()
    said = worker.run(tests, PATIENCE * TIMEOUT)
    workers.put(worker)
    return said


def main() -> int:
    rows, wrong = mutants(sys.argv[1:]), list[str]()
    workers: Queue[Worker] = Queue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as pool:
        for number in range(WORKERS):
            source = Path(folder).resolve() / str(number)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(PACKAGE, source / "leakbound", ignore=ignored)
            workers.put(Worker(source))
        if not imported_from(source):
            print("the copy of the package is not what Python imports; nothing was tested")
            return 1
        named = {tests for *_, tests in rows}
        nodes = sorted(name for name in named if name.split("::")[0] not in named - {name})
        said = pool.map(lambda node: check(node, workers), nodes)
        verdicts = dict(zip(nodes, said, strict=True))
        if unfit := {node: word for node, word in verdicts.items() if word != "passed"}:
            print(f"these must pass on the package as it is: {unfit}")
            return 1
        for verdict, line in pool.map(lambda row: judge(row, workers), rows):
            if verdict != "caught":
                wrong.append(line)
            print(line, flush=True)
    print(f"{len(rows)} mutants, {len(wrong)} not caught", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == [FORK]:
        serve()
    else:
        sys.exit(main())
