"""Bounds from exact masses, with and without draws from the remainder: by brute force and laws."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from stretches import EXTRAS

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
    proof_of_leak,
    proportion_bound,
    survival_bound,
)

K = np.array([1, 3, 200])


def interval(bound: Estimate) -> list[Any]:
    return [bound.lower, bound.upper]


def settled(pairs: list[Any], remainder: float = 0.0) -> Mass:
    """A Mass from (p, score) pairs."""
    p, score = np.array(pairs, float).reshape(-1, 2).T
    return Mass(p, score, score, remainder)


class Law:
    """A finite law, its outputs parted into events and a remainder at random."""

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
    assert mass_std_bound(mass) == mass_std_bound(settled([(0.5, 0), (0.2, 1)]))
    for above in (  # no score lies above 1
        mass_survival_bound(mass, [1, 1.5]),
        mass_survival_bound(mass, [1, 1.5], [0.5, 1]),
        mass_proportion_bound(mass, x=1),
    ):
        assert np.all(above.upper == 0)


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


LAWS = [Law(seed) for seed in range(150)]


def test_exact_bounds_contain_the_truth_and_the_value() -> None:
    for law in LAWS:
        x = np.unique([-0.5, 0, 0.3, 1, 1.5, *law.scores])
        for bound, truth in (
            (mass_survival_bound(law.mass, x), law.tail(x)),
            (mass_proportion_bound(law.mass, x=0.3), law.tail(np.array([0.3]))[0]),
            (mass_mean_bound(law.mass), law.mean),
            (mass_leak_at_k_bound(law.mass, K), law.leak_at(K)),
            (mass_std_bound(law.mass), law.std),
        ):
            assert contains(bound, truth), law.mass
            assert law.mass.p.sum() == 0 or contains(bound, bound.value), law.mass


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


def test_knowing_more_never_widens() -> None:
    """Slack becomes an event, and an event's range shrinks."""
    for law in LAWS[:40]:
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
            for wide, narrow in pairwise([call(m) for m in (mass, more, sharper)]):
                assert (np.asarray(narrow.lower) >= np.asarray(wide.lower) - 1e-12).all(), mass
                assert (np.asarray(narrow.upper) <= np.asarray(wide.upper) + 1e-12).all(), mass


@pytest.mark.parametrize(
    ("p", "low", "high", "remainder", "message"),
    [
        ([-0.1], [0], [1], 0, "smallest of -0.1"),
        ([0.5], [0], [1], -0.1, "smallest of -0.1"),
        ([0.5, 0.5], [0, 0], [1, 1], 2e-9, "at most 1"),
        ([np.nan], [0], [1], 0, "masses"),
        ([0.5, 0.1], [0, 0.6], [1, 0.5], 0, "event 1"),
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
        (lambda: mass_proportion_bound(mass, x=[0.1, 0.2]), "one finite"),  # type: ignore[arg-type]
        (lambda: mass_proportion_bound(mass, 1, 0), "n"),
        (lambda: mass_leak_at_k_proportion_bound(mass, 2), "0.3"),
        (lambda: mass_leak_at_k_bound(mass, 0), "`k`"),
        (lambda: mass_mean_bound(mass, [1.2]), r"\[0, 1\]"),
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


def of_hits(bound: Callable[..., Estimate]) -> Callable[..., Estimate]:
    def call(scores: np.ndarray, missing: int, **how: Any) -> Estimate:
        return bound(
            hits=int((scores > 0.5).sum()), n=len(scores) + missing, missing=missing, **how
        )

    return call


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
    "proportion": (of_hits(partial(mass_proportion_bound, ALONE)), of_hits(proportion_bound)),
    "leak@k of hits": (
        of_hits(partial(mass_leak_at_k_proportion_bound, ALONE, K)),
        of_hits(partial(leak_at_k_proportion_bound, k=K)),
    ),
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
    with pytest.raises(InputError, match=r"must be 0 or 1, got 0\.5"):
        mass_mean_over_questions(known, [[0.0, 0.5], [0.0, 1.0]], counts, binary=True)


XS = (0.0, 1.0, 0.1, 0.3, 0.5, 1 / 3)


def variance(p: list[float], x: list[float]) -> Fraction:
    """Of the law with these masses, in exact arithmetic; they are scaled to add up to 1."""
    total = sum(map(Fraction, p))
    shares = [Fraction(each) / total for each in p]
    mean = sum(a * Fraction(b) for a, b in zip(shares, x, strict=True))
    return sum((a * (Fraction(b) - mean) ** 2 for a, b in zip(shares, x, strict=True)), Fraction())


def test_what_is_known_whole_has_ends_on_either_side_of_the_truth() -> None:
    rng = np.random.default_rng(0)
    for _ in range(1500):
        d = int(rng.integers(1, 6))
        p = rng.dirichlet(np.full(d, rng.choice([0.1, 1.0, 10.0]))).tolist()
        x = rng.choice(XS, size=d).tolist()
        bound = mass_std_bound(Mass(np.array(p), np.array(x), np.array(x)))
        lower, value, upper = (
            float(np.asarray(each)) for each in (bound.lower, bound.value, bound.upper)
        )
        assert lower <= value <= upper
        if sum(map(Fraction, p)) <= 1:  # else no law has these masses
            truth = variance(p, x)
            assert Fraction(lower) ** 2 <= truth <= Fraction(upper) ** 2
        assert upper - lower < 1e-6


def test_where_all_score_alike_the_value_is_no_rounding_of_the_mean() -> None:
    """Shares of .9 add up to a mean that is off by one rounding, and so would be the deviation."""
    p, x = np.array([0.7928268871303794, 0.20717311286962065]), np.array([0.9, 0.9])
    bound = mass_std_bound(Mass(p, x, x))
    assert (bound.lower, bound.value, bound.upper) == (0, 0, 0)


@pytest.mark.parametrize("over", [1e-12, 5e-10, 9.9e-10])
@pytest.mark.parametrize("x", [[0.0, 1.0], [0.0, 0.5], [1 / 3, 1 / 3]])
def test_masses_that_add_up_to_a_little_more_than_one(over: float, x: list[float]) -> None:
    p = [0.5, 0.5 + over]
    bound = mass_std_bound(Mass(np.array(p), np.array(x), np.array(x)))
    truth = sqrt(variance(p, x))
    assert bound.lower <= truth <= bound.upper <= 0.5
    assert bound.upper - bound.lower < 1e-4
