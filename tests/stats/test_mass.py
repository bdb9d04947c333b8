"""Bounds from exact masses: reference values, brute force over finite laws, coverage of hybrids."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from finite_laws import K, Law, contains, interval, settled
from golden_statistics import EXTRAS

from leakbound.errors import InputError
from leakbound.stats import (
    Mass,
    mass_leak_at_k_bound,
    mass_leak_at_k_proportion_bound,
    mass_mean_bound,
    mass_proportion_bound,
    mass_std_bound,
    mass_survival_bound,
    proof_of_leak,
)

# Reference values


@pytest.mark.parametrize("case", EXTRAS["tree_bounds"]["cases"])
def test_settled_trees(case: dict[str, Any]) -> None:
    mass = settled(case["explored"])

    def exactly(key: str) -> Any:
        return pytest.approx([float(v) for v in case[key]], rel=1e-12, abs=1e-12)

    x, k = float(case["x"]), case["k"]
    assert mass.slack == pytest.approx(float(case["remainder"]), abs=1e-15)
    assert interval(mass_survival_bound(mass, x)) == exactly("tail")
    assert interval(mass_proportion_bound(mass, x=x)) == exactly("tail")
    assert interval(mass_mean_bound(mass)) == exactly("mean")
    assert interval(mass_leak_at_k_bound(mass, k)) == exactly("leak_at_k")
    std = mass_std_bound(mass)
    assert [std.lower**2, std.upper**2] == exactly("var")


def test_certain_without_draws() -> None:
    mass = settled([(0.5, 0), (0.2, 1)], remainder=0.2)
    for bound in (
        mass_survival_bound(mass, 0.5),
        mass_proportion_bound(mass),
        mass_mean_bound(mass, [], []),
        mass_leak_at_k_bound(mass, 1, [0.3], [0]),
        mass_leak_at_k_proportion_bound(mass, 1),
    ):
        assert interval(bound) == pytest.approx([0.2, 0.5])  # the remainder is unknown too
        assert (bound.confidence, bound.method, bound.n) == (1.0, "exact mass", 0)
        assert bound.value == pytest.approx(0.2 / 0.7)
    assert mass_std_bound(mass).confidence == 1.0


def test_proved_by_enormous_k() -> None:
    """1 - (1 - p)^k to twelve digits where (1 - p) is rounded to nine at best."""
    for p, k in (("1e-9", 10**9), ("3e-7", 10**6), ("1e-12", 10**9)):
        with localcontext() as context:
            context.prec = 60
            chance = float(1 - (1 - Decimal(p)) ** k)
        proof = proof_of_leak([float(p)], [0.7], [1, k])
        assert proof.leak_at_k.lower == pytest.approx([0.7 * float(p), 0.7 * chance], rel=1e-12)
        mass = settled([(1 - float(p), 0)])
        upper = mass_leak_at_k_proportion_bound(mass, k).upper
        assert upper == pytest.approx(chance, rel=1e-3)  # 1 - p itself is rounded
    everything = mass_leak_at_k_bound(settled([(0.5, 0.2), (0.5, 1)]), [10**6, 10**9])
    assert interval(everything) == [pytest.approx([1, 1]), pytest.approx([1, 1])]


# Brute force


LAWS = [Law(seed) for seed in range(150)]


@pytest.mark.parametrize("law", LAWS, ids=range(len(LAWS)))
def test_exact_bounds_contain_the_truth_and_the_value(law: Law) -> None:
    x = np.unique([-0.5, 0, 0.3, 1, 1.5, *law.scores])
    for bound, truth in (
        (mass_survival_bound(law.mass, x), law.tail(x)),
        (mass_proportion_bound(law.mass, x=0.3), law.tail(np.array([0.3]))[0]),
        (mass_mean_bound(law.mass), law.mean),
        (mass_leak_at_k_bound(law.mass, K), law.leak_at(K)),
        (mass_std_bound(law.mass), law.std),
    ):
        assert contains(bound, truth)
        if law.mass.p.sum() > 0:
            assert contains(bound, bound.value)


def test_tails_and_means_are_attained() -> None:
    """Laws that fit reach both ends: nothing better holds."""
    mass = Mass(np.array([0.3, 0.4]), np.array([0.1, 0.5]), np.array([0.6, 0.5]))
    x = [0, 0.1, 0.4, 0.5, 0.59, 0.6, 0.99, 1]
    lowest = settled([(0.3, 0.1), (0.4, 0.5), (0.3, 0)])
    highest = settled([(0.3, 0.6), (0.4, 0.5), (0.3, 1)])
    for call in (
        mass_mean_bound,
        partial(mass_survival_bound, x=x),
        partial(mass_leak_at_k_bound, k=K),
    ):
        bound = call(mass)
        assert bound.lower == pytest.approx(call(lowest).lower)
        assert bound.upper == pytest.approx(call(highest).upper)
        assert interval(call(lowest))[0] == pytest.approx(call(lowest).upper)


@pytest.mark.parametrize("seed", range(6))
def test_std_is_the_range_over_all_laws_that_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3)) * [1, 1, 1]
    low, high = np.sort(rng.random((2, 2)), axis=0)
    bound = mass_std_bound(Mass(p[:2], low, high))
    low, high = np.append(low, 0), np.append(high, 1)
    share = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 3), axis=-1).reshape(-1, 3)
    mean = (p * (low + share * (high - low))).sum(axis=1)
    square = (p * (low**2 + share * (high**2 - low**2))).sum(axis=1)
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    assert spread.max() <= bound.upper + 1e-12
    assert spread.max() == pytest.approx(bound.upper, abs=2e-3)
    point = low + share * (high - low)  # every event in one point
    nearest = np.sqrt((p * (point - (p * point).sum(axis=1)[:, None]) ** 2).sum(axis=1))
    assert nearest.min() >= bound.lower - 1e-12
    assert nearest.min() == pytest.approx(bound.lower, abs=2e-2)


@pytest.mark.parametrize("law", LAWS[:40], ids=range(40))
def test_knowing_more_never_widens(law: Law) -> None:
    """Slack becomes an event, and an event's range shrinks."""
    mass = law.mass
    more = Mass(
        np.append(mass.p, mass.slack / 2), np.append(mass.low, 0.2), np.append(mass.high, 0.9)
    )
    sharper = Mass(more.p, (more.low + more.high) / 2, more.high)
    for call in (
        partial(mass_survival_bound, x=[0, 0.15, 0.5, 0.95]),
        mass_mean_bound,
        partial(mass_leak_at_k_bound, k=K),
        mass_std_bound,
    ):
        bounds = [call(m) for m in (mass, more, sharper)]
        for wide, narrow in pairwise(bounds):
            assert (np.asarray(narrow.lower) >= np.asarray(wide.lower) - 1e-12).all()
            assert (np.asarray(narrow.upper) <= np.asarray(wide.upper) + 1e-12).all()


# Input


@pytest.mark.parametrize(
    ("p", "low", "high", "remainder", "message"),
    [
        ([-0.1], [0], [1], 0, "smallest of -0.1"),
        ([0.5], [0], [1], -0.1, "smallest of -0.1"),
        ([0.6, 0.3], [0, 0], [1, 1], 0.2, "sum of 1.1"),
        ([0.5, 0.5], [0, 0], [1, 1], 2e-9, "at most 1"),
        ([np.nan], [0], [1], 0, "masses"),
        ([0.5, 0.1], [0, 0.6], [1, 0.5], 0, "event 1"),
        ([0.5], [-0.1], [0.5], 0, "event 0"),
        ([0.5], [0.5], [1.1], 0, "event 0"),
        ([0.5], [np.nan], [1], 0, "event 0"),
        ([0.5], [0, 0], [1, 1], 0, "shapes"),
    ],
)
def test_impossible_masses_are_refused(
    p: Any, low: Any, high: Any, remainder: float, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        Mass(np.array(p), np.array(low), np.array(high), remainder)
    assert message in str(caught.value)


def test_bad_input_is_refused() -> None:
    mass = settled([(0.5, 0.3)], remainder=0.5)
    for call, message in (
        (lambda: mass_survival_bound(mass, np.nan), "`x`"),
        (lambda: mass_survival_bound(mass, [[0.1]]), "`x`"),
        (lambda: mass_proportion_bound(mass, x=[0.1, 0.2]), "one finite"),  # type: ignore[arg-type]
        (lambda: mass_proportion_bound(mass, 1, 0), "n"),
        (lambda: mass_leak_at_k_proportion_bound(mass, 2), "0.3"),
        (lambda: mass_leak_at_k_bound(mass, 0), "`k`"),
        (lambda: mass_mean_bound(mass, [[0.1], [0.2]]), "1-D"),
        (lambda: mass_mean_bound(mass, [1.2]), r"\[0, 1\]"),
        (lambda: mass_mean_bound(mass, confidence=1.0), "strictly"),
        (lambda: mass_mean_bound(mass, side="top"), "'both'"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match=message):
            call()


def test_rounding_beyond_one_is_forgiven() -> None:
    mass = settled([(0.7, 1), (0.3 + 5e-10, 1)])
    assert mass.slack == 0
    assert interval(mass_mean_bound(mass)) == [1, 1]


def test_slack_keeps_what_plain_sums_lose() -> None:
    """Ten thousand masses that leave 1e-13: added up one by one they leave anything."""
    p = np.random.default_rng(0).dirichlet(np.ones(10_000))
    p *= (1 - 1e-13) / p.sum()
    assert Mass(p, 0 * p, 0 * p).slack == pytest.approx(1e-13, abs=2e-16)
