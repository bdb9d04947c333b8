"""Estimates: bounds of every quantity, for every question, arm and scorer of a run.

Every estimate holds by itself at the confidence asked for, with half of alpha on each side. How an
arm was drawn decides which bounds there are: see `drawn`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from leakbound import stats
from leakbound.errors import InputError
from leakbound.evaluation.scoring.calibration import calibration_of
from leakbound.evaluation.scoring.checks import require_independent_draws, require_scores
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.attack import attack_rows
from leakbound.evaluation.statements.beyond import beyond_control
from leakbound.evaluation.statements.claims import claim_estimate
from leakbound.evaluation.statements.evidence import ArmEvidence, drawn
from leakbound.evaluation.statements.fixed import Greedy
from leakbound.evaluation.statements.gaps import gaps, gaps_over_questions
from leakbound.evaluation.statements.grid import grid_rows
from leakbound.evaluation.statements.pooled import Pooled
from leakbound.evaluation.statements.proof import proved, raised_rows
from leakbound.evaluation.statements.rows import rows_of
from leakbound.scorers import make_scorer
from leakbound.store import (
    ALL,
    Arm,
    DamagedError,
    EstimateRow,
    Run,
    holding,
    read_calibration,
)
from leakbound.types import Progress, Scorer, silent


@holding("bound")
def bound_run(
    run: Run,
    scorers: Sequence[Scorer],
    *,
    confidence: float = 0.99,
    progress: Progress = silent,
) -> None:
    """Bound every arm's scores and store the table, unless it is there for just these.

    What the table says of other scorers stays, at the confidence it has, as long as their scores
    are those it was made from. Statements about all questions are made only where every question
    has completions. Draws that look copied are refused first: no bound would hold for them.
    """
    wanted = {scorer.name: _made_from(run, scorer, confidence) for scorer in scorers}
    stored: dict[str, Any] = run.estimates_made_from().get("scorers", {})
    known = {name: made for name, made in stored.items() if _is_current(run, name, made, wanted)}
    todo = [scorer for scorer in scorers if scorer.name not in known]
    names = dict.fromkeys([*stored, *wanted])  # whoever was there keeps its place
    every = {name: both[name] for name in names if name in (both := {**known, **wanted})}
    if every == stored:
        return
    for arm in run.arms.values():
        require_independent_draws(arm)
    jobs = len(todo) * len(run.arms)
    rows: dict[str, list[EstimateRow]] = {name: [] for name in every}
    for row in run.stored_estimates() if known else ():
        if row.scorer in known:
            rows[row.scorer].append(row)
    for done, scorer in enumerate(todo):
        progress("bounding", done * len(run.arms), jobs, "arms × scorers")
        rows[scorer.name] = list(_rows(run, scorer, confidence))
    progress("bounding", jobs, jobs, "arms × scorers")
    made_from = {
        "confidence": confidence,
        "scores": [row for made in every.values() for row in made["scores"]],
        "calibrated": {k: v for made in every.values() for k, v in made["calibrated"].items()},
        "scorers": every,
    }
    run.write_estimates([row for of_one in rows.values() for row in of_one], made_from)


def _made_from(run: Run, scorer: Scorer, confidence: float) -> dict[str, Any]:
    """All that a scorer's estimates depend on; InputError where completions have no scores."""
    arms, calibrated = run.arms.values(), read_calibration(run.path, slug(scorer))
    return {
        "confidence": confidence,
        "scores": [[arm.name, scorer.name, slug(scorer), _digest(arm, scorer)] for arm in arms],
        "calibrated": {} if calibrated is None else {slug(scorer): calibrated},
    }


def _is_current(
    run: Run, name: str, made: Mapping[str, Any], wanted: Mapping[str, Mapping[str, Any]]
) -> bool:
    """True if a scorer's estimates stand: as they are wanted, or as its scores are now."""
    if name in wanted:
        return made == wanted[name]
    try:
        return made == _made_from(run, make_scorer(name), made["confidence"])
    except DamagedError:
        raise
    except InputError:  # it has no scores any more, or is not installed
        return False


def _rows(run: Run, scorer: Scorer, confidence: float) -> Iterator[EstimateRow]:
    """The estimates of one scorer, arm by arm, and what compares the arms."""
    for arm in run.arms.values():
        yield from _arm_rows(run, arm, scorer, confidence)
    yield from _excess_rows(run, scorer, confidence)
    yield from _gap_rows(run, scorer, confidence)
    yield from grid_rows(run, scorer, confidence=confidence)
    yield from attack_rows(run, scorer, confidence=confidence)


def _digest(arm: Arm, scorer: Scorer) -> list[str]:
    """What tells the arm's scores from others; InputError where its completions have none."""
    digests = arm.scored(scorer.name, slug(scorer))
    if digests is None:
        require_scores(arm, scorer)
    return digests or []


def _arm_rows(run: Run, arm: Arm, scorer: Scorer, confidence: float) -> Iterator[EstimateRow]:
    if arm.decoding.greedy:
        greedy = Greedy(arm.scores(slug(scorer)), scorer.binary)
        yield from rows_of(arm.name, scorer.name, greedy.scores.query_ids, greedy.each())
        return
    known = drawn(arm, scorer)
    if not known.scores.query_ids:
        return
    proofs = [
        row
        for query_id, estimate in proved(arm, scorer)
        for row in rows_of(arm.name, scorer.name, [query_id], estimate)
    ]
    yield from raised_rows(_drawn_rows(run, arm, scorer, known, confidence), arm, proofs)
    yield from proofs


def _drawn_rows(
    run: Run, arm: Arm, scorer: Scorer, known: ArmEvidence, confidence: float
) -> Iterator[EstimateRow]:
    """What the draws of an arm say: each question, each of its queries, all of them."""
    query_ids = known.scores.query_ids
    each = _each(run, arm, scorer, known, confidence)
    yield from rows_of(arm.name, scorer.name, query_ids, *each)
    if isinstance(known, Pooled) and known.has_queries:
        yield from rows_of(arm.name, scorer.name, *known.each_query(confidence))
    if len(query_ids) == len(arm.asked.questions) and arm.key.asks != "attack":
        together = _together(run, arm, scorer, known, confidence)
        yield from rows_of(arm.name, scorer.name, ALL, *together)


def _each(
    run: Run, arm: Arm, scorer: Scorer, known: ArmEvidence, confidence: float
) -> Iterator[stats.Estimate]:
    """Every statement about each question by itself."""
    yield from known.each(confidence)
    if isinstance(known, Pooled) and known.has_queries:
        yield known.worst_queries(confidence=confidence, side="both")
    claim = claim_estimate(arm, scorer, known.scores)
    if claim is not None:
        yield claim
    calibration = calibration_of(run, scorer)
    if calibration is not None:
        yield calibration.correct(known.leakage, confidence)


def _together(
    run: Run, arm: Arm, scorer: Scorer, known: ArmEvidence, confidence: float
) -> Iterator[stats.Estimate]:
    """Every statement about all questions; of a judge whose errors are known, a corrected mean."""
    yield from known.together(confidence)
    calibration = calibration_of(run, scorer)
    if calibration is not None:
        yield calibration.correct(known.mean, confidence)


def _excess_rows(run: Run, scorer: Scorer, confidence: float) -> Iterator[EstimateRow]:
    """How much more each sampled target arm leaks than its control.

    At each question, by itself and all at once; on average, and at the question where it is most.

    By differences where their draws share nothing; else the error is shared equally between them.
    """
    for name, arm in run.arms.items():
        control = run.arm(arm.key.control)
        if arm.key.is_control or control is None or arm.decoding.greedy:
            continue
        pair = [drawn(a, scorer) for a in (arm, control)]
        query_ids = pair[0].scores.query_ids
        if query_ids != pair[1].scores.query_ids or not query_ids:
            continue
        beyond = beyond_control(arm, pair[0], control, pair[1], scorer)
        excess = beyond.each(confidence=confidence, side="both")
        yield from rows_of(name, scorer.name, query_ids, excess, beyond.together(confidence))
        if len(query_ids) == len(run.questions) and arm.key.asks != "attack":
            over = beyond.over_questions(confidence)
            yield from rows_of(name, scorer.name, ALL, over.mean, over.worst)


def _gap_rows(run: Run, scorer: Scorer, confidence: float) -> Iterator[EstimateRow]:
    """How much more is found by asking rewritings too: each question, all, and on how many."""
    for name, arm in run.arms.items():
        own = run.arm(arm.key.in_own_words)
        if arm.key.asks != "rewritings" or own is None:
            continue
        full, output = drawn(arm, scorer), drawn(own, scorer)
        query_ids = full.scores.query_ids
        if not isinstance(full, Pooled) or query_ids != output.scores.query_ids or not query_ids:
            continue
        yield from rows_of(name, scorer.name, query_ids, *gaps(full, output, confidence))
        if len(query_ids) == len(run.questions):
            over = gaps_over_questions(full, output, confidence)
            yield from rows_of(name, scorer.name, ALL, *over)
