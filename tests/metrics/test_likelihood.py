from __future__ import annotations

import math

import pytest

from leakbound.errors import InputError
from leakbound.metrics.likelihood import (
    forget_truth_ratio,
    loss,
    mean_confidence,
    mean_entropy,
    normalised_probability,
    probability,
    truth_ratio,
    truth_ratio_of,
    utility_truth_ratio,
)
from readings import reading


def test_probability_is_the_geometric_mean_of_all_tokens_the_end_token_among_them() -> None:
    read = reading([-math.log(0.5), -math.log(0.25), -math.log(0.125)])
    assert loss(read) == pytest.approx(2 * math.log(2))
    assert probability(read) == pytest.approx(0.25)


def test_normalised_probability_adds_up_the_wrong_answers() -> None:
    assert normalised_probability(0.2, [0.1, 0.3]) == pytest.approx(1 / 3)


def test_truth_ratio_is_a_geometric_mean_over_the_wrong_answers() -> None:
    ratio = truth_ratio(reading([1.0, 3.0]), [reading([0.5, 1.5]), reading([5.0])])
    assert ratio == pytest.approx(math.exp(2 - 3))
    assert truth_ratio_of(2.0, [1.0, 5.0]) == ratio


def test_an_impossible_right_answer_has_a_finite_ratio() -> None:
    assert truth_ratio_of(math.inf, [0.0]) == pytest.approx(1e10)
    assert normalised_probability(0.0, [0.0]) == 0.0


def test_the_two_ways_to_average_truth_ratios() -> None:
    ratios = [0.25, 1.0, 4.0]
    assert forget_truth_ratio(ratios) == pytest.approx((0.25 + 1 + 0.25) / 3)
    assert utility_truth_ratio(ratios) == pytest.approx(0.75 / 3)


def test_entropy_and_confidence_are_means_over_the_tokens() -> None:
    read = reading([0.1, 0.2], mean=[-0.5, -1.5], confidence=[0.9, 0.5])
    assert mean_entropy(read) == pytest.approx(1.0)
    assert mean_confidence(read) == pytest.approx(0.7)


@pytest.mark.parametrize("measure", [loss, probability, mean_entropy, mean_confidence])
def test_an_answer_without_tokens_is_refused(measure: object) -> None:
    with pytest.raises(InputError, match="without tokens"):
        measure(reading([]))  # type: ignore[operator]


def test_nothing_to_compare_with_is_refused() -> None:
    for call in (
        lambda: normalised_probability(0.5, []),
        lambda: truth_ratio(reading([1.0]), []),
        lambda: forget_truth_ratio([]),
        lambda: utility_truth_ratio([]),
    ):
        with pytest.raises(InputError, match="at least one"):
            call()
