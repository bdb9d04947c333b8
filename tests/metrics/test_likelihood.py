"""Metrics that OpenUnlearning lacks, by hand, and edge cases of its metrics.

`formats` and `bounding` compare the others with OpenUnlearning.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics import METRICS, Item
from leakbound.metrics.likelihood import (
    choice_accuracy,
    choice_probability,
    mean_confidence,
    mean_entropy,
)
from leakbound.metrics.membership import (
    auc,
    exact_memorisation,
    extraction_strength,
    min_k,
    min_k_plus_plus,
)
from leakbound.types import Prompt
from metric_items import reading


def test_entropy_and_confidence_are_means_over_the_tokens() -> None:
    read = reading([0.1, 0.2], mean=[-0.5, -1.5], confidence=[0.9, 0.5])
    assert mean_entropy(read) == pytest.approx(1.0)
    assert mean_confidence(read) == pytest.approx(0.7)


HALF, QUARTER = math.log(2), math.log(4)
LETTERS = [reading([HALF, 9.0]), reading([QUARTER, 0.1]), reading([QUARTER, 0.1])]


def test_letters_are_compared_without_their_end_token() -> None:
    """Letters of several tokens, unlikely letters, two right ones, ties: the first counts."""
    assert choice_accuracy(LETTERS, {0}) == 1.0
    assert choice_accuracy(LETTERS, {1}) == 0.0
    assert choice_probability(LETTERS, {0}) == pytest.approx(0.5)
    assert choice_probability(LETTERS, {1}) == pytest.approx(0.25)
    assert choice_probability(LETTERS, [1, 2]) == pytest.approx(0.5)
    assert choice_accuracy(LETTERS[1:], {0}) == 1.0
    assert choice_accuracy(LETTERS[1:], {1}) == 0.0
    unlikely = [reading([800.0, 100.0, 0.0]), reading([900.0, HALF, 0.0])]
    assert choice_probability(unlikely, {0}) == pytest.approx(2 / 3)


def test_the_metrics_find_the_right_letter_by_the_answer() -> None:
    prompt = Prompt(id="w/1", question="Which?", answer="b", choices=("a", "b", "c"))
    items = {"forget": [Item(prompt, {"letter": tuple(LETTERS)})]}
    accuracy, chance = (METRICS[f"choice_{name}"] for name in ("accuracy", "probability"))
    assert accuracy.value(items, None).value == 0.0
    assert chance.value(items, None).by_item == {"w/1": pytest.approx(0.25)}


def test_min_k_takes_the_least_likely_tokens_without_the_end_token() -> None:
    read = reading([0.1, 3.0, 0.2, 2.0, 0.3, 1.0, 0.4, 99.0])  # 40 % of 7 tokens: 2 of them
    assert min_k(read) == 2.5
    assert min_k(read, share=1.0) == pytest.approx(1.0)
    assert min_k(reading([0.7, 99.0])) == 0.7  # at least one token


def test_min_k_plus_plus_standardises_before_it_chooses() -> None:
    read = reading(
        [3.0, 1.0, 9.0], mean=[-3.0, -0.5, 0.0], std=[1.0, 0.25, 1.0]
    )  # z = 0, -2, and the end token
    assert min_k_plus_plus(read) == 2.0
    sure = reading([1e-4, 9.0], mean=[-2e-4, 0.0], std=[0.0, 0.0])
    assert min_k_plus_plus(sure) == pytest.approx(-0.1)  # the least deviation is 1e-3


def test_auc_counts_pairs_and_halves_ties() -> None:
    assert auc([1, 2], [3, 4]) == 1.0
    assert auc([3, 4], [1, 2]) == 0.0
    assert auc([1, 2, 2], [2, 3]) == pytest.approx((1 + 0.5 + 0.5 + 3) / 6)
    rng = np.random.default_rng(0)
    low, high = rng.integers(0, 9, 40), rng.integers(2, 11, 30)
    pairs = np.subtract.outer(high, low)
    assert auc(low, high) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


Y, N = True, False
CASES = {  # the last is the end token, which never counts: (top, exact, extraction, compat)
    "all right": ([Y, Y, Y, Y, N], 1.0, 1.0, 1.0),
    "the ending": ([Y, N, Y, Y, N], 0.75, 0.5, 0.5),
    "the beginning": ([Y, Y, Y, N, Y], 0.75, 0.0, 0.25),
    "nothing": ([N, N, N, N, Y], 0.0, 0.0, 0.25),
    "the last word": ([N, N, N, Y, N], 0.25, 0.25, 0.25),
    "one token": ([N, Y], 0.0, 0.0, 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_values(case: str) -> None:
    top, exact, strength, compat = CASES[case]
    read = reading([1.0] * len(top), top=top)
    assert exact_memorisation(read) == exact
    assert extraction_strength(read) == strength
    assert extraction_strength(read, compat="openunlearning") == compat


END = reading([1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((partial(each, END), "before the end token, got")
          for each in (min_k, min_k_plus_plus, exact_memorisation, extraction_strength)),
        *((partial(choice_probability, LETTERS, right), "must be one of the 3 options")
          for right in ([], [3])),
    ],
)  # fmt: skip
def test_invalid_input_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
