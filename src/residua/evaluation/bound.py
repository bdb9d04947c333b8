"""Estimates: bounds of every quantity, for every question, arm and scorer of a run.

Every estimate holds by itself at the confidence asked for, with half of alpha on each side. The
bound used follows from the scorer's declared range: binary scorers get Clopper-Pearson, others
the defaults of `residua.stats`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from residua import stats
from residua.errors import InputError
from residua.evaluation.grid import grid_rows
from residua.evaluation.rows import ALL, Row, entry
from residua.evaluation.sample import CONTROL, TARGET
from residua.evaluation.score import slug
from residua.evaluation.stopped import Stopped
from residua.evaluation.until import claim_estimate
from residua.store import Arm, ArmScores, Run
from residua.types import Progress, Scorer, silent

STANDARD_K = (1, 2, 4, 8, 16, 32, 64, 128)
CURVE_X = tuple(round(0.05 * i, 2) for i in range(20))

RHO = 2.0
GREEDY_SCORE = "greedy score"


def bound_run(
    run: Run,
    scorers: Sequence[Scorer],
    *,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Progress = silent,
) -> None:
    """Bound every arm's scores and store the table, unless it is there for just these.

    Statements about all questions are made only where every question has completions.
    """
    jobs = [(arm, scorer) for arm in run.arms.values() for scorer in scorers]
    made_from = {
        "confidence": confidence,
        "seed": seed,
        "scores": [[arm.name, scorer.name, _digest(arm, scorer)] for arm, scorer in jobs],
    }
    if run.has_estimates(made_from):
        return
    rows: list[Row] = []
    for done, (arm, scorer) in enumerate(jobs):
        progress("bounding", done, len(jobs), "arms × scorers")
        rows += _arm_rows(arm, scorer, confidence, seed)
    for scorer in scorers:
        rows += _excess_rows(run, scorer, confidence, seed)
        rows += grid_rows(run, scorer, confidence=confidence, seed=seed)
    progress("bounding", len(jobs), len(jobs), "arms × scorers")
    run.write_estimates([row.to_dict() for row in rows], made_from)


def _digest(arm: Arm, scorer: Scorer) -> str:
    """A digest of the arm's scores; InputError where its completions have none."""
    if not arm.has_scores(scorer.name, slug(scorer)):
        raise InputError(
            f"arm {arm.name!r} of `{arm.run.path}` has no scores of {scorer.name!r} for the "
            "completions it has now. Run `residua score` first."
        )
    return arm.scores_digest(slug(scorer))


def _arm_rows(arm: Arm, scorer: Scorer, confidence: float, seed: int) -> Iterator[Row]:
    scores = arm.scores(slug(scorer))
    if not scores.query_ids:
        return
    for estimate, parameters in _each_question(arm, scores, scorer, confidence, seed):
        for i, query_id in enumerate(scores.query_ids):
            for j, parameter in enumerate(parameters or [None]):
                at = (i,) if parameters is None else (i, j)
                yield Row(arm.name, scorer.name, query_id, parameter, entry(estimate, at))
    if len(scores.query_ids) == len(arm.run.queries) and not arm.decoding.greedy:
        for estimate in _together(arm, scores, scorer, confidence, seed):
            yield Row(arm.name, scorer.name, ALL, None, estimate)


Made = Iterator[tuple[stats.Estimate, Sequence[float] | None]]


def _each_question(
    arm: Arm, scores: ArmScores, scorer: Scorer, confidence: float, seed: int
) -> Made:
    """What can be said of every question, given how the arm was drawn."""
    if arm.decoding.greedy:
        return _greedy(scores, scorer, confidence, seed)
    if arm.stopping is not None:
        return _stopped(arm, scores, scorer, confidence, seed)
    return _sampled(scores, scorer, confidence, seed)


def _sampled(scores: ArmScores, scorer: Scorer, confidence: float, seed: int) -> Made:
    """Every quantity of every question; with its parameters where it has some."""
    how: dict[str, Any] = {"confidence": confidence, "side": "both", "missing": scores.missing}
    values, counts = scores.scores, scores.counts
    k = [k for k in STANDARD_K if k <= scores.n.min()]
    if scorer.binary:
        leak = stats.proportion_bound(scores.hits, scores.n, **how)
        yield leak, None
        yield stats.leak_at_k_proportion_bound(scores.hits, scores.n, k, **how), k
    else:
        yield stats.survival_bound(values, CURVE_X, counts, **how), CURVE_X
        yield stats.mean_bound(values, counts, seed=seed, **how), None
        yield stats.leak_at_k_bound(values, k, counts, **how), k
    yield stats.std_bound(values, counts, seed=seed, **how), None
    yield (
        stats.expectation_deviation_bound(
            values, counts, rho=RHO, seed=seed, **{**how, "side": "upper"}
        ),
        None,
    )


def _stopped(arm: Arm, scores: ArmScores, scorer: Scorer, confidence: float, seed: int) -> Made:
    """What holds of questions that stopped early, and what was decided about them."""
    stopped = Stopped(scores, scorer, arm.plan.n, seed)
    yield stopped.leakage(confidence=confidence, side="both"), None
    if scorer.binary:
        yield stopped.leak_at_k(STANDARD_K, confidence=confidence), STANDARD_K
    claim = claim_estimate(arm, scorer, scores)
    if claim is not None:
        yield claim, None


def _greedy(scores: ArmScores, scorer: Scorer, confidence: float, seed: int) -> Made:
    """A greedy arm has one completion: its score is exact, or missing."""
    known = scores.counts.sum(axis=1) > 0
    value = np.where(known, (scores.scores * scores.counts).sum(axis=1), np.nan)
    yield (
        stats.Estimate(
            estimand=GREEDY_SCORE,
            value=value,
            lower=np.where(known, value, 0.0),
            upper=np.where(known, value, 1.0),
            confidence=1.0,
            side="both",
            n=np.ones(len(value), dtype=np.int64),
            missing=scores.missing,
            method="exact",
        ),
        None,
    )


def _together(
    arm: Arm, scores: ArmScores, scorer: Scorer, confidence: float, seed: int
) -> Iterator[stats.Estimate]:
    """Statements about all questions at once: the worst of them, and their mean."""
    how: dict[str, Any] = {"confidence": confidence, "side": "both", "missing": scores.missing}
    bound = partial(_leakage_bound, arm, scores, scorer, seed=seed)
    yield stats.worst_question(bound, len(scores.query_ids), confidence=confidence, side="both")
    if arm.stopping is not None:
        yield Stopped(scores, scorer, arm.plan.n, seed).mean(confidence=confidence, side="both")
    elif scorer.binary:
        yield stats.proportion_over_questions(scores.hits, scores.n, **how)
    else:
        yield stats.mean_over_questions(scores.scores, scores.counts, **how)


def _excess_rows(run: Run, scorer: Scorer, confidence: float, seed: int) -> Iterator[Row]:
    """How much more each sampled target arm leaks than its control, question by question."""
    arms = run.arms
    for name, arm in arms.items():
        control = arms.get(CONTROL + name.removeprefix(TARGET))
        if not name.startswith(TARGET) or control is None or arm.decoding.greedy:
            continue
        pair = [(a, a.scores(slug(scorer))) for a in (arm, control)]
        query_ids = pair[0][1].query_ids
        if query_ids != pair[1][1].query_ids or not query_ids:
            continue
        half = (1 + confidence) / 2
        made = [
            _leakage_bound(*drawn, scorer, confidence=half, side="both", seed=seed)
            for drawn in pair
        ]
        excess = stats.excess(*made)
        for i, query_id in enumerate(query_ids):
            yield Row(name, scorer.name, query_id, None, entry(excess, (i,)))


def _leakage_bound(
    arm: Arm,
    scores: ArmScores,
    scorer: Scorer,
    *,
    confidence: float,
    side: stats.Side,
    seed: int = 0,
) -> stats.Estimate:
    """The expected leakage of every question: Pr[leak] for a binary scorer."""
    if arm.stopping is not None:
        stopped = Stopped(scores, scorer, arm.plan.n, seed)
        return stopped.leakage(confidence=confidence, side=side)
    how: dict[str, Any] = {"confidence": confidence, "side": side, "missing": scores.missing}
    if scorer.binary:
        return stats.proportion_bound(scores.hits, scores.n, **how)
    return stats.mean_bound(scores.scores, scores.counts, seed=seed, **how)
