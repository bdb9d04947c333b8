"""How drawing grows: one against two Ray workers of one thread, the command's memory, n, questions.

    python bench/scale.py [--models demo-run/models] [--json FILE]

Evaluates the demo's full model on the built-in benchmark. Each figure is of a process of its own,
every one of which has one thread. The start of the workers and loading the model are not what
grows, so the time is that of drawing: from when the run is planned until its last part is stored.
Needs the extra ray.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from leakbound.benchmarks import load_benchmark
from leakbound.demo import Clock, train_models

BENCHMARK = "fictitious:authors=60,questions=8,forget=50"
HOT = "2"  # so hot that little is shared: the work grows with the draws
AIM = 1.7  # times as fast, at least, with two workers on two cores


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one command took: seconds of drawing, and its own largest resident set in GB."""

    workers: int
    questions: int
    n: int
    seconds: float
    peak_gb: float


def measure(model: Path, questions: int, n: int, workers: int) -> Drawn:
    """One evaluation; no worker: the command draws by itself."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "leakbound", "sample", str(model), "--device", "cpu"),
            *("--benchmark", BENCHMARK, "--limit", str(questions), "-n", str(n)),
            *("--temperature", HOT, "--max-new-tokens", "16", "--out", f"{scratch}/run"),
            *(("--ray", "local", "--ray-workers", str(workers)) if workers else ()),
        ]
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(
            command, stdout=quiet, stderr=quiet, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        _, status, used = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"`{' '.join(command)}` failed with status {status}")
        stored = Path(scratch).glob("run/arms/*/completions/part-*.parquet")
        ended = max(file.stat().st_mtime for file in stored)
        begun = Path(scratch, "run", "run.json").stat().st_mtime
        return Drawn(workers, questions, n, ended - begun, used.ru_maxrss / 1e6)


def table(model: Path, rows: Sequence[tuple[int, int, int]]) -> list[Drawn]:
    """Measure (questions, n, workers) in turn, and print each as a row."""
    print("| questions × n | workers | time of drawing | peak of the command |\n|---|---|---|---|")
    found = []
    for questions, n, workers in rows:
        one = measure(model, questions, n, workers)
        who = str(workers) if workers else "none"
        size = f"{questions} × {n:,}"
        print(f"| {size} | {who} | {one.seconds:.0f} s | {one.peak_gb:.2f} GB |", flush=True)
        found.append(one)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("demo-run/models"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if find_spec("ray") is None:
        print("Ray is not installed: pip install '.[ray]'. Nothing was measured.")
        return
    task = load_benchmark("fictitious")
    full = train_models(options.models, task, Clock(options.models.parent / "phases.json"))["full"]
    pair = table(full, [(64, 1024, 1), (64, 1024, 2)])
    faster = pair[0].seconds / pair[1].seconds
    print(f"\ntwo workers are {faster:.2f} × as fast as one (asked for: {AIM})\n", flush=True)
    grown = table(full, [(16, 1024, 2), (256, 1024, 2), (64, 256, 2), (64, 4096, 2)])
    if options.json:
        rows = [asdict(one) for one in (*pair, *grown)]
        options.json.write_text(json.dumps({"rows": rows, "faster": faster}, indent=1))
    if faster < AIM:
        raise SystemExit(f"{faster:.2f} is less than {AIM}")


if __name__ == "__main__":
    main()
