"""Every estimate of a run is shown somewhere, and one quantity has one figure everywhere."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from opened import charts

from canned_runs import rewritten_benchmark, rewritten_engine
from leakbound.bounding.rows import CLAIMS, LEAKAGE
from leakbound.evaluation import evaluate, summary
from leakbound.plotting import figures
from leakbound.plotting.canvas import Canvas
from leakbound.presenting.view import read_view
from leakbound.reporting.page import render
from leakbound.stats import About
from leakbound.store import EstimateRow, Run
from leakbound.store.estimates import DECIDING
from leakbound.study import Attack, Rewritings
from tabled import TableEngine
from tabled import benchmark as table_benchmark

SCORERS = {"keyword": "leak probability", "rouge-l-recall": "mean leakage"}
SHOWN = {"mean leakage": "mean score"}  # the papers' name


Ends = tuple[float | None, float, float]


@pytest.fixture(scope="module")
def run(runs: dict[str, Run]) -> Run:
    return runs["full"]


@pytest.fixture(scope="module")
def stated(run: Run) -> dict[tuple[Any, ...], Ends]:
    """Return the estimates by everything that identifies them."""
    keys = ("arm", "scorer", "query_id", "quantity", "scope", "beyond")
    about = itemgetter(*keys, "parameter", "proved", "jointly")
    return {
        about(row.to_dict()): (row.value, row.lower, row.upper)
        for row in run.estimates
        if row.family not in DECIDING
    }


@pytest.fixture(scope="module")
def drawn(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Any]:
    """Return the rows of the papers' figures, by scorer and figure."""
    got = {}
    for scorer in SCORERS:
        out = tmp_path_factory.mktemp("figures")
        with patch.object(Canvas, "bytes", return_value=b""):  # only the rows are read
            figures([run], out=out, scorer=scorer, formats=("svg",))
        for file in out.glob("*.csv"):
            with file.open(newline="") as lines:
                got[scorer, file.stem] = list(csv.DictReader(lines))
    return got


@pytest.fixture
def page(run: Run, undrawn: None) -> str:
    return render(read_view({"full": run}))


ED = "mean + 2 sd (ED)"
FIGURES = (
    ("questions", "leakage", "leakage", "query"),
    ("questions", "control", "leakage", "query"),
    ("questions", "greedy", "greedy score", "query"),
    ("spread", "standard deviation", "standard deviation", "query"),
    ("moments", "leakage", "leakage", "mean"),
    ("moments", ED, "expectation deviation", "mean"),
    ("tail", "", "tail", "query"),
)
"""A figure, a number in it, and its quantity and scope."""


@pytest.mark.parametrize(("scorer", "leakage"), SCORERS.items())
def test_figures_of_papers_have_the_estimates(
    scorer: str, leakage: str, stated: dict[tuple[Any, ...], Ends], drawn: dict[Any, Any]
) -> None:
    arms = {"full": "target", "control": "control"}
    for figure, name, what, scope in FIGURES:
        number = SHOWN.get(leakage, leakage) if name == "leakage" else name
        mine = [
            row
            for row in drawn.get((scorer, figure), ())
            if row.get("quantity", "") == number
            and row.get("over", "mean over the questions") == "mean over the questions"
        ]
        assert mine or figure == "tail"
        for row in mine:
            if name == ED and not row["upper"]:
                continue
            quantity = leakage if what == "leakage" else what
            x = float(row["x"]) if "x" in row else None
            own = scorer, row.get("question"), quantity, scope, None, x, False, False
            arm = name if name in ("control", "greedy") else arms[row["model"]]
            value, lower, upper = stated[arm, *own]
            assert float(row["value"]) == value
            assert row["lower"] == ("" if name in (ED, "greedy") else str(lower))
            assert row["upper"] == ("" if name == "greedy" else str(upper))
    for row in drawn[scorer, "leak-at-k"]:
        if row["quantity"] == "leak@k" and row["value"]:
            every = [k for k in stated if k[0] == arms[row["model"]] and k[1] == scorer]
            leak_at_k = ("leak@k", "query", None, float(row["k"]), False, False)
            one = [stated[k][0] or 0 for k in every if k[3:] == leak_at_k]
            assert len(one) == 3
            assert float(row["value"]) == pytest.approx(math.fsum(one) / 3, rel=1e-12)


def test_the_page_and_the_files_have_one_csv(page: str, drawn: dict[Any, Any]) -> None:
    """Page and files have the rows of one function; the page also has leak@1."""
    data, captions = (
        charts(page),
        {
            "leakage by question": "questions",
            "leak@k up to k = 10⁹": "far",
            "Pr[X > x] at the question that leaks most": "tail",
        },
    )
    for scorer in SCORERS:
        for caption, name in captions.items():
            assert data.get(f"{caption} ({scorer})") == drawn.get((scorer, name))
    caption = "leak@k, mean over the questions (keyword)"
    assert data[caption] == drawn["keyword", "naive"]


SPREAD = ("median", "standard deviation", "expectation deviation")
BY_QUESTION = ("leak@k", "worst of k", "tail", *SPREAD)
"""Per question over all its queries, or under a search: one figure per question is shown."""


@dataclass(frozen=True)
class Kind:
    """The kind of a row of the estimates, without its parameter and number of questions."""

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
        """Return whether such estimates are for programs only: `run.estimates`, `--json`."""
        wanted = "inputs" in self.arm or "attack" in self.arm
        about = self.about
        if "attack" in self.arm and about.proved and about.quantity in LEAKAGE:
            return False
        if about.constant is not None and about.quantity in LEAKAGE:
            return True  # decides a recorded claim, which a certificate states
        secondary = about.proved or about.beyond == "control" or about.quantity in BY_QUESTION
        if wanted and not self.of_all and secondary:
            return True  # about single questions the page shows leakage, its proof and its gap
        if "attack" in self.arm and about.quantity in SPREAD:
            return True  # the page omits spreads under a search
        # of the control with these queries, only the leakage is shown next to the target's
        return self.arm.startswith("control") and wanted and not self.of_all


def shown(run: Run) -> str:
    """Return all text of a run that a person may read."""
    tables = "\n".join(map(str, summary(run)))
    return tables + render(read_view({"run": run}))


def other(row: EstimateRow) -> EstimateRow:
    """Return the same statement with other figures."""
    figures = {"value": 0.4321, "lower": 0.3210, "upper": 0.5432}
    if row.scope == "count" or row.quantity in CLAIMS:
        figures = {"value": 1.0 - (row.value or 0.0), "lower": 0.0, "upper": 1.0}
    if row.about.jointly:  # only the sign of its lower bound is shown
        figures["lower"] = -0.1 if row.lower > 0 else 0.1
    return replace(row, estimate=replace(row.estimate, **figures))


def same_queries(out: Path) -> Run:
    return evaluate(
        rewritten_engine("forgot", 0.1), rewritten_benchmark(), out=out, n=256, scorers=["keyword"],
        control=rewritten_engine("control", 0.01),
        rewritings=Rewritings("benchmark", queries=4, design="fixed"),
    )  # fmt: skip


def attacked_by_proofs(out: Path) -> Run:
    return evaluate(
        TableEngine(lambda query: 1e-4), table_benchmark(), out=out, n=32, scorers=["keyword"],
        control=TableEngine(lambda query: 1e-7, name="control"), attack=Attack(32),
    )  # fmt: skip


WAYS: dict[str, Callable[[Path], Run] | str] = {
    "explored": "explored",
    "decodings until": "until",
    "decodings": "grid",
    "rewritten": "forgot",  # new rewritings, and an attack
    "runs": "full",
    "design fixed": same_queries,
    "attack by proofs": attacked_by_proofs,
}
"""How to make a run, or its label in this fixture."""


@pytest.mark.parametrize(
    "way", [w if w == "explored" else pytest.param(w, marks=pytest.mark.slow) for w in WAYS]
)
@pytest.mark.usefixtures("undrawn")
def test_every_estimate_is_shown_or_listed(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Change one estimate of every kind: page or tables must change too."""
    made, of = WAYS[way], way.partition(" ")[0]
    run = request.getfixturevalue(of)[made] if isinstance(made, str) else made(tmp_path / "run")
    estimates, before = run.estimates, shown(run)
    kinds = dict.fromkeys(Kind.of(row) for row in estimates)
    unseen = []
    for kind in kinds:
        rows = tuple(other(row) if Kind.of(row) == kind else row for row in estimates)
        with monkeypatch.context() as patch:
            patch.setattr(Run, "estimates", replace(estimates, rows=rows))
            if shown(run) == before and not kind.left_out:
                unseen.append(kind)
    assert unseen == []
