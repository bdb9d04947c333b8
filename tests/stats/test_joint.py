"""Claims that are joined, and a model beside its control."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    every_question,
    joint,
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


TALLY = partial(proportion_bound, [0, 1, 4, 40], [100, 100, 100, 100])


@pytest.mark.parametrize("independent", [True, False])
def test_every_question_gives_each_its_share(independent: bool) -> None:
    share = 1 - 0.9 ** (1 / 4) if independent else 0.1 / 4
    for side in ("upper", "lower", "both"):
        every = every_question(TALLY, 4, confidence=0.9, side=side, independent=independent)
        alone = TALLY(confidence=1 - share, side=side)
        np.testing.assert_allclose(every.upper, alone.upper, rtol=1e-12)
        np.testing.assert_allclose(every.lower, alone.lower, rtol=1e-12)
        assert (every.confidence, every.side) == (0.9, side)
    assert every.method == f"Clopper-Pearson, {'Sidak' if independent else 'Bonferroni'} over 4"
    assert every.about.jointly
    assert every.target == "every one of these questions, jointly, under this decoding"


def test_every_question_holds_jointly() -> None:
    """Uncorrected, some interval of 30 misses in most trials."""
    rng = np.random.default_rng(1)
    p = np.linspace(0.05, 0.95, 30)
    missed = {"every": 0, "each": 0}
    for hits in rng.binomial(60, p, (300, 30)):
        bound = partial(proportion_bound, hits, 60)
        for name, made in (
            ("every", every_question(bound, 30, confidence=0.8, side="both")),
            ("each", bound(confidence=0.8, side="both")),
        ):
            missed[name] += bool(((p < made.lower) | (p > made.upper)).any())
    assert missed["every"] <= binom.ppf(1 - 1e-4, 300, 0.2) < missed["each"]
