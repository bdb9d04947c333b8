"""Weighted draws: weights from their definition, no bias by enumeration, ends by brute force."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from golden_statistics import EXTRAS
from scipy.stats import binom, binomtest

from leakbound.errors import InputError
from leakbound.stats import DrawWeights, importance_bound, mean_bound, standard_error
from leakbound.stats.leakage import Leakage
from leakbound.stats.portfolio import mean_lower

MIXES = (0.0, 0.1, 0.5, 0.9)


def law(seed: int, outputs: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A model's law, a proposal's, and the scores of the outputs; some are impossible under one."""
    rng = np.random.default_rng([3, seed])
    p, r = rng.dirichlet(np.full(outputs, 0.3), 2)
    p[seed % outputs], r[(seed + 2) % outputs] = 0.0, 0.0
    return p / p.sum(), r / r.sum(), rng.choice([0.0, 0.4, 1.0], outputs)


def logs(*laws: np.ndarray) -> list[np.ndarray]:
    with np.errstate(divide="ignore"):
        return [np.log(each) for each in laws]


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("seed", range(8))
def test_weighted_scores_have_the_models_mean_exactly(seed: int, mix: float) -> None:
    """Summed over all outputs of the mixture: nothing is drawn."""
    p, r, scores = law(seed)
    weights = DrawWeights.of(*logs(p, r), mix=mix)
    q = mix * r + (1 - mix) * p
    assert q @ (weights.value * scores) == pytest.approx(p @ scores, abs=1e-15)
    assert (weights.value <= 1 / (1 - mix)).all()
    for got, a, b in zip(weights.value, p, q, strict=True):
        assert got == pytest.approx(a / b if b else 0.0, rel=1e-13)


@pytest.mark.parametrize("seed", range(8))
def test_with_margins_no_law_within_them_is_outside_the_ends(seed: int) -> None:
    """Both laws are drawn from as they are; what is known of them is off by up to the margins."""
    p, r, scores = law(seed)
    rng, mix = np.random.default_rng(seed), 0.3
    margins = np.array([0.05, 0.2])[:, None] * rng.random((2, len(p)))
    for signs in product((-1, 1), (-1, 1), (0.0, 0.5, 1.0)):
        off = [s * signs[2] * m for s, m in zip(signs[:2], margins, strict=True)]
        known = [log + by for log, by in zip(logs(p, r), off, strict=True)]
        given = dict(zip(("margin", "proposal_margin"), margins, strict=True))
        weights = DrawWeights.of(np.minimum(known[0], 0), np.minimum(known[1], 0), mix=mix, **given)
        q = mix * r + (1 - mix) * p
        assert q @ (weights.lower * scores) <= p @ scores + 1e-12
        assert q @ (weights.upper * scores) >= p @ scores - 1e-12
        assert (weights.upper <= 1 / (1 - mix)).all()
    exact = DrawWeights.of(*logs(p, r), mix=mix)
    assert exact.lower.tolist() == exact.value.tolist() == exact.upper.tolist()


def test_each_margin_counts_once_on_either_side() -> None:
    made = DrawWeights.of([-3.0], [-1.0], mix=0.25, margin=[0.2], proposal_margin=[0.5])
    want = [1 / (0.75 + 0.25 * math.exp(2 + by)) for by in (0, 0.7, -0.7)]
    assert [made.value[0], made.lower[0], made.upper[0]] == pytest.approx(want, rel=1e-14)


def test_ends_of_both_laws_are_taken_each_on_its_own_side() -> None:
    nothing = -math.inf
    ours = ([-3.5, nothing, nothing, -2.0], [-3.0, -1.0, nothing, -2.0], [-2.0, -0.5, -4.0, -2.0])
    theirs = ([-1.7, -2.0, -1.0, nothing], [-1.0, -2.0, -1.0, -5.0], [-0.9, -2.0, -1.0, -4.0])
    made = DrawWeights.between(ours, theirs, mix=0.25)

    def weight(p: float, r: float) -> float:
        return 1 / (0.75 + 0.25 * math.exp(r - p))

    assert made.value.tolist() == pytest.approx([weight(-3, -1), weight(-1, -2), 0, weight(-2, -5)])
    assert made.lower.tolist() == pytest.approx([weight(-3.5, -0.9), 0, 0, weight(-2, -4)])
    assert made.upper.tolist() == pytest.approx(
        [weight(-2, -1.7), weight(-0.5, -2), weight(-4, -1), 4 / 3]
    )
    same = DrawWeights.of([-3.0], [-1.0], mix=0.25, margin=[0.2], proposal_margin=[0.5])
    ends = DrawWeights.between(([-3.2], [-3.0], [-2.8]), ([-1.5], [-1.0], [-0.5]), mix=0.25)
    assert (ends.lower, ends.value, ends.upper) == (same.lower, same.value, same.upper)
    with pytest.raises(InputError, match="in this order"):
        DrawWeights.between(([-3.0], [-3.2], [-2.8]), ([-1.5], [-1.0], [-0.5]), mix=0.25)
    with pytest.raises(InputError, match="in this order"):
        DrawWeights.between(([-3.2], [-3.0], [-2.8]), ([-1.5], [-1.0], [-1.2]), mix=0.25)


def test_weights_at_their_limits() -> None:
    nothing = -math.inf
    made = DrawWeights.of(
        [-5.0, nothing, nothing, -900.0], [nothing, -5.0, nothing, -1.0], mix=0.75
    )
    assert made.value.tolist() == made.upper.tolist() == made.lower.tolist() == [4, 0, 0, 0]
    plain = DrawWeights.of([-5.0, -900.0, nothing], [-1.0, -1.0, -2.0], mix=0.0)
    assert plain.value.tolist() == [1, 1, 0]
    rare = DrawWeights.of([-60.0], [-2.0], mix=0.5, margin=[1e-4])
    assert rare.value[0] == pytest.approx(2 * math.exp(-58), rel=1e-12)
    assert rare.lower[0] < rare.value[0] < rare.upper[0]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (([-1.0], [-1.0], 1.0), r"`mix` must lie in \[0, 1\), got 1.0"),
        (([-1.0], [-1.0], -0.1), "`mix`"),
        (([-1.0], [-1.0], math.nan), "`mix`"),
        (([0.5], [-1.0], 0.5), "`logprob`"),
        (([-1.0], [math.nan], 0.5), "`proposal_logprob`"),
        (([-1.0], [-1.0, -2.0], 0.5), "of one shape"),
    ],
)
def test_weights_that_are_none_are_refused(given: tuple[Any, Any, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DrawWeights.of(given[0], given[1], mix=given[2])


def test_ends_in_disorder_and_other_shapes_are_refused() -> None:
    one = np.ones(1)
    for ends in ((one, 2 * one, one), (one, one, 3 * one), (one, -one, one), (one, one, one / 2)):
        with pytest.raises(InputError, match="0 <= lower <= value <= upper"):
            DrawWeights(*ends, mix=0.5)
    with pytest.raises(InputError, match="one shape"):
        DrawWeights(one, np.ones(2), one, mix=0.5)
    with pytest.raises(InputError, match="at least 0"):
        DrawWeights.of([-1.0], [-1.0], mix=0.5, margin=-1e-3)
    with pytest.raises(InputError, match="shape of `scores`"):
        importance_bound([0.1, 0.2], DrawWeights(one, one, one, 0.5))


# The bound


CASES: list[dict[str, Any]] = EXTRAS["importance_mean"]["cases"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_golden_values(case: dict[str, Any]) -> None:
    """The lower end from the wealth as it is written, in 50 digits; the upper by betting."""
    scores, counts = np.array(case["scores"]), np.array(case["counts"])
    given = [np.array(case[name], float) for name in ("logprob", "proposal_logprob")]
    weights = DrawWeights.of(*given, mix=case["mix"])
    how: dict[str, Any] = {"missing": case["missing"], "confidence": 1 - float(case["alpha"])}
    lower = importance_bound(scores, weights, counts, side="lower", **how)
    assert lower.lower == pytest.approx(float(case["lower"]), rel=1e-11)
    assert lower.value == pytest.approx(float(case["value"]), rel=1e-12)
    assert standard_error(scores, weights, counts) == pytest.approx(
        float(case["standard_error"]), rel=1e-12
    )
    upper = importance_bound(scores, weights, counts, side="upper", seed=4, **how)
    scaled = (1 - case["mix"]) * weights.value * scores
    want = mean_bound(scaled, counts, seed=4, **how).upper / (1 - case["mix"])
    assert upper.upper == pytest.approx(min(want, 1), rel=1e-12)
    assert upper.method == "importance sampling, finite-horizon betting"


def test_the_wealth_is_the_goal_at_the_lower_end() -> None:
    draws, missing, alpha = [0.5, 0.02, 0.02, 0.0, 0.9], 2, mpmath.mpf("0.3")
    rows = Leakage.read(draws, missing=missing)
    lower = mpmath.mpf(
        float(
            mean_lower(
                rows,
                float(alpha),
            )[0]
        )
    )
    n = len(draws) + missing
    bets = [
        mpmath.mpf(0.95) * (mpmath.mpf(1) / n / 0.95) ** (mpmath.mpf(j) / 11) for j in range(12)
    ]
    wealth = sum(
        mpmath.fprod([1 - b + b * x / lower for x in [*draws, *[0] * missing]]) for b in bets
    )
    assert float(wealth / 12) == pytest.approx(float(1 / alpha), rel=1e-9)


def test_tiny_means_keep_their_digits() -> None:
    draws = np.random.default_rng(0).choice([0.0, 0.2, 1.0], 300)
    whole, tiny = (mean_lower(Leakage.read(draws * s), 0.01)[0] for s in (1, 1e-12))
    assert whole > 0.3
    assert tiny == pytest.approx(1e-12 * whole, rel=1e-9)
    assert mean_lower(Leakage.read(np.zeros(300)), 0.01)[0] == 0
    assert mean_lower(Leakage.read([1.0]), 0.01)[0] == pytest.approx(0.01, rel=0.1)


def test_a_leak_that_the_proposal_never_says_sets_the_upper_end() -> None:
    n, alpha = 1000, 0.01
    for mix in (0.0, 0.5, 0.8):
        weights = DrawWeights.of(np.full(n, -2.0), np.full(n, -2.0), mix=mix)
        upper = importance_bound(np.zeros(n), weights, confidence=1 - alpha, seed=1).upper
        floor = math.log(1 / alpha) / ((1 - mix) * n)
        assert 0.99 * floor < upper < 1.3 * floor


def test_no_more_than_the_margin_is_lost() -> None:
    scores = np.random.default_rng(2).choice([0.0, 1.0], 400, p=[0.7, 0.3])
    p, r = np.full(400, -20.0), np.full(400, -2.0)
    exact, wide = (
        importance_bound(scores, DrawWeights.of(p, r, mix=0.5, margin=m), side="lower").lower
        for m in (0.0, 0.1)
    )
    assert wide == pytest.approx(exact * math.exp(-0.1), rel=1e-6)
    assert exact > 0.2 * 2 * math.exp(-18)
    upper = importance_bound(scores, DrawWeights.of(p, p, mix=0.5, margin=0.5), seed=0).upper
    assert upper > importance_bound(scores, DrawWeights.of(p, p, mix=0.5), seed=0).upper


def test_a_question_of_many_is_what_it_is_alone() -> None:
    rng = np.random.default_rng(5)
    p, r = -rng.exponential(3, (2, 3, 20))
    scores, missing, weights = rng.random((3, 20)), [0, 2, 1], DrawWeights.of(p, r, mix=0.4)
    every = importance_bound(scores, weights, side="both", missing=missing, seed=[7, 8, 9])
    for i in range(3):
        own = DrawWeights(weights.value[i], weights.lower[i], weights.upper[i], 0.4)
        alone = importance_bound(scores[i], own, side="both", missing=missing[i], seed=7 + i)
        for end in ("value", "lower", "upper", "n", "missing"):
            assert getattr(every, end)[i] == pytest.approx(getattr(alone, end), abs=1e-12)
        assert standard_error(scores, weights)[i] == pytest.approx(standard_error(scores[i], own))
    assert math.isnan(standard_error([0.3]))
    empty = np.array([])
    assert math.isnan(standard_error(empty, DrawWeights(empty, empty, empty, 0.4)))


# Coverage


class Heavy:
    """A finite law with its proposal: the truth is a sum, the weights are far apart."""

    def __init__(self, p: list[float], r: list[float], scores: list[float], mix: float) -> None:
        self.p, self.r = np.array(p) / sum(p), np.array(r) / sum(r)
        self.scores, self.mix = np.array(scores, float), mix
        self.q = mix * self.r + (1 - mix) * self.p
        self.weights = DrawWeights.of(*logs(self.p, self.r), mix=mix)
        self.truth = float(self.p @ self.scores)

    def misses(self, trials: int, n: int, side: Any, seed: int, alpha: float) -> int:
        """Trials whose end is beyond the truth."""
        counts = np.random.default_rng(seed).multinomial(n, self.q, trials)
        shape = counts.shape
        ends = (
            np.broadcast_to(getattr(self.weights, e), shape) for e in ("value", "lower", "upper")
        )
        bound = importance_bound(
            np.broadcast_to(self.scores, shape), DrawWeights(*ends, self.mix), counts,
            confidence=1 - alpha, side=side, seed=seed,
        )  # fmt: skip
        beyond = bound.upper < self.truth if side == "upper" else bound.lower > self.truth
        return int(np.sum(beyond))


HEAVY = {
    "the proposal says it": Heavy([1e-4, 0.9999], [0.8, 0.2], [1, 0], 0.5),
    "the proposal never says it": Heavy([0.02, 0.98], [0, 1], [1, 0], 0.5),
    "half is said": Heavy([1e-3, 0.01, 0.989], [0.9, 0, 0.1], [1, 1, 0], 0.5),
    "a thousand times rarer each": Heavy(
        [1e-2, 1e-5, 1e-8, 0.98999], [0.01, 0.3, 0.6, 0.09], [1, 1, 1, 0], 0.5
    ),
    "almost all from the proposal": Heavy([0.05, 0.95], [0.001, 0.999], [1, 0], 0.95),
    "graded": Heavy([0.01, 0.05, 0.3, 0.64], [0.6, 0.2, 0.1, 0.1], [1, 0.4, 0.1, 0], 0.7),
    "everything leaks a little": Heavy(
        [0.5, 0.499, 0.001], [0.001, 0.1, 0.899], [0.2, 0.3, 1], 0.6
    ),
    "a proposal that is wrong": Heavy([0.1, 0.4, 0.5], [0.001, 0.001, 0.998], [1, 0, 0], 0.9),
}


@pytest.mark.parametrize("name", ["half is said", "graded"])
@pytest.mark.parametrize("side", ["upper", "lower"])
def test_coverage(name: str, side: str) -> None:
    missed = HEAVY[name].misses(200, 60, side, seed=1, alpha=0.1)
    assert missed <= binom.ppf(1 - 1e-4, 200, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("name", HEAVY)
def test_coverage_at_length(name: str, side: str) -> None:
    """2,000 trials; the exact test raises one false alarm in 1,000 runs of all sixteen."""
    for n, alpha in ((50, 0.05), (400, 0.1)):
        missed = HEAVY[name].misses(2_000, n, side, seed=n, alpha=alpha)
        assert binomtest(missed, 2_000, alpha, "greater").pvalue > 0.001 / 32


def test_weights_that_are_wrong_by_the_mix_are_found_out() -> None:
    """The test can fail: draws of the mixture, weighted as if they were the proposal's alone."""
    one = HEAVY["the proposal says it"]
    counts = np.random.default_rng(1).multinomial(400, one.q, 200)
    ratio = np.minimum(one.p / one.r, 2.0)
    careless = DrawWeights(*[np.broadcast_to(ratio, counts.shape)] * 3, 0.5)
    scores = np.broadcast_to(one.scores, counts.shape)
    bound = importance_bound(scores, careless, counts, side="upper", confidence=0.9, seed=0)
    assert np.all(np.asarray(bound.value) < one.truth)
