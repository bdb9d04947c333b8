"""How small an alpha each band takes: what cannot be solved for is refused, and says what can."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import leak_at_k_bound, mean_bound, survival_bound
from leakbound.stats.tail import berk_jones, dkw

SCORES = np.linspace(0, 1, 100)


@pytest.mark.parametrize("alpha", [9e-12, 1e-14, 1e-17, 1e-30])
def test_berk_jones_refuses_an_alpha_that_it_cannot_solve_for(alpha: float) -> None:
    with pytest.raises(InputError, match=r"at least 1e-11.*method 'paper'"):
        berk_jones(100, alpha)
    assert (dkw(100, alpha) >= 0).all()


def test_at_the_least_alpha_it_is_a_band_below_that_of_a_larger_one() -> None:
    for n in (1, 2, 30, 500):
        least, more = berk_jones(n, 1e-11), berk_jones(n, 2e-11)
        assert ((least[1:] < more[1:]) & (least[1:] > 0)).all()


def test_bounds_pass_the_refusal_on_and_hold_by_the_method_it_names() -> None:
    sure = 1 - 1e-13
    for bound in (
        lambda **how: survival_bound(SCORES, 0.5, confidence=sure, **how),
        lambda **how: leak_at_k_bound(SCORES, 2, confidence=sure, **how),
        lambda **how: mean_bound(SCORES, confidence=sure, **how),
    ):
        with pytest.raises(InputError, match="Lower the confidence"):
            bound(method="berk-jones")
        assert 0.5 < float(bound(method="paper").upper) <= 1
