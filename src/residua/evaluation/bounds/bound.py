"""Estimates: bounds of every quantity, for every question, arm and scorer of a run.

Every estimate holds by itself at the confidence asked for, with half of alpha on each side. How an
arm was drawn decides which bounds there are: see `drawn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from residua import stats
from residua.evaluation.attack.results import attack_rows
from residua.evaluation.bounds.beyond import beyond, excess_over_questions
from residua.evaluation.bounds.drawn import Drawn, drawn, require_scores
from residua.evaluation.bounds.independence import require_independent_draws
from residua.evaluation.bounds.pooled import Pooled
from residua.evaluation.bounds.proof import proved
from residua.evaluation.bounds.quantities import GREEDY_SCORE
from residua.evaluation.bounds.together import Pair
from residua.evaluation.calibration import calibration_of
from residua.evaluation.draws.sample import CONTROL, TARGET
from residua.evaluation.draws.sharing import INPUTS
from residua.evaluation.draws.until import claim_estimate
from residua.evaluation.score import slug
from residua.evaluation.tables.grid import grid_rows
from residua.evaluation.tables.protocols import gaps, gaps_over_questions
from residua.evaluation.tables.rows import ALL, Row, entry
from residua.store import Arm, ArmScores, Run, holding, read_calibration
from residua.types import Progress, Scorer, silent


@holding("bound")
def bound_run(
    run: Run,
    scorers: Sequence[Scorer],
    *,
    confidence: float = 0.99,
    seed: int = 0,
    progress: Progress = silent,
) -> None:
    """Bound every arm's scores and store the table, unless it is there for just these.

    Statements about all questions are made only where every question has completions. Draws that
    look copied are refused first: no bound would hold for them.
    """
    jobs = [(arm, scorer) for arm in run.arms.values() for scorer in scorers]
    made_from = {
        "confidence": confidence,
        "seed": seed,
        "scores": [
            [arm.name, scorer.name, slug(scorer), _digest(arm, scorer)] for arm, scorer in jobs
        ],
    }
    known = {slug(scorer): read_calibration(run.path, slug(scorer)) for scorer in scorers}
    made_from["calibrated"] = {name: found for name, found in known.items() if found}
    if run.has_estimates(made_from):
        return
    for arm in run.arms.values():
        require_independent_draws(arm)
    rows: list[Row] = []
    for done, (arm, scorer) in enumerate(jobs):
        progress("bounding", done, len(jobs), "arms × scorers")
        rows += _arm_rows(arm, scorer, confidence, seed)
    for scorer in scorers:
        rows += _excess_rows(run, scorer, confidence, seed)
        rows += _gap_rows(run, scorer, confidence, seed)
        rows += grid_rows(run, scorer, confidence=confidence, seed=seed)
        rows += attack_rows(run, scorer, confidence=confidence, seed=seed)
    progress("bounding", len(jobs), len(jobs), "arms × scorers")
    run.write_estimates([row.to_dict() for row in rows], made_from)


def _digest(arm: Arm, scorer: Scorer) -> list[str]:
    """What tells the arm's scores from others; InputError where its completions have none."""
    digests = arm.scored(scorer.name, slug(scorer))
    if digests is None:
        require_scores(arm, scorer)
    return digests or []


def _arm_rows(arm: Arm, scorer: Scorer, confidence: float, seed: int) -> Iterator[Row]:
    if arm.decoding.greedy:
        scores = arm.scores(slug(scorer))
        yield from _flat(arm, scorer, scores.query_ids, [(_greedy(scores), None)])
        return
    known = drawn(arm, scorer, seed=seed)
    query_ids = known.scores.query_ids
    if not query_ids:
        return
    yield from _flat(arm, scorer, query_ids, known.each(confidence), _pools(known))
    if isinstance(known, Pooled) and known.has_queries:
        worst = known.worst_queries(confidence=confidence, side="both")
        yield from _flat(arm, scorer, query_ids, [(worst, None)], known.pools)
        single_ids, single = known.each_query(confidence)
        yield from _flat(arm, scorer, single_ids, [(single, None)])
    claim = claim_estimate(arm, scorer, known.scores)
    if claim is not None:
        yield from _flat(arm, scorer, query_ids, [(claim, None)])
    for query_id, estimate, parameters in proved(arm, scorer):
        for j, parameter in enumerate(parameters or [None]):
            yield Row(arm.name, scorer.name, query_id, parameter, entry(estimate, (j,)))
    if len(query_ids) == len(arm.run.questions) and not arm.found:
        for estimate, parameters in known.together(confidence):
            for j, parameter in enumerate(parameters or [None]):
                yield Row(arm.name, scorer.name, ALL, parameter, entry(estimate, (j,)))
    yield from _corrected_rows(arm, scorer, known, confidence)


def _corrected_rows(arm: Arm, scorer: Scorer, known: Drawn, confidence: float) -> Iterator[Row]:
    """How often there is a leak, where it is known how often the judge errs."""
    calibration = calibration_of(arm.run, scorer)
    if calibration is None:
        return
    query_ids = known.scores.query_ids
    each = calibration.correct(known.leakage, confidence)
    yield from _flat(arm, scorer, query_ids, [(each, None)], _pools(known))
    if len(query_ids) == len(arm.run.questions) and not arm.found:
        mean = calibration.correct(known.mean, confidence)
        yield Row(arm.name, scorer.name, ALL, None, mean)


def _flat(
    arm: Arm,
    scorer: Scorer,
    query_ids: Sequence[str],
    made: Iterable[Pair],
    pools: Sequence[int] | None = None,
) -> Iterator[Row]:
    """A row for each question, and each value of the parameter, of these estimates.

    `pools`: in how many queries each is asked, where its own words are not all.
    """
    for estimate, parameters in made:
        for i, query_id in enumerate(query_ids):
            pool = None if pools is None else pools[i]
            for j, parameter in enumerate(parameters or [None]):
                at = (i,) if parameters is None else (i, j)
                yield Row(arm.name, scorer.name, query_id, parameter, entry(estimate, at), pool)


def _pools(known: Drawn) -> Sequence[int] | None:
    return known.pools if isinstance(known, Pooled) else None


def _greedy(scores: ArmScores) -> stats.Estimate:
    """A greedy arm has one completion: its score is exact, or missing."""
    known = scores.counts.sum(axis=1) > 0
    value = np.where(known, (scores.scores * scores.counts).sum(axis=1), np.nan)
    return stats.Estimate(
        estimand=GREEDY_SCORE,
        value=value,
        lower=np.where(known, value, 0.0),
        upper=np.where(known, value, 1.0),
        confidence=1.0,
        side="both",
        n=np.ones(len(value), dtype=np.int64),
        missing=scores.missing,
        method="exact",
    )


def _excess_rows(run: Run, scorer: Scorer, confidence: float, seed: int) -> Iterator[Row]:
    """How much more each sampled target arm leaks than its control.

    At each question, on average, and at the question where it is most.

    The error is shared equally between the two, so one estimate of each serves both ends.
    """
    arms = run.arms
    for name, arm in arms.items():
        control = arms.get(CONTROL + name.removeprefix(TARGET))
        if not name.startswith(TARGET) or control is None or arm.decoding.greedy:
            continue
        pair = [drawn(a, scorer, seed=seed) for a in (arm, control)]
        query_ids = pair[0].scores.query_ids
        if query_ids != pair[1].scores.query_ids or not query_ids:
            continue
        excess = beyond(pair[0].leakage, pair[1].leakage, confidence=confidence, side="both")
        yield from _flat(arm, scorer, query_ids, [(excess, None)], _pools(pair[0]))
        if len(query_ids) == len(run.questions) and not arm.found:
            for estimate in excess_over_questions(pair[0], pair[1], len(query_ids), confidence):
                yield Row(name, scorer.name, ALL, None, estimate)


def _gap_rows(run: Run, scorer: Scorer, confidence: float, seed: int) -> Iterator[Row]:
    """How much more is found by asking rewritings too: each question, all, and on how many."""
    arms = run.arms
    for name, arm in arms.items():
        if arm.sharing is None:
            continue
        full = drawn(arm, scorer, seed=seed)
        output = drawn(arms[name.removesuffix(INPUTS)], scorer, seed=seed)
        query_ids = full.scores.query_ids
        if not isinstance(full, Pooled) or query_ids != output.scores.query_ids or not query_ids:
            continue
        each = [(estimate, None) for estimate in gaps(full, output, confidence)]
        yield from _flat(arm, scorer, query_ids, each, full.pools)
        if len(query_ids) == len(run.questions):
            for estimate in gaps_over_questions(full, output, confidence):
                yield Row(name, scorer.name, ALL, None, estimate)
