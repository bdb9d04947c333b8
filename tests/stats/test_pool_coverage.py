"""Statements about pools hold for queries that are not alike, where i.i.d. bounds do not.

16 queries, 64 outputs each; a query leaks with a probability drawn from Beta(.1, .9), so most
never leak and some nearly always do. Confidence 99 %.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.stats import (
    Pool,
    mean_bound,
    pool_proportion_bound,
    pool_survival_bound,
    proportion_bound,
    worst_query,
)

TRIALS, QUERIES, OUTPUTS = 2_000, 16, 64
ALLOWED = int(binom.isf(1e-4, TRIALS, 0.01))  # more happen once in 10,000 correct tests
MEAN = 0.1


def tally(hits: np.ndarray, n: np.ndarray, **how: Any) -> Pool:
    return Pool.read(np.tile([0.0, 1.0], (len(n), 1)), np.stack([n - hits, hits], axis=1), **how)


def trials(seed: int) -> Iterator[tuple[np.random.Generator, np.ndarray]]:
    """The leak probabilities of each trial's queries."""
    rng = np.random.default_rng(seed)
    for _ in range(TRIALS):
        yield rng, rng.beta(0.1, 0.9, QUERIES)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.thorough
def test_these_queries_are_covered_by_either_design(side: Any) -> None:
    missed: Counter[str] = Counter()
    for rng, p in trials(1):
        allocated = rng.multinomial(QUERIES * OUTPUTS, np.full(QUERIES, 1 / QUERIES))
        even = np.full(QUERIES, OUTPUTS)
        for design, n in (("allocated", allocated), ("fixed", even)):
            pool = tally(rng.binomial(n, p), n, design=design)
            made = pool_proportion_bound(pool, side=side)
            missed[design] += not made.lower <= p.mean() <= made.upper
    assert max(missed.values()) <= ALLOWED


@pytest.mark.thorough
def test_the_input_distribution_is_covered_and_the_iid_pool_is_not() -> None:
    """Betting on 16 shares; Clopper-Pearson on 1,024 draws covers about 60 %, not 99 %."""
    p = np.random.default_rng(2).beta(0.1, 0.9, (TRIALS, QUERIES))
    hits = np.random.default_rng(3).binomial(OUTPUTS, p)
    plain = proportion_bound(hits.sum(axis=1), QUERIES * OUTPUTS).upper
    assert 0.5 < np.mean(plain >= MEAN) < 0.7
    shares = hits / OUTPUTS
    assert (mean_bound(shares).upper < MEAN).sum() <= ALLOWED
    assert (mean_bound(shares, side="lower").lower > MEAN).sum() <= ALLOWED
    for trial in (0, 1):  # and this is what the statement does, one pool at a time
        pool = tally(hits[trial], np.full(QUERIES, OUTPUTS), design="fixed", target="inputs")
        assert pool_proportion_bound(pool).upper == mean_bound(shares[trial]).upper


@pytest.mark.thorough
def test_one_output_a_fresh_query_is_iid() -> None:
    missed = 0
    for rng, p in trials(4):
        leaks = (rng.random(QUERIES) < p).astype(int)
        pool = tally(leaks, np.ones(QUERIES, int), design="fresh", target="inputs")
        made = pool_proportion_bound(pool, confidence=0.98, side="both")
        missed += not made.lower <= MEAN <= made.upper
    assert missed <= 2 * ALLOWED


@pytest.mark.parametrize("method", ["berk-jones", "paper"])
@pytest.mark.thorough
def test_tails_over_the_inputs_are_covered_where_the_iid_band_is_not(method: str) -> None:
    """X = 0 unless it leaks, then uniform: Pr[X > x] = .1 (1 - x) over all queries."""
    x = np.linspace(0, 0.9, 7)
    missed: Counter[str] = Counter()
    for trial, (rng, p) in enumerate(trials(5)):
        scores = rng.random((QUERIES, OUTPUTS)) * (rng.random((QUERIES, OUTPUTS)) < p[:, None])
        pool = Pool.read(scores, design="fixed", target="inputs")
        side: Any = ("upper", "lower")[trial % 2]
        made = pool_survival_bound(pool, x, side=side, method=method)
        truth = MEAN * (1 - x)
        missed[side] += ((made.lower > truth) | (truth > made.upper)).any()
        if side == "upper":
            alike = Pool.read(scores, design="allocated")
            band = pool_survival_bound(alike, x, method=method)
            missed["iid"] += (truth > band.upper).any()
    assert missed["upper"] <= ALLOWED / 2
    assert missed["lower"] <= ALLOWED / 2
    assert missed["iid"] > 0.1 * TRIALS / 2


@pytest.mark.parametrize("method", ["berk-jones", "paper"])
@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_bands_over_the_inputs_by_enumeration(method: str, alpha: float) -> None:
    """Every outcome of 4 queries with 2 outputs each, under laws that are alike and unlike.

    Scores 0, .5 or 1. A law is a list of (chance, law of one output) of a random query.
    """
    laws = {
        "one law": [(1.0, (0.5, 0.3, 0.2))],
        "copies": [(0.5, (1.0, 0.0, 0.0)), (0.3, (0.0, 1.0, 0.0)), (0.2, (0.0, 0.0, 1.0))],
        "some leak": [(0.8, (0.95, 0.05, 0.0)), (0.2, (0.1, 0.2, 0.7))],
    }
    outcomes = list(combinations_with_replacement(range(3), 2))

    @cache
    def bound(rows: tuple[tuple[int, ...], ...], side: Any) -> tuple[np.ndarray, np.ndarray]:
        pool = Pool.read(np.array(rows) / 2, design="fixed", target="inputs")
        made = pool_survival_bound(pool, [0.0, 0.5], confidence=1 - alpha, side=side, method=method)
        return np.asarray(made.lower), np.asarray(made.upper)

    for name, law in laws.items():
        chance = [sum(w * q[a] * q[b] * (1 if a == b else 2) for w, q in law) for a, b in outcomes]
        cdf = np.cumsum(sum(w * np.array(q) for w, q in law))
        for side in ("upper", "lower"):
            missed = 0.0
            for drawn in product(range(len(outcomes)), repeat=4):
                low, high = bound(tuple(sorted(outcomes[i] for i in drawn)), side)
                truth = 1 - cdf[:2]
                if ((low > truth + 1e-12) | (high < truth - 1e-12)).any():
                    missed += np.prod([chance[i] for i in drawn])
            assert missed <= alpha, (name, side)


@pytest.mark.thorough
def test_the_worst_query_is_covered_though_some_got_no_output() -> None:
    """Its lower end pays for the choice: without that it misses ten times as often."""
    p, missed = np.full(8, 0.3), dict.fromkeys(("paid", "unpaid"), 0)
    rng = np.random.default_rng(6)
    for n in rng.multinomial(40, np.full(8, 1 / 8), TRIALS):
        hits, drawn = rng.binomial(n, p), n > 0

        def bound(*, confidence: float, side: Any, h: Any = hits[drawn], m: Any = n[drawn]) -> Any:
            return proportion_bound(h, m, confidence=confidence, side=side)

        made = worst_query(bound, n, confidence=0.9, side="lower")
        missed["paid"] += made.lower > 0.3
        missed["unpaid"] += bound(confidence=0.9, side="lower").lower.max() > 0.3
    assert missed["paid"] <= int(binom.isf(1e-4, TRIALS, 0.1))
    assert missed["unpaid"] > 0.2 * TRIALS
