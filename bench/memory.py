"""Peak memory of an evaluation: it must not grow with n × questions.

    python bench/memory.py [--models demo-run/models] [--json FILE]

Evaluates the demo's full model on 24, 100 and 400 questions of the built-in benchmark, n = 1,024,
each in a process of its own, and reports the largest resident set of each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from leakbound.benchmarks import load_benchmark
from leakbound.demo import Clock, train_models

QUESTIONS = (24, 100, 400)


def measure(model: Path, questions: int) -> tuple[float, float]:
    """Peak resident set in GB and seconds of one evaluation, in a child process."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "leakbound", "evaluate", str(model), "--device", "cpu"),
            *("--benchmark", "fictitious:authors=60,questions=8,forget=50"),
            *("--limit", str(questions), "--out", f"{scratch}/run"),
        ]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"the evaluation of {questions} questions failed with status {status}")
    return used.ru_maxrss / 1e6, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("demo-run/models"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    task = load_benchmark("fictitious")
    full = train_models(options.models, task, Clock(options.models.parent / "phases.json"))["full"]
    print("| questions × n | peak memory | time |\n|---|---|---|")
    rows = []
    for questions in QUESTIONS:
        peak, seconds = measure(full, questions)
        rows.append({"questions": questions, "peak_gb": peak, "seconds": seconds})
        print(f"| {questions} × 1,024 | {peak:.2f} GB | {seconds:.0f} s |", flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
