"""Bounds from exact masses, with and without draws from the remainder, by brute force."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from stretches import EXTRAS

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    SD,
    Estimate,
    Mass,
    Masses,
    Quantity,
    Rows,
    bound,
    leak_at,
    proof_of_leak,
    tail,
)

K = np.array([1, 3, 200])


def interval(bound: Estimate) -> list[Any]:
    return [bound.lower, bound.upper]


def settled(pairs: list[Any], remainder: float = 0.0) -> Mass:
    """Build a Mass from (p, score) pairs."""
    p, score = np.array(pairs, float).reshape(-1, 2).T
    return Mass(p, score, score, remainder)


class Law:
    """A finite distribution, its outputs split into events and a remainder at random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        outputs, events = int(rng.integers(2, 12)), int(rng.integers(1, 6))
        self.p = rng.dirichlet(np.full(outputs, 0.5))
        self.scores = rng.choice([0, 1, *rng.random(3)], outputs)
        self.event = rng.integers(-1, events, outputs)  # -1: the remainder
        self.shrink = rng.choice([1.0, np.exp(-0.1), 0.5])
        kept = [e for e in range(events) if (self.event == e).any()]
        of = [self.event == e for e in kept]
        self.mass = Mass(
            np.array([self.shrink * self.p[o].sum() for o in of]),
            np.array([self.scores[o].min() for o in of]),
            np.array([self.scores[o].max() for o in of]),
        )

    def tail(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((self.p[:, None] * (self.scores[:, None] > x)).sum(axis=0))

    @property
    def mean(self) -> float:
        return float(self.p @ self.scores)

    @property
    def std(self) -> float:
        return float(np.sqrt(self.p @ (self.scores - self.mean) ** 2))

    def leak_at(self, k: np.ndarray) -> np.ndarray:
        order = np.argsort(self.scores)
        cdf = np.minimum(np.cumsum(self.p[order]), 1)
        powers = np.diff(cdf ** k[:, None], prepend=0, axis=1)
        return np.asarray(powers @ self.scores[order])


def contains(bound: Estimate, truth: np.ndarray | float) -> bool:
    return bool(np.all((bound.lower <= truth + 1e-12) & (truth - 1e-12 <= bound.upper)))


@pytest.mark.parametrize("case", EXTRAS["tree_bounds"]["cases"])
def test_settled_trees(case: dict[str, Any]) -> None:
    mass = settled(case["explored"])

    def exactly(key: str) -> Any:
        return pytest.approx([float(v) for v in case[key]], rel=1e-12, abs=1e-12)

    x, k = float(case["x"]), case["k"]
    assert mass.slack == pytest.approx(float(case["remainder"]), abs=1e-15)
    assert interval(bound(Masses.of(mass), tail(x))) == exactly("tail")
    assert interval(bound(Masses.of(mass))) == exactly("mean")
    assert interval(bound(Masses.of(mass), leak_at(k))) == exactly("leak_at_k")
    std = bound(Masses.of(mass), SD)
    assert [std.lower**2, std.upper**2] == exactly("var")


def test_certain_without_draws() -> None:
    mass = settled([(0.5, 0), (0.2, 1)], remainder=0.2)
    for made in (
        bound(Masses.of(mass), tail(0.5)),
        bound(Masses.of(mass, binary=True)),
        bound(Masses.of(mass, Rows.of([], [], empty=True))),
        bound(Masses.of(mass, Rows.of([0.3], [0], empty=True)), leak_at(1)),
        bound(Masses.of(mass, binary=True), leak_at(1)),
    ):
        assert interval(made) == pytest.approx([0.2, 0.5])  # the remainder is unknown too
        assert (made.confidence, made.method, made.n) == (1.0, "exact mass", 0)
        assert made.value == pytest.approx(0.2 / 0.7)
    assert bound(Masses.of(mass), SD).confidence == 1.0
    assert bound(Masses.of(mass), SD) == bound(Masses.of(settled([(0.5, 0), (0.2, 1)])), SD)
    for above in (  # no score is above 1
        bound(Masses.of(mass), tail([1, 1.5])),
        bound(Masses.of(mass, Rows.of([0.5, 1])), tail([1, 1.5])),
    ):
        assert np.all(above.upper == 0)


def test_proved_by_enormous_k() -> None:
    """1 - (1 - p)^k to twelve digits where (1 - p) is rounded to nine at best."""
    for p, k in (("1e-9", 10**9), ("3e-7", 10**6), ("1e-12", 10**9)):
        with localcontext() as context:
            context.prec = 60
            chance = float(1 - (1 - Decimal(p)) ** k)
        proof = proof_of_leak([float(p)], [0.7], leak_at([1, k]))
        assert proof.lower == pytest.approx([0.7 * float(p), 0.7 * chance], rel=1e-12)
        mass = settled([(1 - float(p), 0)])
        upper = bound(Masses.of(mass, binary=True), leak_at(k)).upper
        assert upper == pytest.approx(chance, rel=1e-3)  # 1 - p itself is rounded
    everything = bound(Masses.of(settled([(0.5, 0.2), (0.5, 1)])), leak_at([10**6, 10**9]))
    assert interval(everything) == [pytest.approx([1, 1]), pytest.approx([1, 1])]


LAWS = [Law(seed) for seed in range(150)]


def test_exact_bounds_contain_the_truth_and_the_value() -> None:
    for law in LAWS:
        x = np.unique([-0.5, 0, 0.3, 1, 1.5, *law.scores])
        for made, truth in (
            (bound(Masses.of(law.mass), tail(x)), law.tail(x)),
            (bound(Masses.of(law.mass)), law.mean),
            (bound(Masses.of(law.mass), leak_at(K)), law.leak_at(K)),
            (bound(Masses.of(law.mass), SD), law.std),
        ):
            assert contains(made, truth), law.mass
            assert law.mass.p.sum() == 0 or contains(made, made.value), law.mass


def test_tails_and_means_are_attained() -> None:
    """Some compatible distribution reaches each bound, so no tighter bound is valid."""
    mass = Mass(np.array([0.3, 0.4]), np.array([0.1, 0.5]), np.array([0.6, 0.5]))
    x = [0, 0.1, 0.4, 0.5, 0.59, 0.6, 0.99, 1]
    lowest = settled([(0.3, 0.1), (0.4, 0.5), (0.3, 0)])
    highest = settled([(0.3, 0.6), (0.4, 0.5), (0.3, 1)])
    for quantity in (LEAKAGE, tail(x), leak_at(K)):
        made, least, most = (bound(Masses.of(m), quantity) for m in (mass, lowest, highest))
        assert made.lower == pytest.approx(least.lower)
        assert made.upper == pytest.approx(most.upper)
        assert interval(least)[0] == pytest.approx(least.upper)


@pytest.mark.parametrize("seed", range(3))
def test_std_is_the_range_over_all_fitting_distributions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3)) * [1, 1, 1]
    low, high = np.sort(rng.random((2, 2)), axis=0)
    made = bound(Masses.of(Mass(p[:2], low, high)), SD)
    low, high = np.append(low, 0), np.append(high, 1)
    share = np.stack(np.meshgrid(*[np.linspace(0, 1, 41)] * 3), axis=-1).reshape(-1, 3)
    mean = (p * (low + share * (high - low))).sum(axis=1)
    square = (p * (low**2 + share * (high**2 - low**2))).sum(axis=1)
    spread = np.sqrt(np.maximum(square - mean**2, 0))
    assert spread.max() <= made.upper + 1e-12
    assert spread.max() == pytest.approx(made.upper, abs=2e-3)
    point = low + share * (high - low)  # every event in one point
    nearest = np.sqrt((p * (point - (p * point).sum(axis=1)[:, None]) ** 2).sum(axis=1))
    assert nearest.min() >= made.lower - 1e-12
    assert nearest.min() == pytest.approx(made.lower, abs=2e-2)


def test_rounding_beyond_one_is_forgiven() -> None:
    mass = settled([(0.7, 1), (0.3 + 5e-10, 1)])
    assert mass.slack == 0
    assert interval(bound(Masses.of(mass))) == [1, 1]


def test_slack_keeps_mass_that_plain_sums_lose() -> None:
    """Ten thousand masses that leave 1e-13: a naive sum loses it."""
    p = np.random.default_rng(0).dirichlet(np.ones(10_000))
    p *= (1 - 1e-13) / p.sum()
    assert Mass(p, 0 * p, 0 * p).slack == pytest.approx(1e-13, abs=2e-16)


NOTHING = np.empty(0)


@pytest.mark.parametrize("case", EXTRAS["hybrid_tree_mc"]["cases"])
def test_hybrid(case: dict[str, Any]) -> None:
    leak, rest = float(case["P_leak"]), float(case["R"])
    mass = settled([(leak, 1), (1 - leak - rest, 0)], rest)
    confidence = 1 - float(case["alpha"])
    made = bound(
        Masses.of(mass, Rows.of_hits(case["s"], case["n"])), confidence=confidence, side="upper"
    )
    assert made.upper == pytest.approx(float(case["upper"]), rel=1e-9)
    assert (made.lower, made.n, made.confidence) == (0, case["n"], confidence)
    assert made.method == "exact mass + Clopper-Pearson"


SCORES = np.array([0.0] * 20 + [0.2, 0.2, 0.7, 1.0])
ALONE = Mass(NOTHING, NOTHING, NOTHING, remainder=1.0)
X = np.array([-0.1, 0, 0.2, 0.5, 1])


PAIRS = [
    *((False, quantity) for quantity in (LEAKAGE, tail(X), leak_at(K))),
    (True, LEAKAGE),
    (True, leak_at(K)),
]


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("missing", [0, 3])
@pytest.mark.parametrize(("binary", "quantity"), PAIRS)
def test_without_events_the_plain_bound_is_used(
    binary: bool, quantity: Quantity, missing: int, side: Any
) -> None:
    rows = Rows.of(SCORES > 0.5 if binary else SCORES, missing=missing, binary=binary)
    hybrid, plain = (
        bound(given, quantity, side=side, seed=5) for given in (Masses.of(ALONE, rows), rows)
    )
    for key in ("lower", "upper"):
        assert getattr(hybrid, key) == pytest.approx(getattr(plain, key), abs=1e-12)
    for key in ("estimand", "side", "confidence", "n", "missing", "seed"):
        assert getattr(hybrid, key) == getattr(plain, key)
    if quantity.reading != "leak@k":
        assert hybrid.value == pytest.approx(plain.value)


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_unknown_mass_counts_as_1_above_and_0_below(side: str) -> None:
    """Scores drawn from the remainder do not inform the slack, 0.15 here."""
    mass, rest, scores = settled([(0.4, 0), (0.2, 0.6)], 0.25), 0.25, np.append(SCORES, SCORES)
    rows = Rows.of(scores)
    mean, plain = (bound(given, side=side) for given in (Masses.of(mass, rows), rows))
    if side != "upper":
        assert mean.lower == pytest.approx(0.12 + rest * plain.lower)
    if side != "lower":
        assert mean.upper == pytest.approx(0.12 + rest * plain.upper + 0.15)
    assert (mean.lower == 0, mean.upper == 1) == (side == "upper", side == "lower")


def test_the_value_mixes_events_and_draws() -> None:
    mass = Mass(np.array([0.4, 0.2]), np.array([0.0, 0.5]), np.array([0.0, 1.0]), 0.3)
    above, mean = 0.2 * np.array([1, 0.5]) / 0.9, (0.2 * 0.75 + 0.3 * 0.25) / 0.9
    scores = [0.5, 0.0]
    assert bound(Masses.of(mass, Rows.of(scores))).value == pytest.approx(mean)
    x = bound(Masses.of(mass, Rows.of(scores)), tail([0.4, 0.6]))
    assert x.value == pytest.approx(above + np.array([0.15 / 0.9, 0]))
    assert bound(Masses.of(mass, Rows.of(scores)), leak_at(1)).value == pytest.approx(mean)
    assert np.isnan(bound(Masses.of(ALONE, Rows.of([], missing=4))).value)
    assert np.isnan(bound(Masses.of(Mass(NOTHING, NOTHING, NOTHING))).value)


def trials(count: int, n: int = 200) -> tuple[Mass, Mass, np.ndarray, Law]:
    """Draw a distribution with some leaks in the remainder; masses are known to 90 % only.

    Also build a Mass that counts the slack as remainder, which makes the bound invalid.
    """
    law = Law(0)
    law.p, law.scores = np.array([0.3, 0.3, 0.2, 0.01, 0.19]), np.array([0, 1, 0.4, 0.8, 0])
    p, low, high = 0.9 * law.p[:3], np.array([0, 1, 0.3]), np.array([0, 1, 0.4])
    draws = np.random.default_rng(5).choice(law.scores[3:], (count, n), p=law.p[3:] / 0.2)
    careless = Mass(p, low, high, remainder=1 - p.sum())
    return Mass(p, low, high, remainder=0.9 * 0.2), careless, draws, law


HYBRIDS: dict[str, tuple[Quantity, Callable[[Law], np.ndarray | float]]] = {
    "tail": (tail(X), lambda law: law.tail(X)),
    "mean": (LEAKAGE, lambda law: law.mean),
    "leak@k": (leak_at(K), lambda law: law.leak_at(K)),
}


@pytest.mark.parametrize(
    "name", ["tail", pytest.param("mean", marks=pytest.mark.thorough), "leak@k"]
)
def test_hybrid_coverage(name: str) -> None:
    mass, careless, draws, law = trials(40 if name == "mean" else 150)
    quantity, truth = HYBRIDS[name]
    allowed = int(binom.ppf(1 - 1e-4, len(draws), 0.1))

    def misses(known: Mass, side: Any) -> int:
        given = [Masses.of(known, Rows.of(row)) for row in draws]
        bounds = [bound(one, quantity, confidence=0.9, side=side) for one in given]
        return sum(not contains(made, truth(law)) for made in bounds)

    assert misses(mass, "upper") <= allowed
    assert misses(mass, "lower") <= allowed
    assert misses(careless, "upper") > allowed


def test_the_mean_of_masses_adds_events_and_draws() -> None:
    known = [
        Mass(np.array([0.5, 0.1]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.4),
        Mass(np.array([0.7]), np.array([1.0]), np.array([1.0])),
    ]
    scores, counts = [[0.0, 1.0], [0.0, 1.0]], [[80, 20], [0, 0]]
    masses = Masses.of(known, Rows.of(scores, counts, binary=True, empty=True))
    made = bound(masses, LEAKAGE.mean(), confidence=0.9)
    inside = bound(Rows.of_hits(20, 100), confidence=0.9)
    assert made.lower == pytest.approx((0.1 + 0.4 * inside.lower + 0.7) / 2, abs=1e-12)
    assert made.upper == pytest.approx((0.1 + 0.4 * inside.upper + 1.0) / 2, abs=1e-12)
    assert made.value == pytest.approx(((0.1 + 0.4 * 0.2 + 0.7) / 2) / 0.85, abs=1e-12)
    assert (made.n, made.confidence, made.about.over) == (100, 0.9, 2)
    assert made.target == "the mean over these questions under this decoding"
    below = bound(masses, LEAKAGE.mean(), side="lower")
    assert (made.side, below.side, below.upper) == ("both", "lower", 1.0)
    sure = bound(Masses.of(known[1:], Rows.of([[0.0]], [[0]], empty=True)), LEAKAGE.mean())
    assert (sure.lower, sure.upper, sure.confidence) == (0.7, 1.0, 1.0)
    assert sure.method == "exact mass"
    undrawn = Masses.of(known[:1], Rows.of([[0.0]], [[0]], empty=True))
    unknown = bound(undrawn, LEAKAGE.mean())  # a remainder without draws
    assert (unknown.lower, unknown.upper) == pytest.approx((0.1, 0.5))
    nothing = bound(Masses.of(settled([]), binary=True), LEAKAGE.mean())
    assert (nothing.lower, nothing.upper, np.isnan(nothing.value)) == (0.0, 1.0, True)
    with pytest.raises(InputError, match="one row for each of 2 masses"):
        Masses.of(known, Rows.of([[0.0]]))


def test_a_question_has_the_same_bound_among_others() -> None:
    known = [settled([(0.4, 0), (0.2, 0.6)], 0.3), settled([(0.5, 1)]), settled([(0.1, 0)], 0.9)]
    scores, counts = np.tile(SCORES, (3, 1)), np.ones((3, len(SCORES)), int)
    counts[1] = 0
    masses = Masses.of(known, Rows.of(scores, counts, empty=True))
    for quantity in (LEAKAGE, tail(X), leak_at(K), SD):
        made = bound(masses, quantity, seed=[5, 6, 7])
        for i, seed in enumerate((5, 6, 7)):
            own = Masses.of(known[i], None if i == 1 else Rows.of(SCORES))
            alone = bound(own, quantity, seed=seed)
            np.testing.assert_array_equal(made.lower[i], alone.lower)
            np.testing.assert_array_equal(made.upper[i], alone.upper)
            assert made.n[i] == alone.n
    mixed = bound(masses, seed=[5, 6, 7])
    assert (mixed.method, mixed.confidence) == ("exact mass + finite-horizon betting", 0.99)
    assert mixed.seed.tolist() == [5, 6, 7]


XS = (0.0, 1.0, 0.1, 0.3, 0.5, 1 / 3)


def variance(p: list[float], x: list[float]) -> Fraction:
    """Return the variance at these masses in exact arithmetic, scaled to add up to 1."""
    total = sum(map(Fraction, p))
    shares = [Fraction(each) / total for each in p]
    mean = sum(a * Fraction(b) for a, b in zip(shares, x, strict=True))
    return sum((a * (Fraction(b) - mean) ** 2 for a, b in zip(shares, x, strict=True)), Fraction())


def test_a_fully_known_deviation_is_enclosed() -> None:
    rng = np.random.default_rng(0)
    for _ in range(600):
        d = int(rng.integers(1, 6))
        p = rng.dirichlet(np.full(d, rng.choice([0.1, 1.0, 10.0]))).tolist()
        x = rng.choice(XS, size=d).tolist()
        made = bound(Masses.of(Mass(np.array(p), np.array(x), np.array(x))), SD)
        lower, value, upper = (
            float(np.asarray(each)) for each in (made.lower, made.value, made.upper)
        )
        assert lower <= value <= upper
        if sum(map(Fraction, p)) <= 1:  # else no distribution has these masses
            truth = variance(p, x)
            assert Fraction(lower) ** 2 <= truth <= Fraction(upper) ** 2
        assert upper - lower < 1e-6


def test_identical_scores_have_a_deviation_of_0() -> None:
    """Fractions of .9 add up to a mean with a rounding error, which the deviation must not keep."""
    p, x = np.array([0.7928268871303794, 0.20717311286962065]), np.array([0.9, 0.9])
    made = bound(Masses.of(Mass(p, x, x)), SD)
    assert (made.lower, made.value, made.upper) == (0, 0, 0)


@pytest.mark.parametrize("over", [1e-12, 5e-10, 9.9e-10])
@pytest.mark.parametrize("x", [[0.0, 1.0], [0.0, 0.5], [1 / 3, 1 / 3]])
def test_masses_that_add_up_to_a_little_more_than_one(over: float, x: list[float]) -> None:
    p = [0.5, 0.5 + over]
    made = bound(Masses.of(Mass(np.array(p), np.array(x), np.array(x))), SD)
    truth = sqrt(variance(p, x))
    assert made.lower <= truth <= made.upper <= 0.5
    assert made.upper - made.lower < 1e-4
