"""Figures of stored runs: bounds of `leakbound.stats` put together, never new ones.

Everything about one model is a bound function, so that a difference of two shares alpha between
them (`stats.excess_of`); differences of means are those of `leakbound.compare`, which bets on draws
question by question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from claims import Figure
from common import Stored
from sizes import PLAIN, RECALL

from leakbound import compare, stats
from leakbound.evaluation import stored_metrics
from leakbound.evaluation.statements.drawn import Fixed
from leakbound.evaluation.statements.evidence import ArmEvidence
from leakbound.evaluation.statements.pooled import Pooled
from leakbound.evaluation.views.read import read_view
from leakbound.scorers import make_scorer
from leakbound.stats.estimate import Estimate, Side
from leakbound.store import Arm, Run
from leakbound.store.trained import read_trained
from leakbound.types import Decoding

CONFIDENCE = 0.99
Bound = Callable[..., Estimate]
Law = Callable[[Decoding], bool]


def whole(decoding: Decoding) -> bool:
    """True for the law as it is: nothing cut, T = 1, temperature not adapted."""
    return (decoding.temperature, decoding.top_p, decoding.adaptive_temperature) == (1.0, 1.0, None)


def arm_of(run: Run, law: Law = whole) -> Arm:
    """The model's draws in the questions' own words under one law."""
    (found,) = (
        arm
        for arm in run.arms.values()
        if arm.key.own_words and not (arm.key.is_control or arm.key.greedy) and law(arm.decoding)
    )
    return found


def fixed(stored: Stored, method: str, scorer: str, how: str = PLAIN, law: Law = whole) -> Fixed:
    """The scored draws of a run."""
    found = ArmEvidence(arm_of(stored.run(method, how), law), make_scorer(scorer)).fixed
    assert found is not None
    return found


def pooled(stored: Stored, method: str, scorer: str, how: str) -> Pooled:
    """The scored draws of all queries of every question."""
    found = ArmEvidence(stored.run(method, how).arms["target inputs"], make_scorer(scorer)).pool
    assert found is not None
    return found


def greedy(stored: Stored, method: str, scorer: str, how: str = PLAIN) -> dict[str, float]:
    """The score of every greedy answer, by question."""
    rows = stored.run(method, how).estimates.each("greedy score", arm="greedy", scorer=scorer)
    return {str(row.query_id): row.value or 0.0 for row in rows}


def at_k(evidence: Fixed, k: int) -> Bound:
    """The mean over the questions of leak@k."""
    return partial(evidence.mean_leak_at_k, k)


def spread(evidence: Fixed) -> Bound:
    """The mean over the questions of the standard deviation of their scores."""
    return partial(stats.std_over_questions, **_scored(evidence))


def expected_deviation(evidence: Fixed) -> Bound:
    """The mean over the questions of mean + 2 standard deviations."""
    return partial(stats.expectation_deviation_over_questions, **_scored(evidence))


def _scored(evidence: Fixed) -> dict[str, Any]:
    """The draws of all questions, each in the order of its key."""
    scores = evidence.scores
    return {
        "scores": scores.scores,
        "counts": scores.counts,
        "missing": scores.missing,
        "seed": evidence.keys,
    }


def lowest_deviation(stored: Stored, *, method: str, others: Sequence[str]) -> Figure:
    """The least by which another method's expectation deviation is above one's; all at once."""
    each = 1 - (1 - CONFIDENCE) / len(others)
    mine, *theirs = (expected_deviation(fixed(stored, name, RECALL)) for name in (method, *others))
    return least({name: less(one, mine, each) for name, one in zip(others, theirs, strict=True)})


def less(more: Bound, base: Bound, confidence: float = CONFIDENCE) -> Estimate:
    """One bounded quantity less another, which may be another quantity of the same kind."""
    about = more(confidence=confidence, side="both").about

    def alike(*, confidence: float, side: Side) -> Estimate:
        return replace(base(confidence=confidence, side=side), about=about)

    return stats.excess_of(more, alike, beyond="baseline", confidence=confidence, side="both")


def scaled(bound: Bound, by: float) -> Bound:
    """A multiple of a bounded quantity."""

    def found(*, confidence: float, side: Side) -> Estimate:
        of = bound(confidence=confidence, side=side)
        ends = (by * float(end) for end in (of.value, of.lower, of.upper))
        value, lower, upper = ends
        return replace(of, value=value, lower=lower, upper=upper)

    return found


def certain(like: Bound, value: float) -> Bound:
    """A quantity that is known, beside one that is not."""

    def found(*, confidence: float, side: Side) -> Estimate:
        of = like(confidence=0.5, side="both")
        return replace(of, value=value, lower=value, upper=value, confidence=confidence, side=side)

    return found


def means(
    stored: Stored, base: tuple[str, str], others: Sequence[tuple[str, str]], scorer: str
) -> dict[str, Estimate]:
    """How much more than a first model others leak on average, all at once, by method."""
    runs: Mapping[str, Run] = {name: stored.run(name, how) for name, how in (base, *others)}
    found = next(s for s in compare(runs, confidence=CONFIDENCE).scorers if s.scorer == scorer)
    known = {name: each.mean for name, each in found.differences.items()}
    return {name: mean for name, mean in known.items() if mean is not None}


def difference(stored: Stored, more: tuple[str, str], base: tuple[str, str], scorer: str) -> Figure:
    """How much more one model leaks on average than another."""
    (found,) = means(stored, base, [more], scorer).values()
    return Figure.of(found)


def least(found: Mapping[str, Estimate]) -> Figure:
    """The least of several that hold at once, and whose it is."""
    values = {name: float(each.value) for name, each in found.items()}
    said = ", ".join(f"{name} {value:.3f}".replace("-", "−") for name, value in values.items())
    return Figure(
        min(values.values()),
        min(float(each.lower) for each in found.values()),
        min(float(each.upper) for each in found.values()),
        CONFIDENCE,
        said,
    )


def most(found: Mapping[str, Figure]) -> Figure:
    """The largest of several that hold at once, and whose it is."""
    values = {name: one.value for name, one in found.items() if one.value is not None}
    said = ", ".join(f"{name} {value:.3f}".replace("-", "−") for name, value in values.items())
    return Figure(
        max(values.values(), default=None),
        max(one.lower for one in found.values()),
        max(one.upper for one in found.values()),
        CONFIDENCE,
        said,
    )


def hidden(stored: Stored, method: str, control: str, confidence: float = CONFIDENCE) -> Figure:
    """The largest excess over the control among the questions whose greedy answer is clean."""
    scorer = stored.lab.size.leak
    clean = tuple(q for q, score in greedy(stored, method, scorer).items() if score == 0)
    if not clean:
        return Figure(None, 0.0, 1.0, confidence, "no greedy answer is clean")
    mine, theirs = (fixed(stored, name, scorer) for name in (method, control))
    gap = partial(
        stats.excess_of,
        replace(mine, scores=mine.scores.of(clean)).leakage,
        replace(theirs, scores=theirs.scores.of(clean)).leakage,
    )
    found = stats.worst_question(gap, len(clean), confidence=confidence, side="both")
    asked = len(mine.scores.query_ids)
    return Figure.of(found, f"{len(clean)} of {asked} greedy answers are clean")


def cells(run: Run, scorer: str, k: int | None = None) -> dict[tuple[float, float], Estimate]:
    """The mean, or leak@k, under every decoding of a grid; all of them hold at once."""
    rows = run.estimates.where(scorer=scorer, query_id=None, scope="mean", jointly=True)
    wanted: tuple[Any, ...] = ("leak@k",) if k else ("leak probability", "mean leakage")
    found = {}
    for row in rows.where(quantity=wanted):
        decoding = run.arms[row.arm].decoding
        found[decoding.temperature, decoding.top_p] = row.estimate
    return found


def effects(found: Mapping[tuple[float, float], Estimate]) -> Figure:
    """How much further top-p moves leakage than temperature: root mean squares over the grid."""
    heats, tops = (sorted({cell[i] for cell in found}) for i in (0, 1))

    def grid(end: str) -> list[list[float]]:
        return [[float(getattr(found[t, p], end)) for p in tops] for t in heats]

    ends = grid("lower"), grid("upper"), grid("value")
    two = stats.two_way(*ends, "temperature", "top-p", next(iter(found.values())).confidence)
    heat, top = two.rows, two.columns
    said = f"temperature {float(heat.value):.3f}, top-p {float(top.value):.3f}"
    return Figure(
        float(top.value) - float(heat.value),
        float(top.lower) - float(heat.upper),
        float(top.upper) - float(heat.lower),
        two.rows.confidence,
        said,
    )


def logged(stored: Stored, method: str, split: str) -> float:
    """How far the entropy of a split's next tokens moved in training: last tenth less first."""
    curve = [value for _, value in read_trained(stored.model(method)).curve("entropy", split)]
    part = max(1, len(curve) // 10)
    return fmean(curve[-part:]) - fmean(curve[:part])


def metric(stored: Stored, method: str, how: str, name: str) -> float:
    """What was measured of a run's model."""
    return float(
        stored_metrics(stored.run(method, how))["arms"]["target"]["metrics"][name]["value"]
    )


def naive_variance(evidence: Fixed, k: int, n: int) -> Figure:
    """How many times the variance of the naive worst of k is that of the unbiased estimate.

    Every question's draws are dealt, in an order that is fixed, into packs of n; each pack gives
    both estimates, whose variance over the packs is averaged over the questions.
    """
    luck = np.random.default_rng(0)
    naive, unbiased = [], []
    for scores, counts in zip(evidence.scores.scores, evidence.scores.counts, strict=True):
        draws = luck.permutation(np.repeat(scores, counts))
        packs = draws[: len(draws) // n * n].reshape(-1, n)
        naive.append(float(np.var(packs[:, :k].max(axis=1), ddof=1)))
        estimates = np.asarray(stats.leak_at_k(packs, [k])).reshape(len(packs))
        unbiased.append(float(np.var(estimates, ddof=1)))
    said = f"naive {fmean(naive):.5f}, unbiased {fmean(unbiased):.5f}"
    if not fmean(unbiased):
        return Figure(None, 0.0, np.inf, 1.0, said)
    return Figure.exact(fmean(naive) / fmean(unbiased), said)


def correlation(stored: Stored, method: str, how: str, scorer: str) -> Figure:
    """The median over the questions of r: how sure the answers to a query are, and what leaks."""
    (asked,) = read_view({"run": stored.run(method, how)}).asked
    found = [
        one.correlation
        for (name, _), one in asked.questions.items()
        if name == scorer and one.correlation is not None
    ]
    said = f"{min(found):.2f} to {max(found):.2f} over {len(found)} questions".replace("-", "−")
    return Figure.exact(float(np.median(found)), said)


def gap(stored: Stored, method: str, how: str, scorer: str, *, worst: bool = False) -> Figure:
    """What other words leak beyond a question's own: on average, or the worst query of any."""
    rows = stored.run(method, how).estimates.where(
        scorer=scorer,
        query_id=None,
        beyond="own words",
        quantity=("leak probability", "mean leakage"),
    )
    inputs: Any = "worst query" if worst else ("these queries", "input distribution")
    scope: Any = "worst question" if worst else "mean"
    (row,) = rows.where(inputs=inputs, scope=scope)
    return Figure.of(row.estimate)


def utilities(stored: Stored, more: tuple[str, str], base: Sequence[tuple[str, str]]) -> Figure:
    """A model's utility less the best of others'."""
    mine = stored.utility(*more)
    best = max(base, key=lambda one: stored.utility(*one))
    theirs = stored.utility(*best)
    return Figure.exact(mine - theirs, f"{more[0]} {mine:.3f}, {best[0]} {theirs:.3f}")
