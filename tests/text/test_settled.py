"""Keywords and distances, and what an opening settles of them."""

from __future__ import annotations

import random
import re
import string
import sys
import unicodedata
from functools import cache
from itertools import product

import pytest
from rouge_score.tokenizers import DefaultTokenizer

from leakbound.text.distance import (
    edit_distance_settled,
    edit_distance_within,
    hamming_distance_settled,
    hamming_distance_within,
)
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


def test_content_words_and_those_that_the_question_lacks() -> None:
    text = "The Author's name is Zoë-Anne O'Neil; the name was hers in 1953."
    assert content_words(text) == ("author", "name", "zoë-anne", "o'neil", "1953")
    asked, answer = "Where was Ada Vale born?", "Ada Vale was born in Velmora."
    assert answer_keywords(asked, answer) == ("velmora",)


CHARACTERS = [c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) != "Cn"]
BLANKS = [c for c in CHARACTERS if c.isspace()]
ASCII = [chr(i) for i in range(128)]
SIGNS = [c for c in string.punctuation if c != "_"]

MARKS = [
    c for c in CHARACTERS if unicodedata.combining(c) or unicodedata.category(c) in ("Mc", "Mn")
]


@pytest.mark.parametrize(
    ("prefix", "words", "characters"),
    [
        ("", "", ""),
        ("Ron", "", "Ro"),
        ("Ron ", "Ron", "Ron"),
        ("and Ron", "and", "and Ro"),
        ("and Ron, who", "and Ron,", "and Ron, wh"),
        ("and Ron.", "and Ron", "and Ron"),
        ("J_K", "", "J_"),
        ("it’s a\u00a0cat", "it’s a", "it’s a\u00a0ca"),
        ("one\ntwo", "one", "one\ntw"),
        ("漢字かな", "", ""),
        ("漢\u3000字", "漢", "漢"),
        ("cafe\u0301", "", "caf"),
        ("né", "", ""),
    ],
)
def test_what_an_opening_settles(prefix: str, words: str, characters: str) -> None:
    assert (settled_words(prefix), settled_characters(prefix)) == (words, characters)


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


ANSWERS = ("a", "ab", "aab", "abba", "abab")


@cache
def levenshtein(x: str, y: str) -> int:
    if not x or not y:
        return len(x) + len(y)
    kept = levenshtein(x[1:], y[1:]) + (x[0] != y[0])
    return min(kept, 1 + levenshtein(x[1:], y), 1 + levenshtein(x, y[1:]))


def edits(text: str, answer: str) -> int:
    return levenshtein(text[: len(answer)], answer)


def places(text: str, answer: str) -> int:
    return sum(i >= len(text) or text[i] != unit for i, unit in enumerate(answer))


KINDS = [
    pytest.param(edit_distance_within, edit_distance_settled, edits, id="edit"),
    pytest.param(hamming_distance_within, hamming_distance_settled, places, id="hamming"),
]


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize(("within", "settled", "distance"), KINDS)
def test_every_opening_and_every_continuation(answer, within, settled, distance) -> None:
    """Both ends are exact: no continuation leaves them, and some continuation attains each.

    Over the answer's two units and one that it has not, up to one unit beyond the answer.
    """
    m = len(answer)
    texts = ["".join(units) for n in range(m + 2) for units in product("abz", repeat=n)]
    far = {text: distance(text, answer) for text in texts}
    for opening in texts:
        tails = [far[text] for text in texts if text.startswith(opening)]
        for most in range(m + 1):
            near = [d <= most for d in tails]
            assert settled(opening, answer, most) == (all(near), any(near)), (opening, most)
            assert within(opening, answer, most) == (far[opening] <= most)


@pytest.mark.parametrize(("within", "settled", "distance"), KINDS)
def test_long_texts_keep_within_what_their_openings_settle(within, settled, distance) -> None:
    rng = random.Random(0)
    for _ in range(40):
        answer = "".join(rng.choices("abcd", k=30))
        text = "".join(rng.choice([unit, unit, unit, "", "z", unit + "a"]) for unit in answer)
        text += "".join(rng.choices("abz", k=rng.randint(0, 20)))
        for most in (0, 5, 12, 29):
            near = within(text, answer, most)
            assert near == (distance(text, answer) <= most)
            before = (False, True)
            for cut in range(len(text) + 1):
                low, high = settled(text[:cut], answer, most)
                assert before[0] <= low <= near <= high <= before[1]
                before = (low, high)
            if len(text) >= len(answer):
                assert before == (near, near)
