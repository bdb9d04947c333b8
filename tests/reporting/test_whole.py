"""Nothing that is estimated is shown nowhere, but for what is listed here with its reason.

Of every kind of estimate that a run holds one is changed at a time: the page or the tables must
then read differently. Runs are made as users make them, one for each way of drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from canned_runs import asked_benchmark, asked_engine, benchmark, make_run

from explored import HALF, explored_run
from explored import benchmark as explored_benchmark
from leakbound.evaluation import bound_run, evaluate, scorers_for, summary
from leakbound.evaluation.views.read import read_view
from leakbound.reporting.page import render
from leakbound.store import Run
from leakbound.study import Attack, Rewritings, Until
from leakbound.types import Decoding

GRID = tuple(Decoding(temperature=t, top_p=p) for t in (0.5, 1.0) for p in (0.9, 1.0))
BY_QUESTION = ("leak@k", "worst of k", "standard deviation", "mean + 2", "Pr[X > x]")
"""Of a question in all its queries, or as a search asked it: one figure a question is shown."""


@dataclass(frozen=True)
class Kind:
    """What a row of the estimates is an example of."""

    arm: str
    estimand: str
    of_all: bool
    pooled: bool
    repeated: bool

    @property
    def left_out(self) -> bool:
        """True if such estimates are for programs alone: `run.estimates()`, `--json`."""
        asked = "inputs" in self.arm or "attack" in self.arm
        secondary = self.estimand.startswith((*BY_QUESTION, "excess", "proved", "greedy score"))
        if asked and not self.of_all and secondary:
            return True  # of single questions the leakage and its gap are shown
        # of the control as it was asked, its leakage is shown beside the target's
        return self.arm.startswith("control") and asked and not self.of_all


def kinds(run: Run) -> Iterator[tuple[Kind, list[dict[str, Any]]]]:
    """The rows of each kind."""
    found: dict[Kind, list[dict[str, Any]]] = {}
    for row in run.estimates():
        kind = Kind(
            arm=row["arm"],
            estimand=row["estimand"].partition(", largest")[0] + " | " + row["target"],
            of_all=row["query_id"] is None,
            pooled=row["pool"] is not None,
            repeated=row["parameter"] is not None,
        )
        found.setdefault(kind, []).append(row)
    yield from found.items()


def shown(run: Run) -> str:
    """All that a person may read of a run."""
    tables = "\n".join(map(str, summary(run)))
    return tables + render(read_view({"run": run}))


def other(row: dict[str, Any]) -> dict[str, Any]:
    """The same statement with other figures."""
    if row["estimand"].startswith(("questions with", "until ")):
        return row | {"value": 1.0 - row["value"], "lower": 0.0, "upper": 1.0}
    return row | {"value": 0.4321, "lower": 0.3210, "upper": 0.5432}


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
}


@pytest.mark.parametrize("way", [*QUICK, *(pytest.param(w, marks=pytest.mark.slow) for w in SLOW)])
def test_every_estimate_is_shown_or_listed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = (QUICK | SLOW)[way](tmp_path / "run")
    rows, before = run.estimates(), shown(run)
    unseen = []
    for kind, mine in kinds(run):
        keys = {_key(row) for row in mine}
        altered = [other(row) if _key(row) in keys else row for row in rows]
        monkeypatch.setattr(Run, "estimates", lambda self, altered=altered: altered)
        if shown(run) == before and not kind.left_out:
            unseen.append(kind)
        monkeypatch.undo()
    assert unseen == []


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("arm", "scorer", "query_id", "pool", "parameter",
                                        "estimand", "target"))  # fmt: skip
