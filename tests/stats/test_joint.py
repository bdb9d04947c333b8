"""Claims that are joined, and a model beside its control."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    every_question,
    excess,
    joint,
    mean_bound,
    mean_over_questions,
    proportion_bound,
)


def test_error_rates_add_up() -> None:
    parts = [proportion_bound(hits, 100, confidence=0.997) for hits in (0, 4, 9)]
    claim = joint(*parts, confidence=0.99)
    assert claim.estimates == tuple(parts)
    assert claim.confidence == pytest.approx(0.991)
    assert joint(*[proportion_bound(0, 9, confidence=1 - 0.01 / 7)] * 7).confidence == (
        pytest.approx(0.99)
    )


@pytest.mark.parametrize(
    ("estimates", "message"),
    [
        (3, "3 estimates at 99 % hold jointly at 97 % only; bound each at 99.667 %."),
        (400, "400 estimates at 99 % hold jointly at 0 % only; bound each at 99.99750 %."),
    ],
)
def test_a_claim_that_costs_too_much_is_refused_with_what_would_do(
    estimates: int, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        joint(*[proportion_bound(0, 9)] * estimates)
    assert str(caught.value) == message
    each = float(message.split()[-2]) / 100
    joint(*[proportion_bound(0, 9, confidence=each)] * estimates)


def test_what_exceeds_alpha_by_little_is_refused() -> None:
    parts = [proportion_bound(0, 9, confidence=c) for c in (0.995, 0.9945)]
    with pytest.raises(InputError, match=r"99.45 %, 99.5 % hold jointly at 98.95 %"):
        joint(*parts)


def test_each_question_is_a_claim_unless_they_were_bound_jointly() -> None:
    bound = partial(proportion_bound, [0, 3, 5], [50, 50, 50])
    with pytest.raises(InputError, match="3 estimates"):
        joint(bound(confidence=0.99))
    every = every_question(bound, 3, confidence=0.995)
    assert joint(every, proportion_bound(0, 9, confidence=0.995)).confidence == (
        pytest.approx(0.99)
    )
    with pytest.raises(InputError, match="got none"):
        joint()


def test_excess_takes_opposite_ends_and_adds_errors() -> None:
    upper = proportion_bound(10, 100, confidence=0.995)
    lower = proportion_bound(4, 100, confidence=0.995, side="lower")
    joint = excess(upper, lower)
    assert joint.upper == upper.upper - lower.lower
    assert joint.lower == -1
    assert (joint.side, joint.value) == ("upper", pytest.approx(0.06))
    assert joint.confidence == pytest.approx(0.99)
    reverse = excess(lower, upper)
    assert (reverse.side, reverse.lower) == ("lower", lower.lower - upper.upper)
    both = [proportion_bound(hits, 100, side="both") for hits in (10, 4)]
    assert excess(*both).side == "both"
    assert excess(*both).lower == both[0].lower - both[1].upper


def test_excess_refuses_what_does_not_belong_together() -> None:
    with pytest.raises(InputError, match="one quantity"):
        excess(proportion_bound(1, 9), mean_bound([0.1], side="lower"))
    with pytest.raises(InputError, match="opposite"):
        excess(proportion_bound(1, 9), proportion_bound(1, 9))


def test_excess_of_data_set_means() -> None:
    """Each mean at half of alpha; the difference of the truths lies inside."""
    rng = np.random.default_rng(5)
    model, control = rng.beta(2, 6, (8, 60)), rng.beta(1, 9, (8, 60))
    means = [
        mean_over_questions(scores, confidence=0.995, side="both") for scores in (model, control)
    ]
    beyond = excess(*means)
    assert beyond.target == "the mean over these questions under this decoding, beyond the control"
    assert beyond.confidence == pytest.approx(0.99)
    assert beyond.upper == means[0].upper - means[1].lower
    assert beyond.lower < 0.25 - 0.1 < beyond.upper
    assert beyond.value == pytest.approx(model.mean() - control.mean())
