from __future__ import annotations

import math

import pytest

from leakbound.errors import InputError
from leakbound.metrics import METRICS, Item
from leakbound.metrics.likelihood import choice_accuracy, choice_probability
from leakbound.types import Prompt
from readings import reading

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
