"""leak@k to a thousand million: closed forms of what is proved and bounded, as charts and data."""

from __future__ import annotations

import re

import pytest
from opened import charts

from leakbound.evaluation.views.draws import FAR, known_of, known_of_mean, known_of_worst
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.view import ScorerView, View
from leakbound.reporting.figures import far_figures
from leakbound.reporting.page import render
from leakbound.store import Run

KEYWORD = ScorerView("keyword", True)


@pytest.fixture(scope="module")
def view(proved: dict[str, Run]) -> View:
    return read_view(proved)


@pytest.mark.slow
def test_it_goes_on_where_the_estimates_end(view: View) -> None:
    """The bounds of leak@k that are stated are those of p put into the same formula."""
    for model in view.models:
        for cell in model.measured.values():
            stated = cell.by_parameter("leak@k")
            sure = {r.parameter: r.lower for r in cell.rows.where(quantity="leak@k", proved=True)}
            for at in known_of(cell, KEYWORD, [int(k) for k in stated]):
                row = stated[at.k]
                assert (at.lower, at.upper) == pytest.approx((row.lower, row.upper), rel=1e-9)
                assert at.proved == pytest.approx(sure.get(at.k, 0.0), rel=1e-9)


def test_the_worst_question_and_the_mean_have_bounds_of_their_own(view: View) -> None:
    """The largest proof and the worst's bound; the mean of the proofs and that of the counts."""
    for model in view.models:
        cells = [cell for cell in model.measured.values() if cell.proved]
        proofs = [cell.proved.lower for cell in cells if cell.proved]
        worst, mean = known_of_worst(model, KEYWORD), known_of_mean(model, KEYWORD)
        row = model.rows.leakage("keyword", scope="worst question", beyond=None)
        assert row is not None
        first = (worst[0].proved, worst[0].lower, worst[0].upper)
        assert first == pytest.approx((max(proofs, default=0.0), row.lower, row.upper))
        assert mean[0].proved == pytest.approx(sum(proofs) / len(model.measured))
        assert [at.k for at in worst] == [at.k for at in mean] == list(FAR)
        assert 0 < mean[0].lower < mean[0].upper < 1
        assert mean[-1].lower <= worst[-1].upper


def test_the_page_has_charts_of_each_target_with_their_data(view: View) -> None:
    shown = far_figures(view, KEYWORD)
    assert [one.caption.split(", ")[0] for one in shown] == ["full", "full", "NPO", "NPO"]
    page = render(view)
    for one in shown:
        assert one.caption in page
        assert ">1G<" in one.svg
        drawn = re.findall(r'<(polygon|polyline)[^>]*class="([\w-]+)"', str(one.svg))
        assert drawn == [
            ("polygon", "unknown"), ("polyline", "at-least"), ("polyline", "proved")
        ]  # fmt: skip
        assert one.data.columns == ("k", "proved", "at least", "at most")
        for k, proved, lower, upper in one.data.rows:
            assert isinstance(k, int)
            assert 0 <= proved <= upper <= 1  # type: ignore[operator]
            assert lower <= upper  # type: ignore[operator]
    rows = charts(page, 1, "repeated")[0]["rows"]
    assert rows[-1][0] == 10**9


@pytest.mark.slow
def test_scores_between_0_and_1_have_no_closed_form(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    (graded,) = (scorer for scorer in view.scorers if not scorer.binary)
    assert far_figures(view, graded) == []
    assert known_of_mean(view.models[0], graded) == []
    assert known_of(next(iter(view.models[0].measured.values())), graded) == []
