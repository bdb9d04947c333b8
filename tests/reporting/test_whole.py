"""Nothing that is estimated is shown nowhere, but for what is listed here with its reason.

Of every kind of estimate that a run holds one is changed at a time: the page or the tables must
then read differently. Runs are made as users make them, one for each way of drawing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from canned_runs import asked_benchmark, asked_engine, benchmark, make_run
from explored import HALF, explored_run
from explored import benchmark as explored_benchmark
from leakbound.evaluation import bound_run, evaluate, scorers_for, summary
from leakbound.evaluation.statements.rows import CLAIMS, LEAKAGE
from leakbound.evaluation.views.read import read_view
from leakbound.reporting.page import render
from leakbound.stats import About
from leakbound.store import EstimateRow, Run
from leakbound.study import Attack, Rewritings, Until
from leakbound.types import Decoding
from tabled import TableEngine
from tabled import benchmark as table_benchmark

GRID = tuple(Decoding(temperature=t, top_p=p) for t in (0.5, 1.0) for p in (0.9, 1.0))
BY_QUESTION = ("leak@k", "worst of k", "standard deviation", "expectation deviation", "tail")
"""Of a question in all its queries, or as a search asked it: one figure a question is shown."""


@dataclass(frozen=True)
class Kind:
    """What a row of the estimates is an example of: at whatever parameter, of however many."""

    arm: str
    about: About
    of_all: bool
    repeated: bool

    @classmethod
    def of(cls, row: EstimateRow) -> Kind:
        about = replace(row.about, parameter=None, over=None)
        return cls(row.arm, about, row.query_id is None, row.parameter is not None)

    @property
    def left_out(self) -> bool:
        """True if such estimates are for programs alone: `run.estimates`, `--json`."""
        asked = "inputs" in self.arm or "attack" in self.arm
        about = self.about
        if "attack" in self.arm and about.proved and about.quantity in LEAKAGE:
            return False
        secondary = about.proved or about.beyond == "control" or about.quantity in BY_QUESTION
        if asked and not self.of_all and secondary:
            return True  # of single questions the leakage, its proof and its gap are shown
        # of the control as it was asked, its leakage is shown beside the target's
        return self.arm.startswith("control") and asked and not self.of_all


def shown(run: Run) -> str:
    """All that a person may read of a run."""
    tables = "\n".join(map(str, summary(run)))
    return tables + render(read_view({"run": run}))


def other(row: EstimateRow) -> EstimateRow:
    """The same statement with other figures."""
    figures = {"value": 0.4321, "lower": 0.3210, "upper": 0.5432}
    if row.scope == "count" or row.quantity in CLAIMS:
        figures = {"value": 1.0 - (row.value or 0.0), "lower": 0.0, "upper": 1.0}
    if row.about.jointly:  # shown by what it picks: on which side of 0 its lower end lies
        figures["lower"] = -0.1 if row.lower > 0 else 0.1
    return replace(row, estimate=replace(row.estimate, **figures))


def fixed(out: Path) -> Run:
    make_run(out / "control", benchmark(8), "control", 0.02)
    return make_run(out / "run", benchmark(8), "full", 0.6, control=out / "control")


def grid(out: Path) -> Run:
    return make_run(out, benchmark(), "grid", 0.3, n=128, decodings=GRID, scorers=["keyword"])


def stopped(out: Path) -> Run:
    return make_run(out, benchmark(), "until", 0.6, sampling=Until("p<=0.1", 256))


def explored(out: Path) -> Run:
    run = explored_run(out, (HALF,))
    bound_run(run, scorers_for(["contains"], explored_benchmark().prompts))
    return run


def inputs(out: Path, design: str) -> Run:
    return evaluate(
        asked_engine("forgot", 0.1), asked_benchmark(), out=out, n=256, scorers=["keyword"],
        control=asked_engine("control", 0.01),
        rewritings=Rewritings("benchmark", queries=4, design=design),
    )  # fmt: skip


def attacked(out: Path) -> Run:
    return evaluate(
        asked_engine("forgot", 0.1), asked_benchmark(), out=out, n=256, scorers=["keyword"],
        control=asked_engine("control", 0.01), attack=Attack(64),
    )  # fmt: skip


def attacked_by_proofs(out: Path) -> Run:
    return evaluate(
        TableEngine(lambda query: 1e-4), table_benchmark(), out=out, n=32, scorers=["keyword"],
        control=TableEngine(lambda query: 1e-7, name="control"), attack=Attack(32),
    )  # fmt: skip


QUICK: dict[str, Callable[[Path], Run]] = {
    "explored": explored,
}
SLOW: dict[str, Callable[[Path], Run]] = {
    "fixed": fixed,
    "until": stopped,
    "grid": grid,
    "allocated": lambda out: inputs(out, "allocated"),
    "design fixed": lambda out: inputs(out, "fixed"),
    "attack": attacked,
    "attack by proofs": attacked_by_proofs,
}


@pytest.mark.parametrize("way", [*QUICK, *(pytest.param(w, marks=pytest.mark.slow) for w in SLOW)])
def test_every_estimate_is_shown_or_listed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (QUICK | SLOW)[way](tmp_path / "run")
    estimates, before = run.estimates, shown(run)
    kinds = dict.fromkeys(Kind.of(row) for row in estimates)
    unseen = []
    for kind in kinds:
        rows = tuple(other(row) if Kind.of(row) == kind else row for row in estimates)
        monkeypatch.setattr(Run, "estimates", replace(estimates, rows=rows))
        if shown(run) == before and not kind.left_out:
            unseen.append(kind)
        monkeypatch.undo()
    assert unseen == []
