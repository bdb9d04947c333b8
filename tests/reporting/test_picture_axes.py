"""Models are drawn on one axis; what it hides, on another that says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.view import Model, View
from leakbound.reporting.figures import APART, first_figures, highest, lane_of
from leakbound.store import EstimateRow, Run


@pytest.fixture(scope="module")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


def lower(model: Model, label: str, times: float) -> Model:
    """The same model, with every figure so many times lower."""

    def less(row: EstimateRow) -> EstimateRow:
        ends = {end: (getattr(row, end) or 0.0) / times for end in ("value", "lower", "upper")}
        return replace(row, estimate=replace(row.estimate, **ends))

    measured = {
        key: replace(cell, leakage=less(cell.leakage), greedy=0.0)
        for key, cell in model.measured.items()
    }
    return replace(model, label=label, measured=measured, control=None)


def captions(view: View) -> list[str]:
    return [shown.caption for shown in first_figures(view, view.scorers[0])]


def test_all_models_are_on_one_axis_from_the_data(view: View) -> None:
    (shown,) = first_figures(view, view.scorers[0])
    assert shown.caption == "every model: axis to 1"
    assert {row[0] for row in shown.data.rows} == {"full", "NPO"}
    npo = replace(view, models=(lower(view.models[0], "low", 3),))
    assert captions(npo) == ["low: axis to 0.4"]  # a third of 1


def test_what_is_ten_times_lower_is_drawn_once_more_on_an_axis_of_its_own(view: View) -> None:
    full = view.models[0]
    apart = replace(view, models=(full, lower(full, "low", 1.1 * APART), lower(full, "mid", 4)))
    assert captions(apart) == ["every model: axis to 1", "low: own axis, to 0.1"]
    every, own = first_figures(apart, view.scorers[0])
    assert {row[0] for row in every.data.rows} == {"full", "low", "mid"}
    assert {row[0] for row in own.data.rows} == {"low"}
    top = highest(lane_of(apart, apart.models[1], view.scorers[0]))
    assert top * APART < 1


def test_models_whose_names_have_no_room_stand_under_their_numbers(view: View) -> None:
    many = [replace(view.models[0], label=f"a model with a long name, {i}") for i in range(13)]
    shown = first_figures(replace(view, models=tuple(many)), view.scorers[0])[0]
    assert [f">{i}</text>" in shown.svg for i in range(1, 14)] == [True] * 13
    assert "a model with a long name, 12</text>" not in shown.svg
    few = first_figures(view, view.scorers[0])[0]
    assert ">NPO</text>" in few.svg
