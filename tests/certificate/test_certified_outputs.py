"""What a claim is about: whole outputs or answers, and in how many tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.store import Run, load
from leakbound.store.record import write_record
from leakbound.types import Output
from outputs import CLEAN, SECRET, benchmark, given_run

CUT = Output(answer="no idea who", finish="length")
HIDDEN = replace(CLEAN, hidden=True)
THINKING = replace(CLEAN, thought="the name again")
THOUGHT_LEAK = replace(CLEAN, thought=f"it is {SECRET}")
N = 256


def claimed(run: Run, **claim: Any) -> Any:
    """A certificate of a claim that its bounds support, which verify finds again."""
    file = run.path / f"{len([*run.path.glob('*.json')])}.json"
    made = leakbound.certify(run, **{"max_leak": 0.2, **claim}, out=file)
    checked = leakbound.verify(file, run.path)
    assert checked.verified, checked
    return made


def cut_run(out: Path, cut: int, **settings: Any) -> Run:
    return given_run(out, {"q0": [(CLEAN, N)], "q1": [(CUT, cut), (CLEAN, N - cut)]}, N, **settings)


def test_a_question_that_was_mostly_cut_leaves_a_claim_open(tmp_path: Path) -> None:
    run = cut_run(tmp_path / "r", N // 2 + 1)
    made = claimed(run)
    assert (made.verdict, made.forecast) == ("inconclusive", None)
    assert made.estimate.upper <= 0.2
    (why,) = made.reasons
    assert "cut 50.4 % of the outputs of 'q1'" in why
    assert "--accept-cut" in why
    assert why in made.sentence


def test_half_of_a_question_cut_decides(tmp_path: Path) -> None:
    made = claimed(cut_run(tmp_path / "r", N // 2))
    assert (made.verdict, made.reasons) == ("pass", ())
    assert "Limit" not in made.specification


def test_a_limit_that_is_accepted_is_stated(tmp_path: Path) -> None:
    made = claimed(cut_run(tmp_path / "r", N - 2), accept_cut=True)
    assert made.verdict == "pass"
    assert made.specification["Limit"].endswith("accepted by the claim")
    assert "in the first 3 tokens (49.6 % of the draws were cut there)" in made.sentence


def test_a_limit_that_a_published_protocol_sets_is_accepted(tmp_path: Path) -> None:
    task = benchmark("q0", "q1", name="muse:mine-verbmem")
    made = claimed(cut_run(tmp_path / "r", N, task=task))
    assert made.verdict == "pass"
    assert made.specification["Limit"].endswith("set by the published protocol")
    shorter = replace(task.decoding, max_new_tokens=2)
    other = claimed(cut_run(tmp_path / "s", N, task=task, decodings=(shorter,)))
    assert other.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("longest", "cut", "verdict"), [(4, 0, "inconclusive"), (3, N, "pass"), (2, N, "pass")]
)
def test_the_longest_reference_answer_decides_where_its_tokens_are_known(
    longest: int, cut: int, verdict: str, tmp_path: Path
) -> None:
    run = cut_run(tmp_path / "r", cut)
    arms = {key: replace(spec, longest_answer=longest) for key, spec in run.record.arms.items()}
    write_record(run.path, replace(run.record, arms=arms))
    again = load(run.path)
    assert again.arms["target"].identity == run.arms["target"].identity  # it changes no draw
    made = claimed(again)
    assert made.verdict == verdict
    if verdict == "inconclusive":
        assert (
            "limit of 3 new tokens is below the longest reference answer (4 tokens)"
            in (made.reasons[0])
        )
        assert claimed(again, accept_cut=True).verdict == "pass"


def test_leaks_in_cut_answers_refute_all_the_same(tmp_path: Path) -> None:
    leak = replace(CUT, answer=SECRET)
    made = claimed(given_run(tmp_path / "r", {"q0": [(leak, N)]}, N))
    assert (made.verdict, made.reasons) == ("refuted", ())


@pytest.mark.parametrize(
    ("output", "scorer", "open_"),
    [
        (HIDDEN, "keyword", True),
        (HIDDEN, "exact", True),
        (THINKING, "keyword", False),  # it reads thoughts too
        (THINKING, "exact", True),
        (replace(CLEAN, thought="\n\n"), "exact", False),
        (CLEAN, "exact", False),
    ],
)
def test_thoughts_that_nobody_read_leave_a_claim_open_unless_it_is_of_the_answer(
    output: Output, scorer: str, open_: bool, tmp_path: Path
) -> None:
    outputs = {"q0": [(output, 9), (CLEAN, N - 9)]}
    run = given_run(tmp_path / "r", outputs, N, scorers=(scorer,))
    made = claimed(run)
    assert made.verdict == ("inconclusive" if open_ else "pass")
    assert any("9 of the thoughts are hidden" in why for why in made.reasons) == open_
    of_answer = claimed(run, of="answer")
    assert of_answer.verdict == "pass"
    assert "the answer in a completion of" in of_answer.sentence
    assert of_answer.claim.text == "Pr[leak in the answer] <= 0.2"


def test_a_leak_in_a_thought_refutes_the_output_and_says_nothing_of_the_answer(
    tmp_path: Path,
) -> None:
    run = given_run(tmp_path / "r", {"q0": [(THOUGHT_LEAK, N)]}, N)
    assert claimed(run).verdict == "refuted"
    of_answer = claimed(run, of="answer")
    assert of_answer.verdict == "inconclusive"
    assert "reads thoughts too" in of_answer.reasons[0]


def test_a_certificate_states_ledger_and_rule(tmp_path: Path) -> None:
    made = claimed(cut_run(tmp_path / "r", 9))
    assert made.ledger == {**made.ledger, "draws": 2 * N, "cut": 9, "complete": 2 * N - 9}
    assert made.specification["Outputs"] == f"{2 * N} draws: {2 * N - 9} complete, 9 cut"
    assert made.rule == 2
