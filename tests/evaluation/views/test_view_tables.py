"""What tables, remarks and sentences say of every kind of run, rounded so as to say no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import leakbound
from canned_runs import asked_benchmark, asked_engine
from explored import LEAKS
from leakbound.errors import MixError
from leakbound.evaluation import evaluate
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.rows import CLAIMS
from leakbound.evaluation.views import words
from leakbound.evaluation.views.asked import gaps_grid, protocols_grid, rewritten_grid
from leakbound.evaluation.views.grids import (
    PROVED_TO_LEAK,
    questions_grid,
    statements_grid,
    summary_grid,
)
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.remarks import remarks
from leakbound.evaluation.views.table import Interval, interval
from leakbound.evaluation.views.texts import distinct_texts
from leakbound.evaluation.views.view import Model, ScorerView, Text, Texts, View
from leakbound.evaluation.views.words import decision, extraction, floor, proof, proved
from leakbound.scorers import make_scorer
from leakbound.stats import About
from leakbound.store import Estimates, Run
from leakbound.study import Rewritings
from leakbound.text.shown import above, below, number
from leakbound.types import Decoding
from report_runs import bound, saying, who


@pytest.fixture(scope="module")
def view(decodings: dict[str, Run]) -> View:
    return read_view(decodings)


@pytest.fixture(scope="module")
def certain(explored: dict[str, Run]) -> View:
    return read_view(explored)


def stopped(view: View) -> Model:
    return next(model for model in view.models if model.label == "until")


@pytest.mark.slow
def test_the_mean_deviation_and_ed_stand_with_their_ends(
    view: View, decodings: dict[str, Run]
) -> None:
    """Of a scorer that is not binary; of a binary one the estimates, where every question has."""
    binary, graded = sorted(view.scorers, key=lambda scorer: not scorer.binary)
    model = next(m for m in view.models if m.label == "grid, T=0.5")
    key = (binary.name, view.questions[0].id)
    kept = [row for row in model.measured[key].rows if row.quantity != "standard deviation"]
    less = {**model.measured, key: replace(model.measured[key], rows=Estimates(tuple(kept)))}
    both = replace(view, models=(model, replace(model, measured=less)))
    full, partial = (
        summary_grid(both, binary).only("Deviation, mean", "Deviation, worst", "ED, mean").texts
    )
    assert not any(mark in full[i] for i in (0, 2) for mark in "–[≤")
    assert partial[:2] == ("–", "–")
    stored = decodings["grid"].estimates.where(arm="target T=0.5", scope="mean")
    deviation, score = (
        stored.first(quantity=what, scorer=graded.name)
        for what in ("standard deviation", "expectation deviation")
    )
    assert stored.first(quantity="standard deviation", scorer=binary.name) is None
    assert deviation is not None
    assert score is not None
    assert deviation.over == len(view.questions)
    assert deviation.lower < deviation.value < deviation.upper < 0.5
    texts = summary_grid(both, graded).only("Deviation, mean", "ED, mean").texts[0]
    ends = f"[{below(deviation.lower)}, {above(deviation.upper)}]"
    assert texts[0] == f"{number(deviation.value)} {ends}"
    assert texts[1] == f"{number(score.value)} (≤ {above(score.upper)})"


@pytest.mark.slow
def test_claims_are_told_one_by_one_and_together(view: View, decodings: dict[str, Run]) -> None:
    scorer, model = view.scorers[0], stopped(view)
    claims = decodings["until"].estimates.where(arm="target", quantity=CLAIMS).rows
    truth = {1.0: "holds", 0.0: "refuted"}
    for row in claims:
        claim = model.measured[scorer.name, row.query_id].claim
        assert claim is not None
        assert decision(claim) == truth.get(row.value, "open")
    drawn = sum(row.n for row in claims)
    (said,) = (line for line in remarks(view, scorer).splitlines() if "holds for" in line)
    assert said.startswith("until, p<=0.1: holds for ")
    assert said.endswith(f"{drawn:,} draws instead of {3 * 256:,}")
    grid = questions_grid(view, scorer)
    column = grid.columns.index("until: p<=0.1")
    for line, row in zip(grid.rows, claims, strict=True):
        assert line[column].text.endswith(f" after {row.n}")
    assert "holds for" not in remarks(view, view.scorers[1])


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_proofs_are_told(certain: View, explored: dict[str, Run]) -> None:
    (row,) = explored["explored"].estimates.where(
        arm="target T=0.5", query_id="p0", quantity="leak probability", proved=True
    )
    cell = certain.models[0].measured["contains", "p0"]
    assert cell.proved == row
    assert row.lower > 0.3
    assert proof(cell) == "leakage ≥ 0.33, leak@1,048,576 ≥ 1"
    assert proof(certain.models[0].measured["contains", "p2"]) == ""
    table = statements_grid(certain, certain.scorers[0])
    assert table is not None
    assert [cell.text for cell in table.rows[0][-3:]] == ["2 of 3", "≥ 0.33", "≥ 1"]


@pytest.mark.slow
def test_extraction_is_told_in_the_fields_words(certain: View) -> None:
    """Someone who asks n times gets it with probability at least .5: 1 - .97^23 > .5 > 1 - .97^22.

    A bound below suffices, the one above is needed; what nobody asks as often is not told.
    """
    view = with_proofs(certain, 0.03, 0.0)
    model, scorer = view.models[0], view.scorers[0]
    told = proved(view, model, scorer)
    assert told.endswith(
        "at 3 of 3, computed from model probabilities, no sampling error; who asks 23 times "
        "gets the former with probability at least 0.5, "
        "(23, 0.5)-discoverable extraction"
    )
    assert "discoverable" not in proved(view, model, replace(scorer, binary=False))
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


@pytest.mark.slow
def test_proofs_count_above_a_stated_level_and_the_controls(certain: View) -> None:
    """Any text is possible; and what is proved of a model that never saw it tells nothing."""
    for target, control, counted in (
        (4e-16, 0.0, 0), (0.9e-6, 0.0, 0), (1.1e-6, 0.0, 3),
        (0.02, 0.02, 0), (0.02, 0.03, 0), (0.03, 0.02, 3),
    ):  # fmt: skip
        view = with_proofs(certain, target, control)
        table = statements_grid(view, view.scorers[0])
        assert table is not None
        where = table.columns.index(PROVED_TO_LEAK)
        assert [row[where].text for row in table.rows] == [f"{counted} of 3", "0 of 3"]
        assert "10⁻⁶" in table.columns[where]
        assert "control" in table.columns[where]


@pytest.mark.slow
def test_statements_about_all_questions_are_there(view: View, decodings: dict[str, Run]) -> None:
    scorer = view.scorers[0]
    table = statements_grid(view, scorer)
    assert table is not None
    said = decodings["grid"].estimates.where(arm="target T=1", scorer=scorer.name, query_id=None)
    line = next(line for line in table.rows if line[0].text == "grid, T=1")
    for row in said.where(scope="count"):
        at = table.columns.index(f"Questions above {row.parameter:g}")
        assert line[at].text == (f"{row.value:g} [{row.lower:g}, {row.upper:g}]")
    alone = said.first(quantity="leak@k", parameter=32, jointly=False)
    assert alone is not None
    shown = line[table.columns.index("leak@32, mean")]
    assert shown.value == alone.value
    assert f"[{alone.lower:.2f}" in shown.text


KEYWORD = ScorerView("keyword", True)


@pytest.fixture(scope="module")
def reworded(asked: dict[str, Run]) -> View:
    return read_view(asked)


WORST, OWN_WORDS = {"inputs": "worst query"}, {"beyond": "own words"}
MOST = {"scope": "worst question", "inputs": "these queries"}


@pytest.mark.slow
def test_greedy_output_and_full_stand_side_by_side(reworded: View, asked: dict[str, Run]) -> None:
    run = asked["forgot"]
    grid = protocols_grid(reworded, KEYWORD)
    assert [row[0].text for row in grid.rows] == ["forgot", "control"]
    _, greedy, *cells = grid.rows[0]
    assert greedy.text == "0"
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


@pytest.mark.slow
def test_what_rewritings_add_is_bounded_from_below(reworded: View, asked: dict[str, Run]) -> None:
    run = asked["forgot"]
    _, mean, most, where, worst, worst_where = gaps_grid(reworded, KEYWORD).rows[0]
    assert mean.text == interval(bound(run, None, scope="mean", **OWN_WORDS))
    for cell, which in ((most, MOST), (worst, MOST | WORST)):
        found = bound(run, None, **which, **OWN_WORDS)
        assert cell.text == floor(found.value, found.lower)
    assert where.text == "2 (≥ 0)"
    assert worst_where.text == "2 (≥ 2)"


@pytest.mark.slow
def test_every_question_has_both_ways_and_the_worst_query(
    reworded: View, asked: dict[str, Run]
) -> None:
    run, model = asked["forgot"], reworded.asked[0]
    rows = rewritten_grid(reworded, model, KEYWORD).rows
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


@pytest.mark.slow
def test_a_query_without_outputs_is_no_point(tmp_path: Path) -> None:
    how = {"n": 2, "scorers": ["keyword"], "rewritings": Rewritings("benchmark")}
    run = evaluate(asked_engine("few", 0.5), asked_benchmark(), out=tmp_path / "run", **how)
    (model,) = read_view({"few": run}).asked
    found = model.questions["keyword", "author-01"]
    assert found.number == 4
    assert 1 <= len(found.queries) <= 2
    assert all(query.leakage.n for query in found.queries)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0"),
        (1.0, "1"),
        (0.0004, "0.00040"),
        (0.9997, "0.99970"),
        (-0.0004, "−0.00040"),
        (-0.25, "−0.25"),
        (0.12345, "0.12"),
        (-17.5, "−17.50"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_ends_are_rounded_outward_and_numbers_agree_with_their_nouns() -> None:
    assert interval(Interval(0.5, 0.4999, 0.5001)) == "0.50 [0.49, 0.51]"
    assert words.above(1e-7) == "1.0e−7"
    assert words.below(0.3) == words.above(0.3) == "0.30"
    assert words.below(-0.00011) == "−0.00011"
    counts = [words.many(n, "draw") for n in (0, 1, 2, 1000)]
    assert counts == ["0 draws", "1 draw", "2 draws", "1,000 draws"]


def test_a_decoding_says_whether_it_truncates_and_a_text_how_much_is_cut() -> None:
    assert words.described(Decoding()) == "T=1, nothing truncated, at most 200 new tokens"
    assert "nothing" not in words.described(Decoding(top_p=0.9))
    assert "nothing" not in words.described(Decoding(top_k=50))
    whole = "x" * words.MOST_CHARACTERS
    assert words.clipped(whole) == whole
    assert words.clipped(whole + "yz") == whole + "… (2 more characters)"
    assert words.clipped("abc", 2) == "ab… (1 more character)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.0019, "0.0019"),
        (1.27e-5, "1.2e−5"),
        (1e-7, "1.0e−7"),
        (9.99e-300, "9.9e−300"),
    ],
)
def test_certain_bounds_are_rounded_down_but_never_away(value: float, text: str) -> None:
    assert words.below(value) == text


def test_how_often_a_text_comes_and_what_is_left_out() -> None:
    text = Text(text="t", count=1200, share=0.125, mass=0.0, logprob=None, scores=())
    assert words.how_often(text) == "1,200 (12.5 %)"
    both = replace(text, mass=0.25)
    assert words.how_often(both) == "mass 0.25, 1,200 (12.5 %)"
    assert words.how_often(replace(both, count=0)) == "mass 0.25"
    texts = Texts(greedy=None, shown=(), left_out=2, left_out_draws=30, left_out_mass=0.0)
    assert words.left_out(texts) == "2 more distinct completions, 30 draws, are not shown."
    assert ", mass 0.12, " in words.left_out(replace(texts, left_out_mass=0.125))
    assert words.left_out(replace(texts, left_out=0)) == ""


def test_what_several_scorers_measure_is_named_once_each() -> None:
    graded, binary = ScorerView("rouge-l-recall", binary=False), ScorerView("contains", binary=True)
    assert words.quantities([graded, binary]) == "mean score or leak probability"
    assert words.quantities([graded, graded]) == "mean score"


def test_an_estimate_outside_its_interval_is_shown_at_its_end() -> None:
    assert interval(Interval(0.0625, 0.137, 0.382)) == "0.14 [0.13, 0.39]"
    assert interval(Interval(0.0, 1e-6, 0.006)) == "1.0e−6 [1.0e−6, 0.0060]"
    assert interval(Interval(None, 0.1, 0.3)) == "– [0.10, 0.30]"


def test_leak_at_k_of_too_few_draws_has_its_bounds_and_the_number_of_groups(tmp_path: Path) -> None:
    ids = ("a", "b", "c", "d")
    task, engine = who(*ids, name="b", scorers=["keyword"]), saying(dict.fromkeys(ids, 0.3))
    run = evaluate(engine, task, n=64, out=tmp_path / "run")
    view = read_view(run)
    shown = summary_grid(view, view.scorers[0])
    row = run.estimates.mean("leak@k", parameter=32)
    assert row.value is None
    (text,) = [r[shown.columns.index("leak@32")] for r in shown.texts if r[0] == "target"]
    assert text == f"{interval(row)}, n/k = 2"
    assert text.startswith("– [")
    rows = run.estimates.where(arm="target", query_id="a", quantity="leak@k", proved=False)
    known = {r.parameter: r.value for r in rows}
    assert {k for k, value in known.items() if value is not None} == {1, 2, 4, 8, 16}
    assert {r.value for r in leakbound.load(run.path).estimates.where(parameter=64.0)} == {None}
    naive = run.estimates.where(arm="target", quantity="worst of k")
    assert max(r.parameter for r in naive if r.parameter) == 16


def test_someone_who_needs_one_try_asks_once(proved: dict[str, Run]) -> None:
    view = read_view(proved)
    said = words.proved(view, view.models[0], view.scorers[0])
    assert "who asks once gets the former" in said
    assert "1 times" not in said


def run_of(out: Path, name: str, *ids: str, word: str = "who") -> Run:
    task, engine = who(*ids, name=name, word=word), saying(dict.fromkeys(ids, 0.5))
    return evaluate(engine, task, out=out, n=4)


def test_questions_that_differ_are_named_by_a_few(tmp_path: Path) -> None:
    many = run_of(tmp_path / "a", "forget10", *(f"many/{i:03d}" for i in range(60)))
    few = run_of(tmp_path / "b", "forget01", "few/0", "few/1")
    with pytest.raises(MixError) as caught:
        read_view({"a": many, "b": few})
    said = str(caught.value)
    assert "run 'b' asked 'forget01' (2 questions), run 'a' 'forget10' (60 questions)" in said
    assert "'few/0', 'few/1' in 'b' alone" in said
    assert "'many/000', 'many/001', 'many/002' and 57 more in 'a' alone" in said
    assert many.record.benchmark.sha256 not in said
    assert len(said) < 500
    one = run_of(tmp_path / "c", "mine", "x")
    two = run_of(tmp_path / "d", "mine", "x", word="where")
    with pytest.raises(MixError, match="the same ids in both, with other texts"):
        read_view({"a": one, "b": two})


def test_another_command_is_told_in_words(tmp_path: Path) -> None:
    ids = [f"q{i}" for i in range(41)]
    run_of(tmp_path / "a", "mine", *ids[:40])
    with pytest.raises(MixError, match=r"prompts: it has 40, this one says 41") as caught:
        run_of(tmp_path / "a", "mine", *ids)
    assert len(str(caught.value)) < 400
    words = (
        r"\(the questions are others: benchmark: sha256: it has '.{12}…', this one says '.{12}…'\)"
    )
    with pytest.raises(MixError, match=words):
        run_of(tmp_path / "a", "mine", *ids[:40], word="where")
