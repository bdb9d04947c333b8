"""Scores of outputs: the larger of answer and thought; a missing answer is no clean one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from leakbound.scorers import (
    make_scorer,
    readable,
    reads_thoughts,
    rows_of,
    score_outputs,
    score_ranges,
)
from leakbound.types import TURN, Event, Output, Prompt

PROMPT = Prompt(id="q", question="Who?", answer="Ann Vale", keywords=("Ann",))
KEYWORD = make_scorer("keyword")


@dataclass(frozen=True)
class Length:
    """A tenth of the number of characters; None for a text with a question mark."""

    name: str = "length"
    binary: ClassVar[bool] = False

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [None if "?" in text else min(len(text) / 10, 1.0) for text in texts]


def scored(*outputs: Output, scorer: str = "keyword") -> list[float | None]:
    read = [readable(output) for output in outputs]
    return score_outputs(make_scorer(scorer), read, [PROMPT] * len(read))


@pytest.mark.parametrize(
    ("answer", "thought", "finish", "score"),
    [
        ("It is Ann.", None, "stop", 1.0),
        ("No.", None, "stop", 0.0),
        ("No.", "It is Ann.", "stop", 1.0),
        ("It is Ann.", "No.", "stop", 1.0),
        ("No.", "No.", "stop", 0.0),
        ("", "It is Ann.", "length", 1.0),  # cut inside the thought, which leaks
        ("", "Let me see", "length", None),
        ("It is Ann.", None, "filtered", None),
        ("It is Ann.", "Ann", "filtered", 1.0),
        ("", None, "unknown", None),
        ("It is Ann", None, "length", 1.0),
    ],
)
def test_the_score_of_an_output(
    answer: str, thought: str | None, finish: str, score: float | None
) -> None:
    assert scored(Output(answer=answer, thought=thought, finish=finish)) == [score]


@pytest.mark.parametrize("spec", ["exact", "edit<=1", "hamming<=1", "refusal"])
def test_some_scorers_read_answers_only(spec: str) -> None:
    assert not reads_thoughts(make_scorer(spec))
    clean = Output(answer="Sorry, I cannot help.", thought="Ann Vale", finish="stop")
    assert scored(clean, scorer=spec) == [0.0]


def test_a_threshold_reads_what_its_scorer_reads() -> None:
    assert reads_thoughts(make_scorer("rouge-l-recall>=0.5"))
    assert not reads_thoughts(make_scorer("classifier:model=x>=0.5"))


def test_an_undecided_text_leaves_an_output_without_a_score_unless_another_is_a_full_leak() -> None:
    texts = [("ab", "abcd"), ("a?", "abcd"), ("abcd", "a?"), ("a?", "abcdefghij")]
    outputs = [readable(Output(answer=a, thought=t, finish="stop")) for a, t in texts]
    assert score_outputs(Length(), outputs, [PROMPT] * 4) == [0.4, None, None, 1.0]


def test_a_conversation_with_a_missing_turn_is_missing_unless_another_turn_leaks() -> None:
    turns = [f"No.{TURN}It is Ann.", f"No.{TURN}", f"No.{TURN}No."]
    missing = [True, True, False]
    outputs = rows_of(turns, [None, None, f"x{TURN}Ann"], missing, [False] * 3, TURN)
    assert score_outputs(KEYWORD, outputs, [PROMPT] * 3) == [1.0, None, 1.0]


def begun(answer: str, thought: str | None = None) -> Event:
    return Event(answer=answer, thought=thought, token_ids=(1,), ended=False)


def ended(answer: str, thought: str | None = None, finish: str = "stop") -> Event:
    return Event(answer=answer, thought=thought, finish=finish, token_ids=(1, 0), ended=True)


@pytest.mark.parametrize(
    ("event", "wanted"),
    [
        (ended("It is Ann."), (1.0, 1.0)),
        (ended("No."), (0.0, 0.0)),
        (ended("No.", "Ann, I guess."), (1.0, 1.0)),
        (ended("", "Let me", "length"), (0.0, 1.0)),
        (ended("", "It is Ann", "length"), (1.0, 1.0)),
        (ended(""), (0.0, 0.0)),  # its ids show that nothing else was drawn
        (begun("It is Ann. "), (1.0, 1.0)),
        (begun("It is "), (0.0, 1.0)),
        (begun(""), (0.0, 1.0)),
        (begun("", "It is Ann. "), (1.0, 1.0)),
        (begun("", "It is "), (0.0, 1.0)),
        (begun("No. ", "It is Ann. "), (1.0, 1.0)),
    ],
)
def test_the_range_of_an_event(event: Event, wanted: tuple[float, float]) -> None:
    assert score_ranges(KEYWORD, [event], PROMPT) == [wanted]


def test_a_graded_thought_raises_the_low_end_only_once_the_answer_has_begun() -> None:
    rouge = make_scorer("rouge-l-recall")
    (low, high), (early, late) = score_ranges(
        rouge, [begun("No, ", "It is Ann "), begun("", "It is Ann ")], PROMPT
    )
    assert (low, high) == (0.5, 1.0)
    assert (early, late) == (0.0, 1.0)


def test_a_beginning_that_no_answer_can_leave_stays_open_until_the_answer_has_begun() -> None:
    exact = make_scorer("exact")
    assert score_ranges(exact, [begun("Xyz "), begun("")], PROMPT) == [(0.0, 0.0), (0.0, 1.0)]
