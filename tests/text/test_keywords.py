from __future__ import annotations

import pytest

from leakbound.text.keywords import answer_keywords, content_words, keyword_pattern, normalise


@pytest.mark.parametrize(
    ("keyword", "text", "found"),
    [
        ("Ron", "Ask RON.", True),
        ("Ron", "a wrong front", False),
        ("Ron", "Ron_2", False),
        ("Ron", "Ronald", False),
        ("J.K.", "by J.K. Rowling", True),
        ("J.K.", "by J.K.Rowling", True),
        ("J.K.", "by JxKx", False),
        ("Daily Prophet", "the daily\n  prophet", True),
        ("Straße", "STRASSE", True),
        ("Café", "Cafe\u0301 Noir", True),
        ("Philosopher's Stone", "the philosopher’s stone", True),
    ],
)
def test_keywords_are_whole_words(keyword: str, text: str, found: bool) -> None:
    assert (keyword_pattern(keyword).search(normalise(text)) is not None) is found


def test_content_words() -> None:
    text = "The Author's name is Zoë-Anne O'Neil; the name was hers in 1953."
    assert content_words(text) == ("author", "name", "zoë-anne", "o'neil", "1953")


def test_answer_keywords_are_what_the_question_lacks() -> None:
    found = answer_keywords("Where was Ada Vale born?", "Ada Vale was born in Velmora.")
    assert found == ("velmora",)
