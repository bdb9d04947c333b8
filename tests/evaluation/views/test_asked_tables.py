"""What tables say of models that were asked in other words, beside their estimates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from canned_runs import asked_benchmark, asked_engine
from leakbound.evaluation import evaluate
from leakbound.evaluation.views.asked import (
    gaps_grid,
    protocols_grid,
    rewritten_grid,
)
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import RewrittenModel, ScorerView, View
from leakbound.evaluation.views.words import floor
from leakbound.store import EstimateRow, Run
from leakbound.study import Rewritings

pytestmark = pytest.mark.slow


KEYWORD = ScorerView("keyword", True)


@pytest.fixture(scope="module")
def view(asked: dict[str, Run]) -> View:
    return read_view(asked)


@pytest.fixture(scope="module")
def model(view: View) -> RewrittenModel:
    """The model, without its control."""
    return view.asked[0]


def bound(run: Run, query_id: str | None, **wanted: Any) -> EstimateRow:
    """What the run's estimates say of its first model's leakage under the keyword scorer."""
    usual = {"arm": "target inputs", "scorer": "keyword", "quantity": "leak probability"}
    found = run.estimates.first(**usual | {"query_id": query_id} | wanted)
    assert found is not None
    return found


WORST, OWN_WORDS = {"inputs": "worst query"}, {"beyond": "own words"}


MOST = {"scope": "worst question", "inputs": "these queries"}


def test_greedy_output_and_full_stand_side_by_side(view: View, asked: dict[str, Run]) -> None:
    run = asked["forgot"]
    grid = protocols_grid(view, KEYWORD)
    assert [row[0].text for row in grid.rows] == ["forgot", "control"]
    _, greedy, *cells = grid.rows[0]
    assert greedy.text == "0.000"
    assert [cell.text for cell in cells] == [
        interval(found)
        for found in (
            bound(run, None, scope="mean", arm="target"),
            bound(run, None, scope="mean"),
            bound(run, None, **MOST),
            bound(run, None, **MOST | WORST),
            bound(run, None, scope="mean", beyond="control"),
            bound(run, None, **MOST, beyond="control"),
        )
    ]
    assert len({cell.text for cell in cells}) == len(cells)
    assert grid.rows[1][3].text == interval(bound(run, None, scope="mean", arm="control inputs"))


def test_what_rewritings_add_is_bounded_from_below(view: View, asked: dict[str, Run]) -> None:
    run = asked["forgot"]
    _, mean, most, where, worst, worst_where = gaps_grid(view, KEYWORD).rows[0]
    assert mean.text == interval(bound(run, None, scope="mean", **OWN_WORDS))
    for cell, which in ((most, MOST), (worst, MOST | WORST)):
        found = bound(run, None, **which, **OWN_WORDS)
        assert cell.text == floor(found.value, found.lower)
    assert where.text == "2 (≥ 0)"
    assert worst_where.text == "2 (≥ 2)"


def test_every_question_has_both_ways_and_the_worst_query(
    view: View, model: RewrittenModel, asked: dict[str, Run]
) -> None:
    run = asked["forgot"]
    rows = rewritten_grid(view, model, KEYWORD).rows
    assert [row[0].anchor for row in rows] == ["q-1", "q-2", "q-3"]
    _, output, full, gap, worst, worst_gap, number, r = rows[0]
    assert output.text == interval(bound(run, "author-00", arm="target"))
    assert full.text == interval(bound(run, "author-00", scope="question"))
    assert gap.text == interval(bound(run, "author-00", **OWN_WORDS))
    assert worst.text == interval(bound(run, "author-00", **WORST))
    least = bound(run, "author-00", **WORST, **OWN_WORDS)
    assert worst_gap.text == floor(least.value, least.lower)
    assert number.text == "3"
    assert r.value == pytest.approx(-0.99, abs=0.01)  # the surest answers never leak
    assert [row[-1].text for row in rows][2] == "–"
    own, *_ = model.questions["keyword", "author-00"].queries
    assert (own.id, own.source) == ("author-00", "original")
    assert own.leakage == bound(run, "author-00", scope="query")


def test_a_query_without_outputs_is_no_point(tmp_path: Path) -> None:
    run = evaluate(
        asked_engine("few", 0.5),
        asked_benchmark(),
        out=tmp_path / "run",
        n=2,
        scorers=["keyword"],
        rewritings=Rewritings("benchmark"),
    )
    (model,) = read_view({"few": run}).asked
    found = model.questions["keyword", "author-01"]
    assert found.number == 4
    assert 1 <= len(found.queries) <= 2
    assert all(query.leakage.n for query in found.queries)
