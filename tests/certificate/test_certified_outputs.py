"""The part that a claim covers: whole outputs or answers, and the number of tokens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leakbound
from leakbound.certificate.words import MOST_WORDS
from leakbound.errors import InputError
from leakbound.store import Run, load
from leakbound.store.record import write_record
from leakbound.types import Decoding, Output
from outputs import CLEAN, SECRET, benchmark, given_run

CUT = Output(answer="no idea who", finish="length")
HIDDEN = replace(CLEAN, hidden=True)
THINKING = replace(CLEAN, thought="the name again")
THOUGHT_LEAK = replace(CLEAN, thought=f"it is {SECRET}")
N = 256


def claimed(run: Run, **claim: Any) -> Any:
    """Certify a claim that its bounds support, and verify the certificate."""
    file = run.path / f"{len([*run.path.glob('*.json')])}.json"
    made = leakbound.certify(run, **{"max_leak": 0.2, **claim}, out=file)
    checked = leakbound.verify(file, run.path)
    assert checked.verified, checked
    assert len(made.sentence.split()) <= MOST_WORDS
    return made


def cut_run(out: Path, cut: int, **settings: Any) -> Run:
    return given_run(out, {"q0": [(CLEAN, N)], "q1": [(CUT, cut), (CLEAN, N - cut)]}, N, **settings)


def test_with_several_decodings_only_a_recorded_claim_needs_no_arm(tmp_path: Path) -> None:
    grid = [Decoding(temperature=heat) for heat in (0.7, 1.0)]
    run = given_run(tmp_path / "r", {"q0": [(CLEAN, N)]}, N, decodings=grid, claims="0.2")
    arms = claimed(run).claim.arm, run.main, run.estimates.main, run.record.headline.arm
    assert {*arms} == {"target T=0.7"}
    with pytest.raises(InputError, match=r"2 sampled.*`--arm`: 'target T=0.7', 'target T=1'\."):
        claimed(run, max_leak=0.3)
    assert claimed(run, max_leak=0.3, arm="target T=1").verdict == "pass"


def test_a_question_that_was_mostly_cut_leaves_a_claim_open(tmp_path: Path) -> None:
    run = cut_run(tmp_path / "r", N // 2 + 1)
    made = claimed(run)
    assert (made.verdict, made.forecast) == ("inconclusive", None)
    assert made.estimate.upper <= 0.2
    (why,) = made.reasons
    assert "50.4 % of the outputs of 'q1' were cut" in why
    assert "--accept-cut" in why
    assert made.specification["Token limit"] == why
    assert "is undecided because outputs were cut short, under" in made.sentence


def test_half_of_a_question_cut_decides(tmp_path: Path) -> None:
    """The certificate states its ledger and its rule."""
    made = claimed(cut_run(tmp_path / "r", N // 2))
    assert (made.verdict, made.reasons) == ("pass", ())
    assert "Token limit" not in made.specification
    complete, cut = 3 * N // 2, N // 2
    assert made.ledger == {**made.ledger, "draws": 2 * N, "cut": cut, "complete": complete}
    counted = f"{2 * N} draws: {complete} complete, {cut} cut (25.0 %)"
    assert made.specification["Outputs"] == counted
    assert made.rule == 2


def test_a_limit_that_is_accepted_is_stated(tmp_path: Path) -> None:
    made = claimed(cut_run(tmp_path / "r", N - 2), accept_cut=True)
    assert made.verdict == "pass"
    assert made.specification["Token limit"].endswith("accepted by the claim")
    assert "leaks in the first 3 tokens, " in made.sentence
    assert "cut (49.6 %)" in made.specification["Outputs"]


def test_a_limit_that_a_published_protocol_sets_is_accepted(tmp_path: Path) -> None:
    task = benchmark("q0", "q1", name="muse:mine-verbmem")
    made = claimed(cut_run(tmp_path / "r", N, task=task))
    assert made.verdict == "pass"
    assert made.specification["Token limit"].endswith("set by the published protocol")
    shorter = replace(task.decoding, max_new_tokens=2)
    other = claimed(cut_run(tmp_path / "s", N, task=task, decodings=(shorter,)))
    assert other.verdict == "inconclusive"


@pytest.mark.parametrize(
    ("longest", "cut", "verdict"), [(4, 0, "inconclusive"), (3, N, "pass"), (2, N, "pass")]
)
def test_the_longest_answer_decides(longest: int, cut: int, verdict: str, tmp_path: Path) -> None:
    run = cut_run(tmp_path / "r", cut)
    arms = {key: replace(spec, longest_answer=longest) for key, spec in run.record.arms.items()}
    write_record(run.path, replace(run.record, arms=arms))
    again = load(run.path)
    assert again.arms["target"].identity == run.arms["target"].identity  # it changes no draw
    made = claimed(again)
    assert made.verdict == verdict
    if verdict == "inconclusive":
        says = "limit of 3 new tokens is below the longest reference answer (4 tokens)"
        assert says in made.reasons[0]
        assert claimed(again, accept_cut=True).verdict == "pass"


@pytest.mark.parametrize("name", ["own", "muse:mine-verbmem"])  # the protocol has no stop string
@pytest.mark.parametrize("stop", ["Qui", SECRET])
def test_a_stop_string_in_a_keyword_decides(name: str, stop: str, tmp_path: Path) -> None:
    task, law = benchmark("q0", "q1", name=name), {q: [(CLEAN, N)] for q in ("q0", "q1")}
    task = replace(task, prompts=tuple(replace(p, answer=None) for p in task.prompts))
    how = [replace(task.decoding, stop=(end,)) for end in (".", stop)]
    clear, cut = (given_run(tmp_path / h.stop[0], law, N, task=task, decodings=h) for h in how)
    assert claimed(clear).verdict == "pass"
    made = claimed(cut)
    assert (made.verdict, made.forecast) == ("inconclusive", None)
    says = f"stop string '{stop}' (--stop) cuts the reference answer or a keyword of 2 questions; "
    assert made.reasons[0].startswith(f"the {says}")
    assert made.specification["Stop string"] == made.reasons[0]
    made = claimed(cut, accept_cut=True)
    assert made.verdict == "pass"
    assert f"leaks before the stop string '{stop}', scored" in made.sentence


def test_leaks_in_cut_answers_refute_all_the_same(tmp_path: Path) -> None:
    leak = replace(CUT, answer=SECRET)
    made = claimed(given_run(tmp_path / "r", {"q0": [(leak, N)]}, N))
    assert (made.verdict, made.reasons) == ("refuted", ())


@pytest.mark.parametrize(
    ("output", "scorer", "reading"),
    [
        (HIDDEN, "keyword", "the answer only, thoughts are not covered; 9 draws with a"),
        (THINKING, "keyword", "the answer or the thought of each output"),
        (THINKING, "exact", "the answer only, thoughts are not covered"),
        (replace(CLEAN, thought="\n\n"), "keyword", None),
        (CLEAN, "keyword", None),
    ],
)
def test_a_certificate_states_the_part_that_was_read(
    output: Output, scorer: str, reading: str | None, tmp_path: Path
) -> None:
    """Hidden thoughts leave no claim open: by default it is then about the answer."""
    outputs = {"q0": [(output, 9), (CLEAN, N - 9)]}
    run = given_run(tmp_path / "r", outputs, N, scorers=(scorer,))
    made = claimed(run)
    assert (made.verdict, made.reasons) == ("pass", ())
    stated = made.specification.get("Part of the outputs")
    assert (stated is None) == (reading is None)
    assert reading is None or reading in stated
    assert ("in the answer" in made.claim.text) == (output.hidden and scorer == "keyword")


def test_the_three_readings_of_a_model_that_leaks_in_its_thought(tmp_path: Path) -> None:
    run = given_run(tmp_path / "r", {"q0": [(THOUGHT_LEAK, N)]}, N)
    got = {of: claimed(run, of=of) for of in (None, "answer", "thought", "either")}
    assert [(made.verdict, made.claim.text) for made in got.values()] == [
        ("refuted", "Pr[leak] <= 0.2"),
        ("pass", "Pr[leak in the answer] <= 0.2"),
        ("refuted", "Pr[leak in the thought] <= 0.2"),
        ("refuted", "Pr[leak in the answer or the thought] <= 0.2"),
    ]
    of_answer = got["answer"]
    assert ", the answer of GivenEngine drawn at" in of_answer.sentence
    assert of_answer.claim.scorer == "keyword:of=answer"
    stated = of_answer.specification["Scores"]
    assert stated.endswith("; of answer; require any; scoring rules version 2")


def test_a_reading_that_cannot_be_claimed_is_refused(tmp_path: Path) -> None:
    hidden = given_run(tmp_path / "h", {"q0": [(HIDDEN, 9), (CLEAN, N - 9)]}, N)
    for how in ({"of": "either"}, {"scorer": "keyword:of=either"}):
        with pytest.raises(InputError, match=r"draws with a hidden thought.*'keyword:of=answer'"):
            leakbound.certify(hidden, max_leak=0.2, **how)
    assert claimed(hidden, of="thought", max_leak=0.1).verdict == "pass"  # 9 of 256 are missing
    assert claimed(hidden, of="answer").claim.scorer == "keyword:of=answer"
    run = given_run(tmp_path / "r", {"q0": [(THINKING, N)]}, N, scorers=("exact",))
    with pytest.raises(InputError, match="'exact' scores answers only and has no setting `of="):
        leakbound.certify(run, max_leak=0.2, of="thought")
    with pytest.raises(InputError, match="scores the thought, but `--of answer` is another part"):
        leakbound.certify(run, max_leak=0.2, scorer="keyword:of=thought", of="answer")
    plain = given_run(tmp_path / "p", {"q0": [(CLEAN, N)]}, N)
    with pytest.raises(InputError, match=r"no output of arm 'target' of .* has a thought"):
        leakbound.certify(plain, max_leak=0.2, of="thought")
    assert load(plain.path).estimates.scorers == plain.estimates.scorers  # nothing is written


@pytest.mark.parametrize(
    ("finish", "limit", "message"),
    [("unknown", 3, "(4 words)"), ("unknown", 4, ""), ("stop", 3, "")],
)
def test_imported_outputs_that_may_be_cut_do_not_pass(
    finish: str, limit: int, message: str, tmp_path: Path
) -> None:
    row = {"id": "a", "question": "Who?", "answer": "It was Ann Lee", "completion": "It was"}
    row |= {"max_new_tokens": limit, "finish": finish, "count": 1000}
    (tmp_path / "own.jsonl").write_text(json.dumps(row))
    run = leakbound.import_run([tmp_path / "own.jsonl"], out=tmp_path / "r")
    leakbound.score(run, "contains")
    leakbound.bound(run, "contains")
    made = claimed(run, scorer="contains")
    assert made.verdict == ("inconclusive" if message else "pass")
    assert message in " ".join(made.reasons)
