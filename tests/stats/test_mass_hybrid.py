"""Exact masses with draws from the remainder: plain bounds as a special case, coverage."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from finite_laws import K, Law, contains, interval, settled
from golden_statistics import EXTRAS
from scipy.stats import binom

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Mass,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mass_leak_at_k_bound,
    mass_leak_at_k_proportion_bound,
    mass_mean_bound,
    mass_mean_over_questions,
    mass_proportion_bound,
    mass_std_bound,
    mass_survival_bound,
    mean_bound,
    proportion_bound,
    survival_bound,
)

NOTHING = np.empty(0)


@pytest.mark.parametrize("case", EXTRAS["hybrid_tree_mc"]["cases"])
def test_hybrid(case: dict[str, Any]) -> None:
    leak, rest = float(case["P_leak"]), float(case["R"])
    mass = settled([(leak, 1), (1 - leak - rest, 0)], rest)
    confidence = 1 - float(case["alpha"])
    bound = mass_proportion_bound(mass, case["s"], case["n"], confidence=confidence, side="upper")
    assert bound.upper == pytest.approx(float(case["upper"]), rel=1e-9)
    assert (bound.lower, bound.n, bound.confidence) == (0, case["n"], confidence)
    assert bound.method == "exact mass + Clopper-Pearson"


SCORES = np.array([0.0] * 20 + [0.2, 0.2, 0.7, 1.0])
ALONE = Mass(NOTHING, NOTHING, NOTHING, remainder=1.0)
X = np.array([-0.1, 0, 0.2, 0.5, 1])
PAIRS: dict[str, tuple[Callable[..., Estimate], Callable[..., Estimate]]] = {
    **{
        f"mean {m}": (partial(mass_mean_bound, ALONE, method=m), partial(mean_bound, method=m))
        for m in ("betting", "portfolio", "berk-jones", "paper")
    },
    **{
        f"tail {m}": (
            partial(mass_survival_bound, ALONE, X, method=m),
            partial(survival_bound, x=X, method=m),
        )
        for m in ("berk-jones", "paper")
    },
    **{
        f"leak@k {m}": (
            partial(mass_leak_at_k_bound, ALONE, K, method=m),
            partial(leak_at_k_bound, k=K, method=m),
        )
        for m in ("berk-jones", "paper")
    },
}


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("missing", [0, 3])
@pytest.mark.parametrize("name", PAIRS)
def test_with_nothing_explored_it_is_the_plain_bound(name: str, missing: int, side: str) -> None:
    hybrid, plain = (call(SCORES, missing=missing, side=side) for call in PAIRS[name])
    for key in ("lower", "upper"):
        assert getattr(hybrid, key) == pytest.approx(getattr(plain, key), abs=1e-12)
    for key in ("estimand", "side", "confidence", "n", "missing", "seed"):
        assert getattr(hybrid, key) == getattr(plain, key)
    if "leak" not in name:
        assert hybrid.value == pytest.approx(plain.value)


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_with_nothing_explored_binary(side: str) -> None:
    args: dict[str, Any] = {"hits": 2, "n": 30, "missing": 1, "side": side}
    for hybrid, plain in (
        (mass_proportion_bound(ALONE, **args), proportion_bound(**args)),
        (
            mass_leak_at_k_proportion_bound(ALONE, K, **args),
            leak_at_k_proportion_bound(**args, k=K),
        ),
    ):
        assert interval(hybrid) == [pytest.approx(plain.lower), pytest.approx(plain.upper)]
        assert hybrid.estimand == plain.estimand


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_what_is_unknown_counts_as_1_above_and_0_below(side: str) -> None:
    """Scores drawn from the remainder say nothing of the slack, 0.15 here."""
    mass, rest, scores = settled([(0.4, 0), (0.2, 0.6)], 0.25), 0.25, np.append(SCORES, SCORES)
    mean, plain = (
        f(scores=scores, side=side) for f in (partial(mass_mean_bound, mass), mean_bound)
    )
    if side != "upper":
        assert mean.lower == pytest.approx(0.12 + rest * plain.lower)
    if side != "lower":
        assert mean.upper == pytest.approx(0.12 + rest * plain.upper + 0.15)
    assert (mean.lower == 0, mean.upper == 1) == (side == "upper", side == "lower")


def test_no_score_lies_above_1() -> None:
    mass = settled([(0.4, 0), (0.2, 1)], remainder=0.25)
    for bound in (
        mass_survival_bound(mass, [1, 1.5]),
        mass_survival_bound(mass, [1, 1.5], [0.5, 1]),
        mass_proportion_bound(mass, x=1),
    ):
        assert np.all(bound.upper == 0)


def test_a_remainder_does_not_narrow_the_deviation() -> None:
    pairs = [(0.4, 0), (0.2, 0.9)]
    assert mass_std_bound(settled(pairs, remainder=0.3)) == mass_std_bound(settled(pairs))


def test_counts_are_only_notation() -> None:
    mass = settled([(0.4, 0), (0.2, 0.6)], remainder=0.35)
    values, counts = np.unique(SCORES, return_counts=True)
    for call in (
        mass_mean_bound,
        partial(mass_survival_bound, x=X),
        partial(mass_leak_at_k_bound, k=K),
    ):
        plain, counted = call(mass, scores=SCORES), call(mass, scores=values, counts=counts)
        assert json.dumps(plain.to_dict()) == json.dumps(counted.to_dict())


def test_the_value_mixes_events_and_draws() -> None:
    mass = Mass(np.array([0.4, 0.2]), np.array([0.0, 0.5]), np.array([0.0, 1.0]), 0.3)
    tail, mean = 0.2 * np.array([1, 0.5]) / 0.9, (0.2 * 0.75 + 0.3 * 0.25) / 0.9
    scores = [0.5, 0.0]
    assert mass_mean_bound(mass, scores).value == pytest.approx(mean)
    x = mass_survival_bound(mass, [0.4, 0.6], scores)
    assert x.value == pytest.approx(tail + np.array([0.15 / 0.9, 0]))
    assert mass_leak_at_k_bound(mass, 1, scores).value == pytest.approx(mean)
    assert np.isnan(mass_mean_bound(ALONE, missing=4).value)
    assert np.isnan(mass_mean_bound(Mass(NOTHING, NOTHING, NOTHING)).value)


def trials(count: int, n: int = 200) -> tuple[Mass, Mass, np.ndarray, Law]:
    """A law with some of its leaks in the remainder; masses are known to 90 % only.

    Also a Mass that ignores the slack by calling it remainder, which voids the bound.
    """
    law = Law(0)
    law.p, law.scores = np.array([0.3, 0.3, 0.2, 0.01, 0.19]), np.array([0, 1, 0.4, 0.8, 0])
    p, low, high = 0.9 * law.p[:3], np.array([0, 1, 0.3]), np.array([0, 1, 0.4])
    draws = np.random.default_rng(5).choice(law.scores[3:], (count, n), p=law.p[3:] / 0.2)
    careless = Mass(p, low, high, remainder=1 - p.sum())
    return Mass(p, low, high, remainder=0.9 * 0.2), careless, draws, law


HYBRIDS: dict[str, tuple[Callable[..., Estimate], Callable[[Law], np.ndarray | float]]] = {
    "tail": (partial(mass_survival_bound, x=X), lambda law: law.tail(X)),
    "mean": (mass_mean_bound, lambda law: law.mean),
    "leak@k": (partial(mass_leak_at_k_bound, k=K), lambda law: law.leak_at(K)),
}


@pytest.mark.parametrize("name", HYBRIDS)
def test_hybrid_coverage(name: str) -> None:
    mass, careless, draws, law = trials(40 if name == "mean" else 150)
    call, truth = HYBRIDS[name]
    allowed = int(binom.ppf(1 - 1e-4, len(draws), 0.1))

    def misses(known: Mass, side: str) -> int:
        bounds = [call(known, scores=row, confidence=0.9, side=side) for row in draws]
        return sum(not contains(bound, truth(law)) for bound in bounds)

    assert misses(mass, "upper") <= allowed
    assert misses(mass, "lower") <= allowed
    assert misses(careless, "upper") > allowed


@pytest.mark.parametrize("q", [0.02, 0.3, 0.9])
def test_hybrid_proportion_errs_as_often_as_it_may(q: float) -> None:
    """With masses known exactly, alpha is spent on the draws, all of it and once."""
    n, rest = 60, 0.25
    mass = settled([(0.1, 1), (0.65, 0)], rest)
    for side in ("upper", "lower"):
        missed = 0.0
        for hits, weight in enumerate(binom.pmf(np.arange(n + 1), n, q)):
            bound = mass_proportion_bound(mass, hits, n, side=side, confidence=0.9)
            missed += weight * (not bound.lower <= 0.1 + rest * q <= bound.upper)
        assert missed <= 0.1
        assert missed > 0.03 or (q, side) == (0.02, "upper")


def test_missing_draws_are_leaks_above_and_none_below() -> None:
    mass, clean = settled([(0.5, 0), (0.1, 1)], remainder=0.4), np.zeros(20)
    for call in (
        partial(mass_mean_bound, method="portfolio"),
        partial(mass_survival_bound, x=0.5),
        partial(mass_leak_at_k_bound, k=2),
    ):
        bound = call(mass, scores=clean, missing=5)
        assert bound.upper == pytest.approx(call(mass, scores=[*clean, *np.ones(5)]).upper)
        assert bound.lower == pytest.approx(call(mass, scores=np.zeros(25)).lower)
        assert (bound.n, bound.missing) == (25, 5)
    leak = mass_proportion_bound(mass, 0, 25, missing=5)
    assert leak.upper == mass_proportion_bound(mass, 5, 25).upper


def test_the_mean_of_masses_adds_what_is_known_and_what_was_drawn() -> None:
    known = [
        Mass(np.array([0.5, 0.1]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.4),
        Mass(np.array([0.7]), np.array([1.0]), np.array([1.0])),
    ]
    scores, counts = [[0.0, 1.0], [0.0, 1.0]], [[80, 20], [0, 0]]
    made = mass_mean_over_questions(known, scores, counts, binary=True, confidence=0.9)
    inside = proportion_bound(20, 100, confidence=0.9, side="both")
    assert made.lower == pytest.approx((0.1 + 0.4 * inside.lower + 0.7) / 2, abs=1e-12)
    assert made.upper == pytest.approx((0.1 + 0.4 * inside.upper + 1.0) / 2, abs=1e-12)
    assert (made.n, made.confidence, made.about.over) == (100, 0.9, 2)
    assert made.target == "the mean over these questions under this decoding"
    below = mass_mean_over_questions(known, scores, counts, binary=True, side="lower")
    assert (made.side, below.side, below.upper) == ("both", "lower", 1.0)
    sure = mass_mean_over_questions(known[1:], [[0.0]], [[0]])
    assert (sure.lower, sure.upper, sure.confidence) == (0.7, 1.0, 1.0)
    assert sure.method == "exact mass"
    with pytest.raises(InputError, match="no remainder"):
        mass_mean_over_questions(known[:1], [[0.0]], [[0]])
    with pytest.raises(InputError, match="one row for each of 2 masses"):
        mass_mean_over_questions(known, [[0.0]])
