"""Pools of queries: the bound of each design, refused input, and error rates."""

from __future__ import annotations

import json
from functools import cache
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import LEAKAGE, SD, Estimate, Pool, Rows, bound, clusters, ed, leak_at, tail
from leakbound.stats.clusters import critical

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "pools.json").read_text()
)
X = [0.0, 0.2, 0.5, 1.0]
SCORES = np.array([[0.0, 0.0, 0.5, 1.0], [0.0, 0.25, 0.25, 0.25], [0.0, 0.0, 0.0, 0.0]])
COUNTS = np.array([[3, 0, 1, 0], [1, 1, 0, 1], [0, 0, 0, 0]])
MISSING = np.array([1, 0, 0])
HITS, N = np.array([3, 0, 1]), np.array([8, 4, 2])


def of_hits(hits: np.ndarray, n: np.ndarray, missing: Any = 0, **how: Any) -> Pool:
    return Pool.of(Rows.of_hits(hits, n + np.array(missing), missing), **how)


def padded(rows: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    widest = max(map(len, rows))
    scores = [row + [0.0] * (widest - len(row)) for row in rows]
    return np.array(scores), np.arange(widest) < np.array([[len(row)] for row in rows])


def same(made: Estimate, want: Estimate) -> bool:
    """Return whether two estimates agree in everything except the target."""
    seen, wanted = (one.to_dict() | {"target": "", "about": None} for one in (made, want))
    for key in ("value", "lower", "upper"):
        np.testing.assert_allclose(
            np.array(seen.pop(key), float), np.array(wanted.pop(key), float), atol=1e-12
        )
    return seen == wanted


def test_an_allocated_pool_is_one_row() -> None:
    pool = Pool.of(Rows.of(SCORES, COUNTS, MISSING, empty=True), design="allocated")
    assert pool.draws.values[0].tolist() == [0, 0.25, 0.5]
    assert pool.draws.counts[0].tolist() == [4, 2, 1]
    assert (pool.draws.n, pool.draws.missing, pool.queries) == (8, 1, (3,))
    assert pool.rows.questions == 2


@pytest.mark.parametrize(
    ("design", "target"), [("allocated", "queries"), ("fresh", "inputs")], ids=str
)
def test_iid_pools_have_every_bound_of_one_query(design: Any, target: Any) -> None:
    drawn = np.random.default_rng(0).beta(1, 4, (30, 1)).round(1)
    pool, row = Pool.of(Rows.of(drawn), design=design, target=target), drawn.ravel()
    for quantity in (LEAKAGE, SD, tail(X), leak_at([1, 9]), leak_at(2), ed(1)):
        given: dict[str, Any] = {"confidence": 0.9, "seed": 3}
        made, want = (bound(rows, quantity, **given) for rows in (pool, Rows.of(row)))
        assert same(made, want)


def test_unlike_draws_have_the_bounds_of_a_data_set() -> None:
    how: dict[str, Any] = {"confidence": 0.9, "side": "both"}
    pool = Pool.of(Rows.of(SCORES, missing=MISSING), design="fixed")
    want = bound(Rows.of(SCORES, missing=MISSING), LEAKAGE.mean(), **how)
    assert same(bound(pool, **how), want)
    even = of_hits(HITS, np.full(3, 8), design="fixed")
    want = bound(Rows.of_hits(HITS, 8), LEAKAGE.mean(), **how)
    made = bound(even, **how)
    assert same(made, want)
    assert "Hoeffding" in made.method
    fresh = Pool.of(Rows.of([[0.0], [1.0], [0.0]], binary=True), design="fresh")
    want = bound(Rows.of_hits([0, 1, 0], 1), LEAKAGE.mean(), **how)
    assert same(bound(fresh, **how), want)


@pytest.mark.parametrize("design", ["fixed", "allocated"])
def test_clusters_bet_on_one_mean_per_query(design: Any) -> None:
    """A query counts once, at any number of outputs; missing ones count against the claim."""
    rng = np.random.default_rng(1)
    scores, counts = rng.random((9, 5)).round(2), rng.integers(1, 6, (9, 5))
    counted = (scores * counts).sum(axis=1)
    pool = Pool.of(Rows.of(scores, counts, 2, empty=True), design=design, target="inputs")
    n = counts.sum(axis=1) + 2
    for side, means in (("upper", (counted + 2) / n), ("lower", counted / n)):
        made = bound(pool, side=side, seed=4)
        want = bound(Rows.of(means), side=side, seed=4)
        assert getattr(made, side) == getattr(want, side)
    assert made.value == pytest.approx((counted / counts.sum(axis=1)).mean())
    assert (made.n, made.missing, made.seed) == (n.sum(), 18, 4)
    assert made.method == "finite-horizon betting on the means of 9 queries"


def test_means_equal_but_for_rounding_have_bounds_equal_but_for_rounding() -> None:
    """Ten times .1 differs from a sum of ten .1 in its last bits, which must not decide orders."""
    scores = np.linspace(0.01, 0.99, 30).round(2)[:, None]
    each = np.repeat(scores, 10, axis=1)
    assert (each.sum(axis=1) != 10 * scores[:, 0]).any()
    counted = Pool.of(
        Rows.of(scores, np.full((30, 1), 10), empty=True), design="fixed", target="inputs"
    )
    expanded = Pool.of(Rows.of(each, empty=True), design="fixed", target="inputs")
    for seed in range(3):
        assert same(bound(counted, seed=seed), bound(expanded, seed=seed))


def test_clusters_of_a_binary_scorer_bet_on_fractions() -> None:
    pool = of_hits(HITS, N, design="fixed", target="inputs")
    made = bound(pool, confidence=0.6, side="both", seed=2)
    want = bound(Rows.of(HITS / N), confidence=0.6, side="both", seed=2)
    assert (made.lower, made.upper) == (want.lower, want.upper)
    assert (made.estimand, made.value) == ("leak probability", pytest.approx((HITS / N).mean()))
    at_k = bound(pool, leak_at(7), confidence=0.6, side="both", seed=2)
    assert at_k.estimand == "leak@7"
    for end in ("lower", "upper"):
        assert getattr(at_k, end) == pytest.approx(1 - (1 - getattr(made, end)) ** 7)
    nine = of_hits(np.tile(HITS, 3), np.tile(N, 3), design="fixed", target="inputs")
    known, unknown = np.asarray(bound(nine, leak_at([2, 3]), seed=2).value)
    assert known == pytest.approx(1 - (1 - made.value) ** 2)
    assert np.isnan(unknown)  # from k = 9/4 queries on


@pytest.mark.parametrize("case", GOLDEN["critical"], ids=lambda c: f"{c['n']}-{c['alpha']}")
def test_critical_values_against_golden_values(case: dict[str, Any]) -> None:
    t = critical(case["n"], float(case["alpha"]))
    assert t == pytest.approx(float(case["t"]), abs=1e-9)
    if "integral" in case:
        assert float(case["integral"]) - 1e-3 <= t <= float(case["integral"]) + 0.2


@pytest.mark.parametrize(
    "case",
    [case for case in GOLDEN["band"] if case["band"] == "berk-jones"],
    ids=lambda c: f"{c['pool']}-{c['alpha']}",
)
def test_bands_of_clusters_against_golden_values(case: dict[str, Any]) -> None:
    scores, counted = padded(GOLDEN["pools"][case["pool"]])
    pool = Pool.of(Rows.of(scores, counted, empty=True), design="fixed", target="inputs")
    confidence, x = 1 - float(case["alpha"]), [float(v["x"]) for v in case["tail"]]
    for side in ("upper", "lower"):
        made = bound(pool, tail(x), side=side, confidence=confidence)
        want = [float(v[side]) for v in case["tail"]]
        np.testing.assert_allclose(getattr(made, side), want, atol=1e-10)
        np.testing.assert_allclose(made.value, [float(v["value"]) for v in case["tail"]], 1e-12)
        at_k = bound(
            pool, leak_at([v["k"] for v in case["leak_at_k"]]), side=side, confidence=confidence
        )
        want = [float(v[side]) for v in case["leak_at_k"]]
        np.testing.assert_allclose(getattr(at_k, side), want, atol=1e-9)
        few = len(pool.rows.n) / 4  # for a k above this number there is no point estimate
        want = [float(v["value"]) if v["k"] <= few else np.nan for v in case["leak_at_k"]]
        np.testing.assert_allclose(at_k.value, want, 1e-12)


def test_a_query_without_scores_does_not_affect_the_value() -> None:
    rows = Rows.of([[0.5, 1.0], [0, 0]], [[1, 1], [0, 0]], [0, 2])
    pool = Pool.of(rows, design="fixed", target="inputs")
    assert bound(pool).value == 0.75
    assert bound(pool, tail(0.7)).value == 0.5
    nothing = Pool.of(
        Rows.of([[0.0], [0.0]], [[0], [0]], 3, empty=True), design="fixed", target="inputs"
    )
    assert np.isnan(bound(nothing).value)
    assert np.isnan(bound(nothing, tail(0.5)).value)
    assert (bound(nothing).upper, bound(nothing, tail(0.5)).upper) == (1, 1)


def test_only_outputs_decide_the_number_of_clusters() -> None:
    with_empty = Pool.of(Rows.of(SCORES, COUNTS, empty=True), design="allocated", target="inputs")
    without = Pool.of(Rows.of(SCORES[:2], COUNTS[:2], empty=True), design="fixed", target="inputs")
    for quantity in (LEAKAGE, tail(X)):
        made, want = (bound(p, quantity, confidence=0.5) for p in (with_empty, without))
        assert same(made, want)


@pytest.mark.parametrize("target", ["queries", "inputs"])
@pytest.mark.parametrize("design", ["allocated", "fixed"])
def test_a_question_has_the_same_bound_among_others(design: Any, target: Any) -> None:
    scores = np.random.default_rng(3).random((9, 12)).round(1)
    owners = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    pool = Pool.of(Rows.of(scores), design=design, target=target, owners=owners)
    made = bound(pool, seed=[5, 6, 7])
    assert made.about.over == (3, 2, 4)
    for i, seed in enumerate((5, 6, 7)):
        alone = bound(
            Pool.of(Rows.of(scores[owners == i]), design=design, target=target), seed=seed
        )
        assert (made.lower[i], made.upper[i]) == (alone.lower, alone.upper)
        assert made.value[i] == pytest.approx(alone.value)


def test_the_mean_over_unlike_pools_weighs_questions_equally() -> None:
    scores = np.random.default_rng(3).random((9, 12)).round(1)
    owners = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2])
    pool = Pool.of(Rows.of(scores), design="fixed", owners=owners)
    mean = bound(pool, LEAKAGE.mean(), seed=2)
    weighted = bound(Rows.of(scores), LEAKAGE.mean(1 / np.array([3, 2, 4])[owners]), seed=2)
    assert (mean.lower, mean.upper) == (weighted.lower, weighted.upper)
    assert mean.value == pytest.approx(np.mean(bound(pool).value))
    assert (mean.about.scope, mean.about.over, mean.about.inputs) == ("mean", 3, "these queries")


def test_a_band_of_clusters_needs_an_alpha_that_it_can_solve_for() -> None:
    with pytest.raises(InputError, match="at least 1e-11"):
        clusters.berk_jones(np.array([0.5]), 50, 1e-12)
    assert 0 < clusters.berk_jones(np.array([0.9]), 50, 1e-10)[0] < 0.9


@pytest.mark.thorough
@pytest.mark.parametrize("alpha", [0.5, 0.1])
def test_bands_over_the_inputs_by_enumeration(alpha: float) -> None:
    """Every outcome of 4 queries with 2 outputs each, under equal and unequal distributions.

    Scores are 0, .5 or 1. A case lists (chance, distribution of one output) of a random query.
    """
    laws = {
        "one law": [(1.0, (0.5, 0.3, 0.2))],
        "copies": [(0.5, (1.0, 0.0, 0.0)), (0.3, (0.0, 1.0, 0.0)), (0.2, (0.0, 0.0, 1.0))],
        "some leak": [(0.8, (0.95, 0.05, 0.0)), (0.2, (0.1, 0.2, 0.7))],
    }
    outcomes = list(combinations_with_replacement(range(3), 2))

    @cache
    def ends(rows: tuple[tuple[int, ...], ...], side: Any) -> tuple[np.ndarray, np.ndarray]:
        pool = Pool.of(Rows.of(np.array(rows) / 2, empty=True), design="fixed", target="inputs")
        made = bound(pool, tail([0.0, 0.5]), confidence=1 - alpha, side=side)
        return np.asarray(made.lower), np.asarray(made.upper)

    for name, law in laws.items():
        chance = [sum(w * q[a] * q[b] * (1 if a == b else 2) for w, q in law) for a, b in outcomes]
        cdf = np.cumsum(sum(w * np.array(q) for w, q in law))
        for side in ("upper", "lower"):
            missed = 0.0
            for drawn in product(range(len(outcomes)), repeat=4):
                low, high = ends(tuple(sorted(outcomes[i] for i in drawn)), side)
                truth = 1 - cdf[:2]
                if ((low > truth + 1e-12) | (high < truth - 1e-12)).any():
                    missed += np.prod([chance[i] for i in drawn])
            assert missed <= alpha, (name, side)
