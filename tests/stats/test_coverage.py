"""Bounds cover at their nominal rate, and are as tight as they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from stretches import allowed

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    SD,
    THEOREMS,
    Estimate,
    Quantity,
    Rows,
    bound,
    ed,
    leak_at,
    tail,
)
from leakbound.stats.tail import berk_jones, dkw

ALPHA = 0.1
X = np.array([0.0, 0.05, 0.1, 0.3, 0.5])
K = np.array([1, 4, 64])
GRID = (np.arange(2_000) + 0.5) / 2_000


class Law:
    """A distribution on [0, 1] by its quantile function: draws, and the truth by quadrature."""

    def __init__(self, quantile: Callable[[np.ndarray], np.ndarray]) -> None:
        self.quantile = quantile
        self.points = quantile((np.arange(200_000) + 0.5) / 200_000)

    def draws(self, trials: int, n: int, seed: int) -> np.ndarray:
        return self.quantile(np.random.default_rng(seed).random((trials, n)))

    @property
    def mean(self) -> float:
        return float(self.points.mean())

    @property
    def median(self) -> float:
        return float(np.median(self.points))

    @property
    def std(self) -> float:
        return float(self.points.std())

    def tail(self, x: np.ndarray) -> np.ndarray:
        return (self.points[:, None] > x).mean(axis=0)

    def leak_at(self, k: np.ndarray) -> np.ndarray:
        above = 1 - np.searchsorted(self.points, GRID, side="right") / len(self.points)
        return (1 - (1 - above[:, None]) ** k).mean(axis=0)


LAWS = {
    "rare leak": Law(lambda u: (u > 0.97) * 1.0),
    "coin": Law(lambda u: (u > 0.5) * 1.0),
    "skewed": Law(lambda u: u**6),
    "bimodal": Law(lambda u: np.where(u < 0.6, 0.1 * u, 0.8 + 0.2 * u)),
}
TRUTHS: dict[str, tuple[Quantity, Callable[[Law], np.ndarray | float]]] = {
    "leakage": (LEAKAGE, lambda law: law.mean),
    "median": (Quantity("median"), lambda law: law.median),
    "tail": (tail(X), lambda law: law.tail(X)),
    "leak@k": (leak_at(K), lambda law: law.leak_at(K)),
    "standard deviation": (SD, lambda law: law.std),
    "expectation deviation": (ed(), lambda law: law.mean + 2 * law.std),
}
GRADED = [
    (row.reading, method)
    for row in THEOREMS
    if row.kind == "draws" and row.over == "each" and not row.binary
    for method in (None, *(["paper"] if row.paper else []))
]


def misses(bound: Estimate, truth: np.ndarray | float, slack: float = 1e-4) -> int:
    missed = (truth > bound.upper + slack) | (truth < bound.lower - slack)
    return int(missed.reshape(len(missed), -1).any(axis=1).sum())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("reading", "method"), GRADED)
def test_coverage(reading: str, method: Literal["paper"] | None, law: str) -> None:
    quantity, truth = TRUTHS[reading]
    rows = Rows.of(LAWS[law].draws(200, 64, seed=3))
    for side in ("upper", "lower", "both"):
        made = bound(rows, quantity, confidence=1 - ALPHA, side=side, method=method)
        assert misses(made, truth(LAWS[law])) <= allowed(200, ALPHA)


def test_peaked_draws_with_counts_are_covered() -> None:
    """Without its shuffle the bet takes ascending scores, and never covers here."""
    rng = np.random.default_rng(6)
    counts = np.stack([200 - (ones := rng.binomial(200, 0.2, 150)), ones], axis=1)
    made = bound(Rows.of(np.tile([0.0, 1.0], (150, 1)), counts), confidence=0.9, side="upper")
    assert misses(made, 0.2) <= allowed(150, 0.1)


SCORES = np.linspace(0, 1, 100)


@pytest.mark.parametrize("alpha", [9e-12, 1e-30])
def test_berk_jones_refuses_an_alpha_that_it_cannot_solve_for(alpha: float) -> None:
    with pytest.raises(InputError, match=r"at least 1e-11.*method 'paper'"):
        berk_jones(100, alpha)
    assert (dkw(100, alpha) >= 0).all()


def test_at_the_least_alpha_it_is_a_band_below_that_of_a_larger_one() -> None:
    for n in (1, 2, 30, 500):
        least, more = berk_jones(n, 1e-11), berk_jones(n, 2e-11)
        assert ((least[1:] < more[1:]) & (least[1:] > 0)).all()


def test_bounds_pass_the_refusal_on_and_name_a_method_that_works() -> None:
    sure = 1 - 1e-13
    for made in (
        lambda **how: bound(Rows.of(SCORES), tail(0.5), confidence=sure, **how),
        lambda **how: bound(Rows.of(SCORES), leak_at([2]), confidence=sure, **how),
    ):
        with pytest.raises(InputError, match="Lower the confidence"):
            made()
        assert 0.5 < float(np.max(made(method="paper").upper)) <= 1
