"""Edit and Hamming distances within k of an answer, and what an opening settles of them.

The oracle is the recursive definition of the Levenshtein distance, and every continuation there is.
"""

from __future__ import annotations

import random
from functools import cache
from itertools import product

import pytest

from leakbound.text.distance import (
    edit_distance_settled,
    edit_distance_within,
    hamming_distance_settled,
    hamming_distance_within,
)

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
