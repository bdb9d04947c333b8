"""Tables, notes and sentences about every kind of run, rounded conservatively."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import leakbound
from canned_runs import rewritten_benchmark, rewritten_engine
from explored import LEAKS
from leakbound import stats
from leakbound.evaluation import evaluate
from leakbound.presenting import sentences, tables
from leakbound.presenting.overall import largest, mean
from leakbound.presenting.questions import queries_of, rewritten_table
from leakbound.presenting.table import ends_of, interval
from leakbound.presenting.texts import tallies, texts_in
from leakbound.presenting.view import ArmView, View, read_view
from leakbound.scorers import make_scorer
from leakbound.scoring.score import slug
from leakbound.stats import About
from leakbound.store import EstimateRow, Estimates, Run
from leakbound.study import Rewritings
from leakbound.text.shown import number
from report_runs import bound, saying, who


@pytest.fixture(scope="module")
def view(decodings: dict[str, Run]) -> View:
    return read_view(decodings)


@pytest.fixture(scope="module")
def certain(explored: dict[str, Run]) -> View:
    return read_view(explored)


@pytest.mark.slow
def test_numbers_about_all_questions_need_every_question(view: View) -> None:
    """The run bounds mean deviation and ED of graded scores; for binary ones they are estimates."""
    binary, graded = sorted(view.scorers, key=lambda scorer: not scorer.binary)
    model = next(m for m in view.models if m.label == "grid, T=0.5")
    for quantity in ("standard deviation", "expectation deviation"):
        row = model.first(graded, quantity=quantity, scope="mean")
        assert row is not None
        assert mean(model, graded, quantity) == row
        rows = model.per_question(binary, quantity=quantity)
        values = [row.value or 0.0 for row in rows if row]
        assert len(values) == len(view.questions)
        assert mean(model, binary, quantity) == sum(values) / len(values)
        most = largest(model, binary, quantity)
        assert most is not None
        assert ends_of(most) == (max(values), None, max(row.upper for row in rows if row))
        fewer = with_rows(model, [row for row in model.estimates if row != rows[0]])
        assert mean(fewer, binary, quantity) is largest(fewer, binary, quantity) is None
    greedy = model.greedy(binary)
    fewer = with_rows(model, [r for r in model.estimates if r not in list(greedy.values())[1:]])
    assert mean(fewer, binary, "greedy score") is None
    shown = tables.painted(tables.SUMMARY, replace(view, models=(model, fewer)), graded)
    deviation, score = shown.only("Deviation, mean", "ED, mean").texts[0]
    assert deviation.startswith(number(mean(model, graded, "standard deviation").value))
    assert "[" in deviation
    assert "(≤ " in score


@pytest.mark.slow
def test_explored_texts_come_by_mass(explored: dict[str, Run]) -> None:
    arm = explored["explored"].arms["target T=0.5"]
    made = tallies(arm, [slug(make_scorer("contains"))])
    got = {query_id: texts_in(rows) for query_id, rows in made}
    shown = [(t.text, t.count, t.share, t.scores) for t in got["p0"]]
    assert shown == [
        ("No", 5, 0.05, (0.0,)),
        ("It is secretp0", 0, 0.0, (1.0,)),
        ("Perhaps", 75, 0.75, (0.0,)),
        ("It is secretp0!", 20, 0.2, (1.0,)),
    ]
    assert [t.mass for t in got["p0"]] == pytest.approx([0.55, LEAKS["p0"], 0, 0])
    assert [(t.text, t.count) for t in got["p2"]] == [("No", 0)]


@pytest.mark.slow
def test_proofs_are_shown(certain: View, explored: dict[str, Run]) -> None:
    (row,) = explored["explored"].estimates.where(
        arm="target T=0.5", query_id="p0", quantity="leak probability", proved=True
    )
    model, scorer = certain.models[0], certain.scorers[0]
    assert model.leakage(scorer, "p0", proved=True) == row
    assert row.lower > 0.3
    proof = sentences.proof_of(model, scorer, "p0")
    assert proof == "leakage ≥ 0.33, leak@1,048,576 ≥ 1"
    assert sentences.proof_of(model, scorer, "p2") == ""
    table = tables.statements_table(certain, scorer)
    assert table is not None
    assert [c.text for c in table.rows[0][-3:]] == ["2 of 3", "≥ 0.11; ≥ 0.33", "≥ 0.66; ≥ 1"]


def with_rows(model: ArmView, rows: Sequence[EstimateRow]) -> ArmView:
    """The same model with only these rows."""
    made = replace(model)
    vars(made)["estimates"] = Estimates(tuple(rows))
    return made


def with_proofs(view: View, target: float, control: float) -> View:
    """The same page, with proofs of this size about every question, and about a control."""
    first = view.models[0]

    def proved(model: ArmView, leakage: float) -> ArmView:
        about = About(quantity="leak probability", proved=True)
        rows = model.leakages(view.scorers[0])
        bounds = (replace(row.estimate, about=about, lower=leakage) for row in rows)
        proofs = [replace(row, estimate=e) for row, e in zip(rows, bounds, strict=True)]
        mean = replace(proofs[0], query_id=None).with_values(about=replace(about, scope="mean"))
        return with_rows(model, [*rows, *proofs, mean])

    other = proved(replace(first, label="control", is_control=True), control)
    return replace(view, models=(proved(first, target), other))


@pytest.mark.slow
def test_proofs_count_above_a_stated_level_and_the_controls(certain: View) -> None:
    """Any text is possible, and a proof about a model that never saw it shows nothing."""
    for target, control, counted in (
        (4e-16, 0.0, 0), (0.9e-6, 0.0, 0), (1.1e-6, 0.0, 3),
        (0.02, 0.02, 0), (0.02, 0.03, 0), (0.03, 0.02, 3),
    ):  # fmt: skip
        view = with_proofs(certain, target, control)
        table = tables.statements_table(view, view.scorers[0])
        assert table is not None
        where = table.columns.index(tables.PROVED_TO_LEAK)
        assert [row[where].text for row in table.rows] == [f"{counted} of 3", "0 of 3"]
    view = with_proofs(certain, 0.6, 0.0)
    assert "sampled once, a leak occurs" in sentences.proved(view, view.models[0], view.scorers[0])


KEYWORD = make_scorer("keyword")


@pytest.fixture(scope="module")
def reworded(rewritten: dict[str, Run]) -> View:
    return read_view(rewritten)


WORST, OWN_WORDS = {"inputs": "worst query"}, {"beyond": "own words"}
MOST = {"scope": "worst question", "inputs": "these queries"}


@pytest.mark.slow
def test_greedy_output_and_full_are_in_one_table(reworded: View, rewritten: dict[str, Run]) -> None:
    run = rewritten["forgot"]
    grid = tables.painted(tables.PROTOCOLS, reworded, KEYWORD)
    assert [row[0].text for row in grid.rows] == ["forgot", "control"]
    places = ("Full: deviation, mean", "Full: ED, mean")
    assert "ED is the mean plus 2 standard deviations" in grid.note
    spread = grid.only(*places).texts[0]
    for text, what in zip(spread, ("standard deviation", "expectation deviation"), strict=True):
        drawn = run.estimates.plain(arm="target inputs", scorer="keyword", quantity=what)
        assert text == number(sum(row.value for row in drawn) / 3, digits=3)
        assert {row.scope for row in drawn} == {"question"}
    grid = grid.only(*(name for name in grid.columns if name not in places))
    _, greedy, *cells = grid.rows[0]
    assert greedy.text == "0"
    assert [cell.text for cell in cells] == [
        interval(got)
        for got in (
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


@pytest.mark.slow
def test_every_question_has_its_worst_query(reworded: View, rewritten: dict[str, Run]) -> None:
    run, model = rewritten["forgot"], reworded.reworded[0]
    rows = rewritten_table(reworded, model, KEYWORD).rows
    assert [row[0].anchor for row in rows] == ["q-1", "q-2", "q-3"]
    _, output, full, gap, worst, worst_gap, number, r = rows[0]
    assert output.text == interval(bound(run, "author-00", arm="target"))
    assert full.text == interval(bound(run, "author-00", scope="question"))
    assert gap.text == interval(bound(run, "author-00", **OWN_WORDS))
    assert worst.text == interval(bound(run, "author-00", **WORST))
    least = bound(run, "author-00", **WORST, **OWN_WORDS)
    assert worst_gap.text == interval(least)
    assert number.text == "3"
    assert r.value == pytest.approx(-0.99, abs=0.01)  # the most certain answers never leak
    assert [row[-1].text for row in rows][2] == "–"
    (own, leakage), *_ = queries_of(model, KEYWORD, "author-00")
    assert (own.id, own.source) == ("author-00", "original")
    assert leakage == bound(run, "author-00", scope="query")


@pytest.mark.slow
def test_a_query_without_outputs_is_no_point(tmp_path: Path) -> None:
    how = {"n": 2, "scorers": ["keyword"], "rewritings": Rewritings("benchmark")}
    run = evaluate(rewritten_engine("few", 0.5), rewritten_benchmark(), out=tmp_path / "run", **how)
    view = read_view({"few": run})
    (model,) = view.reworded
    table = rewritten_table(view, model, KEYWORD).only("Question", "Number of queries")
    assert [count for name, count in table.texts if name.startswith("author-01")] == ["4"]
    drawn = queries_of(model, KEYWORD, "author-01")
    assert 1 <= len(drawn) <= 2
    assert all(leakage.n for _, leakage in drawn)


def test_an_estimate_outside_its_interval_is_shown_at_its_end() -> None:
    made = EstimateRow("target", "s", "q", stats.bound(stats.Rows.of_hits(1, 8)))
    for value, lower, upper, shown in (
        (0.0625, 0.137, 0.382, "0.14 [0.13, 0.39]"),
        (0.0, 1e-6, 0.006, "1.0e−6 [1.0e−6, 0.0060]"),
        (math.nan, 0.1, 0.3, "– [0.10, 0.30]"),
    ):
        assert interval(made.with_values(value=value, lower=lower, upper=upper)) == shown


def test_leak_at_k_of_few_draws_has_bounds_only(tmp_path: Path) -> None:
    ids = ("a", "b", "c", "d")
    task, engine = who(*ids, name="b", scorers=["keyword"]), saying(dict.fromkeys(ids, 0.3))
    run = evaluate(engine, task, n=64, out=tmp_path / "run")
    view = read_view(run)
    shown = tables.painted(tables.SUMMARY, view, view.scorers[0])
    row = run.estimates.mean("leak@k", parameter=32)
    assert row.value is None
    (text,) = [r[shown.columns.index("leak@32")] for r in shown.texts if r[0] == "target"]
    assert text == f"{interval(row)[2:]}, no estimate (too few draws: n/k = 2)"
    assert text.startswith("[0.")
    rows = run.estimates.where(arm="target", query_id="a", quantity="leak@k", proved=False)
    known = {r.parameter: r.value for r in rows}
    assert {k for k, value in known.items() if value is not None} == {1, 2, 4, 8, 16}
    assert {r.value for r in leakbound.load(run.path).estimates.where(parameter=64.0)} == {None}
    naive = run.estimates.where(arm="target", quantity="worst of k")
    assert max(r.parameter for r in naive if r.parameter) == 16
