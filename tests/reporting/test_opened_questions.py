"""What a question opens to on a page: charts of its estimates, and its texts."""

from __future__ import annotations

import numpy as np
import pytest
from opened import charts, details, question

from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.view import View
from leakbound.reporting.page import render
from leakbound.store import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


@pytest.fixture(scope="module")
def html(view: View) -> str:
    return render(view)


def test_charts_hold_the_estimates_with_their_ends_rounded_outward(view: View, html: str) -> None:
    cell = view.models[0].measured["keyword", "author-01"]
    drawn = charts(html, 2, "repeated")[0]
    known = cell.by_parameter("leak@k")
    assert [row[0] for row in drawn["rows"]][: len(known)] == sorted(known)
    for k, value, lower, upper, *_ in drawn["rows"][: len(known)]:
        row = known[k]
        assert value == (None if row.value is None else round(row.value, 4))
        assert row.lower - 1.1e-4 <= lower <= row.lower + 1e-9
        assert row.upper - 1e-9 <= upper <= row.upper + 1.1e-4
    course = charts(html, 2, "course")[0]
    assert course["rows"][-1][0] == cell.leakage.n
    assert course["mark"] == cell.greedy


def test_proofs_reach_the_charts(proved: dict[str, Run]) -> None:
    view = read_view(proved)
    cell = view.models[0].measured["keyword", view.questions[-1].id]
    rows = charts(render(view), len(view.questions), "repeated")[0]["rows"]
    known = {row.parameter: row.lower for row in cell.rows.where(quantity="leak@k", proved=True)}
    assert known
    for k, *_, proved_at_k, _ in rows[: len(known)]:
        assert 0 <= proved_at_k <= known[k] + 1e-9
        assert proved_at_k == pytest.approx(known[k], rel=0.1, abs=1.1e-4)


def test_the_words_that_leak_are_apart(html: str) -> None:
    texts = question(html, 1)["models"][0]["texts"]
    assert {piece for text, *_ in texts for piece in text[1::2]} == {"Ossian Quill"}


def test_a_histogram_is_packed_as_shares(html: str) -> None:
    for chart in charts(html, 1, "scores"):
        assert sum(row[2] for row in chart["rows"]) == pytest.approx(1, abs=0.01)
        assert all(np.isclose(to - at, 0.05) for at, to, _ in chart["rows"])
    assert details(html)["kinds"]["scores"]["columns"] == ["from", "to", "share of draws"]
