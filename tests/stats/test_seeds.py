"""Medians over training seeds: by hand, by counting, and miss rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import Estimate, Rows, bound, median_over_seeds

HITS = [3, 0, 9, 4, 6, 2, 8, 5]


def tallies(hits: list[int], n: int = 40) -> Callable[..., Estimate]:
    return partial(bound, Rows.of_hits(hits, n))


def markov(seeds: int, rank: int, share: Fraction) -> Fraction:
    """The rate of each bound if bounds may share draws, counted over all numbers of models."""
    chance = [Fraction(comb(seeds, k), 2**seeds) for k in range(seeds + 1)]
    cost = sum(chance[k] * Fraction(k, k - rank + 1) for k in range(rank, seeds + 1))
    return (share - sum(chance[:rank])) / cost


@pytest.mark.parametrize(
    ("seeds", "side", "confidence", "independent", "beta"),
    [
        (5, "lower", 0.95, False, (Fraction(1, 20) - Fraction(1, 32)) / Fraction(31, 32)),  # .0194
        (6, "both", 0.95, False, (Fraction(1, 40) - Fraction(1, 64)) / Fraction(63, 64)),
        (8, "both", 0.99, False, (Fraction(1, 200) - Fraction(1, 256)) / Fraction(255, 256)),
        (5, "upper", 0.95, False, Fraction(3, 155)),
        (5, "lower", 0.95, True, 2 * 0.05**0.2 - 1),  # .0986
        (6, "both", 0.95, True, 2 * 0.025 ** (1 / 6) - 1),
    ],
)
def test_few_seeds_use_the_least_and_the_largest_bound(
    seeds: int, side: Any, confidence: float, independent: bool, beta: Fraction | float
) -> None:
    made = median_over_seeds(
        tallies(HITS[:seeds]),
        seeds,
        independent=independent,
        side=side,
        confidence=confidence,
    )
    alone = tallies(HITS[:seeds])
    low = alone(confidence=1 - float(beta), side="lower").lower.min() if side != "upper" else 0.0
    high = alone(confidence=1 - float(beta), side="upper").upper.max() if side != "lower" else 1.0
    assert (made.lower, made.upper) == (pytest.approx(low, abs=1e-12), pytest.approx(high))
    assert (made.confidence, made.side, made.n) == (confidence, side, 40 * seeds)
    assert made.value == np.median(HITS[:seeds]) / 40
    assert made.about.seeds == seeds
    assert made.target.startswith("the median over training seeds of")


@pytest.mark.parametrize(
    ("seeds", "confidence"), [(4, 0.95), (5, 0.97), (1, 0.9), (9, 0.999), (5, 0.96875)]
)
def test_too_few_seeds_are_refused_with_the_number_needed(seeds: int, confidence: float) -> None:
    with pytest.raises(InputError, match="cannot bound a median") as caught:
        median_over_seeds(tallies([1] * seeds), seeds, confidence=confidence, side="lower")
    needed = int(str(caught.value).split("Train at least ")[1].split()[0])
    median_over_seeds(tallies([1] * needed), needed, confidence=confidence, side="lower")
    assert (
        Fraction(1, 2) ** (needed - 1) >= 1 - Fraction(str(confidence)) > Fraction(1, 2) ** needed
    )


@pytest.mark.parametrize("seeds", [12, 30, 101])
def test_many_seeds_take_the_order_statistic_that_leaves_a_fifth_to_the_bounds(seeds: int) -> None:
    def exact(confidence: float, side: str) -> Estimate:
        """Return the known values, so that only the order statistic matters."""
        return bound(Rows.of_hits(list(range(seeds)), 10 * seeds), confidence=confidence, side=side)

    share, rank, luck = Fraction(1, 40), 0, Fraction(0)
    while luck + Fraction(comb(seeds, rank), 2**seeds) <= Fraction(4, 5) * share:
        luck += Fraction(comb(seeds, rank), 2**seeds)
        rank += 1
    made = median_over_seeds(exact, seeds)
    each = 1 - float(markov(seeds, rank, share))
    low, high = (exact(each, side) for side in ("lower", "upper"))
    assert made.lower == pytest.approx(np.sort(low.lower)[rank - 1], abs=1e-12)
    assert made.upper == pytest.approx(np.sort(high.upper)[seeds - rank], abs=1e-12)
    apart = median_over_seeds(exact, seeds, independent=True)
    lower = [exact(1 - beta, "lower").lower for beta in np.linspace(0.0002, 0.2, 1000)]
    chances = binom.sf(seeds - rank, seeds, (1 + np.linspace(0.0002, 0.2, 1000)) / 2)
    fitting = int(np.searchsorted(chances, float(share)))
    ranked = [np.sort(low)[rank - 1] for low in lower[fitting - 1 : fitting + 1]]
    assert ranked[0] <= apart.lower <= ranked[1], "the largest rate whose probability is alpha/2"


def looked_up(n: int) -> Callable[[np.ndarray], Callable[..., Estimate]]:
    """Return `bound` of n draws, with the bounds of every number of hits computed once."""

    @cache
    def every(confidence: float, side: Any) -> Estimate:
        return bound(Rows.of_hits(np.arange(n + 1), n), confidence=confidence, side=side)

    def known(hits: np.ndarray, *, confidence: float, side: Any) -> Estimate:
        ends = every(confidence, side)
        rows = {name: np.asarray(getattr(ends, name))[hits] for name in ("value", "lower", "upper")}
        return replace(ends, n=np.full(len(hits), n), missing=np.zeros(len(hits), int), **rows)

    return lambda hits: partial(known, hits)


@pytest.mark.parametrize(
    ("seeds", "side", "confidence"), [(5, "lower", 0.95), (6, "both", 0.95), (16, "both", 0.9)]
)
@pytest.mark.parametrize("independent", [True, False], ids=["own draws", "one uniform"])
@pytest.mark.parametrize("law", ["spread", "two points", "all alike"])
def test_it_misses_seldom(
    seeds: int, side: Any, confidence: float, law: str, independent: bool
) -> None:
    """Models with random leak probabilities, each drawn from 60 times; 600 methods.

    In the worst case all models share one uniform number: equal models' bounds fail together. The
    rate for independent bounds would miss in 9.9 % there; 7.9 % are too many.
    """
    generator, runs, n = np.random.default_rng(seeds), 600, 60
    p = {
        "spread": generator.beta(1, 6, (runs, seeds)),
        "two points": generator.choice([0.02, 0.4], (runs, seeds)),
        "all alike": np.full((runs, seeds), 0.1),
    }[law]
    medians = {"spread": (0.109101, 0.109101), "two points": (0.02, 0.4), "all alike": (0.1, 0.1)}
    low, high = medians[law]  # of two points every number between them is a median
    luck = generator.random((runs, seeds if independent else 1))
    hits, missed, known = binom.ppf(luck, n, p).astype(int), 0, looked_up(n)
    for row in hits:
        made = median_over_seeds(
            known(row), seeds, independent=independent, side=side, confidence=confidence
        )
        missed += not (made.lower <= high and made.upper >= low)
    assert missed <= runs * (1 - confidence) + 3.3 * (runs * confidence * (1 - confidence)) ** 0.5
