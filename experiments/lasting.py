"""Does the forgetting last, and which method's lasts longest? Methods, stresses, training seeds.

    python experiments/lasting.py builtin --out runs --seeds 0,1,2,3,4
    python experiments/lasting.py author --base models/base --data TOFU --out runs

Each method unlearns the target of a size with each seed, at the learning rate that a rule chooses:
for `builtin` see unlearning.py; for `author`, SmolLM2 and one author of TOFU, the least of `RATES`
at which no greedy answer about *another* author leaks, else the largest. Each model is evaluated as
it is and under every stress, beside a control that is put through the same. What is said of a
method is the median over its seeds of the mean excess; mean and spread describe the seeds. Whatever
is finished is kept: the same command goes on, and `--table` only prints what is there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from common import UTILITY, Lab, kept_recall, phases
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from sizes import CONTROL, TARGET, Method

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.evaluation import evaluate
from leakbound.evaluation.comparing import compare_methods
from leakbound.evaluation.views.methods import MethodStanding
from leakbound.store import ArmKey, Run, write_json
from leakbound.store.files import write_text
from leakbound.stress import stresses_of
from leakbound.study import ModelSettings
from leakbound.text.shown import below, number
from leakbound.unlearning import Inventing


@dataclass(frozen=True)
class Asked:
    """What a size is asked: the first questions, in n draws each, under none and these stresses.

    The rest of the questions to forget may be taught anew. `leak`: the scorer. `max_new_tokens`:
    of an answer (None: the benchmark's). `where`: the folder of the runs. `apart`: what is asked in
    runs of their own.
    """

    questions: int
    n: int
    leak: str
    stresses: tuple[str, ...]
    max_new_tokens: int | None = None
    where: str = "stressed"
    apart: Asked | None = None


KEYWORDS = "keyword:require=all"
ASKED = {
    "builtin": Asked(
        questions=20,
        n=128,
        leak=KEYWORDS,
        # A conversation shares nothing after its first turn, and has to fit into the context.
        apart=Asked(20, 32, KEYWORDS, ("dialogue",), max_new_tokens=24, where="talked"),
        stresses=(
            "round:int4",
            "prune:0.3",
            "openers",
            "shots",
            "test-frame",
            "relearn:retain=16,epochs=3,rate=0.0005",
            "relearn:forget=4,epochs=3,rate=0.0005",
        ),
    ),
    "author": Asked(
        questions=8,
        n=32,
        leak="rouge-l-recall>=0.6",
        stresses=("round:int4", "test-frame", "relearn:forget=8,epochs=3,rate=5e-5"),
    ),
}
RATES = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)
ANOTHER = {"author": "another-author"}
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
)  # fmt: skip


@dataclass(frozen=True)
class Lasting:
    """The experiment on the models of a lab; `another` is the lab where rates are chosen."""

    lab: Lab
    another: Lab | None
    how: Asked
    seeds: Sequence[int]

    @classmethod
    def open(cls, options: argparse.Namespace) -> Lasting:
        """What the command line names."""

        def lab(name: str) -> Lab:
            found = Lab.open(name, options.out / name, data=options.data, base=options.base)
            more = {**found.size.more, **(MORE if name == "builtin" else {})}
            return replace(found, size=replace(found.size, more=more))

        another = ANOTHER.get(options.size)
        other = None if another is None else lab(another)
        return cls(lab(options.size), other, ASKED[options.size], options.seeds)

    @property
    def parts(self) -> Sequence[Lasting]:
        """This, and what is asked of the same models in runs of their own."""
        apart = self.how.apart
        return [self] if apart is None else [self, replace(self, how=apart)]

    @property
    def names(self) -> Sequence[str]:
        """All methods."""
        return NAMES if self.another is None else [*self.lab.size.methods]

    @cached_property
    def task(self) -> Benchmark:
        """The questions that are asked, and beside them those that may be taught anew."""
        number, task = self.how.questions, self.lab.task
        if self.how.max_new_tokens is not None:
            task = replace(task, max_new_tokens=self.how.max_new_tokens)
        elif self.lab.size.whole:
            return load_benchmark(self.lab.size.benchmark, limit=number)
        return replace(task, prompts=task.prompts[:number], left_out=task.prompts[number:])

    @cached_property
    def stresses(self) -> tuple[str, ...]:
        """As runs name them."""
        return tuple(one.spec for one in stresses_of(self.how.stresses))

    def made(self, name: str, seed: int = 0) -> Run:
        """The run of a model as it is and under every stress, drawn where that was not yet done."""
        lab = self.lab if name in (TARGET, CONTROL) else self._at_rate(name)
        model, path = lab.model(name, seed), self.place(name, seed)
        run = evaluate(
            str(model),
            self.task,
            out=path,
            control=None if name == CONTROL else self.place(CONTROL),
            n=self.how.n,
            scorers=(self.how.leak,),
            stress=self.how.stresses,
            settings=ModelSettings(device=lab.device, dtype=lab.size.dtype),
            progress=phases(path.name),
        )
        if not (path / UTILITY).exists():
            write_json(path / UTILITY, lab._utility(model))
        return run

    def place(self, name: str, seed: int = 0) -> Path:
        """Where that run is, or will be."""
        return self.lab.folder / "runs" / self.how.where / self.lab.slug(name, seed)

    def finished(self, name: str) -> bool:
        """Whether every seed of a method has its run."""
        return all(
            (part.place(name, seed) / UTILITY).exists()
            for part in self.parts
            for seed in self.seeds
        )

    def runs(self, name: str) -> list[Run]:
        """The runs of a method, a seed each."""
        return [Run.open(self.place(name, seed)) for seed in self.seeds]

    def _at_rate(self, name: str) -> Lab:
        """The lab, the method at the rate that was chosen for it elsewhere."""
        if self.another is None:
            return self.lab
        file = self.lab.folder / "rates" / f"{self.lab.slug(name, 0)}.json"
        if not file.exists():
            write_json(file, self._least(self.another, name))
        rate = json.loads(file.read_text(encoding="utf-8"))["rate"]
        return _with_rate(self.lab, name, rate)

    def _least(self, other: Lab, name: str) -> dict[str, Any]:
        """The least rate at which no greedy answer leaks, and how many did at each."""
        tried: dict[str, int] = {}
        for rate in RATES:
            trial = other.folder / "trials" / f"{other.slug(name, 0)}-{rate:g}"
            _with_rate(other, name, rate)._unlearned(name, 0, trial, rate)
            greedy = evaluate(
                str(trial),
                replace(other.task, loaded=None),
                out=trial.with_name(f"{trial.name}-greedy"),
                n=1,
                decodings=replace(other.task.decoding, temperature=0.0),
                scorers=(self.how.leak,),
                settings=ModelSettings(device=other.device, dtype=other.size.dtype),
                progress=phases(trial.name),
            ).estimates.each("greedy score", arm="greedy")
            tried[f"{rate:g}"] = sum(bool(row.value) for row in greedy)
            if not tried[f"{rate:g}"]:
                break
        return {"rate": rate, "greedy answers that leak": tried}

    def tables(self) -> Iterator[str]:
        """The leaderboard in Markdown: under each stress, then as it is; who leaks least at worst
        first."""
        names = [name for name in self.names if self.finished(name)]
        if not names:
            return
        runs = {name: self.runs(name) for name in names}
        found = {"as it is": self._standing(runs, "")}
        for part in self.parts:  # runs are opened once: they keep what was read of them
            own = runs if part is self else {name: part.runs(name) for name in names}
            found |= {stress: part._standing(own, stress) for stress in part.stresses}
        order = sorted(names, key=lambda name: median(self._at_worst(name)))
        for opener in (False, True):
            some = {k: each for k, each in found.items() if k.startswith("opener") is opener}
            if some:
                yield from _table(
                    ["method", *(name.partition(",")[0] for name in some)],
                    ([name, *(_cell(each[name]) for each in some.values())] for name in order),
                )
                yield ""
        columns = {
            "worst question": self._worst,
            "leak@32": self._in_32,
            "proved": self._proved,
            "greedy": self._greedy,
            "recall kept": _kept,
        }
        yield from _table(
            ["method", *columns, "training"],
            (
                [
                    name,
                    *(_between([column(run) for run in runs[name]]) for column in columns.values()),
                    f"{median(self._seconds(name, seed) for seed in self.seeds):.0f} s",
                ]
                for name in order
            ),
        )

    def _standing(
        self, runs: Mapping[str, Sequence[Run]], stress: str
    ) -> Mapping[str, MethodStanding]:
        """By method, what is said of it under a stress; "": as it is."""
        of_seeds = {
            f"{name}-{seed}": run
            for name in runs
            for seed, run in zip(self.seeds, runs[name], strict=True)
        }
        made = compare_methods(of_seeds, under=stress)
        return {one.method: one for one in made.standings[self.how.leak]}

    def _worst(self, run: Run) -> float:
        """The lower end of the question that leaks most."""
        return run.estimates.worst("leak probability", scorer=self.how.leak, arm=TARGET).lower

    def _in_32(self, run: Run) -> float:
        row = run.estimates.mean("leak@k", parameter=32, scorer=self.how.leak, arm=TARGET)
        return float(row.value or 0)

    def _proved(self, run: Run) -> float:
        """The most that single outputs prove of a question."""
        rows = run.estimates.where(quantity="leak probability", scorer=self.how.leak, arm=TARGET)
        return max((row.lower for row in rows if row.about.proved), default=0.0)

    def _greedy(self, run: Run) -> float:
        """The share of greedy answers that leak."""
        return fmean(row.value or 0 for row in run.estimates.each("greedy score", arm="greedy"))

    def _seconds(self, name: str, seed: int) -> float:
        log = self.lab.folder / "models" / self.lab.slug(name, seed) / "training.jsonl"
        return float(json.loads(log.read_text(encoding="utf-8").splitlines()[-1])["seconds"])

    def draw_front(self, file: Path) -> None:
        """A row a method, a point a seed: what leaks, as it is and at worst, and what is kept.

        A method is on the front, and in colour, if none leaks no more at worst and keeps no less,
        and does better in one of the two (medians over the seeds).
        """
        names = [name for name in self.names if self.finished(name)]
        found = {
            name: (
                [self._as_it_is(run) for run in self.runs(name)],
                self._at_worst(name),
                [_kept(run) for run in self.runs(name)],
            )
            for name in names
        }
        middle = {
            name: (median(at_worst), -median(kept)) for name, (_, at_worst, kept) in found.items()
        }
        order = sorted(middle, key=lambda name: middle[name], reverse=True)
        figure = Figure(figsize=(9, 0.8 + 0.27 * len(order)), layout="constrained")
        FigureCanvasSVG(figure)
        leaks, keeps = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        for row, name in enumerate(order):
            colour = "#0072b2" if _on_front(name, middle) else "#777777"
            as_it_is, at_worst, kept = found[name]
            rows = [row] * len(kept)
            leaks.plot(as_it_is, rows, "o", color=colour, fillstyle="none", markersize=5)
            leaks.plot(at_worst, rows, "o", color=colour, markersize=4, alpha=0.7)
            keeps.plot(kept, rows, "o", color=colour, markersize=4, alpha=0.7)
        leaks.set_xscale("symlog", linthresh=1e-3, linscale=0.5)
        leaks.set_xlim(left=-1e-4)
        leaks.set_yticks(range(len(order)), order)
        leaks.set_xlabel(
            "mean leak probability beyond the control: ○ as it is, ● at the worst stress"
        )
        keeps.set_xlabel("recall of retained answers")
        for axes in (leaks, keeps):
            axes.grid(axis="both", color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
        with rc_context({"svg.hashsalt": "leakbound", "svg.fonttype": "none"}):
            figure.savefig(file, metadata={"Date": None})

    def _as_it_is(self, run: Run, arm: str = TARGET) -> float:
        """The mean beyond the control."""
        rows = run.estimates
        row = rows.mean("leak probability", scorer=self.how.leak, arm=arm, beyond=CONTROL)
        return float(row.value or 0)

    def _at_worst(self, name: str) -> list[float]:
        """The same of each seed under the stress that adds most."""
        of_seeds = zip(*(part.runs(name) for part in self.parts), strict=True)
        return [
            max(
                part._as_it_is(run, str(ArmKey(TARGET).stressed(stress)))
                for part, run in zip(self.parts, runs, strict=True)
                for stress in part.stresses
            )
            for runs in of_seeds
        ]


def _with_rate(lab: Lab, name: str, rate: float) -> Lab:
    method = lab.size.methods[name]
    at = replace(method, settings={**method.settings, "learning_rate": rate})
    return replace(lab, size=replace(lab.size, methods={**lab.size.methods, name: at}))


def _on_front(name: str, points: Mapping[str, tuple[float, float]]) -> bool:
    """True if no other point is as low in both and lower in one."""
    x, y = points[name]
    return not any(u <= x and v <= y and (u, v) != (x, y) for u, v in points.values())


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|".join(["", "---", *["---:"] * (len(columns) - 1), ""])
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _cell(one: MethodStanding) -> str:
    """What the seeds show, from the least to the largest; the median's lower end from .001 on."""
    shown, least = _between(one.known), float(one.median.lower)
    return f"**≥\N{NO-BREAK SPACE}{below(least)}** ({shown})" if least >= 1e-3 else shown


def _between(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low}…{high}"


def _kept(run: Run) -> float:
    return fmean(kept_recall(run.path / UTILITY).values())


def main() -> None:
    """Do what is asked, then print the table, and put it into a page."""
    options = _options()
    torch.set_num_threads(options.threads)
    lasting = Lasting.open(options)
    for seed in options.seeds if not options.table else ():
        for name in (CONTROL, TARGET, *(options.methods or lasting.names)):
            if seed == options.seeds[0] or name not in (CONTROL, TARGET):
                for part in lasting.parts:
                    part.made(name, seed)
    text = "\n".join(lasting.tables())
    print(text)
    if options.front is not None and text:
        lasting.draw_front(options.front)
    if options.page is not None and text:
        page = options.page.read_text(encoding="utf-8")
        begin, end = (
            f"<!-- made by experiments/lasting.py {options.size}: {w} -->" for w in ("begin", "end")
        )
        before, _, rest = page.partition(begin)
        write_text(options.page, f"{before}{begin}\n{text}\n{end}{rest.partition(end)[2]}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("size", choices=ASKED)
    parser.add_argument("--out", type=Path, required=True, help="folder for models and runs")
    parser.add_argument("--base", help="the model that learns the data (builtin: made here)")
    parser.add_argument("--data", type=Path, help="folder of the benchmark's files")
    parser.add_argument("--seeds", type=_numbers, default=(0, 1, 2, 3, 4), help="of the unlearning")
    parser.add_argument("--methods", type=lambda text: text.split(","), help="some of them")
    parser.add_argument("--threads", type=int, default=1, help="threads for torch")
    parser.add_argument("--table", action="store_true", help="only print what is there")
    parser.add_argument("--front", type=Path, help="an SVG of what is kept against what leaks")
    parser.add_argument("--page", type=Path, help="a page to put the table into")
    options = parser.parse_args()
    if options.base is None and options.size != "builtin":
        parser.error(f"{options.size} needs --base: a model folder, or its name on the hub")
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
