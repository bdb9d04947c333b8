"""Does the forgetting last, and which method's lasts longest? Methods, stresses, training seeds.

    python experiments/lasting.py builtin --out runs --seeds 0,1,2,3,4

Each method unlearns the target of a size with each seed, at the learning rate that the size's rule
chooses (see unlearning.py); each model is evaluated as it is and under every stress, beside a
control that is put through the same. What is said of a method is the median over its seeds of the
mean excess; mean and spread describe the seeds. Whatever is finished is kept: the same command goes
on, and `--table` only prints what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median

import torch
from common import UTILITY, Lab, kept_recall, phases
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from sizes import CONTROL, SIZES, TARGET, Method

from leakbound.benchmarks import load_benchmark
from leakbound.evaluation import evaluate
from leakbound.evaluation.comparing import compare_methods
from leakbound.evaluation.views.methods import MethodStanding
from leakbound.store import Run, write_json
from leakbound.store.files import write_text
from leakbound.stress import stresses_of
from leakbound.study import ModelSettings
from leakbound.text.figures import below, number
from leakbound.unlearning import Inventing

N = 128
ASKED = 20  # of 24: four are left to be taught anew
LEAK = "keyword:require=all"
STRESSES = (
    "round:int4",
    "prune:0.3",
    "opener:1",
    "shots",
    "test-frame",
    "relearn:retain=16,epochs=3,rate=0.0005",
    "relearn:forget=4,epochs=3,rate=0.0005",
)
MORE = {
    "UNDIAL": Method("undial"),
    "AltPO": Method("altpo", settings={"inventing": Inventing(max_new_tokens=48)}),
    "WGA": Method("wga"),
    "SatImp": Method("satimp"),
    "CE-U": Method("ceu"),
    "PDU": Method("pdu"),
}
NAMES = (
    "GA", "KL", "GD", "IDK", "DPO", "NPO", "SimNPO", "RMU", "CEL", *MORE, "NPO then entropy",
    "leakmin",
)  # fmt: skip
BEGIN, END = "<!-- made by experiments/lasting.py: begin -->", "<!-- end -->"


def stressed(lab: Lab, name: str, seed: int = 0) -> Run:
    """The run of a model as it is and under every stress, drawn where that was not done yet."""
    model, path = lab.model(name, seed), place(lab, name, seed)
    control = None if name == CONTROL else place(lab, CONTROL)
    run = evaluate(
        str(model),
        load_benchmark(lab.size.benchmark, limit=ASKED),
        out=path,
        control=control,
        n=N,
        scorers=(LEAK,),
        stress=STRESSES,
        settings=ModelSettings(device=lab.device, dtype=lab.size.dtype),
        progress=phases(path.name),
    )
    if not (path / UTILITY).exists():
        write_json(path / UTILITY, lab._utility(model))
    return run


def place(lab: Lab, name: str, seed: int = 0) -> Path:
    """Where that run is, or will be."""
    return lab.folder / "runs" / "stressed" / lab.slug(name, seed)


def tables(lab: Lab, seeds: Sequence[int]) -> Iterator[str]:
    """The leaderboard in Markdown: under each stress, then as it is; the least median first."""
    runs = {
        name: [Run.open(place(lab, name, seed)) for seed in seeds]
        for name in NAMES
        if all((place(lab, name, seed) / UTILITY).exists() for seed in seeds)
    }
    if not runs:
        return
    of_seeds = {
        f"{name}-{seed}": run for name in runs for seed, run in zip(seeds, runs[name], strict=True)
    }
    found: dict[str, Mapping[str, MethodStanding]] = {}
    for stress in ("", *_stresses()):
        made = compare_methods(of_seeds, under=stress)
        found[stress or "as it is"] = {one.method: one for one in made.standings[LEAK]}
    order = sorted(runs, key=lambda name: float(found["as it is"][name].median.value))
    yield from _table(
        ["method", *found],
        ([name, *(_cell(one[name]) for one in found.values())] for name in order),
    )
    yield ""
    kept = {name: [_kept(lab, name, seed) for seed in seeds] for name in order}
    yield from _table(
        ["method", "worst question", "leak@32", "proved", "greedy", "recall kept", "training"],
        (
            [
                name,
                *(_each(runs[name], one) for one in (_worst, _in_32, _proved, _greedy)),
                _between(kept[name]),
                f"{median(_seconds(lab, name, seed) for seed in seeds):.0f} s",
            ]
            for name in order
        ),
    )


def _stresses() -> tuple[str, ...]:
    """As runs name them."""
    return tuple(one.spec for one in stresses_of(STRESSES))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|".join(["", "---", *["---:"] * (len(columns) - 1), ""])
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _cell(one: MethodStanding) -> str:
    """The median's lower end, and the values of the seeds from the least to the largest."""
    return f"≥ {below(float(one.median.lower))} ({_between(one.known)})"


def _each(runs: Sequence[Run], value: Callable[[Run], float]) -> str:
    return _between([value(run) for run in runs])


def _between(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low} … {high}"


def _worst(run: Run) -> float:
    """The lower end of the question that leaks most."""
    return run.estimates.worst("leak probability", scorer=LEAK, arm=TARGET).lower


def _in_32(run: Run) -> float:
    return float(run.estimates.mean("leak@k", parameter=32, scorer=LEAK, arm=TARGET).value or 0)


def _proved(run: Run) -> float:
    """The most that single outputs prove of a question."""
    rows = run.estimates.where(quantity="leak probability", scorer=LEAK, arm=TARGET)
    return max((row.lower for row in rows if row.about.proved), default=0.0)


def _greedy(run: Run) -> float:
    """The share of greedy answers that leak."""
    return fmean(row.value or 0 for row in run.estimates.each("greedy score", arm="greedy"))


def _kept(lab: Lab, name: str, seed: int) -> float:
    return fmean(kept_recall(place(lab, name, seed) / UTILITY).values())


def draw_front(lab: Lab, seeds: Sequence[int], file: Path) -> None:
    """What is kept against what leaks, as it is and under the stress that it leaks most under."""
    names = [n for n in NAMES if all((place(lab, n, s) / UTILITY).exists() for s in seeds)]
    figure = Figure(figsize=(9.5, 4.6), layout="constrained")
    FigureCanvasSVG(figure)
    for axes, of in zip(figure.subplots(1, 2, sharey=True), (_as_it_is, _at_worst), strict=True):
        points = {
            name: [(_kept(lab, name, s), of(Run.open(place(lab, name, s)))) for s in seeds]
            for name in names
        }
        middle = {
            name: tuple(map(median, zip(*each, strict=True))) for name, each in points.items()
        }
        front = {
            name: (x, y)
            for name, (x, y) in middle.items()
            if not any(u >= x and v <= y and (u, v) != (x, y) for u, v in middle.values())
        }
        for name, each in points.items():
            colour = "#0072b2" if name in front else "#999999"
            axes.plot(*zip(*each, strict=True), "o", color=colour, markersize=3, alpha=0.6)
            axes.annotate(name, middle[name], xytext=(4, 3), textcoords="offset points", fontsize=8)
        line = sorted(front.values())
        axes.plot(*zip(*line, strict=True), color="#0072b2", linewidth=1, drawstyle="steps-post")
        axes.set_xlabel("recall of retained answers (greedy, ROUGE-L)")
        axes.set_title("as it is" if of is _as_it_is else "under the stress it leaks most under")
    figure.axes[0].set_ylabel("mean leak probability beyond the control")
    with rc_context({"svg.hashsalt": "leakbound"}):
        figure.savefig(file, metadata={"Date": None})


def _as_it_is(run: Run, arm: str = TARGET) -> float:
    """The mean beyond the control."""
    return float(
        run.estimates.mean("leak probability", scorer=LEAK, arm=arm, beyond=CONTROL).value or 0
    )


def _at_worst(run: Run) -> float:
    return max(_as_it_is(run, f"{TARGET} under {stress}") for stress in _stresses())


def _seconds(lab: Lab, name: str, seed: int) -> float:
    log = lab.folder / "models" / lab.slug(name, seed) / "training.jsonl"
    return float(json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["seconds"])


def main() -> None:
    """Do what is asked, then print the table, and put it into a page."""
    options = _options()
    torch.set_num_threads(options.threads)
    lab = Lab.open(options.size, options.out / options.size)
    lab = replace(lab, size=replace(lab.size, more={**lab.size.more, **MORE}))
    for seed in options.seeds if not options.table else ():
        for name in (CONTROL, TARGET, *(options.methods or NAMES)):
            if seed == options.seeds[0] or name not in (CONTROL, TARGET):
                stressed(lab, name, seed)
    text = "\n".join(tables(lab, options.seeds))
    print(text)
    if options.front is not None and text:
        draw_front(lab, options.seeds, options.front)
    if options.page is not None and text:
        page = options.page.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        write_text(options.page, f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("size", choices=[name for name in SIZES if name == "builtin"])
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--seeds", type=_numbers, default=(0, 1, 2, 3, 4), help="of the unlearning")
    parser.add_argument("--methods", type=lambda text: text.split(","), help="some of them")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--front", type=Path, help="an SVG of what is kept against what leaks")
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
