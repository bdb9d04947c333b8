"""The leaderboard: which forgetting lasts longest, over methods, stresses and training seeds.

    python experiments/leaderboard.py builtin --out runs --seeds 0,1,2,3,4
    python experiments/leaderboard.py author --base models/base --data TOFU --out runs

Each method unlearns the target of a size with each seed, at a learning rate that a rule chooses.
For `builtin` see unlearning.py; for `author` (SmolLM2, one author of TOFU) it is the smallest of
`RATES` without a greedy leak about *another* author, otherwise the largest. Each model is evaluated
without stress and under every stress, with a control under the same stress. The statement about a
method is the median over its seeds of the mean excess. The same command resumes; `--table` only
prints finished results.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

from lab import UTILITY, Lab, parsed, parser_of
from matplotlib import rc_context
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from sizes import CONTROL, TARGET, Method

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.presenting.compared import front
from leakbound.presenting.comparing import compare_methods
from leakbound.store import ArmKey, Run
from leakbound.store.trained import LOG, read_object
from leakbound.stress import stresses_of
from leakbound.text.shown import below, number
from leakbound.unlearning import ModelAnswers
from leakbound.unlearning.work_folder import PUSHED, read_log, stored_json
from runner import as_markdown, write_into
from unlearning import seconds_of


@dataclass(frozen=True)
class Study:
    """The first questions of a size, n draws each, without stress and under stresses.

    The other questions to forget can be taught again. `leak`: the scorer. `max_new_tokens`: of an
    answer (None: the benchmark's). `where`: the folder of the runs. `apart`: a study of the same
    models in its own runs.
    """

    questions: int
    n: int
    leak: str
    stresses: tuple[str, ...]
    max_new_tokens: int | None = None
    where: str = "stressed"
    apart: Study | None = None


KEYWORDS = "keyword:require=all"
STUDIES = {
    "builtin": Study(
        questions=20,
        n=128,
        leak=KEYWORDS,
        # A conversation shares nothing after its first turn, and must fit into the context.
        apart=Study(20, 32, KEYWORDS, ("dialogue",), max_new_tokens=24, where="talked"),
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
    "author": Study(
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
    "AltPO": Method("altpo", settings={"inventing": ModelAnswers(draws=5, max_new_tokens=48)}),
    "WGA": Method("wga"),
    "SatImp": Method("satimp"),
    "CE-U": Method("ceu"),
    "PDU": Method("pdu"),
}
NAMES = (
    "GA", "KL", "GD", "IDK", "DPO", "NPO", "SimNPO", "RMU", "CEL", *MORE, "NPO then entropy",
)  # fmt: skip


@dataclass(frozen=True)
class Board:
    """The study of a lab's models; `another` is the lab that chooses learning rates."""

    lab: Lab
    another: Lab | None
    study: Study
    seeds: Sequence[int]

    @classmethod
    def open(cls, options: argparse.Namespace) -> Board:
        """Open the board that the command line names."""

        def lab(name: str) -> Lab:
            got = Lab.open(name, options.out / name, options.data, options.base)
            more = {**got.size.more, **(MORE if name == "builtin" else {})}
            return replace(got, size=replace(got.size, more=more))

        another = ANOTHER.get(options.size)
        other = None if another is None else lab(another)
        return cls(lab(options.size), other, STUDIES[options.size], options.seeds)

    @property
    def parts(self) -> Sequence[Board]:
        """Return this board, and the one of the study with its own runs."""
        apart = self.study.apart
        return [self] if apart is None else [self, replace(self, study=apart)]

    @property
    def names(self) -> Sequence[str]:
        """Return all methods."""
        return NAMES if self.another is None else [*self.lab.size.methods]

    @cached_property
    def task(self) -> Benchmark:
        """Return the questions of the study, and the others, which can be taught again."""
        count, task = self.study.questions, self.lab.task
        if self.study.max_new_tokens is not None:
            task = replace(task, max_new_tokens=self.study.max_new_tokens)
        elif self.lab.size.whole:
            return load_benchmark(self.lab.size.benchmark, limit=count)
        return replace(task, prompts=task.prompts[:count], left_out=task.prompts[count:])

    @cached_property
    def stresses(self) -> tuple[str, ...]:
        """Return the stresses as runs name them."""
        return tuple(stress.spec for stress in stresses_of(self.study.stresses))

    def made(self, name: str, seed: int = 0) -> Run:
        """Return the runs of a model without and under every stress, drawn first if missing."""
        lab = self.lab if name in (TARGET, CONTROL) else self._at_rate(name)
        model, path = lab.model(name, seed), self.place(name, seed)
        run = lab.evaluated(
            model,
            self.task,
            path,
            control=None if name == CONTROL else self.place(CONTROL),
            n=self.study.n,
            scorers=(self.study.leak,),
            stress=self.study.stresses,
        )
        stored_json(path / UTILITY, partial(lab.recall_kept, model))
        return run

    def place(self, name: str, seed: int = 0) -> Path:
        """Return the folder of that run."""
        return self.lab.path(name, seed, self.study.where)

    def finished(self) -> list[str]:
        """Return the methods that have a run of every seed."""
        return [
            name
            for name in self.names
            if all((p.place(name, s) / UTILITY).exists() for p in self.parts for s in self.seeds)
        ]

    def runs(self, name: str) -> list[Run]:
        """Return the runs of a method, one per seed."""
        return [Run.open(self.place(name, seed)) for seed in self.seeds]

    def _at_rate(self, name: str) -> Lab:
        """Return the lab with the method at the rate that was chosen elsewhere."""
        if self.another is None:
            return self.lab
        file = self.lab.folder / "rates" / f"{self.lab.slug(name, 0)}.json"
        kept = stored_json(file, partial(self._smallest, self.another, name))
        methods = self.lab.size.methods
        settings = {**methods[name].settings, "learning_rate": kept["rate"]}
        at = {**methods, name: replace(methods[name], settings=settings)}
        return replace(self.lab, size=replace(self.lab.size, methods=at))

    def _smallest(self, other: Lab, name: str) -> dict[str, Any]:
        """Return the smallest rate without a greedy leak, and the number of leaks at each."""
        task = replace(other.task, loaded=None)
        greedy = replace(task.decoding, temperature=0.0)

        def leaks(trial: Path) -> int:
            out, scorers = trial.with_name(f"{trial.name}-greedy"), (self.study.leak,)
            run = other.evaluated(trial, task, out, n=1, decodings=greedy, scorers=scorers)
            return sum(bool(row.value) for row in run.estimates.each("greedy score", arm="greedy"))

        rate, tried = other.tried(name, RATES, leaks, lambda leaking: leaking == 0)
        return {"rate": rate, "greedy answers that leak": tried}

    def tables(self) -> Iterator[str]:
        """Return the leaderboard in Markdown; least leakage at the worst stress comes first."""
        names = self.finished()
        if not names:
            return
        runs = {name: self.runs(name) for name in names}
        got = {"as it is": self._standing(runs, "")}
        for part in self.parts:
            own = runs if part is self else {name: part.runs(name) for name in names}
            got |= {stress: part._standing(own, stress) for stress in part.stresses}
        order = sorted(names, key=lambda name: median(self.at_worst(name)))
        for opener in (False, True):
            some = {k: each for k, each in got.items() if k.startswith("opener") is opener}
            if some:
                header = ["method", *(name.partition(",")[0] for name in some)]
                rows = [[self._row(n), *(each[n] for each in some.values())] for n in order]
                yield as_markdown([header, *rows], "---:") + "\n"
        columns = self._columns()
        lines = [["method", *columns, "training"]]
        for name in order:
            cells = (_range([column(run) for run in runs[name]]) for column in columns.values())
            models = (self.lab.folder / "models" / self.lab.slug(name, s) for s in self.seeds)
            lines.append([self._row(name), *cells, f"{median(map(seconds_of, models)):.0f} s"])
        yield as_markdown(lines, "---:")

    def _row(self, name: str) -> str:
        """Return the name in the tables; it notes if CEL's push has no effect on any question.

        All seeds start from one target, so the first one decides.
        """
        model = self.lab.folder / "models" / self.lab.slug(name, self.seeds[0])
        return f"{name} (push idle)" if read_log(model / LOG)[0].get(PUSHED) == 0 else name

    def _standing(self, runs: Mapping[str, Sequence[Run]], stress: str) -> Mapping[str, str]:
        """Return the cell about every method under a stress; "": without stress."""
        of_seeds = {
            f"{name}-{seed}": run
            for name in runs
            for seed, run in zip(self.seeds, runs[name], strict=True)
        }
        made = compare_methods(of_seeds, under=stress)
        medians = made.medians.where(scorer=self.study.leak)
        return {row.arm: _cell(row.lower, made.seeds(row)) for row in medians}

    def _columns(self) -> dict[str, Callable[[Run], float]]:
        """Return the last table's columns about the models without stress."""
        how: dict[str, Any] = {"scorer": self.study.leak, "arm": TARGET}

        def proved(run: Run) -> float:
            rows = run.estimates.where(quantity="leak probability", **how)
            return max((row.lower for row in rows if row.about.proved), default=0.0)

        def greedy(run: Run) -> float:
            rows = run.estimates.each("greedy score", arm="greedy")
            return fmean(row.value or 0 for row in rows)

        return {
            "worst question": lambda run: run.estimates.worst("leak probability", **how).lower,
            "leak@32": lambda run: float(
                run.estimates.mean("leak@k", parameter=32, **how).value or 0
            ),
            "proved": proved,
            "greedy": greedy,
            "recall kept": _kept,
        }

    def draw_front(self, file: Path) -> None:
        """Draw a row per method and a point per seed: leakage without and at worst, and utility.

        A method is on the front, and coloured, if no other method is better in one of leakage at
        worst and utility and at least equal in the other (medians over the seeds).
        """
        got = {
            name: (
                [self.as_it_is(run) for run in self.runs(name)],
                self.at_worst(name),
                [_kept(run) for run in self.runs(name)],
            )
            for name in self.finished()
        }
        middle = {name: (median(worst), median(kept)) for name, (_, worst, kept) in got.items()}
        order = sorted(middle, key=lambda name: (-middle[name][0], middle[name][1]))
        best = front(middle)
        figure = Figure(figsize=(9, 0.8 + 0.27 * len(order)), layout="constrained")
        FigureCanvasSVG(figure)
        leaks, keeps = figure.subplots(1, 2, sharey=True, width_ratios=(2, 1))
        for row, name in enumerate(order):
            colour = "#0072b2" if name in best else "#777777"
            as_it_is, at_worst, kept = got[name]
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

    def as_it_is(self, run: Run, arm: str = TARGET) -> float:
        """Return the mean minus the control."""
        row = run.estimates.mean(
            "leak probability", scorer=self.study.leak, arm=arm, beyond=CONTROL
        )
        return float(row.value or 0)

    def at_worst(self, name: str) -> list[float]:
        """Return the mean minus the control per seed, under the stress that adds most."""
        return [
            max(
                part.as_it_is(run, str(ArmKey(TARGET).stressed(stress)))
                for part, run in zip(self.parts, runs, strict=True)
                for stress in part.stresses
            )
            for runs in zip(*(part.runs(name) for part in self.parts), strict=True)
        ]


def _cell(lower: float, seeds: Sequence[float | None]) -> str:
    """Return the range over the seeds, and the lower bound on the median from .001 on."""
    shown = _range([value for value in seeds if value is not None])
    return f"**≥\N{NO-BREAK SPACE}{below(lower)}** ({shown})" if lower >= 1e-3 else shown


def _range(values: Sequence[float]) -> str:
    low, high = number(min(values)), number(max(values))
    return low if low == high else f"{low}…{high}"


def _kept(run: Run) -> float:
    return fmean(read_object(run.path / UTILITY).values())


def main() -> None:
    """Make the runs, print the tables, and write them into a page."""
    parser = parser_of(__doc__, seeds="0,1,2,3,4", sizes=STUDIES)
    parser.add_argument("--front", type=Path, help="an SVG of utility against leakage")
    parser.add_argument("--page", type=Path, help="a page to write the tables into")
    options = parsed(parser)
    board = Board.open(options)
    for seed in options.seeds if not options.table else ():
        for name in (CONTROL, TARGET, *(options.methods or board.names)):
            if seed == options.seeds[0] or name not in (CONTROL, TARGET):
                for part in board.parts:
                    part.made(name, seed)
    text = "\n".join(board.tables()).strip()
    print(text)
    if options.front is not None and text:
        board.draw_front(options.front)
    if options.page is not None and text:
        write_into(options.page, f"experiments/leaderboard.py {options.size}", text)


if __name__ == "__main__":
    main()
