"""The standard deviation from masses, where rounding decides: its ends never cross."""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from leakbound.stats import Mass, mass_std_bound

XS = (0.0, 1.0, 0.1, 0.3, 0.5, 1 / 3)


def variance(p: list[float], x: list[float]) -> Fraction:
    """Of the law with these masses, in exact arithmetic; they are scaled to add up to 1."""
    total = sum(map(Fraction, p))
    shares = [Fraction(each) / total for each in p]
    mean = sum(a * Fraction(b) for a, b in zip(shares, x, strict=True))
    return sum((a * (Fraction(b) - mean) ** 2 for a, b in zip(shares, x, strict=True)), Fraction())


def test_what_is_known_whole_has_ends_on_either_side_of_the_truth() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1500):
        d = int(rng.integers(1, 6))
        p = rng.dirichlet(np.full(d, rng.choice([0.1, 1.0, 10.0]))).tolist()
        x = rng.choice(XS, size=d).tolist()
        bound = mass_std_bound(Mass(np.array(p), np.array(x), np.array(x)))
        lower, value, upper = (
            float(np.asarray(each)) for each in (bound.lower, bound.value, bound.upper)
        )
        assert lower <= value <= upper
        if sum(map(Fraction, p)) <= 1:  # else no law has these masses
            truth = variance(p, x)
            assert Fraction(lower) ** 2 <= truth <= Fraction(upper) ** 2
        assert upper - lower < 1e-6


def test_where_all_score_alike_the_value_is_no_rounding_of_the_mean() -> None:
    """Shares of .9 add up to a mean that is off by one rounding, and so would be the deviation."""
    p, x = np.array([0.7928268871303794, 0.20717311286962065]), np.array([0.9, 0.9])
    bound = mass_std_bound(Mass(p, x, x))
    assert (bound.lower, bound.value, bound.upper) == (0, 0, 0)


@pytest.mark.parametrize("over", [1e-12, 5e-10, 9.9e-10])
@pytest.mark.parametrize("x", [[0.0, 1.0], [0.0, 0.5], [1 / 3, 1 / 3]])
def test_masses_that_add_up_to_a_little_more_than_one(over: float, x: list[float]) -> None:
    p = [0.5, 0.5 + over]
    bound = mass_std_bound(Mass(np.array(p), np.array(x), np.array(x)))
    truth = sqrt(variance(p, x))
    assert bound.lower <= truth <= bound.upper <= 0.5
    assert bound.upper - bound.lower < 1e-4
