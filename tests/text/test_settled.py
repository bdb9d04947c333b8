"""Words of answers, and bounds on distances to them from the beginning of a text."""

from __future__ import annotations

import random
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
from leakbound.text.keywords import answer_keywords, content_words
from leakbound.text.rouge import _settled_words


def test_content_words_and_those_that_the_question_lacks() -> None:
    text = "The Author's name is Zoë-Anne O'Neil; the name was hers in 1953."
    assert content_words(text) == ("author", "name", "zoë-anne", "o'neil", "1953")
    wanted, answer = "Where was Ada Vale born?", "Ada Vale was born in Velmora."
    assert answer_keywords(wanted, answer) == ("velmora",)


def test_rouge_reads_complete_words_only() -> None:
    """Compare with rouge-score's tokens, for any continuation."""
    tokenize = DefaultTokenizer(use_stemmer=True).tokenize
    rng = random.Random(0)
    pieces = [*"aeßİıΣςK’'-_.*<=>´ 5ﬁは\u0301\u200d\u00a0\n", "the", "running", " "]
    for _ in range(3_000):
        prefix, more = ("".join(rng.choices(pieces, k=rng.randint(0, 9))) for _ in range(2))
        words = tokenize(_settled_words(prefix))
        assert tokenize(prefix + more)[: len(words)] == words
    assert [_settled_words(p) for p in ("Ron", "Ron.", "a_K", "né")] == ["", "ron.", "a_", "né"]


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
    """Both bounds are exact: no continuation leaves them, and each is attained.

    Texts have the two units of the answer and another, and at most one unit more than it.
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
