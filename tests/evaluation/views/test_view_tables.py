"""What tables and remarks say of decodings, of claims, of explored distributions, and of proofs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimates import rows
from explored import LEAKS
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.rows import CLAIMS
from leakbound.evaluation.views.grids import (
    PROVED_TO_LEAK,
    questions_grid,
    statements_grid,
    summary_grid,
)
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.remarks import remarks
from leakbound.evaluation.views.texts import distinct_texts
from leakbound.evaluation.views.view import Model, View
from leakbound.evaluation.views.words import decision, extraction, proof, proved
from leakbound.scorers import make_scorer
from leakbound.stats import About
from leakbound.store import Estimates, Run
from leakbound.text.figures import above, below

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def view(decodings: dict[str, Run]) -> View:
    return read_view(decodings)


@pytest.fixture(scope="module")
def certain(explored: dict[str, Run]) -> View:
    return read_view(explored)


def stopped(view: View) -> Model:
    return next(model for model in view.models if model.label == "until")


def test_naive_estimates_are_those_of_the_table(view: View, decodings: dict[str, Run]) -> None:
    scorer, arm = view.scorers[0].name, "target T=0.5"
    (model,) = (m for m in view.models if m.label == "grid, T=0.5")
    naive = rows(decodings["grid"], arm=arm, scorer=scorer, quantity="worst of k")
    assert naive
    for row in naive:
        cell = model.measured[scorer, row.query_id]
        assert cell.by_parameter("worst of k")[row.parameter].value == row.value


def test_deviations_are_not_averaged_over_fewer_questions(view: View) -> None:
    """One question without a bound leaves nothing to say of their mean or largest."""
    scorer, model = view.scorers[0], view.models[0]
    key = (scorer.name, view.questions[0].id)
    cell = model.measured[key]
    kept = tuple(row for row in cell.rows if row.quantity != "standard deviation")
    less = {**model.measured, key: replace(cell, rows=Estimates(kept))}
    shown = summary_grid(replace(view, models=(model, replace(model, measured=less))), scorer)
    shown = shown.only("Deviation, mean", "Deviation, worst")
    full, partial = shown.texts
    assert "–" not in full
    assert partial == ("–", "–")


def test_the_mean_deviation_and_ed_stand_with_their_ends(
    view: View, decodings: dict[str, Run]
) -> None:
    """Of a scorer that is not binary; of a binary one the estimates alone."""
    assert {scorer.binary for scorer in view.scorers} == {True, False}
    for scorer in view.scorers:
        model = next(m for m in view.models if m.label == "grid, T=0.5")
        shown = summary_grid(replace(view, models=(model,)), scorer)
        (texts,) = shown.only("Deviation, mean", "ED, mean").texts
        stored = decodings["grid"].estimates.where(
            arm="target T=0.5", scorer=scorer.name, scope="mean"
        )
        spread = [stored.first(quantity=q) for q in ("standard deviation", "expectation deviation")]
        if scorer.binary:
            assert spread == [None, None]
            assert not any(mark in text for text in texts for mark in "[≤")
            continue
        deviation, score = spread
        assert deviation is not None
        assert score is not None
        assert deviation.over == len(view.questions)
        assert deviation.lower < deviation.value < deviation.upper < 0.5
        assert (
            texts[0]
            == f"{deviation.value:.3f} [{below(deviation.lower)}, {above(deviation.upper)}]"
        )
        assert texts[1] == f"{score.value:.3f} (≤ {above(score.upper)})"


def test_claims_are_told_one_by_one_and_together(view: View, decodings: dict[str, Run]) -> None:
    scorer, model = view.scorers[0], stopped(view)
    truth = {1.0: "holds", 0.0: "refuted"}
    claims = decodings["until"].estimates.where(arm="target", quantity=CLAIMS).rows
    assert {row.query_id: truth.get(row.value, "open") for row in claims} == {
        q.id: decision(claim)
        for q in view.questions
        if (claim := model.measured[scorer.name, q.id].claim) is not None
    }
    drawn = sum(row.n for row in claims)
    most = f"{drawn:,} draws instead of {3 * 256:,}"
    (said,) = (line for line in remarks(view, scorer).splitlines() if "holds for" in line)
    assert said.startswith("until, p<=0.1: holds for ")
    assert said.endswith(most)
    column = questions_grid(view, scorer).columns.index("until: p<=0.1")
    for line, row in zip(questions_grid(view, scorer).rows, claims, strict=True):
        assert line[column].text.endswith(f" after {row.n}")
    assert "holds for" not in remarks(view, view.scorers[1])


def test_rounds_of_a_question_are_one_tally(decodings: dict[str, Run]) -> None:
    run = decodings["until"]
    arm, scorer = run.arms["target"], make_scorer("keyword")
    assert len(arm.rounds) > 1
    found = dict(distinct_texts(arm, [slug(scorer)]))
    assert set(found) == {query.id for query in run.queries}
    n = dict(zip(arm.scores(slug(scorer)).query_ids, arm.scores(slug(scorer)).n, strict=True))
    assert len(set(n.values())) > 1
    for query_id, texts in found.items():
        assert len({text.text for text in texts}) == len(texts)
        assert sum(text.count for text in texts) == n[query_id]
        assert sum(text.share for text in texts) == pytest.approx(1)


def test_explored_texts_come_by_mass_and_forced_answers_are_no_draws(
    explored: dict[str, Run],
) -> None:
    arm = explored["explored"].arms["target T=0.5"]
    found = dict(distinct_texts(arm, [slug(make_scorer("contains"))]))
    shown = [(t.text, t.count, t.share, t.scores) for t in found["p0"]]
    assert shown == [
        ("No", 5, 0.05, (0.0,)),
        ("It is secretp0", 0, 0.0, (1.0,)),
        ("Perhaps", 75, 0.75, (0.0,)),
        ("It is secretp0!", 20, 0.2, (1.0,)),
    ]
    assert [t.mass for t in found["p0"]] == pytest.approx([0.55, LEAKS["p0"], 0, 0])
    assert [(t.text, t.count) for t in found["p2"]] == [("No", 0)]


def test_proofs_are_told(certain: View, explored: dict[str, Run]) -> None:
    (row,) = explored["explored"].estimates.where(
        arm="target T=0.5", query_id="p0", quantity="leak probability", proved=True
    )
    cell = certain.models[0].measured["contains", "p0"]
    assert cell.proved == row
    assert row.lower > 0.3
    assert proof(cell) == "leakage ≥ 0.330, leak@1,048,576 ≥ 1.000"
    assert proof(certain.models[0].measured["contains", "p2"]) == ""
    table = statements_grid(certain, certain.scorers[0])
    assert table is not None
    assert [cell.text for cell in table.rows[0][-3:]] == [
        "2 of 3",
        "≥ 0.330",
        "≥ 1.000",
    ]


def test_extraction_is_told_in_the_fields_words(certain: View) -> None:
    """Someone who asks n times gets it with probability at least .5: 1 - .97^23 > .5 > 1 - .97^22.

    A bound below suffices, the one above is needed; what nobody asks as often is not told.
    """
    told = proved(view := with_proofs(certain, 0.03, 0.0), view.models[0], view.scorers[0])
    assert told.endswith(
        "at 3 of 3; who asks 23 times gets the former with probability at least 0.5, "
        "(23, 0.5)-discoverable extraction"
    )
    assert "discoverable" not in proved(
        view, view.models[0], replace(view.scorers[0], binary=False)
    )
    cell = certain.models[0].measured["contains", "p0"]

    def of(low: float, high: float) -> str:
        ends = replace(cell.leakage.estimate, lower=low, upper=high, confidence=0.99)
        drawn = replace(cell.leakage, estimate=ends)
        proof = replace(ends, about=replace(ends.about, proved=True), lower=0.02, confidence=1.0)
        rows = Estimates((drawn, replace(drawn, estimate=proof)))
        return extraction(replace(cell, leakage=drawn, rows=rows))

    begin = "(n, 0.5)-discoverable extraction: n = 35 suffices as is proved, "
    assert of(0.03, 0.2) == f"{begin}n = 23 suffices (99 %), no fewer than 4 do (99 %)"
    assert of(0.0, 1e-13) == begin.removesuffix(", ")
    assert of(1e-13, 0.6) == begin.removesuffix(", ")


def with_proofs(view: View, target: float, control: float) -> View:
    """The same page, where so much is proved of every question, and so much of a control."""
    first = view.models[0]

    def proved(model: Model, leakage: float) -> Model:
        about = About(quantity="leak probability", proved=True)
        cells = {}
        for key, cell in model.measured.items():
            ends = replace(cell.leakage.estimate, about=about, lower=leakage)
            proof = replace(cell.leakage, estimate=ends)
            cells[key] = replace(cell, rows=Estimates((proof,)))
        return replace(model, measured=cells)

    beside = replace(proved(first, control), label="control", is_control=True)
    return replace(view, models=(proved(first, target), beside))


@pytest.mark.parametrize(
    ("target", "control", "counted"),
    [
        (4e-16, 0.0, 0),  # any text is possible
        (0.9e-6, 0.0, 0),
        (1.1e-6, 0.0, 3),
        (0.02, 0.02, 0),  # no more than of a model that never saw it
        (0.02, 0.03, 0),
        (0.03, 0.02, 3),
    ],
)
def test_proofs_count_above_a_stated_level_and_the_controls(
    certain: View, target: float, control: float, counted: int
) -> None:
    view = with_proofs(certain, target, control)
    table = statements_grid(view, view.scorers[0])
    assert table is not None
    where = table.columns.index(PROVED_TO_LEAK)
    assert [row[where].text for row in table.rows] == [f"{counted} of 3", "0 of 3"]
    assert "10⁻⁶" in table.columns[where]
    assert "control" in table.columns[where]


def test_statements_about_all_questions_are_there(view: View, decodings: dict[str, Run]) -> None:
    scorer = view.scorers[0]
    table = statements_grid(view, scorer)
    assert table is not None
    said = rows(decodings["grid"], arm="target T=1", scorer=scorer.name, query_id=None)
    line = next(line for line in table.rows if line[0].text == "grid, T=1")
    for row in said:
        if row.scope == "count":
            at = table.columns.index(f"Questions above {row.parameter:g}")
            assert line[at].text == (f"{row.value:g} [{row.lower:g}, {row.upper:g}]")
    (alone,) = (
        r for r in said if (r.quantity, r.parameter) == ("leak@k", 32) and not r.about.jointly
    )
    assert line[table.columns.index("leak@32, mean")].value == alone.value
    assert f"[{alone.lower:.2f}" in line[table.columns.index("leak@32, mean")].text
