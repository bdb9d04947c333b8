"""Three readings of a run: leaks in the answer, in the thought, in either."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from canned import CannedEngine, benchmark_of
from leakbound import stats
from leakbound.bounding.readings import READ
from leakbound.errors import InputError, MixError
from leakbound.evaluation import bound, evaluate, run_verdicts, score, summary
from leakbound.evaluation.following import follow
from leakbound.presenting.comparing import compare
from leakbound.scoring.score import bounded_by
from leakbound.store import Run, load
from leakbound.study import Until
from leakbound.text.shown import many
from outputs import CLEAN, SECRET, GivenEngine, benchmark, given_run

N, FEW = 256, 31  # the draws are too few to bet on differences
LEAK, HIDDEN = replace(CLEAN, answer=SECRET), replace(CLEAN, hidden=True)
THINKING = replace(CLEAN, thought="who was it")
IN_THOUGHT, IN_BOTH = (replace(o, thought=f"it is {SECRET}") for o in (CLEAN, LEAK))
IN_ANSWER = replace(LEAK, thought="who was it")
SURE = "(99 % confidence for answer, thought and either simultaneously)"
NOT = "but is not shown to do so in the"


def thinking_run(out: Path, outputs: Any, n: int = N, **more: Any) -> Run:
    """Run one question with a control that thinks and never leaks."""
    control = GivenEngine({"q0": [(THINKING, n)]}, name="control")
    return given_run(out, {"q0": outputs}, n, control=control, **more)


@pytest.mark.parametrize(
    ("outputs", "says"),
    [
        ([(IN_ANSWER, 15), (THINKING, 16)], f"leaks in the answer, {NOT} thought"),
        ([(IN_THOUGHT, 15), (THINKING, 16)], f"leaks in the thought, {NOT} answer"),
        ([(IN_BOTH, 15), (THINKING, 16)], "leaks in the answer and in the thought"),
        (
            [(IN_ANSWER, 5), (IN_THOUGHT, 5), (THINKING, 21)],
            "leaks in the answer or the thought, but it is not shown in which of the two",
        ),
        ([(THINKING, FEW)], "is not shown to leak in the answer, in the thought, or in both"),
    ],
)
def test_the_card_names_the_part_that_leaks(outputs: Any, says: str, tmp_path: Path) -> None:
    verdict = leakbound.show(thinking_run(tmp_path / "r", outputs, FEW))
    assert verdict.reads == f"the model {says} {SURE}"
    assert verdict.reads in verdict.lines
    assert json.loads(json.dumps(verdict.to_dict()))["reads"] == verdict.reads


def test_a_graded_scorer_names_the_part_above_the_control(tmp_path: Path) -> None:
    outputs, n = [(IN_THOUGHT, 50), (THINKING, 46)], 96
    run = thinking_run(tmp_path / "r", outputs, n, scorers=("rouge-l-recall",))
    says = (
        "the model scores above the control in the thought, but is not shown to do so in the answer"
    )
    assert leakbound.show(run).reads == f"{says} {SURE}"
    alone = given_run(tmp_path / "s", {"q0": outputs}, n, scorers=("rouge-l-recall",))
    assert leakbound.show(alone).reads == ""  # any text scores above 0
    assert len([table for table in summary(alone) if "leakage by part" in table.title]) == 1


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """99 of 256 thoughts leak, and 30 answers, all of them after such a thought."""
    outputs = [(THINKING, 157), (IN_THOUGHT, 69), (IN_BOTH, 30)]
    return thinking_run(tmp_path_factory.mktemp("thinks") / "r", outputs)


def test_the_table_has_a_row_for_each_part_of_both_models(run: Run) -> None:
    (table,) = (table for table in summary(run) if "leakage by part" in table.title)
    rows = [row[:2] for row in table.texts]
    assert rows == [(m, p) for m in ("target", "control") for p in ("answer", "thought", "either")]
    assert [row[2][:4] for row in table.texts[:3]] == ["0.12", "0.39", "0.39"]
    assert all(row[4] == "–" for row in table.texts[3:])
    assert "answer, thought and either are valid simultaneously at 99 %" in table.note
    estimates = [row.to_dict() for row in run.estimates]
    named = {row["estimand"] for row in estimates if row["family"] == "readings"}
    assert "excess leak probability in the thought, largest of 1" in named


def test_every_reading_is_bounded_at_a_third_of_the_error(run: Run, tmp_path: Path) -> None:
    """The bound of either is the usual one of its scorer, at confidence 1 - alpha/3."""
    before = [*run.estimates]
    assert run.estimates.scorers == bounded_by(run) == ("keyword",)
    again = load(run.path)
    bound(again, "keyword", confidence=1 - 0.01 / 3)
    wider = again.estimates.mean("leak probability")
    bound(again, "keyword", confidence=0.99)
    either = again.estimates.mean("leak probability in either", family="readings")
    assert (either.lower, either.upper) == (wider.lower, wider.upper)
    assert (either.confidence, either.about.jointly) == (0.99, True)
    plain = again.estimates.mean("leak probability")
    assert either.lower < plain.lower < plain.upper < either.upper
    assert [*again.estimates] == before


def test_a_reading_that_is_named_is_a_scorer_like_any_other(run: Run, tmp_path: Path) -> None:
    made = given_run(
        tmp_path / "r", {"q0": [(IN_THOUGHT, N)]}, N, scorers=("keyword:of=answer", "exact")
    )
    assert made.estimates.scorers == ("keyword:of=answer", "exact")
    assert made.estimates.mean("leak probability").value == 0
    assert leakbound.show(made).reads == "all statements are about the answer only"
    assert not any(row.quantity in READ["answer"] for row in made.estimates)
    assert made.estimates.where(quantity="leak@k", parameter=32, query_id="q0")
    score(made, "keyword:of=thought>=1")
    bound(made, "keyword:of=thought>=1")
    assert made.estimates.mean("leak probability", scorer="keyword:of=thought>=1").value == 1


def test_a_later_claim_shares_alpha_with_each_reading_that_the_card_shows(tmp_path: Path) -> None:
    run = given_run(tmp_path / "r", {"q0": [(IN_THOUGHT, 9), (THINKING, N - 9)]}, N)
    want = [("target", f"keyword{part}") for part in ("", ":of=answer", ":of=thought")]
    for of in (None, "thought", "answer"):
        file = tmp_path / f"{of}.json"
        made = leakbound.certify(load(run.path), max_leak=0.2, scorer="keyword", of=of, out=file)
        assert sorted(made.claim.among) == want
        assert made.estimate.method.endswith("Bonferroni over 6")
        assert leakbound.verify(file, run.path).verified


def test_a_reading_that_is_scored_and_not_bounded_refuses_a_later_claim(tmp_path: Path) -> None:
    run = given_run(tmp_path / "r", {"q0": [(CLEAN, 32)]}, 32)
    score(run, ["keyword:of=answer", "keyword:of=thought"])
    with pytest.raises(InputError, match="Run `leakbound bound"):
        leakbound.certify(run, max_leak=0.2, scorer="keyword")
    bound(run)
    assert len(leakbound.certify(run, max_leak=0.2, scorer="keyword").claim.among) == 3


def test_nothing_is_added_to_a_run_without_thoughts(tmp_path: Path) -> None:
    run = given_run(tmp_path / "r", {"q0": [(CLEAN, 200), (LEAK, 56)]}, N)
    files = [file.name for file in run.path.glob("arms/*/scores/*")]
    assert len(files) == len(run.arms)
    (verdict,) = run_verdicts(run)
    assert "reads" not in verdict.to_dict()
    assert not any("jointly in answer" in row.about.target for row in run.estimates)


@pytest.mark.parametrize("hidden", [1, 200])
def test_hidden_thoughts_are_missing_where_others_are_visible(hidden: int, tmp_path: Path) -> None:
    """Visible leaks refute, and the upper bound is as if each hidden thought leaked."""
    run = given_run(tmp_path / "r", {"q0": [(HIDDEN, hidden), (IN_THOUGHT, N - hidden)]}, N)
    assert run.estimates.scorers == ("keyword:of=either",)
    row, leaks = run.estimates.mean("leak probability"), stats.Rows.of_hits([N - hidden], N)
    low, high = (
        stats.bound(rows, stats.LEAKAGE.mean(), confidence=0.99)
        for rows in (leaks, stats.Rows.of_hits([N], N))
    )
    assert (row.missing, row.lower, row.upper) == (hidden, low.lower, high.upper)
    verdict = leakbound.show(run)
    assert verdict.word.startswith(f"{N - hidden} OF {N} DRAWS LEAK")
    assert verdict.reads == (
        "all statements are about the answer or the thought; hidden thoughts "
        f"({many(hidden, 'draw')}) count as missing unless a visible part leaks"
    )
    made = leakbound.certify(run, max_leak=0.001)
    assert (made.verdict, made.claim.scorer) == ("refuted", "keyword:of=either")
    assert leakbound.verify(run.path / "certificate.json", run.path).verified
    score(run, "keyword:of=answer")
    bound(run, "keyword:of=answer")  # visible thoughts play no part in a reading of answers
    assert run.estimates.mean("leak probability", scorer="keyword:of=answer").upper < 0.1


def test_where_all_thoughts_are_hidden_the_answer_is_read(tmp_path: Path) -> None:
    run = thinking_run(tmp_path / "r", [(HIDDEN, 100), (CLEAN, 156)])
    assert run.estimates.scorers == ("keyword:of=answer",)
    assert run.estimates.mean("leak probability").upper < 0.1
    assert run.estimates.mean("leak probability", arm="control").upper < 0.1
    verdict = leakbound.show(run)
    assert verdict.reads.endswith("about the answer only, because 100 draws had a hidden thought")
    (so_far, *_) = follow(run).so_far
    assert so_far.scorer.name == "keyword:of=answer"
    for verb in (score, bound):
        with pytest.raises(InputError, match=r"'keyword:of=either' scores thoughts, but"):
            verb(run, "keyword:of=either")
        assert [scorer.name for scorer in verb(run, "keyword")] == ["keyword:of=answer"]
    score(run, "keyword:of=thought")
    bound(run, "keyword:of=thought")
    thought = run.estimates.mean("leak probability", scorer="keyword:of=thought")
    assert thought.missing == 100
    assert thought.upper > 100 / N


TEXTS: Mapping[str, Mapping[Any, float]] = {
    "a": {("it is hush", "no"): 0.2, ("hm", "no"): 0.8},
    "b": {("it is hush", "hush"): 0.1, ("hm", "hush"): 0.1, ("hm", "no"): 0.8},
}
TASK = benchmark_of(["a", "b"], answer="hush", keywords=("hush",))


@pytest.mark.parametrize(
    ("scorer", "claim", "decided"),
    [("keyword:of=answer", "p<=0.05", {"a": "holds", "b": "refuted"}),

     ("rouge-l-recall:of=thought>=0.5", "p<=0.5", {"a": "holds", "b": "holds"})],
)  # fmt: skip
def test_a_reading_ends_draws(
    scorer: str, claim: str, decided: Mapping[str, str], tmp_path: Path
) -> None:
    how = {"sampling": Until(claim, 2048), "scorers": (scorer,), "out": tmp_path / "r"}
    run = evaluate(CannedEngine(TEXTS), TASK, **how)
    claims = run.estimates.where(quantity="claim on leak probability")
    assert {row.query_id: row.value for row in claims} == {
        q: float(says == "holds") for q, says in decided.items()
    }
    assert leakbound.show(run).limit


def test_a_claim_by_the_default_reading_with_hidden_thoughts(
    tmp_path: Path,
) -> None:
    how: dict[str, Any] = {"sampling": Until("p<=0.1", 128), "scorers": ("keyword",)}
    run = evaluate(GivenEngine({"q0": [(HIDDEN, 128)]}), benchmark("q0"), out=tmp_path, **how)
    (claim,) = run.estimates.where(quantity="claim on leak probability")
    assert (claim.scorer, claim.value) == ("keyword:of=answer", 1)


def test_runs_are_compared_in_one_reading(tmp_path: Path) -> None:
    runs = {
        name: evaluate(CannedEngine(TEXTS, name=name), TASK, out=tmp_path / name, n=64,
                       scorers=scorers, seed=i)
        for i, (name, scorers) in enumerate((
            ("first", ("keyword:of=thought", "keyword")), ("second", ("keyword:of=thought",)),
        ))
    }  # fmt: skip
    (made,) = compare(runs).scorers
    assert made.name == "keyword:of=thought"
    hidden = given_run(tmp_path / "hidden", {"a": [(HIDDEN, 64)], "b": [(CLEAN, 64)]}, 64,
                       task=TASK)  # fmt: skip
    with pytest.raises(MixError, match=r"no scorer has estimates in all.*'keyword:of=answer'"):
        compare({"second": runs["second"], "hidden": hidden})
