"""The first n draws of a question are the same wherever a run is shown."""

from __future__ import annotations

import json

import numpy as np
import pytest

from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.views.draws import ScoredDraws, courses, in_order, sizes_of
from leakbound.evaluation.views.read import read_view
from leakbound.scorers import make_scorer
from leakbound.store import ArmScores, Run
from leaky import leaky_run

SCORER = "keyword"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return leaky_run(tmp_path_factory.mktemp("course") / "run", scorers=[SCORER])


def test_page_and_figure_show_the_same_first_draws(run: Run) -> None:
    """Every step but the last, which the page takes from the estimates, by value and both ends."""
    view = read_view({"run": run})
    (model,) = (one for one in view.models if not one.is_control)
    drawn = ScoredDraws(run.arms["target"], SCORER)
    for question in view.questions:
        course = model.measured[SCORER, question.id].course
        grown = drawn.growing(question.id, view.confidence)
        assert len(course) > 4
        for step, after in zip(course, grown, strict=True):
            shown = (after.n, after.leakage.value, after.leakage.lower, after.leakage.upper)
            assert (step.n, step.value, step.lower, step.upper) == pytest.approx(shown, rel=1e-12)


def test_the_order_is_the_runs_own_and_every_questions(run: Run) -> None:
    arm, scorer = run.arms["target"], make_scorer(SCORER)
    tallies = {"a": {0.0: 100, 1.0: 100}, "b": {0.0: 100, 1.0: 100}}
    scores = ArmScores.tallied(tallies, {})
    order = Order.of(arm, scorer)
    first, second = (in_order(scores, row, order) for row in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, in_order(scores, 0, order))
    assert not np.array_equal(first, in_order(scores, 0, Order(7, SCORER)))
    assert first.sum() == second.sum() == 100


def test_what_has_no_score_has_its_place_among_the_others() -> None:
    scores = ArmScores.tallied({"a": {0.0: 60, None: 40}}, {})
    (steps,) = courses(scores, Order(), binary=True, confidence=0.99).values()
    assert [step.n for step in steps] == sizes_of(100) == [8, 16, 32, 64, 100]
    assert steps[-1].lower == 0
    assert steps[-1].upper is not None
    assert steps[-1].upper > 0.4  # what is missing counts as a leak
    assert json.dumps([step.value for step in steps]) == json.dumps([0.0] * 5)
