"""leak@k to a thousand million: closed forms of what is proved and bounded, as charts and data."""

from __future__ import annotations

import re
from decimal import Decimal, getcontext

import pytest
from opened import charts

from leakbound.evaluation.views.far import FAR, known_of, known_of_mean, known_of_worst, leak_at_k
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.view import ScorerView, View
from leakbound.reporting.far_figures import far_figures
from leakbound.reporting.page import render
from leakbound.store import Run

KEYWORD = ScorerView("keyword", True)


@pytest.fixture(scope="module")
def view(proved: dict[str, Run]) -> View:
    return read_view(proved)


@pytest.mark.parametrize("p", [0.0, 1e-300, 3e-17, 1e-9, 0.02, 0.5, 1 - 2**-53, 1.0])
def test_the_closed_form_is_exact(p: float) -> None:
    getcontext().prec = 400
    for k in FAR:
        want = 1 - (1 - Decimal(p)) ** k
        assert leak_at_k(p, k) == pytest.approx(float(want), rel=1e-12, abs=1e-320)


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


def test_the_worst_question_has_its_own_bound_and_the_largest_proof(view: View) -> None:
    full = view.models[0]
    row = full.rows.leakage("keyword", scope="worst question", beyond=None)
    assert row is not None
    cells = [cell for cell in full.measured.values() if cell.proved]
    most = max(cell.proved.lower for cell in cells if cell.proved)
    for at in known_of_worst(full, KEYWORD):
        want = [leak_at_k(p, at.k) for p in (most, row.lower, row.upper)]
        assert [at.proved, at.lower, at.upper] == want
    assert [at.k for at in known_of_worst(full, KEYWORD)][:: len(FAR) - 1] == [1, 10**9]


def test_the_mean_has_the_ends_of_the_least_and_the_most_that_the_counts_allow(view: View) -> None:
    """By the very questions that would be so: as many beyond each x as are said, and no further."""
    for model in view.models:
        rows = model.rows.of("keyword").where(scope="count", beyond=None).rows
        counts = sorted((row.parameter or 0.0, row.lower, row.upper) for row in rows)
        assert len(counts) > 4
        proofs = [cell.proved.lower for cell in model.measured.values() if cell.proved]
        ranks = range(1, len(model.measured) + 1)
        least = [max((x for x, low, _ in counts if low >= rank), default=0.0) for rank in ranks]
        most = [min((x for x, _, high in counts if high < rank), default=1.0) for rank in ranks]
        found = known_of_mean(model, KEYWORD)
        assert [at.k for at in found] == list(FAR)
        for at in found:
            want = [
                sum(leak_at_k(p, at.k) for p in some) / len(ranks) for some in (proofs, least, most)
            ]
            assert [at.proved, at.lower, at.upper] == pytest.approx(want, rel=1e-9, abs=1e-15)
        assert 0 < found[0].lower < found[0].upper < 1


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
