from __future__ import annotations

import math

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
    truth_ratio_of,
    utility_truth_ratio,
)
from leakbound.types import Prompt
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


HALF, QUARTER = math.log(2), math.log(4)
LETTERS = [reading([HALF, 9.0]), reading([QUARTER, 0.1]), reading([QUARTER, 0.1])]


def test_letters_are_compared_without_their_end_token() -> None:
    assert choice_accuracy(LETTERS, {0}) == 1.0
    assert choice_accuracy(LETTERS, {1}) == 0.0
    assert choice_probability(LETTERS, {0}) == pytest.approx(0.5)
    assert choice_probability(LETTERS, {1}) == pytest.approx(0.25)


def test_a_letter_may_be_of_several_tokens_and_as_unlikely_as_can_be() -> None:
    letters = [reading([800.0, 100.0, 0.0]), reading([900.0, HALF, 0.0])]
    assert choice_probability(letters, {0}) == pytest.approx(2 / 3)


def test_the_right_option_may_stand_there_twice_and_ties_go_to_the_first() -> None:
    assert choice_probability(LETTERS, [1, 2]) == pytest.approx(0.5)
    assert choice_accuracy(LETTERS[1:], {0}) == 1.0
    assert choice_accuracy(LETTERS[1:], {1}) == 0.0


@pytest.mark.parametrize("right", [[], [3]])
def test_a_right_option_that_is_not_there_is_refused(right: list[int]) -> None:
    with pytest.raises(InputError, match="right one of 3 options must be among them"):
        choice_probability(LETTERS, right)


def test_the_metrics_find_the_right_letter_by_the_answer() -> None:
    prompt = Prompt(id="w/1", question="Which?", answer="b", choices=("a", "b", "c"))
    items = {"forget": [Item(prompt, {"letter": tuple(LETTERS)})]}
    accuracy, chance = (METRICS[f"choice_{name}"] for name in ("accuracy", "probability"))
    assert accuracy.value(items, None).value == 0.0
    assert chance.value(items, None).by_item == {"w/1": pytest.approx(0.25)}
