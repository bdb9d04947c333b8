"""Probabilities of answers, membership and memorisation, computed by hand."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics import METRICS, Item
from leakbound.metrics.likelihood import (
    choice_accuracy,
    choice_probability,
    forget_truth_ratio,
    loss,
    mean_confidence,
    mean_entropy,
    normalised_probability,
    probability,
    truth_ratio,
    utility_truth_ratio,
)
from leakbound.metrics.membership import (
    auc,
    exact_memorisation,
    extraction_strength,
    min_k,
    min_k_plus_plus,
    privleak,
    zlib_score,
)
from leakbound.types import Prompt
from metric_items import reading


def test_probability_is_the_geometric_mean_of_all_tokens() -> None:
    read = reading([-math.log(0.5), -math.log(0.25), -math.log(0.125)])
    assert loss(read) == pytest.approx(2 * math.log(2))
    assert probability(read) == pytest.approx(0.25)


def test_normalised_probability_adds_up_the_wrong_answers() -> None:
    assert normalised_probability(0.2, [0.1, 0.3]) == pytest.approx(1 / 3)
    assert normalised_probability(0.0, [0.0]) == 0.0


def test_truth_ratio_is_a_geometric_mean_over_the_wrong_answers() -> None:
    ratio = truth_ratio(reading([1.0, 3.0]), [reading([0.5, 1.5]), reading([5.0])])
    assert ratio == pytest.approx(math.exp(2 - 3))
    impossible = truth_ratio(reading([math.inf]), [reading([0.0])])
    assert impossible == pytest.approx(1e10)


def test_the_two_ways_to_average_truth_ratios() -> None:
    ratios = [0.25, 1.0, 4.0]
    assert forget_truth_ratio(ratios) == pytest.approx((0.25 + 1 + 0.25) / 3)
    assert utility_truth_ratio(ratios) == pytest.approx(0.75 / 3)


def test_entropy_and_confidence_are_means_over_the_tokens() -> None:
    read = reading([0.1, 0.2], mean=[-0.5, -1.5], confidence=[0.9, 0.5])
    assert mean_entropy(read) == pytest.approx(1.0)
    assert mean_confidence(read) == pytest.approx(0.7)


HALF, QUARTER = math.log(2), math.log(4)
LETTERS = [reading([HALF, 9.0]), reading([QUARTER, 0.1]), reading([QUARTER, 0.1])]


def test_letters_are_compared_without_their_end_token() -> None:
    """They may be of several tokens, as unlikely as can be, and right twice; ties: the first."""
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


def test_zlib_divides_the_loss_by_the_compressed_bytes() -> None:
    text = "naïve " * 20
    assert zlib_score(reading([2.0, 4.0], text=text)) == 3.0 / len(zlib.compress(text.encode()))


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


def test_privleak_is_the_change_in_percent_of_the_retrained() -> None:
    assert privleak(0.6, 0.6) == 0.0
    assert privleak(0.8, 0.6) == pytest.approx(-50.0)
    assert privleak(0.2, 0.6) == pytest.approx(100.0)


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


NONE, END = reading([]), reading([1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        *((partial(each, NONE), "without tokens")
          for each in (loss, probability, mean_entropy, mean_confidence)),
        *((partial(each, END), "before the end token, got")
          for each in (min_k, min_k_plus_plus, exact_memorisation, extraction_strength)),
        *((call, "at least one") for call in (
            partial(normalised_probability, 0.5, []), partial(truth_ratio, END, []),
            partial(forget_truth_ratio, []), partial(utility_truth_ratio, []),
        )),
        *((partial(choice_probability, LETTERS, right), "must be one of the 3 options")
          for right in ([], [3])),
        (partial(auc, [], [1.0]), "0 of forget and 1 of holdout"),
        (partial(auc, [1.0, math.nan], [1.0]), "1 of them NaN"),
    ],
)  # fmt: skip
def test_invalid_input_is_refused(call: Callable[[], float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
