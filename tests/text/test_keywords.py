"""Finding keywords, and what of a growing text stands for good."""

from __future__ import annotations

import random
import re
import string
import sys
import unicodedata

import pytest
from rouge_score.tokenizers import DefaultTokenizer

from leakbound.text.keywords import (
    answer_keywords,
    content_words,
    keyword_pattern,
    normalise,
    settled_characters,
    settled_words,
)


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


CHARACTERS = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) != "Cn"]
BLANKS = [c for c in CHARACTERS if c.isspace()]
ASCII = [chr(i) for i in range(128)]
SIGNS = [c for c in string.punctuation if c != "_"]
MARKS = [
    c for c in CHARACTERS if unicodedata.combining(c) or unicodedata.category(c) in ("Mc", "Mn")
]


@pytest.mark.parametrize(
    ("prefix", "settles"),
    [
        ("", ""),
        ("Ron", ""),
        ("Ron ", "Ron"),
        ("and Ron", "and"),
        ("and Ron, who", "and Ron,"),
        ("and Ron.", "and Ron"),
        ("J_K", ""),
        ("it’s a\u00a0cat", "it’s a"),
        ("one\ntwo", "one"),
        ("漢字かな", ""),
        ("cafe\u0301", ""),
    ],
)
def test_settled_words(prefix: str, settles: str) -> None:
    assert settled_words(prefix) == settles


@pytest.mark.parametrize(
    ("prefix", "settles"),
    [
        ("", ""),
        ("Ron", "Ro"),
        ("cafe\u0301", "caf"),
        ("né", ""),
        ("né ", "né"),
        ("漢\u3000字", "漢"),
    ],
)
def test_settled_characters(prefix: str, settles: str) -> None:
    assert settled_characters(prefix) == settles


def test_what_settles() -> None:
    separators = [c for c in CHARACTERS if settled_words("x" + c) == "x"]
    assert set(separators) == {*BLANKS, *SIGNS}
    assert {c for c in CHARACTERS if settled_characters("x" + c) == "x"} == {*BLANKS, *ASCII}


def test_blanks_and_ascii_compose_with_nothing_before_them() -> None:
    """Each stays one character, a blank a blank, that begins a piece of its own under NFKC."""
    canonical = [unicodedata.decomposition(c).split() for c in CHARACTERS]
    seconds = {chr(int(pair[1], 16)) for pair in canonical if len(pair) == 2 and pair[0][0] != "<"}
    assert "\u0301" in seconds
    for separator in [*BLANKS, *ASCII]:
        folded = unicodedata.normalize("NFKC", separator)
        assert len(folded) == 1
        assert folded.isspace() == separator.isspace()
        assert unicodedata.combining(folded) == 0
        assert folded not in seconds


def test_no_mark_makes_a_letter_of_a_separator() -> None:
    for separator in [*BLANKS, *SIGNS]:
        for mark in MARKS:
            folded = unicodedata.normalize("NFKC", separator + mark).casefold()
            assert re.match(r"\w", folded) is None
            assert folded[0].isspace() == separator.isspace()


def test_case_goes_character_by_character() -> None:
    """Folding always; lower case but for the sigma, which is no letter to ROUGE."""
    for character in CHARACTERS:
        assert ("a" + character + "b").casefold() == "a" + character.casefold() + "b"
        lower = ("a" + character + " b").lower()
        assert character == "Σ" or lower == "a" + character.lower() + " b"


ALPHABET = [
    *"aeßİıΣςK’'-_.,<=>´¨;` 5ﬁﷺ는は\u037e\u200d\u200b",
    *"\u00a0\u2003\n\u0085\u1680\u0301\u0338\u0345\u3099\u11a8\u0323",
    *("\u0323\u0301", "the"),
]
tokenize = DefaultTokenizer(use_stemmer=True).tokenize


def test_no_continuation_changes_what_is_settled() -> None:
    rng = random.Random(0)
    for _ in range(20_000):
        prefix, more = ("".join(rng.choices(ALPHABET, k=rng.randint(0, 9))) for _ in range(2))
        assert normalise(prefix + more).startswith(normalise(settled_characters(prefix)))
        opening = normalise(settled_words(prefix))
        whole = normalise(prefix + more)
        assert whole.startswith(opening)
        assert not opening or re.match(r"\w", whole[len(opening) :]) is None
        words = tokenize(settled_words(prefix))
        assert tokenize(prefix + more)[: len(words)] == words
