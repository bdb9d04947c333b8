"""How many draws extract a leak: the definition in rational numbers, and what is no probability."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import extraction_draws, proof_of_leak


def chance_of(p: float, n: int) -> Fraction:
    return 1 - (1 - Fraction(p)) ** n


@pytest.mark.parametrize("chance", [0.01, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("p", [0.9999, 0.5, 0.3, 0.02, 0.001])
def test_so_many_draws_suffice_and_one_less_does_not(p: float, chance: float) -> None:
    """By (1 - p)^n in rational numbers; where n is met exactly one more may be said."""
    n = int(extraction_draws(p, chance))
    assert chance_of(p, n) >= Fraction(chance)
    assert n == 1 or chance_of(p, n - 1) < Fraction(chance) or chance_of(p, n - 2) < chance


@pytest.mark.parametrize(
    ("p", "chance", "n"),
    [(0.02, 0.5, 35), (0.01, 0.9, 230), (1e-6, 0.5, 693147), (2e-6, 0.5, 346574), (1.0, 0.999, 1)],
)
def test_known_values(p: float, chance: float, n: int) -> None:
    assert extraction_draws(p, chance) == extraction_draws(p, chance, fewest=True) == n


@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("p", [0.5, 0.25, 0.1, 0.003])
def test_where_n_draws_have_just_the_chance_both_roundings_are_safe(p: float, n: int) -> None:
    """At and beside the chance of exactly n draws, where a quotient is a whole number."""
    for chance in (float(chance_of(p, n)) * (1 + ulp * 2.0**-53) for ulp in range(-4, 5)):
        enough, least = extraction_draws(p, chance), extraction_draws(p, chance, fewest=True)
        assert chance_of(p, int(enough)) >= Fraction(chance)
        assert least == 1 or chance_of(p, int(least) - 1) < Fraction(chance)
        assert enough - least in (0, 1)


def test_rare_leaks_rows_and_none() -> None:
    found = extraction_draws([[1e-12, 0.0], [1.0, 1e-300]])
    assert isinstance(found, np.ndarray)
    assert found[0, 0] == pytest.approx(math.log(2) * 1e12, rel=1e-9)
    assert found[0, 1] == math.inf
    assert found[1, 0] == 1
    assert found[1, 1] == pytest.approx(math.log(2) * 1e300, rel=1e-9)


def test_leak_at_that_k_is_at_least_the_chance() -> None:
    """What is proved of leak@k for every k is (n, p)-discoverable extraction with n = k."""
    n = int(extraction_draws(3e-4, 0.5))
    proof = proof_of_leak([1e-4, 2e-4], [1.0, 1.0], [n, n - 2])
    assert proof.leak_at_k.lower[0] >= 0.5 > proof.leak_at_k.lower[1]


@pytest.mark.parametrize(
    ("leak", "chance", "message"),
    [
        (0.5, 0.0, "`chance` must lie strictly"),
        (0.5, 1.0, "`chance`"),
        (-0.1, 0.5, r"`leak` must lie in \[0, 1\], got -0\.1"),
        ([0.5, 1.1], 0.5, "`leak`"),
        (math.nan, 0.5, "`leak`"),
    ],
)
def test_what_is_no_probability(leak: float, chance: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        extraction_draws(leak, chance)
