"""How drawing grows: one against two Ray workers of one thread, the command's memory, n, questions.

    python bench/scale.py [--models demo-run/models] [--json FILE]
    python bench/scale.py --evaluate full npo [--sizes 24x1024 240x1024] [--before CLONE]

Evaluates the demo's full model on the built-in benchmark. Each figure is of a process of its own,
every one of which has one thread. The start of the workers and loading the model are not what
grows, so the time is that of drawing: from when the run is planned until its last part is stored.
Beside it, the processor time of the busiest worker: what drawing takes where each has a core
to itself, whatever else the machine does. Needs the extra ray.

With --evaluate it is whole evaluations of these models, each with its control drawn too: processor
seconds, memory, page and folder, and the time of each phase; with --before also the processor
seconds of the sources in CLONE, each size by both in turn.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import psutil

from runner import MODELS, demo_models, keep, options, table

BENCHMARK = "fictitious:authors=60,questions=8,forget=50"
LARGE = "fictitious:authors=150,forget=125"  # 1,000 questions to be forgotten
HOT = "2"  # so hot that little is shared: the work grows with the draws
AIM = 1.7  # times as fast, at least, with two workers on two cores


@dataclass(frozen=True, slots=True)
class Drawn:
    """What one command took: seconds of drawing, processor seconds of its busiest worker, and its
    own largest resident set in GB.
    """

    workers: int
    questions: int
    n: int
    seconds: float
    busiest: float
    peak_gb: float


def watched(child: subprocess.Popen[bytes], planned: Path) -> tuple[float, float]:
    """Processor seconds of the child's busiest worker once the run is planned; its peak in GB."""
    spent: dict[int, tuple[float, float]] = {}
    status = pid = 0
    while not pid:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        time.sleep(0.1)
        for worker in workers(child.pid) if planned.exists() and not pid else ():
            with suppress(psutil.Error):
                now = sum(worker.cpu_times()[:2])
                spent[worker.pid] = (spent.get(worker.pid, (now, now))[0], now)
    if status:
        raise SystemExit(f"`{child.args!r}` failed with status {status}")
    return max((last - first for first, last in spent.values()), default=0.0), used.ru_maxrss / 1e6


def workers(pid: int) -> list[psutil.Process]:
    """The workers of a command, as Ray names their processes."""
    with suppress(psutil.Error):
        every = psutil.Process(pid).children(recursive=True)
        return [one for one in every if "ray::_Actor" in "".join([one.name(), *one.cmdline()[:1]])]
    return []


def measure(model: Path, questions: int, n: int, number: int) -> Drawn:
    """One evaluation by so many workers; by none, the command draws itself."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "leakbound", "sample", str(model), "--device", "cpu"),
            *("--benchmark", BENCHMARK, "--limit", str(questions), "-n", str(n)),
            *("--temperature", HOT, "--max-new-tokens", "16", "--out", f"{scratch}/run"),
            *(("--ray", "local", "--ray-workers", str(number)) if number else ()),
        ]
        quiet = subprocess.DEVNULL
        child = subprocess.Popen(
            command, stdout=quiet, stderr=quiet, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
        planned = Path(scratch, "run", "run.json")
        busiest, peak = watched(child, planned)
        stored = Path(scratch).glob("run/arms/*/completions/part-*.parquet")
        ended = max(file.stat().st_mtime for file in stored)
        return Drawn(number, questions, n, ended - planned.stat().st_mtime, busiest, peak)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What one evaluation took: processor seconds, also of the code before, largest resident set
    in GB, bytes of its page and of its folder, and seconds of each phase by the clock.
    """

    model: str
    questions: int
    n: int
    cpu: float
    before: float | None
    peak_gb: float
    page: int
    folder: int
    phases: dict[str, float]


def evaluated(models: Path, model: str, size: str, before: str) -> Evaluated:
    """A model on so many questions × draws: 24 are those of the demo."""
    questions, n = map(int, size.split("x"))
    spec = "fictitious" if questions == 24 else LARGE
    asked = ["--benchmark", spec, "--limit", str(questions), "-n", str(n), "--device", "cpu"]
    asked += ["--control", str(models / "control")]
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "run")
        earlier = spent(models / model, asked, Path(scratch, "before"), before) if before else None
        used = spent(models / model, asked, run)
        files = [file for file in run.rglob("*") if file.is_file()]
        return Evaluated(
            model,
            questions,
            n,
            used.ru_utime,
            earlier and earlier.ru_utime,
            used.ru_maxrss / 1e6,
            (run / "report.html").stat().st_size,
            sum(file.stat().st_size for file in files),
            json.loads((run / "times.json").read_text()),
        )


def spent(model: Path, asked: list[str], out: Path, clone: str = "") -> resource.struct_rusage:
    """What evaluating takes, by the sources in a clone or by those that are installed."""
    command = [sys.executable, "-m", "leakbound", "evaluate", str(model), "--out", str(out), *asked]
    own = {"PYTHONPATH": f"{clone}/src"} if clone else {}
    quiet = subprocess.DEVNULL
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **own}
    child = subprocess.Popen(command, stdout=quiet, stderr=quiet, env=environment)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"`{command}` failed with status {status}")
    return used


EVALUATED = {
    "model": "{model}",
    "questions × n": "{questions:,} × {n:,}",
    "CPU before": lambda one: f"{one.before:.1f} s" if one.before else "",
    "CPU": "{cpu:.1f} s",
    "peak": "{peak_gb:.2f} GB",
    "page, folder": lambda one: f"{one.page / 1e3:,.0f}, {one.folder / 1e3:,.0f} kB",
    "phases": lambda one: ", ".join(f"{k} {v:.1f} s" for k, v in one.phases.items()),
}
COLUMNS = {
    "questions × n": "{questions} × {n:,}",
    "workers": "{workers}",
    "drawing": "{seconds:.1f} s",
    "busiest worker": "{busiest:.1f} s of processor",
    "peak of the command": "{peak_gb:.2f} GB",
}


def main() -> None:
    args = options(
        __doc__,
        models=MODELS,
        evaluate=([], "folders of models to be evaluated whole"),
        sizes=(["24x1024"], "questions x draws"),
        before=("", "sources to be measured beside these"),
    )
    if args.evaluate:
        demo_models(args.models)
        each = [(args.models, model, size) for model in args.evaluate for size in args.sizes]
        found = table((evaluated(*one, args.before) for one in each), EVALUATED)
        keep(args.json, [asdict(one) for one in found])
        return
    if find_spec("ray") is None:
        print("Ray is not installed: pip install '.[ray]'. Nothing was measured.")
        return
    full = demo_models(args.models)["full"]
    pair = table((measure(full, 64, 1024, workers) for workers in (1, 2)), COLUMNS)
    faster, wall = pair[0].busiest / pair[1].busiest, pair[0].seconds / pair[1].seconds
    print(
        f"\ntwo workers: {faster:.2f} × by processor time (asked for: {AIM}), {wall:.2f} × here\n"
    )
    sizes = [(16, 1024), (256, 1024), (64, 256), (64, 4096)]
    grown = table((measure(full, *size, 2) for size in sizes), COLUMNS)
    rows = [asdict(one) for one in (*pair, *grown)]
    keep(args.json, {"rows": rows, "faster": faster, "wall": wall})
    if faster < AIM:
        raise SystemExit(f"{faster:.2f} is less than {AIM}")


if __name__ == "__main__":
    main()
