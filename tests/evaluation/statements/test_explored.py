"""Bounds of explored arms: what `leakbound.stats` says of each question, and of their mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from leakbound import stats
from leakbound.evaluation.scoring.ordering import BY_QUESTION
from leakbound.evaluation.statements.explored import ExploredArm
from leakbound.evaluation.statements.rows import StatedBound
from leakbound.store import ArmScores, QueryMasses

Known = tuple[QueryMasses, Mapping[float | None, int]]
K, X = [1, 3, 1048576], [0.0, 0.4, 0.9]


def masses(
    p: Sequence[float], low: Sequence[float], high: Sequence[float], r: float
) -> QueryMasses:
    return QueryMasses(np.array(p), np.array(low), np.array(high), r)


def explored(*known: Known, binary: bool = False) -> ExploredArm:
    """What was found of each question: its masses, and how often its draws got which score."""
    tallies = {f"q{i}": tally for i, (_, tally) in enumerate(known)}
    scores = ArmScores.tallied(tallies, {})
    return ExploredArm(scores, {f"q{i}": one for i, (one, _) in enumerate(known)}, binary)


BINARY: list[Known] = [
    (masses([0.5, 0.1], [0, 1], [0, 1], 0.3), {0.0: 40, 1.0: 3, None: 2}),
    (masses([0.9, 0.05], [0, 0], [0, 1], 0.0), {}),  # explored whole, an event undecided
    (masses([0.4, 0.2], [0, 1], [0, 1], 0.2), {}),  # nothing was drawn of its remainder
    (masses([], [], [], 1.0), {0.0: 30}),  # nothing was explored
]
RANGED: list[Known] = [
    (masses([0.5, 0.1], [0, 0.6], [0.2, 1], 0.3), {0.0: 40, 0.5: 3, None: 2}),
    (masses([0.9, 0.05], [0.3, 0], [0.3, 1], 0.0), {}),
    (masses([0.4, 0.2], [0, 1], [0, 1], 0.2), {}),
    (masses([], [], [], 1.0), {0.0: 30, 0.7: 1}),
]


def of(known: Known) -> tuple[stats.Mass, dict[str, Any], int]:
    """A question as `leakbound.stats` takes it: masses, scored draws, and missing ones."""
    one, tally = known
    drawn = {s: c for s, c in tally.items() if s is not None}
    mass = stats.Mass(one.mass, one.low, one.high, one.remainder if tally else 0.0)
    draws = {"scores": list(drawn), "counts": list(drawn.values())} if tally else {}
    return mass, draws, tally.get(None, 0)


def same(whole: stats.Estimate, each: Sequence[stats.Estimate]) -> None:
    """One estimate with an entry a question says what each question's own does."""
    for name in ("value", "lower", "upper", "n", "missing"):
        want = np.array([getattr(one, name) for one in each])
        np.testing.assert_array_equal(getattr(whole, name), want, err_msg=name)
    assert whole.estimand == each[0].estimand
    assert whole.side == each[0].side
    assert whole.confidence == min(one.confidence for one in each)


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_the_leakage_of_each_question(side: stats.Side) -> None:
    how: dict[str, Any] = {"confidence": 0.95, "side": side}
    each = []
    for known in BINARY:
        mass, _, gone = of(known)
        tally = known[1]
        n, hits = sum(tally.values()), tally.get(1.0, 0)
        each.append(stats.mass_proportion_bound(mass, hits, n, missing=gone, **how))
    same(explored(*BINARY, binary=True).leakage(**how), each)
    each = []
    keys = BY_QUESTION.keys([f"q{i}" for i in range(len(RANGED))]).tolist()
    for known, key in zip(RANGED, keys, strict=True):
        mass, draws, gone = of(known)
        each.append(stats.mass_mean_bound(mass, **draws, missing=gone, seed=key, **how))
    same(explored(*RANGED).leakage(**how), each)


def test_tails_and_leak_at_k_of_each_question() -> None:
    how: dict[str, Any] = {"confidence": 0.95}
    tails, largest, hits = [], [], []
    for known in RANGED:
        mass, draws, gone = of(known)
        tails.append(stats.mass_survival_bound(mass, X, **draws, missing=gone, **how))
        largest.append(stats.mass_leak_at_k_bound(mass, K, **draws, missing=gone, **how))
    for known in BINARY:
        mass, _, gone = of(known)
        tally = (known[1].get(1.0, 0), sum(known[1].values()))
        hits.append(stats.mass_leak_at_k_proportion_bound(mass, K, *tally, missing=gone, **how))
    how["side"] = "both"
    same(explored(*RANGED).made(StatedBound("mass tail", at={"x": X}), **how), tails)
    same(explored(*RANGED).made(StatedBound("mass leak@k", at={"k": K}), **how), largest)
    at_k = StatedBound("mass leak@k proportion", at={"k": K})
    same(explored(*BINARY, binary=True).made(at_k, **how), hits)


@pytest.mark.parametrize("known", [BINARY, RANGED])
def test_the_deviation_is_certain_and_no_draw_narrows_it(known: list[Known]) -> None:
    whole = explored(*known, binary=known is BINARY).deviation()
    same(whole, [stats.mass_std_bound(of(one)[0]) for one in known])
    assert whole.confidence == 1
    assert not whole.n.any()


def test_every_quantity_is_made_once() -> None:
    binary = [e.estimand for e in explored(*BINARY, binary=True).each(0.99)]
    assert binary == ["leak probability", "leak@k", "standard deviation"]
    ranged = [e.estimand for e in explored(*RANGED).each(0.99)]
    assert ranged == ["mean leakage", "Pr[X > x]", "leak@k", "standard deviation"]
    together = explored(*BINARY, binary=True).together(0.9)
    assert [(e.confidence, e.side) for e in together] == [(0.9, "both")] * 3


def test_a_question_without_draws_is_certain_beside_one_with_draws() -> None:
    leak = explored(*BINARY, binary=True).leakage(confidence=0.99, side="both")
    assert (leak.lower[1], leak.upper[1]) == (0, pytest.approx(0.1))
    assert (leak.lower[2], leak.upper[2]) == (pytest.approx(0.2), pytest.approx(0.6))
    assert leak.n.tolist() == [45, 0, 0, 30]


def test_what_has_no_score_counts_against_every_claim() -> None:
    """Draws that are undecided are leaks above and none below; so are undecided events."""
    clean = explored((masses([0.6, 0.1], [0, 0], [0, 0], 0.3), {0.0: 100}), binary=True)
    leaky = explored((masses([0.6, 0.1], [0, 1], [0, 1], 0.3), {0.0: 50, 1.0: 50}), binary=True)
    unsure = explored((masses([0.6, 0.1], [0, 0], [0, 1], 0.3), {0.0: 50, None: 50}), binary=True)
    for call in ("leakage", "mean"):
        below, above, found = (
            getattr(one, call)(confidence=0.99, side="both") for one in (clean, leaky, unsure)
        )
        assert np.ravel(found.lower)[0] == pytest.approx(np.ravel(below.lower)[0])
        assert np.ravel(found.upper)[0] == pytest.approx(np.ravel(above.upper)[0])
        assert np.ravel(found.missing)[0] == 50


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("known", [BINARY, RANGED])
def test_the_mean_is_its_certain_part_and_a_weighted_mean_of_remainders(
    known: list[Known], side: stats.Side
) -> None:
    how: dict[str, Any] = {"confidence": 0.95, "side": side}
    one = explored(*known, binary=known is BINARY)
    found = one.mean(**how)
    weights = np.array([0.3, 1.0])  # of the two with draws
    scores = one.scores.of(["q0", "q3"])
    seed = one.order.keys(["q0", "q3"])
    how |= {"missing": scores.missing, "weights": weights, "seed": seed}
    if known is BINARY:
        inside = stats.proportion_over_questions(scores.hits, scores.n, **how)
    else:
        inside = stats.mean_over_questions(scores.scores, scores.counts, **how)
    low = sum(float(m.mass @ m.low) for m, _ in known) / 4
    high = sum(float(m.mass @ m.high) for m, _ in known) / 4
    slack = (0.1 + 0.05 + 0.4) / 4  # the third question's remainder is unknown
    share = weights.sum() / 4
    if side != "upper":
        assert found.lower == pytest.approx(low + share * inside.lower, abs=1e-12)
    if side != "lower":
        assert found.upper == pytest.approx(high + slack + share * inside.upper, abs=1e-12)
    assert (found.lower == 0, found.upper == 1) == (side == "upper", side == "lower")
    value = ((low + high) / 2 + share * inside.value) / (1 - slack)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.confidence, found.n, found.missing) == (0.95, scores.n.sum(), 2)
    assert found.method == f"exact mass + {inside.method}"


def test_a_mean_without_draws_is_certain() -> None:
    found = explored(*BINARY[1:3], binary=True).mean(confidence=0.9, side="both")
    assert found.lower == pytest.approx(0.1)
    assert found.upper == pytest.approx((0.1 + 0.6) / 2)
    assert (found.confidence, found.n, found.method) == (1.0, 0, "exact mass")
    nothing = masses([], [], [], 0.0)
    unknown = explored((nothing, {}), binary=True).mean(confidence=0.9, side="both")
    assert (unknown.lower, unknown.upper) == (0, 1)
    assert np.isnan(unknown.value)


# Four questions, unlike in what is left and in what it leaks; the last is explored whole.
TRIALS, ALPHA, N = 400, 0.1, 60
REST = np.array([0.9, 0.05, 0.05, 0.0])
LEAK = np.array([0.5, 0.02, 0.0, 0.0])
CERTAIN = [0.02, 0.3, 0.0, 0.2]
TRUTH = float(np.mean(np.array(CERTAIN) + REST * LEAK))


def unweighted(one: ExploredArm, side: stats.Side) -> stats.Estimate:
    """The mistake that the weights avoid: the mean remainder times the mean of what it leaks."""
    scores, share = one.scores.of(["q0", "q1", "q2"]), REST.mean()
    inside = stats.proportion_over_questions(scores.hits, scores.n, confidence=1 - ALPHA, side=side)
    certain = float(np.mean(CERTAIN))
    return replace(
        inside, lower=certain + share * inside.lower, upper=certain + share * inside.upper
    )


def misses(mean: Callable[[ExploredArm, stats.Side], stats.Estimate], side: stats.Side) -> int:
    """How many of the trials' bounds the truth lies outside of."""
    hits = np.random.default_rng(3).binomial(N, LEAK, (TRIALS, len(LEAK)))
    missed = 0
    for row in hits:
        known = [
            (
                masses([1 - r - c, c], [0, 1], [0, 1], float(r)),
                {0.0: N - int(h), 1.0: int(h)} if r else {},
            )
            for r, c, h in zip(REST, CERTAIN, row, strict=True)
        ]
        bound = mean(explored(*known, binary=True), side)
        missed += not bound.lower <= TRUTH <= bound.upper
    return missed


def weighted(one: ExploredArm, side: stats.Side) -> stats.Estimate:
    return one.mean(confidence=1 - ALPHA, side=side)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.thorough
def test_the_mean_errs_as_seldom_as_it_says(side: stats.Side) -> None:
    assert misses(weighted, side) <= int(binom.ppf(1 - 1e-4, TRIALS, ALPHA))


def test_remainders_without_weights_would_not_do() -> None:
    assert misses(unweighted, "upper") > TRIALS / 2
