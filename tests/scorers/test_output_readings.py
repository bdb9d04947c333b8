"""Scores of outputs, by default and in the three readings: present, missing or hidden parts.

The larger score of answer and thought counts; a missing answer is not clean.
"""

from __future__ import annotations

from typing import Any

import pytest

from leakbound.errors import InputError
from leakbound.scorers import (
    digest,
    make_scorer,
    readable,
    reading_of,
    reads_thoughts,
    score_outputs,
    score_ranges,
    with_reading,
)
from leakbound.testing import FakeScorer
from leakbound.types import Event, Output, Prompt

PROMPT = Prompt(id="q", question="Who?", answer="Ann Vale", keywords=("Ann",))
READINGS = ("", "of=answer", "of=thought", "of=either")
YES, NO = "It is Ann.", "No idea."
_ = None


def event(answer: str, thought: str | None = None, finish: Any = "stop", **more: Any) -> Event:
    return Event(answer=answer, thought=thought, finish=finish, token_ids=(1, 0), **more)


@pytest.mark.parametrize(
    ("output", "scores"),
    [
        # by default, of the answer, of the thought, of either; None: missing
        (event(YES, ended=True), (1, 1, 0, 1)),
        (event(NO, ended=True), (0, 0, 0, 0)),
        (event(NO, YES, ended=True), (1, 0, 1, 1)),
        (event(YES, NO, ended=True), (1, 1, 0, 1)),
        (event(NO, NO, ended=True), (0, 0, 0, 0)),
        (event(NO, NO, ended=True, refused=True), (0, 0, 0, 0)),
        (event(NO, YES, ended=True, refused=True), (1, 0, 1, 1)),
        # the answer is missing: cut inside the thought, or withheld
        (event("", YES, "length", ended=True), (1, _, 1, 1)),
        (event("", NO, "length", ended=True), (_, _, 0, _)),
        (event(YES, finish="length", ended=True), (1, 1, 0, 1)),
        (event("", ended=True), (0, 0, 0, 0)),  # its ids show that no other token was drawn
        (event(YES, finish="filtered", ended=True), (_, _, 0, _)),
        (event(NO, finish="filtered", ended=True), (_, _, 0, _)),
        (event(YES, YES, "filtered", ended=True), (1, _, 1, 1)),
        # the thought, or a part of it, is hidden
        (event(NO, ended=True, hidden=True), (0, 0, _, _)),
        (event(YES, ended=True, hidden=True), (1, 1, _, 1)),
        (event(NO, YES, ended=True, hidden=True), (1, 0, 1, 1)),
        (event(NO, NO, ended=True, hidden=True), (0, 0, _, _)),
        (event("", finish="filtered", ended=True, hidden=True), (_, _, _, _)),
    ],
)
def test_scores_and_ranges_by_reading(output: Event, scores: tuple[int | None, ...]) -> None:
    for reading, wanted in zip(READINGS, scores, strict=True):
        scorer = make_scorer(f"keyword:{reading}")
        assert score_outputs(scorer, [readable(output)], [PROMPT]) == [wanted], reading
        ends = (0.0, 1.0) if wanted is None else (wanted, wanted)
        assert score_ranges(scorer, [output], PROMPT) == [ends], reading


@pytest.mark.parametrize(
    ("output", "ranges"),
    [
        # by default, of the answer, of the thought, of either
        (event("", ended=False), ((0, 1), (0, 1), (0, 1), (0, 1))),
        (event("It is ", ended=False), ((0, 1), (0, 1), (0, 0), (0, 1))),
        (event("It is Ann. ", ended=False), ((1, 1), (1, 1), (0, 0), (1, 1))),
        (event("", "It is ", ended=False), ((0, 1), (0, 1), (0, 1), (0, 1))),
        (event("", "It is Ann. ", ended=False), ((1, 1), (0, 1), (1, 1), (1, 1))),
        (event("No ", "No ", ended=False), ((0, 1), (0, 1), (0, 0), (0, 1))),  # complete
        (event("No ", ended=False), ((0, 1), (0, 1), (0, 0), (0, 1))),  # without an answer
        (event("It is Ann. ", "No ", ended=False), ((1, 1), (1, 1), (0, 0), (1, 1))),
        (event("No. ", "It is Ann. ", ended=False), ((1, 1), (0, 1), (1, 1), (1, 1))),
    ],
)
def test_a_thought_is_complete_once_the_answer_begins(
    output: Event, ranges: tuple[tuple[int, int], ...]
) -> None:
    for reading, ends in zip(READINGS, ranges, strict=True):
        assert score_ranges(make_scorer(f"keyword:{reading}"), [output], PROMPT) == [ends]


def test_a_complete_thought_narrows_the_range_of_a_graded_scorer() -> None:
    """By default it raises the lower bound only once the answer has begun."""
    outputs = [event("", "It is Ann ", ended=False), event("No ", "It is Ann ", ended=False)]
    of_thought, either = make_scorer("rouge-l-recall:of=thought"), make_scorer("rouge-l-recall")
    assert score_ranges(of_thought, outputs, PROMPT) == [(0.5, 1.0), (0.5, 0.5)]
    assert score_ranges(either, outputs, PROMPT) == [(0.0, 1.0), (0.5, 1.0)]


def test_a_beginning_that_no_answer_can_leave_stays_open_until_the_answer_has_begun() -> None:
    begun = [event("Xyz ", ended=False), event("", ended=False)]
    assert score_ranges(make_scorer("exact"), begun, PROMPT) == [(0.0, 0.0), (0.0, 1.0)]


def test_an_undecided_text_leaves_an_output_without_a_score_unless_another_is_a_full_leak() -> None:
    texts = [("ab", "abcd"), ("a?", "abcd"), ("abcd", "a?"), ("a?", "abcdefghij")]
    outputs = [readable(Output(answer=a, thought=t, finish="stop")) for a, t in texts]
    scorer = FakeScorer({"ab": 0.2, "abcd": 0.4, "a?": None, "abcdefghij": 1.0})
    assert score_outputs(scorer, outputs, [PROMPT] * 4) == [0.4, None, None, 1.0]
    unexplained = readable(Output(answer="", finish="unknown"))
    assert score_outputs(make_scorer("keyword"), [unexplained], [PROMPT]) == [None]


@pytest.mark.parametrize(
    "spec",
    [
        "keyword:of=thought",
        "keyword:require=all,of=answer",
        "rouge-l-recall:of=either>=0.5",
        "judge:model=m,of=thought",
    ],
)
def test_a_reading_is_part_of_a_scorer_s_name(spec: str) -> None:
    scorer = make_scorer(spec)
    assert scorer.name == spec
    assert make_scorer(spec) == scorer
    plain = with_reading(scorer, None)
    assert "of=" not in plain.name
    assert reading_of(plain) is None
    assert digest(plain) != digest(scorer)
    assert with_reading(plain, reading_of(scorer)) == scorer


@pytest.mark.parametrize(
    "spec", ["choice", "refusal", "exact", "edit:within=1", "hamming:within=1", "logged:by=x",
             "classifier:model=m"]
)  # fmt: skip
def test_scorers_that_read_answers_only_take_no_other_part(spec: str) -> None:
    joined = f"{spec}{',' if ':' in spec else ':'}of="
    assert make_scorer(f"{joined}answer") == make_scorer(spec)
    for of in ("thought", "either"):
        with pytest.raises(InputError, match=f"scores answers only and has no setting `of={of}`"):
            make_scorer(f"{joined}{of}")
        with pytest.raises(InputError, match="scores answers only"):
            with_reading(make_scorer(f"{joined}answer>=1"), of)
    assert not reads_thoughts(make_scorer(f"{spec}>=1"))


@pytest.mark.parametrize("spec", ["exact", "edit<=1", "hamming<=1", "refusal"])
def test_a_thought_is_no_leak_to_a_scorer_of_answers(spec: str) -> None:
    clean = Output(answer="Sorry, I cannot help.", thought="Ann Vale", finish="stop")
    assert score_outputs(make_scorer(spec), [readable(clean)], [PROMPT]) == [0.0]
    assert reads_thoughts(make_scorer("rouge-l-recall>=0.5"))
