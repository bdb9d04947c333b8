"""What the page says of decodings, claims, explored distributions, rewritings and attacks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import escape, unescape
from pathlib import Path

import pytest
from opened import Page, charts, details, of_class, shown

from canned_runs import HOSTILE, REWRITINGS, SECRET, asked_benchmark, asked_engine
from contents import rows
from explored import FORWARDS, LEAKS
from leakbound.errors import IncompleteError
from leakbound.evaluation import evaluate
from leakbound.evaluation.statements.grid import GRID
from leakbound.evaluation.views.asked import tried_grid
from leakbound.evaluation.views.grids import BEYOND, decodings_grid, effects_grid, summary_grid
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import interval
from leakbound.evaluation.views.view import Rewritten, RewrittenModel, ScorerView, View
from leakbound.reporting.asked_figures import correlation_figures, protocol_figures
from leakbound.reporting.charts import LEFT, RIGHT, WIDTH
from leakbound.reporting.figures import grid_figures, repeated_figures
from leakbound.reporting.page import render
from leakbound.store import Run
from leakbound.store.inputs import read_attack_queries
from leakbound.study import Rewritings
from leakbound.text.shown import DASH, number
from report_runs import bound

pytestmark = pytest.mark.slow
KEYWORD = ScorerView("keyword", True)
PLOT = WIDTH - LEFT - RIGHT


@pytest.fixture(scope="module")
def view(asked: dict[str, Run]) -> View:
    return read_view(asked)


@pytest.fixture(scope="module")
def page(view: View) -> Page:
    return Page(render(view))


@pytest.fixture(scope="module")
def model(view: View) -> RewrittenModel:
    """The model, without its control."""
    return view.asked[0]


def test_rewritings_that_were_removed_and_questions_without_one_are_told(
    view: View, page: Page
) -> None:
    grid = tried_grid(view)
    assert grid.columns[3:] == ("Tried", "Removed: answer words", "Asked")
    assert [cell.text for cell in grid.rows[0][1:]] == ["benchmark", "allocated", "8", "3", "5"]
    said = re.search(r"Without a rewriting, and so asked in .*: (.*)\.\n", page.body)
    assert said is not None
    assert said[1] == "author-02"


def test_the_queries_that_leak_most_come_with_what_leaked(
    model: RewrittenModel, page: Page
) -> None:
    worst = model.worst["keyword"]
    ends = [query.leakage.lower for query in worst]
    assert ends == sorted(ends, reverse=True)
    assert {query.id for query in worst[:2]} == {"author-00~00", "author-01~00"}
    for query in worst:
        (leaked,) = query.examples  # the other answer does not leak
        assert leaked.count == round((query.leakage.value or 0) * query.leakage.n)
        assert SECRET in str(leaked.text)
    assert str(worst[0].text) in page.body
    assert f"{worst[0].examples[0].text} ({worst[0].examples[0].count}×)" in page.body
    both = model.worst["rouge-l-recall"][0].examples
    assert [text.scores[1] for text in both] == sorted((t.scores[1] for t in both), reverse=True)
    assert len(both) == 2


def test_a_chart_has_a_lane_for_every_way_of_asking(view: View, model: RewrittenModel) -> None:
    svg = str(protocol_figures(view, KEYWORD)[0].svg)
    bars = [float(bar.get("y", "")) for bar in of_class(svg, "bar")]
    assert len(bars) == 9  # output, full and worst query of three questions
    assert len(of_class(svg, "dot")) == 3
    lines = [float(line.get("d", "").split()[1].partition("H")[0]) for line in
             of_class(svg, "mean-line")]  # fmt: skip
    assert lines[2] < lines[1] < lines[0]  # upwards from greedy to output to full
    names = [node.text for node in of_class(svg, "mid")]
    assert names == ["greedy", "output", "full", "worst query"]
    fresh = {
        key: replace(
            found, rows=found.rows.where(inputs="these queries"), queries=(), correlation=None
        )
        for key, found in model.questions.items()
    }
    plain = replace(view, asked=(replace(model, questions=fresh),))
    svg = str(protocol_figures(plain, KEYWORD)[0].svg)
    assert [node.text for node in of_class(svg, "mid")] == ["greedy", "output", "full"]
    assert not correlation_figures(plain, KEYWORD)


def test_lanes_are_sorted(view: View) -> None:
    scores = {"author-00": 0.9, "author-01": 0.1, "author-02": 0.4}
    model = view.models[0]
    measured = {
        (name, q): replace(cell, greedy=scores[q]) for (name, q), cell in model.measured.items()
    }
    changed = replace(view, models=(replace(model, measured=measured), *view.models[1:]))
    dots = of_class(str(protocol_figures(changed, KEYWORD)[0].svg), "dot")
    across, down = ([float(dot.get(name, "")) for dot in dots] for name in ("cx", "cy"))
    assert across == sorted(across)
    assert down == sorted(down, reverse=True)


def test_correlations_have_a_histogram_and_every_question_its_scatter(
    view: View, model: RewrittenModel
) -> None:
    histogram, scatter = correlation_figures(view, KEYWORD)[:2]
    (bins,) = of_class(str(histogram.svg), "bin")
    assert bins.get("d", "").count("Z") == 1  # both lie in the lowest bin
    assert "r over 2 questions" in histogram.caption
    assert "median r" in scatter.caption
    html = render(view)
    drawn = charts(html, 2, "sureness")
    assert len(drawn) == 4  # two scorers, two models
    found = model.questions["keyword", "author-01"]
    by_query = {query.id: query for query in found.queries}
    rows = drawn[0]["rows"]
    assert [row[2] for row in rows] == list(by_query)
    for sure, upper, query, text in rows:
        assert sure == pytest.approx(by_query[query].sureness, abs=1e-4)
        assert 0 <= upper - by_query[query].leakage.upper <= 1.1e-4
        assert text == str(by_query[query].text)
    assert rows[drawn[0]["mark"]][2] == "author-01"
    assert str(rows[drawn[0]["mark"]][3]).startswith("Who wrote")
    # the query with the largest upper end is the least sure
    assert max(rows, key=lambda row: row[1])[0] == min(row[0] for row in rows)
    assert not charts(html, 3, "sureness")


def test_a_histogram_covers_all_correlations(view: View, model: RewrittenModel) -> None:
    """The question of median r is shown, and r = 1 falls into the last bin."""

    def with_r(found: Rewritten, r: float | None) -> Rewritten:
        return replace(found, correlation=r)

    values = {"author-00": 1.0, "author-01": -0.2, "author-02": None}
    questions = {
        (name, q): with_r(found, values[q]) for (name, q), found in model.questions.items()
    }
    changed = replace(view, asked=(replace(model, questions=questions),))
    histogram, scatter = correlation_figures(changed, KEYWORD)
    (bins,) = of_class(str(histogram.svg), "bin")
    starts = [float(x) for x in re.findall(r"M([\d.]+) ", bins.get("d", ""))]
    assert starts == pytest.approx([LEFT + PLOT * 0.4, LEFT + PLOT * 0.95], abs=0.1)
    assert scatter.caption.startswith("forgot, author-00: r = 1 (")


def test_what_a_search_found_is_shown_with_its_fresh_bounds(
    view: View, page: Page, asked: dict[str, Run]
) -> None:
    run = asked["forgot"]
    stored = read_attack_queries(run.path)
    assert stored is not None
    assert len(view.found) == len(stored) == 3
    for one, found in zip(view.found, stored, strict=True):
        question = found.query.prompt_id
        fresh = bound(run, question, arm=str(found.arm))
        assert one.leakage("keyword") == fresh
        assert one.leakage("keyword", one.own) == bound(run, question, arm="target")
        assert (one.lower, one.draws) == (found.lower, found.rounds[-1].draws)
        assert str(one.text) in page.body
        assert interval(fresh) in page.body
        changed = bool(found.query.prefix or found.shots or found.query.source != "original")
        assert (one.asked == f"own words, {found.decoding.name}") == (not changed)
        assert found.query.prefix in one.asked
        assert one.asked in page.body
    assert any(found.query.prefix for found in stored)


def test_the_page_is_well_formed_and_hostile_rewritings_stay_text(page: Page, view: View) -> None:
    assert not page.unclosed
    ids = [attributes.get("id") for _, attributes in page.elements if attributes.get("id")]
    assert len(ids) == len(set(ids))
    assert all((a["href"] or "")[1:] in ids for a in page.named("a"))
    assert not page.named("b")
    assert any(HOSTILE in str(query.text) for query in view.asked[0].worst["keyword"])
    assert HOSTILE in page.body


def test_redaction_covers_rewritings_what_was_found_and_explored_texts(
    asked: dict[str, Run], explored: dict[str, Run]
) -> None:
    view = read_view(asked, redact=True)
    page = render(view)
    html = unescape(page) + json.dumps(details(page), ensure_ascii=False)
    assert SECRET not in html
    assert "secretp0" not in render(read_view(explored, redact=True))
    assert not any(text.partition(" the novel")[0] in html for text in REWRITINGS)
    assert "So 1:" not in html
    worst = [query for queries in view.asked[0].worst.values() for query in queries]
    assert {text.text for query in worst for text in query.examples} == {None}
    assert "author-00~00" in html  # which query it is may be known
    assert {found.text for found in view.found} == {None}
    found = read_attack_queries(asked["forgot"].path) or ()
    openers = [one.query.prefix for one in found if one.query.prefix]
    assert openers
    assert not any(opener in html for opener in openers)


def test_a_query_that_failed_takes_its_question_out_and_is_told(tmp_path: Path) -> None:
    engine, task = asked_engine("half", 0.1), asked_benchmark()
    engine.laws = {query: law for query, law in engine.laws.items() if query != "author-00~01"}
    with pytest.raises(IncompleteError):
        evaluate(engine, task, out=tmp_path / "run", n=64, rewritings=Rewritings("benchmark"))
    view = read_view({"half": Run.open(tmp_path / "run")})
    (model,) = view.asked
    assert {question for _, question in model.questions} == {"author-01", "author-02"}
    assert model.rows.leakage("keyword", scope="mean") is None
    assert "half: queries that could not be sampled: 1." in Page(render(view)).body


@pytest.fixture(scope="module")
def grids(decodings: dict[str, Run]) -> View:
    return read_view(decodings)


@pytest.fixture(scope="module")
def certain(explored: dict[str, Run]) -> View:
    return read_view(explored)


def body(view: View) -> str:
    """All that is read on the page, and in the questions once they are opened."""
    html = render(view)
    return unescape(re.sub(r"<[^>]*>", "", html)) + shown(html)


def test_every_cell_is_in_map_and_table(grids: View, decodings: dict[str, Run]) -> None:
    run = decodings["grid"]
    for scorer in grids.scorers:
        ((label, grid),) = ((at, g) for at, g in grids.grids if g.scorer == scorer.name)
        assert label == "grid"
        assert (grid.temperatures, grid.top_ps, grid.k) == ((0.5, 1.0), (0.9, 1.0), 32)
        maps = [str(figure.svg) for figure in grid_figures(grids, scorer)]
        shown = decodings_grid(grid)
        joint = rows(run, scorer=scorer.name, scope="mean", jointly=True)
        assert len(joint) == 8
        for row in joint:
            decoding = run.arms[row.arm].decoding
            name = f"T={decoding.temperature:g}, top-p={decoding.top_p:g}"
            place = [i for i, line in enumerate(shown.rows) if line[0].text == name]
            column = 3 if row.parameter is None else 4
            assert [shown.rows[i][column].value for i in place] == [row.value]
            assert f">{escape(number(row.value))}<" in maps[column - 3]
        effects = [row.value for row in rows(run, scorer=scorer.name, arm=GRID)]
        assert [line[1].value for line in effects_grid(grid).rows] == effects


def test_the_section_says_what_moves_leakage(grids: View, runs: dict[str, Run]) -> None:
    page = body(grids)
    assert "seen to leak most: T=" in page
    assert re.search(r"temperature (and top-p )?moves leakage more", page)
    plain = read_view(runs)
    assert (plain.asked, plain.found, dict(plain.tried)) == ((), (), {})
    html = render(plain)
    assert not any(f'id="{part}"' in html for part in ("decodings", "asked", "attack"))


def test_curves_reach_a_million_draws(grids: View) -> None:
    scorer = grids.scorers[0]
    mean, worst, *_ = repeated_figures(grids, scorer)
    assert ">1M<" in worst.svg
    assert ">1M<" not in mean.svg  # no estimate goes beyond a quarter of the draws
    assert 'class="naive"' in mean.svg
    first, *_ = charts(render(grids), 1, "repeated")
    assert 2**20 in [row[0] for row in first["rows"]]
    assert first["rows"][-1][0] == 10**9
    assert any(row[-1] is not None for row in first["rows"])  # the naive mean


def test_what_stopping_leaves_unbounded_is_left_out(grids: View) -> None:
    rouge, model = grids.scorers[1], next(model for model in grids.models if model.label == "until")
    cells = [model.measured[rouge.name, q.id] for q in grids.questions]
    assert not any(cell.rows.where(quantity="standard deviation") for cell in cells)
    assert "standard deviation – " not in body(grids)
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
    assert "settled mass 0.88, remainder 0.070 with 100 draws; 500 prefixes forwarded" in page
    assert "mass 0.30" in page
    assert [model["explored"] for model in details(render(certain))["models"]] == [True, True]
    assert "(hybrid, 500 forwards, steered by contains (" in model.facts["draws"]
    assert model.measured["contains", "p0"].histogram == ()


def test_what_was_explored_is_said_to_be_given_the_measured_margin(certain: View) -> None:
    page = " ".join(render(certain).split())
    assert "Of explored models they hold given the measured margin for rounding." in page
    assert "gives their probabilities, to within the measured margin for rounding." in page
    drawn = replace(certain, models=tuple(replace(m, explored={}) for m in certain.models))
    assert "explored models they hold" not in " ".join(render(drawn).split())


def test_the_excess_over_the_control_stands_in_the_summary(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    keyword = view.scorers[0]
    target, _, control = summary_grid(view, keyword).only(*BEYOND).texts
    known = {"scorer": keyword.name, "query_id": None, "beyond": "control"}
    found = {row.scope: row for row in rows(runs["full"], **known)}
    assert target == (interval(found["mean"]), interval(found["worst question"]))
    assert control == (DASH, DASH)
