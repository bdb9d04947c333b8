"""What the page says of grids of decodings, of claims, and of explored distributions."""

from __future__ import annotations

import re
from dataclasses import replace
from html import escape, unescape

import pytest
from opened import charts, details, shown

from estimates import rows
from explored import FORWARDS, LEAKS
from leakbound.evaluation.statements.grid import GRID
from leakbound.evaluation.views.grids import (
    BEYOND,
    decodings_grid,
    effects_grid,
    summary_grid,
)
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import Model, View
from leakbound.reporting.figures import grid_figures, repeated_figures
from leakbound.reporting.page import render
from leakbound.store import Run
from leakbound.text.figures import DASH, number
from leakbound.types import Decoding

pytestmark = pytest.mark.slow


EVERYWHERE = ["on", "average", "and", "at", "the", "worst", "question"]


@pytest.fixture(scope="module")
def view(decodings: dict[str, Run]) -> View:
    return read_view(decodings)


@pytest.fixture(scope="module")
def certain(explored: dict[str, Run]) -> View:
    return read_view(explored)


def stopped(view: View) -> Model:
    return next(model for model in view.models if model.label == "until")


def body(view: View) -> str:
    """All that is read on the page, and in the questions once they are opened."""
    html = render(view)
    return unescape(re.sub(r"<[^>]*>", "", html)) + shown(html)


def test_every_cell_is_in_map_and_table(view: View, decodings: dict[str, Run]) -> None:
    run = decodings["grid"]
    for scorer in view.scorers:
        ((label, grid),) = ((at, g) for at, g in view.grids if g.scorer == scorer.name)
        assert label == "grid"
        assert (grid.temperatures, grid.top_ps, grid.k) == ((0.5, 1.0), (0.9, 1.0), 32)
        maps = [str(figure.svg) for figure in grid_figures(view, scorer)]
        shown = decodings_grid(grid)
        joint = rows(run, scorer=scorer.name, scope="mean", jointly=True)
        assert len(joint) == 8
        for row in joint:
            decoding = run.arms[row.arm].decoding
            place = [i for i, line in enumerate(shown.rows) if line[0].text == name(decoding)]
            column = 3 if row.parameter is None else 4
            assert [shown.rows[i][column].value for i in place] == [row.value]
            assert f">{escape(number(row.value))}<" in maps[column - 3]
        effects = [row.value for row in rows(run, scorer=scorer.name, arm=GRID)]
        assert [line[1].value for line in effects_grid(grid).rows] == effects


def name(decoding: Decoding) -> str:
    return f"T={decoding.temperature:g}, top-p={decoding.top_p:g}"


def test_the_section_says_what_moves_leakage(view: View, runs: dict[str, Run]) -> None:
    page = body(view)
    assert "seen to leak most: T=" in page
    assert re.search(r"temperature (and top-p )?moves leakage more", page)
    assert "Decodings" not in body(read_view(runs))


def test_curves_reach_a_million_draws(view: View) -> None:
    scorer = view.scorers[0]
    mean, worst, *_ = repeated_figures(view, scorer)
    assert ">1M<" in worst.svg
    assert ">1M<" in mean.svg  # where a claim stopped the draws, the estimate goes on
    assert 'class="naive"' in mean.svg
    first, *_ = charts(render(view), 1, "repeated")
    assert 2**20 in [row[0] for row in first["rows"]]
    assert first["rows"][-1][0] == 10**9
    assert any(row[-1] is not None for row in first["rows"])  # the naive mean


def test_what_stopping_leaves_unbounded_is_left_out(view: View) -> None:
    rouge, model = view.scorers[1], stopped(view)
    cells = [model.measured[rouge.name, q.id] for q in view.questions]
    assert not any(cell.rows.where(quantity="standard deviation") for cell in cells)
    assert "standard deviation – " not in body(view)
    assert model.drawn == "at most 256 draws of a question, until p<=0.1"
    how = model.facts["draws"]
    assert how.startswith("of each question until p<=0.1 is decided by keyword (")
    assert "at 99 %" in how
    assert "256 at most; seed " in how


def test_what_exploring_found_is_told(certain: View) -> None:
    model = certain.models[0]
    found = model.explored["p0"]
    assert found.settled == pytest.approx(0.55 + 1.1 * LEAKS["p0"])
    assert found.remainder == pytest.approx(0.4 - 1.1 * LEAKS["p0"])
    assert (found.draws, found.searched, found.forwards) == (100, FORWARDS // 2, FORWARDS)
    assert model.explored["p2"].draws == 0
    page = body(certain)
    assert "settled mass 0.880, remainder 0.070 with 100 draws; 500 prefixes forwarded" in page
    assert "mass 0.300" in page
    assert [model["explored"] for model in details(render(certain))["models"]] == [True, True]
    assert "(hybrid, 500 forwards, steered by contains (" in model.facts["draws"]
    assert model.measured["contains", "p0"].histogram == ()


def test_what_was_explored_is_said_to_be_given_the_measured_margin(certain: View) -> None:
    page = " ".join(render(certain).split())
    assert "Of explored models they hold given the measured margin for rounding." in page
    assert "gives their probabilities, to within the measured margin for rounding." in page
    drawn = replace(certain, models=tuple(replace(m, explored={}) for m in certain.models))
    assert "explored models they hold" not in " ".join(render(drawn).split())


def test_the_excess_over_the_control_is_what_is_said_first(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    table = summary_grid(view, view.scorers[0])
    found = {
        row.scope: row
        for row in rows(runs["full"], scorer=view.scorers[0].name, query_id=None, beyond="control")
    }
    mean, worst = found["mean"], found["worst question"]
    target, _, control = table.only(*BEYOND).texts
    assert target == (interval(mean), interval(worst))
    assert control == (DASH, DASH)
    first = body(view).partition("What this covers")[0].replace("\N{NO-BREAK SPACE}", " ")
    said = [interval(worst), "leak probability at the worst question, beyond the control"]
    card = first.partition("full (CannedEngine)")[2].partition("NPO (CannedEngine)")[0]
    assert re.search(r"\s+".join(map(re.escape, ["LEAKS", *EVERYWHERE, *said])), card)
    assert "no control" not in first.lower()


def test_that_there_is_no_control_is_said_first(decodings: dict[str, Run]) -> None:
    view = read_view({"grid": decodings["grid"]})
    first = body(view).partition("What this covers")[0]
    assert "DRAWS LEAK (no control: chance is not subtracted)" in first
    assert " LEAKS " not in first
    assert BEYOND[0] not in summary_grid(view, view.scorers[0]).columns


def test_redaction_covers_explored_texts(explored: dict[str, Run]) -> None:
    assert "secretp0" not in render(read_view(explored, redact=True))
