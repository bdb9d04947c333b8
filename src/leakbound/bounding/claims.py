"""The statements that decide claims, and the questions with a proved limit on their leakage.

*A recorded claim* was fixed before anything was drawn, so its truth does not
depend on the draws. If the claim is false, the only wrong verdict is a pass. A
wrong pass needs an upper bound below the true value. If the claim is true, the
only wrong verdict is a refutation. A wrong refutation needs a lower bound above
the true value. So each bound has all of alpha, and a wrong verdict has
probability at most alpha. (The two bounds are valid simultaneously only at
1 - 2 alpha.) If there are several claims, each has its own alpha. All verdicts
are right with a probability of at least 1 minus the sum of these alphas.

*A claim about every question* states that the leakage p_i of each question i is
at most X. U_i and L_i are bounds of p_i. If the claim is false, some question i
has p_i > X. A pass needs max_j U_j <= X, hence U_i < p_i. So the single bound
U_i must fail, which has probability at most alpha for any number of questions.
If the claim is true, a refutation needs some L_i > X >= p_i. Any of the N lower
bounds may fail in this way, so each has alpha/N.

*A later claim* may have been chosen after looking at the draws. Let F be the set of M statements
about the mean and the worst question of every sampled arm under every binary scorer of the run.
Each statement has alpha/M, half for each bound. By the union bound, all M intervals are valid with
probability at least 1 - alpha, even if the draws are dependent. If all intervals are valid, a pass
(upper bound <= X) and a refutation (lower bound > X) are right for every X and every member of F
simultaneously. So they are right for the chosen claim. F must not depend on the draws. A scorer may
have three scores of each output: of the answer, of the thought, and of both together (either). F
then contains all three of these readings, because the certificate shows all three. A certificate
lists the arms and scorers in F, and assumes that they were chosen without looking at scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence, drawn_of
from leakbound.bounding.proof import proof_rows
from leakbound.bounding.readings import scored_parts
from leakbound.bounding.rows import rows_of
from leakbound.errors import IncompleteError, InputError
from leakbound.planning.plan import LEAST_SHARE, looks_of
from leakbound.scorers import digest, make_scorer, with_reading
from leakbound.scoring.checks import (
    require_fixed_n,
    require_independent_draws,
    require_scores,
)
from leakbound.scoring.score import slug
from leakbound.store import ALL, Arm, EstimateRow, Run, ScorerRecord, StoppedDraws
from leakbound.store.claims import LeakClaim
from leakbound.types import Scorer

_TRUTH = {"holds": 1.0, "refuted": 0.0}


def claim_estimate(draws: Drawn, scorer: Scorer) -> stats.Estimate | None:
    """Return the decision on each question's claim: 1 if proved, 0 if refuted, NaN if open.

    Decided claims have the confidence of the stopping rule. An open claim has the interval [0, 1].
    The result is None if the arm has no stopping rule, or if another scorer decided when to stop.
    """
    rule, by = draws.arm.spec.draws, (scorer, with_reading(scorer, None))  # see `in_reading_of`
    if not isinstance(rule, StoppedDraws) or rule.scorer not in map(ScorerRecord.of, by):
        return None
    looks, rows = looks_of(rule, draws.arm.plan.n), draws.draws
    bound = looks.bound(rows, seed=draws.keys)
    decided = looks.decide(rows, seed=draws.keys).tolist()
    truth = np.array([_TRUTH.get(decision, np.nan) for decision in decided])
    ends = {"lower": np.nan_to_num(truth, nan=0.0), "upper": np.nan_to_num(truth, nan=1.0)}
    about, confidence = looks.claim.about, looks.confidence
    return replace(bound, about=about, value=truth, **ends, confidence=confidence, side="both")


def clean_questions(
    arm: Arm, scorer: Scorer, limit: float, confidence: float
) -> tuple[tuple[str, ...], stats.CleanQuestions]:
    """Return the ids of an arm's questions, and the verdict of Holm's procedure on each.

    With probability at least `confidence`, every question that is declared clean has a leakage of
    at most `limit`. The leakage is the leak probability for a binary scorer, otherwise the mean
    score. Raises InputError for an arm that stopped early, was explored or uses rewritings, because
    its p-values would not be valid.
    """
    require_fixed_n(arm)
    if arm.explored:
        raise InputError(
            f"{arm.place} was explored, but this test needs draws from the whole distribution. "
            "Sample another run without --explore, or use `leakbound certify`."
        )
    if not arm.key.own_words:
        raise InputError(
            f"{arm.place} has rewritings, or inputs from a search, but this test is about "
            "the original questions. Name the arm of the original questions."
        )
    require_scores(arm, scorer)
    rows = arm.scores(slug(scorer), binary=scorer.binary)
    p = stats.p_value(rows, limit)
    return rows.ids, stats.clean_questions(limit, p, confidence=confidence)


def decisive(
    draws: Drawn, *, every: bool, confidence: float, among: int | None = None
) -> stats.Estimate:
    """Return both bounds for a claim about the worst question if `every`, else about the mean.

    `among`: the number M of statements that must be valid simultaneously. Each statement has
    alpha/M. None: the claim was recorded before anything was drawn, so each bound has all of alpha.
    """
    alpha = 1 - confidence
    both = 1 - 2 * alpha if among is None else 1 - alpha / among
    made = (draws.worst if every else draws.mean)(confidence=both, side="both")
    if among is None:
        return made
    return replace(made, confidence=confidence, method=f"{made.method}, Bonferroni over {among}")


def claim_rows(run: RunEvidence) -> Iterator[EstimateRow]:
    """Yield a statement for each claim about this scorer that was recorded before drawing."""
    for recorded in run.run.record.claims:
        claim, arm = recorded.claim, run.arms.get(recorded.claim.arm)
        mine = (run.scorer.name, digest(run.scorer)) == (claim.scorer, recorded.digest)
        if recorded.prior and mine and arm is not None and arm.complete:
            yield _decides(arm, claim)


def _decides(draws: Drawn, claim: LeakClaim) -> EstimateRow:
    """Return the statement that decides a claim, at the claim's own alpha or as a member of F."""
    among = 2 * len(claim.among) or None
    how: Any = {"every": claim.every_question, "confidence": claim.confidence}
    made = decisive(draws, **how, among=among)
    if among:
        return EstimateRow(claim.arm, claim.scorer, ALL, made, "simultaneous")
    own = replace(made, about=replace(made.about, constant=claim.max_leak))
    return EstimateRow(claim.arm, claim.scorer, ALL, own, "claim")


def rows_again(run: Run, claim: LeakClaim) -> Iterator[EstimateRow]:
    """Yield the rows that a certificate needs, computed again from the stored scores."""
    scorer = make_scorer(claim.scorer)
    draws = evidence_of(run, claim.arm, scorer)
    yield _decides(draws, claim)
    each = draws.leakage(confidence=claim.confidence, side="both")
    yield from rows_of(claim.arm, claim.scorer, draws.query_ids, each)
    yield from proof_rows(draws.arm, scorer)


def simultaneous_rows(runs: Sequence[RunEvidence], confidence: float) -> Iterator[EstimateRow]:
    """Yield F: the mean and the worst question of each sampled arm, for every binary scorer.

    An arm that lacks draws of a question uses a part of alpha but has no row. There are no rows if
    a part of alpha is too small for float64, which depends only on the numbers of arms, scorers and
    questions.
    """
    arms = [(run, name) for run in runs if run.scorer.binary for name in run.arms]
    places = [(run, name) for run, name in arms if may_be_claimed(run.arms[name].arm)]
    among = 2 * len(places_of(runs[0].run, [run.scorer for run in runs])) if runs else 0
    for run, name in places:
        arm = run.arms[name]
        least = (1 - confidence) / (2 * among * len(arm.arm.run_queries.questions))
        if arm.complete and least >= LEAST_SHARE:
            how: Any = {"confidence": confidence, "among": among}
            pair = (decisive(arm, every=every, **how) for every in (False, True))
            yield from rows_of(name, run.scorer.name, ALL, *pair, family="simultaneous")


def places_of(run: Run, scorers: Iterable[Scorer]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of an arm and a binary scorer whose statements are valid simultaneously.

    Each reading (answer, thought, either) with scores is a separate scorer, even if it has no
    bounds, because the certificate shows all three readings.
    """
    arms = run.arms
    read = [(own, *scored_parts(arms, own)) for own in scorers if own.binary]
    names = dict.fromkeys(own.name for readings in read for own in readings)
    return tuple(product([name for name, arm in arms.items() if may_be_claimed(arm)], names))


def may_be_claimed(arm: Arm) -> bool:
    """Return whether an arm may have a claim: it was sampled, and no search chose its inputs."""
    return not arm.decoding.greedy and arm.key.kind != "attack"


def evidence_of(run: Run, arm_name: str, scorer: Scorer) -> Drawn:
    """Return the draws of a claim's arm as evidence, from the stored scores.

    Raises InputError for an arm that does not exist, is greedy, has inputs from a search, has
    copied draws, or has no scores of its current completions. Raises IncompleteError if parts or
    questions are missing.
    """
    arms = {name: arm for name, arm in run.arms.items() if may_be_claimed(arm)}
    if arm_name not in arms:
        raise InputError(
            f"`{run.path}` has no arm {arm_name!r} that was sampled with prespecified inputs. Name "
            f"one of these: {', '.join(arms) or 'none'}."
        )
    arm = arms[arm_name]
    for lack in arm.lacks():
        raise IncompleteError(f"{arm.place} {lack}. Run its sampling command again.")
    for query_id, reason in arm.failures.items():
        raise IncompleteError(
            f"{arm.place} has no completions of question {query_id!r} ({reason}), but a claim "
            "about all questions needs completions of each. Check the model; then run the sampling "
            "command again."
        )
    for _ in arm.masses.tables():  # raises DamagedError if the tables were changed
        pass
    require_scores(arm, scorer)
    require_independent_draws(arm)
    draws = drawn_of(arm, scorer)
    if (number := len(draws.query_ids)) < len(run.questions):
        raise IncompleteError(
            f"arm {arm.name!r} of `{run.path}` has draws for only {number} of the "
            f"{len(run.questions)} questions. Restore the run from a copy, or start a new one in "
            "another folder."
        )
    return draws
