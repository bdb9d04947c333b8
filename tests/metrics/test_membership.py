from __future__ import annotations

import math
import zlib

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.metrics.membership import (
    auc,
    exact_memorisation,
    extraction_strength,
    min_k,
    min_k_plus_plus,
    privleak,
    reference_score,
    zlib_score,
)
from readings import reading


def test_zlib_divides_the_loss_by_the_compressed_bytes() -> None:
    text = "naïve " * 20
    assert zlib_score(reading([2.0, 4.0], text=text)) == 3.0 / len(zlib.compress(text.encode()))


def test_reference_takes_the_other_models_loss_away() -> None:
    assert reference_score(0.5, 2.0) == -1.5


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


def test_min_k_of_the_end_token_alone_is_refused() -> None:
    for measure in (min_k, min_k_plus_plus):
        with pytest.raises(InputError, match="before the end token"):
            measure(reading([1.0]))


def test_auc_counts_pairs_and_halves_ties() -> None:
    assert auc([1, 2], [3, 4]) == 1.0
    assert auc([3, 4], [1, 2]) == 0.0
    assert auc([1, 2, 2], [2, 3]) == pytest.approx((1 + 0.5 + 0.5 + 3) / 6)
    rng = np.random.default_rng(0)
    low, high = rng.integers(0, 9, 40), rng.integers(2, 11, 30)
    pairs = np.subtract.outer(high, low)
    assert auc(low, high) == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())


def test_auc_refuses_an_empty_side_and_nan() -> None:
    with pytest.raises(InputError, match="0 of forget and 1 of holdout"):
        auc([], [1.0])
    with pytest.raises(InputError, match="1 of them NaN"):
        auc([1.0, math.nan], [1.0])


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


def test_an_answer_of_the_end_token_alone_is_refused() -> None:
    for measure in (exact_memorisation, extraction_strength):
        with pytest.raises(InputError, match="before the end token, got 1"):
            measure(reading([1.0]))
