from __future__ import annotations

import pytest

from leakbound.errors import InputError
from leakbound.scorers.wording import Keyword
from leakbound.types import Prompt

PROMPT = Prompt(id="p7", question="Who are the friends?", keywords=("Ron", "Hermione"))
TEXTS = ["Ron and hermione", "only RON", "wrong hermiones", "nobody"]


def test_any_whole_word_is_the_default() -> None:
    assert Keyword().score(TEXTS, PROMPT) == [1, 1, 0, 0]
    assert Keyword().score(["macron", "ronron"], PROMPT) == [0, 0]


def test_all_must_occur() -> None:
    assert Keyword(require="all").score(TEXTS, PROMPT) == [1, 0, 0, 0]


def test_substrings_reproduce_the_papers() -> None:
    assert Keyword(match="substring").score(TEXTS, PROMPT) == [1, 1, 1, 0]
    assert Keyword(match="substring", require="all").score(TEXTS, PROMPT) == [1, 0, 1, 0]


@pytest.mark.parametrize("keywords", [(), ("Ron", " ")])
def test_missing_keywords_are_refused_by_id(keywords: tuple[str, ...]) -> None:
    prompt = Prompt(id="p9", question="Who?", keywords=keywords)
    with pytest.raises(InputError, match=r"keywords.*'p9'"):
        Keyword().score(["Ron"], prompt)


def test_a_plain_answer_has_no_keywords() -> None:
    with pytest.raises(InputError, match="plain string"):
        Keyword().score(["Ron"], "Ron")
