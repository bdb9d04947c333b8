"""Pools of queries: which bound a design gives, what is refused, how often statements err."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Pool,
    clusters,
    expectation_deviation_bound,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mean_bound,
    mean_over_questions,
    pool_expectation_deviation_bound,
    pool_leak_at_k_bound,
    pool_mean_bound,
    pool_proportion_bound,
    pool_std_bound,
    pool_survival_bound,
    proportion_bound,
    proportion_over_questions,
    std_bound,
    survival_bound,
    worst_query,
)
from leakbound.stats.clusters import critical

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "pools.json").read_text()
)
X = [0.0, 0.2, 0.5, 1.0]
SCORES = np.array([[0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0]])
COUNTS = np.array([[3, 0, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]])
MISSING = np.array([1, 0, 0])
HITS, N = np.array([3, 0, 1]), np.array([8, 4, 2])


def of_hits(hits: np.ndarray, n: np.ndarray, **how: Any) -> Pool:
    return Pool.read(np.tile([0.0, 1.0], (len(n), 1)), np.stack([n - hits, hits], axis=1), **how)


def padded(rows: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    widest = max(map(len, rows))
    scores = [row + [0.0] * (widest - len(row)) for row in rows]
    return np.array(scores), np.arange(widest) < np.array([[len(row)] for row in rows])


def same(made: Estimate, want: Estimate) -> bool:
    """All that a bound says but for whom it is about, of one quantity."""
    told, wanted = (one.to_dict() | {"target": "", "about": None} for one in (made, want))
    for key in ("value", "lower", "upper"):
        np.testing.assert_allclose(
            np.array(told.pop(key), float), np.array(wanted.pop(key), float), atol=1e-12
        )
    return told == wanted


def test_an_allocated_pool_is_one_row() -> None:
    """Equal scores of different queries are counted together; a query may have no output."""
    pool = Pool.read(SCORES, COUNTS, MISSING, design="allocated")
    assert pool.row.values[0].tolist() == [0, 0.25, 0.5]
    assert pool.row.counts[0].tolist() == [4, 2, 1]
    assert (pool.row.n, pool.row.missing, pool.queries, len(pool.rows.n)) == (8, 1, 3, 2)


@pytest.mark.parametrize(
    ("design", "target"), [("allocated", "queries"), ("fresh", "inputs")], ids=str
)
def test_iid_pools_have_every_bound_of_one_query(design: Any, target: Any) -> None:
    drawn = np.random.default_rng(0).beta(1, 4, (30, 1)).round(1)
    pool, row = Pool.read(drawn, design=design, target=target), drawn.ravel()
    how: dict[str, Any] = {"confidence": 0.9, "side": "both"}
    pairs = [
        (pool_mean_bound(pool, seed=3, **how), mean_bound(row, seed=3, **how)),
        (pool_std_bound(pool, seed=3, **how), std_bound(row, seed=3, **how)),
        (pool_survival_bound(pool, X, **how), survival_bound(row, X, **how)),
        (
            pool_survival_bound(pool, 0.2, method="paper", **how),
            survival_bound(row, 0.2, method="paper", **how),
        ),
        (pool_leak_at_k_bound(pool, [1, 9], **how), leak_at_k_bound(row, [1, 9], **how)),
        (pool_leak_at_k_bound(pool, 2, seed=3, **how), leak_at_k_bound(row, 2, seed=3, **how)),
        (
            pool_expectation_deviation_bound(pool, rho=1, seed=3, **how),
            expectation_deviation_bound(row, rho=1, seed=3, **how),
        ),
    ]
    for made, want in pairs:
        assert same(made, want)


def test_iid_leaks_are_a_tally() -> None:
    pool = of_hits(HITS, N, design="allocated", missing=[2, 0, 1])
    want = proportion_bound(4, 17, missing=3, side="both")
    assert same(pool_proportion_bound(pool, side="both"), want)
    at_k = pool_leak_at_k_bound(pool, [2, 30], binary=True, side="both")
    want = leak_at_k_proportion_bound(4, 17, [2, 30], missing=3, side="both")
    assert same(at_k, want)


def test_unlike_draws_have_the_bounds_of_a_data_set() -> None:
    how: dict[str, Any] = {"confidence": 0.9, "side": "both"}
    pool = Pool.read(SCORES, missing=MISSING, design="fixed")
    want = mean_over_questions(SCORES, missing=MISSING, **how)
    assert same(pool_mean_bound(pool, **how), want)
    even = of_hits(HITS, np.full(3, 8), design="fixed")
    want = proportion_over_questions(HITS, 8, **how)
    made = pool_proportion_bound(even, **how)
    assert same(made, want)
    assert "Hoeffding" in made.method
    fresh = Pool.read([[0.0], [1.0], [0.0]], design="fresh")
    want = proportion_over_questions([0, 1, 0], 1, **how)
    assert same(pool_proportion_bound(fresh, **how), want)


@pytest.mark.parametrize("design", ["fixed", "allocated"])
def test_clusters_bet_on_one_mean_a_query(design: Any) -> None:
    """However many outputs a query got, it counts once; missing ones count against the claim."""
    rng = np.random.default_rng(1)
    scores, counts = rng.random((9, 5)).round(2), rng.integers(1, 6, (9, 5))
    counted = (scores * counts).sum(axis=1)
    pool = Pool.read(scores, counts, 2, design=design, target="inputs")
    n = counts.sum(axis=1) + 2
    for side, means in (("upper", (counted + 2) / n), ("lower", counted / n)):
        made = pool_mean_bound(pool, side=side, seed=4)
        want = mean_bound(means, side=side, seed=4)
        assert getattr(made, side) == getattr(want, side)
    assert made.value == pytest.approx((counted / counts.sum(axis=1)).mean())
    assert (made.n, made.missing, made.seed) == (n.sum(), 18, 4)
    assert made.method == "finite-horizon betting on the means of 9 queries"


def test_means_equal_but_for_rounding_have_bounds_equal_but_for_rounding() -> None:
    """Ten times .1 is not a sum of ten .1: an order that such bits decide would move the bound."""
    scores = np.linspace(0.01, 0.99, 30).round(2)[:, None]
    each = np.repeat(scores, 10, axis=1)
    assert (each.sum(axis=1) != 10 * scores[:, 0]).any()
    counted = Pool.read(scores, np.full((30, 1), 10), design="fixed", target="inputs")
    expanded = Pool.read(each, design="fixed", target="inputs")
    for seed in range(3):
        assert same(pool_mean_bound(counted, seed=seed), pool_mean_bound(expanded, seed=seed))


def test_clusters_of_a_binary_scorer_bet_on_shares() -> None:
    pool = of_hits(HITS, N, design="fixed", target="inputs")
    made = pool_proportion_bound(pool, confidence=0.6, side="both", seed=2)
    want = mean_bound(HITS / N, confidence=0.6, side="both", seed=2)
    assert (made.lower, made.upper) == (want.lower, want.upper)
    assert (made.estimand, made.value) == ("leak probability", pytest.approx((HITS / N).mean()))
    at_k = pool_leak_at_k_bound(pool, 7, binary=True, confidence=0.6, side="both", seed=2)
    assert at_k.estimand == "leak@7"
    for end in ("lower", "upper"):
        assert getattr(at_k, end) == pytest.approx(1 - (1 - getattr(made, end)) ** 7)
    nine = of_hits(np.tile(HITS, 3), np.tile(N, 3), design="fixed", target="inputs")
    known, unknown = np.asarray(pool_leak_at_k_bound(nine, [2, 3], binary=True, seed=2).value)
    assert known == pytest.approx(1 - (1 - made.value) ** 2)
    assert np.isnan(unknown)  # from k = 9/4 queries on


@pytest.mark.parametrize("case", GOLDEN["critical"], ids=lambda c: f"{c['n']}-{c['alpha']}")
def test_critical_values_against_golden_values(case: dict[str, Any]) -> None:
    t = critical(case["n"], float(case["alpha"]))
    assert t == pytest.approx(float(case["t"]), abs=1e-9)
    if "integral" in case:
        assert float(case["integral"]) - 1e-3 <= t <= float(case["integral"]) + 0.2


@pytest.mark.parametrize(
    "case", GOLDEN["band"], ids=lambda c: f"{c['pool']}-{c['alpha']}-{c['band']}"
)
def test_bands_of_clusters_against_golden_values(case: dict[str, Any]) -> None:
    scores, counted = padded(GOLDEN["pools"][case["pool"]])
    pool = Pool.read(scores, counted, design="fixed", target="inputs")
    confidence, x = 1 - float(case["alpha"]), [float(v["x"]) for v in case["tail"]]
    for side in ("upper", "lower"):
        made = pool_survival_bound(pool, x, side=side, confidence=confidence, method=case["band"])
        want = [float(v[side]) for v in case["tail"]]
        np.testing.assert_allclose(getattr(made, side), want, atol=1e-10)
        np.testing.assert_allclose(made.value, [float(v["value"]) for v in case["tail"]], 1e-12)
        if case["band"] == "berk-jones":
            sizes = [v["k"] for v in case["leak_at_k"]]
            at_k = pool_leak_at_k_bound(pool, sizes, side=side, confidence=confidence)
            want = [float(v[side]) for v in case["leak_at_k"]]
            np.testing.assert_allclose(getattr(at_k, side), want, atol=1e-9)
            few = len(pool.rows.n) / 4  # of more queries than that there is no point estimate
            want = [float(v["value"]) if v["k"] <= few else np.nan for v in case["leak_at_k"]]
            np.testing.assert_allclose(at_k.value, want, 1e-12)


def test_a_query_without_scores_has_no_say_in_the_value() -> None:
    pool = Pool.read([[0.5, 1.0], [0, 0]], [[1, 1], [0, 0]], [0, 2], design="fixed",
                     target="inputs")  # fmt: skip
    assert pool_mean_bound(pool).value == 0.75
    assert pool_survival_bound(pool, 0.7).value == 0.5
    nothing = Pool.read([[0.0], [0.0]], [[0], [0]], 3, design="fixed", target="inputs")
    assert np.isnan(pool_mean_bound(nothing).value)
    assert np.isnan(pool_survival_bound(nothing, 0.5).value)
    assert (pool_mean_bound(nothing).upper, pool_survival_bound(nothing, 0.5).upper) == (1, 1)


def test_only_outputs_decide_how_many_clusters_there_are() -> None:
    """A query that got no output under `allocated` is no cluster: its mean is unknown."""
    with_empty = Pool.read(SCORES, COUNTS, design="allocated", target="inputs")
    without = Pool.read(SCORES[:2], COUNTS[:2], design="fixed", target="inputs")
    for bound in (pool_mean_bound, partial(pool_survival_bound, x=X)):
        assert same(bound(with_empty, confidence=0.5), bound(without, confidence=0.5))


UNLIKE = {"fixed queries", "fresh queries"}
NOT_ALIKE = {*UNLIKE, "fixed inputs", "allocated inputs"}
UNAVAILABLE = {
    "tail": (partial(pool_survival_bound, x=0.5), UNLIKE),
    "leak@k": (partial(pool_leak_at_k_bound, k=2), UNLIKE),
    "standard deviation": (pool_std_bound, NOT_ALIKE),
    "2 standard deviations": (pool_expectation_deviation_bound, NOT_ALIKE),
}


@pytest.mark.parametrize("quantity", UNAVAILABLE)
@pytest.mark.parametrize("target", ["queries", "inputs"])
@pytest.mark.parametrize("design", ["allocated", "fixed", "fresh"])
def test_what_has_no_bound_is_refused(quantity: str, design: Any, target: Any) -> None:
    bound, unavailable = UNAVAILABLE[quantity]
    pool = Pool.read([[0.5], [0.25]], design=design, target=target)
    if f"{design} {target}" not in unavailable:
        bound(pool)
        return
    remedy = "allocated" if target == "queries" else "fresh"
    with pytest.raises(InputError, match=f"{quantity}.*design '{design}'.*design '{remedy}'"):
        bound(pool)


@pytest.mark.parametrize(
    ("scores", "how", "message"),
    [
        ([0.1, 0.2], {"design": "fixed"}, "2-D"),
        ([[0.1]], {"design": "shared"}, "'allocated', 'fixed', 'fresh'"),
        ([[0.1]], {"design": "fixed", "target": "all"}, "'queries', 'inputs'"),
        ([[0.1, 0.2]], {"design": "fresh"}, "one output, got 2 for query 0"),
        ([[0.1], [0.2]], {"design": "fixed", "counts": [[1], [0]]}, "none for query 1"),
        ([[0.1]], {"design": "allocated", "counts": [[0]]}, "no draw"),
    ],
)
def test_pools_that_cannot_be_are_refused(scores: Any, how: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Pool.read(scores, **how)


def test_what_a_bound_of_a_pool_needs() -> None:
    """Leaks for a leak probability; for the band an alpha that it can solve for."""
    pool = Pool.read([[0.5, 1.0]], design="fixed")
    for bound in (pool_proportion_bound, partial(pool_leak_at_k_bound, k=2, binary=True)):
        with pytest.raises(InputError, match="NAME>=t"):
            bound(pool)
    with pytest.raises(InputError, match="at least 1e-11"):
        clusters.berk_jones(np.array([0.5]), 50, 1e-12)
    assert 0 < clusters.berk_jones(np.array([0.9]), 50, 1e-10)[0] < 0.9


# 16 queries, 64 outputs each; a query leaks with a probability drawn from Beta(.1, .9), so most
# never leak and some nearly always do. Confidence 99 %.
TRIALS, QUERIES, OUTPUTS = 2_000, 16, 64
ALLOWED = int(binom.isf(1e-4, TRIALS, 0.01))  # more happen once in 10,000 correct tests
MEAN = 0.1


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
            pool = of_hits(rng.binomial(n, p), n, design=design)
            made = pool_proportion_bound(pool, side=side)
            missed[design] += not made.lower <= p.mean() <= made.upper
    assert max(missed.values()) <= ALLOWED


@pytest.mark.thorough
def test_the_input_distribution_is_covered_and_the_iid_pool_is_not() -> None:
    """Betting on 16 shares; Clopper-Pearson on 1,024 draws covers about 60 %, not 99 %."""
    p = np.random.default_rng(2).beta(0.1, 0.9, (TRIALS, QUERIES))
    hits = np.random.default_rng(3).binomial(OUTPUTS, p)
    plain = proportion_bound(hits.sum(axis=1), QUERIES * OUTPUTS, side="upper").upper
    assert 0.5 < np.mean(plain >= MEAN) < 0.7
    shares = hits / OUTPUTS
    assert (mean_bound(shares, side="upper").upper < MEAN).sum() <= ALLOWED
    assert (mean_bound(shares, side="lower").lower > MEAN).sum() <= ALLOWED
    for trial in (0, 1):  # and this is what the statement does, one pool at a time
        pool = of_hits(hits[trial], np.full(QUERIES, OUTPUTS), design="fixed", target="inputs")
        assert pool_proportion_bound(pool).upper == mean_bound(shares[trial]).upper


@pytest.mark.thorough
def test_one_output_a_fresh_query_is_iid() -> None:
    missed = 0
    for rng, p in trials(4):
        leaks = (rng.random(QUERIES) < p).astype(int)
        pool = of_hits(leaks, np.ones(QUERIES, int), design="fresh", target="inputs")
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
            band = pool_survival_bound(alike, x, method=method, side="upper")
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
