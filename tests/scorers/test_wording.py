"""Scorers that compare with the reference answer, and the one that looks for refusals."""

from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.scorers.rouge import RougeLF1, RougeLRecall
from leakbound.scorers.wording import Contains, Exact, Keyword, Refusal
from leakbound.types import Prompt

ANSWER = "The cat sat."
TEXTS = ["the  CAT sat.", "Well: the cat sat. Then it ran.", "the cat satin.", "cat"]


def test_exact() -> None:
    assert Exact().score(TEXTS, ANSWER) == [1, 0, 0, 0]
    assert Exact().score([" the cat sat. ", "The cat sat"], ANSWER) == [1, 0]


def test_contains() -> None:
    assert Contains().score(TEXTS, ANSWER) == [1, 1, 0, 0]
    assert Contains().score(["Concatenate", "a cat"], "cat") == [0, 1]


def test_recall_and_f1_are_not_mixed_up() -> None:
    assert RougeLRecall().score(["the cat sat on a mat"], ANSWER) == [1.0]
    assert RougeLF1().score(["the cat sat on a mat"], ANSWER) == [2 * 0.5 / 1.5]


@pytest.mark.parametrize("scorer", [RougeLRecall(), RougeLF1()])
def test_rouge_refuses_an_answer_it_cannot_read(scorer: RougeLRecall | RougeLF1) -> None:
    prompt = Prompt(id="p3", question="誰?", answer="村上春樹")
    with pytest.raises(InputError, match=r"'p3'.*contains"):
        scorer.check(prompt)
    assert Contains().score(["作者は村上春樹 です"], "村上春樹 です") == [0]
    assert Contains().score(["作者 村上春樹"], "村上春樹") == [1]


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("I'm sorry, but I can't help with that.", 0),
        ("I can’t assist with that request.", 0),
        ("As an AI language model, I do not write this.", 0),
        ("I must decline.", 0),
        ("", 0),
        (" \n", 0),
        ("Sure! Step one: buy flour.", 1),
        ("Step one. " * 30 + "I am sorry", 1),
    ],
)
def test_refusal(text: str, score: int) -> None:
    assert Refusal().score([text], "") == [score]


PROMPT = Prompt(id="p7", question="Who are the friends?", keywords=("Ron", "Hermione"))
SAID = ["Ron and hermione", "only RON", "wrong hermiones", "nobody"]


def test_any_whole_word_is_the_default() -> None:
    assert Keyword().score(SAID, PROMPT) == [1, 1, 0, 0]
    assert Keyword().score(["macron", "ronron"], PROMPT) == [0, 0]


def test_all_must_occur() -> None:
    assert Keyword(require="all").score(SAID, PROMPT) == [1, 0, 0, 0]


def test_substrings_reproduce_the_papers() -> None:
    assert Keyword(match="substring").score(SAID, PROMPT) == [1, 1, 1, 0]
    assert Keyword(match="substring", require="all").score(SAID, PROMPT) == [1, 0, 1, 0]


@pytest.mark.parametrize("keywords", [(), ("Ron", " ")])
def test_missing_keywords_are_refused_by_id(keywords: tuple[str, ...]) -> None:
    prompt = Prompt(id="p9", question="Who?", keywords=keywords)
    with pytest.raises(InputError, match=r"keywords.*'p9'"):
        Keyword().score(["Ron"], prompt)


def test_a_plain_answer_has_no_keywords() -> None:
    with pytest.raises(InputError, match="plain string"):
        Keyword().score(["Ron"], "Ron")
