"""Peak memory of an evaluation: it must not grow with n × questions. And that of an import.

    python bench/memory.py [--models demo-run/models] [--json FILE]
    python bench/memory.py --imported 1e7 [--json FILE]
    python bench/memory.py --startup 15

Evaluates the demo's full model on 24, 100 and 400 questions of the built-in benchmark, n = 1,024,
each in a process of its own, and reports the largest resident set of each. Or imports JSON lines of
so many draws of 400 questions, draw by draw, of 16 words each: *repeated* ones, a question's own 40
of which the k-th has a chance like 1 / k^2, and *distinct* ones, the same with a number at the end.
Or times so many starts of `leakbound --help` and of `import leakbound`; neither may import torch.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runner import MODELS, demo_models, keep, options, table

QUESTIONS = (24, 100, 400)
ASKED, WORDS, ANSWERS = 400, 16, 40
STARTS = {
    "leakbound --help": ["-m", "leakbound", "--help"],
    "leakbound evaluate --help": ["-m", "leakbound", "evaluate", "--help"],
    "import leakbound": ["-c", "import leakbound"],
    "python alone": ["-c", "pass"],
}
VOCABULARY = [f"w{number}" for number in range(20_000)]


def measure(*arguments: object) -> tuple[float, float]:
    """Peak resident set in GB and seconds of one command, in a child process."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "leakbound", *map(str, arguments)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"`{' '.join(command)}` failed with status {status}")
    return used.ru_maxrss / 1e6, time.perf_counter() - started


def evaluations(models: Path) -> Iterator[dict[str, Any]]:
    """A row for each number of questions."""
    full = demo_models(models)["full"]  # it loads torch: a child's peak is no less than ours
    for questions in QUESTIONS:
        with tempfile.TemporaryDirectory() as scratch:
            asked = ("--benchmark", "fictitious:authors=60,questions=8,forget=50")
            limited = ("--device", "cpu", "--limit", questions, "--out", f"{scratch}/run")
            peak, seconds = measure("evaluate", full, *asked, *limited)
        yield {"questions": questions, "peak_gb": peak, "seconds": seconds}


def imports(draws: int) -> Iterator[dict[str, Any]]:
    """A row for each kind of outputs."""
    for kind in ("distinct", "repeated"):
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch, "samples.jsonl")
            write(file, kind, draws // ASKED)
            size = file.stat().st_size / 1e9
            peak, seconds = measure("import", file, "--out", f"{scratch}/run")
        yield {"kind": kind, "draws": draws, "gb": size, "peak_gb": peak, "seconds": seconds}


def write(file: Path, kind: str, n: int) -> None:
    """JSON lines of n draws of every question."""
    random = np.random.default_rng(0)
    law = 1 / np.arange(1, ANSWERS + 1) ** 2
    answers = [texts(random, ANSWERS) for _ in range(ASKED)]
    with file.open("w") as stream:
        for draw in range(n):
            chosen = random.choice(ANSWERS, size=ASKED, p=law / law.sum()).tolist()
            end = "" if kind == "repeated" else f" and {draw}"
            drawn = [mine[k] + end for mine, k in zip(answers, chosen, strict=True)]
            stream.writelines(
                f'{{"id": "q{i}", "question": "What is {i}?", "answer": "{answers[i][0]}", '
                f'"temperature": 1.0, "completion": "{text}"}}\n'
                for i, text in enumerate(drawn)
            )


def texts(random: np.random.Generator, number: int) -> list[str]:
    said = random.integers(len(VOCABULARY), size=(number, WORDS)).tolist()
    return [" ".join(VOCABULARY[word] for word in words) for words in said]


def starts(rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each way of starting."""
    for name, command in STARTS.items():
        seconds = []
        for _ in range(rounds):
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        yield {"command": name, "median": float(np.median(seconds)), "slowest": max(seconds)}


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        imported=(float, "draws of an import"),
        startup=(int, "starts timed"),
    )
    if args.startup:
        rows = table(
            starts(args.startup),
            {"command": "`{command}`", "median": "{median:.3f} s", "slowest": "{slowest:.3f} s"},
        )
    elif args.imported is None:
        rows = table(
            evaluations(args.models),
            {
                "questions × n": "{questions} × 1,024",
                "peak memory": "{peak_gb:.2f} GB",
                "time": "{seconds:.0f} s",
            },
        )
    else:
        rows = table(
            imports(int(args.imported)),
            {
                "outputs": "{kind}",
                "draws": "{draws:,}",
                "file": "{gb:.2f} GB",
                "peak memory": "{peak_gb:.2f} GB",
                "time": "{seconds:.0f} s",
            },
        )
    keep(args.json, rows)


if __name__ == "__main__":
    main()
