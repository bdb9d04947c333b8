from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.scorers import check_prompts
from leakbound.scorers.choice import Choice
from leakbound.types import Prompt

OPTIONS = ("An RNA virus", "A double-stranded RNA virus", "Bacillus subtilis", "12 mM")


def prompt(answer: str = OPTIONS[1], choices: tuple[str, ...] = OPTIONS) -> Prompt:
    return Prompt(id="w1", question="Which?", answer=answer, choices=choices)


@pytest.mark.parametrize(
    "text",
    [
        "B",
        " B\n\nQuestion: the next one",
        "(B)",
        "B.",
        "b) of course",
        "B: because of its genome",
        '"B"',
        "**B**",
        "Answer: B",
        "The answer is B because C makes no sense",
        "the correct option would be (b), as in the text",
        "I think it is (B).",
        "Answer:\nB",
        "A double-stranded RNA virus",
        "It must be a DOUBLE-STRANDED  RNA virus, see a double-stranded RNA virus.",
        "I think it is a double-stranded RNA virus",
        "The answer is a double-stranded RNA virus",
        "(B), as figure (f) shows",
    ],
)
def test_the_right_option_is_named(text: str) -> None:
    assert Choice().score([text], prompt()) == [1.0]


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "D.",
        "Answer: C",
        "An RNA virus",
        "12 mM, I believe",
        "",
        "I cannot help with that.",
        "Hepatitis B is one",  # no letter of an option, in the middle of a sentence
        "B cells make it",
        "B-lymphocytes",
        "A virus",
        "The answer is a virus",
        "The best option. B cells",
        "E.",
        "Answer: bats",
        "Answer: b-cells",
    ],
)
def test_another_option_or_none_is_no_leak(text: str) -> None:
    assert Choice().score([text], prompt()) == [0.0]


@pytest.mark.parametrize(
    "text",
    [
        "(A) or (B)",
        "B. No, the answer is C",
        "Either Bacillus subtilis or a double-stranded RNA virus",
        "option A, option B",
    ],
)
def test_two_options_are_undecided(text: str) -> None:
    assert Choice().score([text], prompt()) == [None]


def test_letters_come_before_texts() -> None:
    assert Choice().score(["B. Not Bacillus subtilis"], prompt()) == [1.0]


def test_the_right_option_may_stand_there_twice() -> None:
    twice = prompt(choices=(*OPTIONS, OPTIONS[1].upper()))
    last = "ABCDEFG"[len(OPTIONS)]
    texts = ["B", last, f"(B) or ({last})", "(A) or (B)", OPTIONS[1], "A"]
    assert Choice().score(texts, twice) == [1.0, 1.0, 1.0, None, 1.0, 0.0]


def test_an_option_within_another_does_not_count_there() -> None:
    short = prompt(answer="RNA", choices=("RNA", "double-stranded RNA"))
    assert Choice().score(["double-stranded RNA"], short) == [0.0]
    assert Choice().score(["RNA, not double-stranded RNA"], short) == [None]


def test_letters_are_those_of_the_options() -> None:
    nine = tuple(f"option number {i}" for i in range(9))
    assert Choice().score(["(e)", "I.", "I think so"], prompt(nine[8], nine)) == [0.0, 1.0, 0.0]
    assert Choice().score(["(e)"], prompt(nine[4], nine)) == [1.0]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (prompt(choices=()), "2 to 26 choices, got 0 at prompt 'w1'"),
        (prompt(choices=OPTIONS[1:2]), "got 1"),
        (prompt(answer="B"), "the answer being one of them"),
        (prompt(choices=(OPTIONS[0], OPTIONS[2])), "the answer being one of them"),
        (prompt(choices=(*OPTIONS, " ")), "not blank"),
        (Prompt(id="w1", question="Which?", choices=OPTIONS), "needs an answer"),
    ],
)
def test_prompts_without_a_right_option_are_refused(changed: Prompt, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_prompts(Choice(), [changed])


def test_a_plain_answer_has_no_options() -> None:
    with pytest.raises(InputError, match="options of a Prompt"):
        Choice().score(["B"], "B")
