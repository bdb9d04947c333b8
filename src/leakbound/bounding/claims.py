"""Statements about a limit that was fixed beforehand, and the tails that certificates rest on.

The claim that an arm's draws were to decide, question by question; which questions are proved
clean, all that are named at once; and Pr[h > x] of every question, in the way that the draws allow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import ArmEvidence
from leakbound.errors import IncompleteError, InputError
from leakbound.planning.plan import looks_of
from leakbound.scorers import with_reading
from leakbound.scoring.checks import (
    require_fixed_n,
    require_independent_draws,
    require_scores,
)
from leakbound.scoring.score import slug
from leakbound.store import Arm, Run, ScorerRecord, StoppedDraws
from leakbound.types import Scorer

_TRUTH = {"holds": 1.0, "refuted": 0.0}


def claim_estimate(evidence: ArmEvidence) -> stats.Estimate | None:
    """The claim about every question: 1 where it holds, 0 where it does not, NaN where open.

    With the confidence of the rule a claim is as decided; an open one has the interval [0, 1].
    None where another scorer steered the arm.
    """
    rule, draws = evidence.arm.spec.draws, evidence.known
    by = (evidence.scorer, with_reading(evidence.scorer, None))  # see `in_reading_of`
    if not isinstance(rule, StoppedDraws) or rule.scorer not in map(ScorerRecord.of, by):
        return None
    looks, rows = looks_of(rule, evidence.arm.plan.n), draws.scores.rows(binary=draws.binary)
    bound = looks.bound(rows, seed=draws.keys)
    decided = looks.decide(rows, seed=draws.keys).tolist()
    truth = np.array([_TRUTH.get(decision, np.nan) for decision in decided])
    ends = {"lower": np.nan_to_num(truth, nan=0.0), "upper": np.nan_to_num(truth, nan=1.0)}
    about, confidence = looks.claim.about, looks.confidence
    return replace(bound, about=about, value=truth, **ends, confidence=confidence, side="both")


def clean_questions(
    arm: Arm, scorer: Scorer, limit: float, confidence: float
) -> tuple[tuple[str, ...], stats.CleanQuestions]:
    """The ids of an arm's questions, and Holm's verdict on each.

    The leak probability of a binary scorer, else the mean score, is at most `limit` at every
    question that holds, with `confidence` for all of them together. InputError for an arm that
    stopped early, was explored or asks rewritings: its p-values would not be valid.
    """
    require_fixed_n(arm)
    if arm.explored:
        raise InputError(
            f"{arm.place} was explored, and this needs draws of the whole "
            "distribution. Sample another run without --explore, or use `leakbound certify`."
        )
    if not arm.key.own_words:
        raise InputError(
            f"{arm.place} asks rewritings too, or what a search found, "
            "and this is about the questions' own words. Name the arm that asks those."
        )
    require_scores(arm, scorer)
    scores = arm.scores(slug(scorer))
    p = stats.p_value(scores.rows(binary=scorer.binary), limit)
    return scores.query_ids, stats.clean_questions(limit, p, confidence=confidence)


@dataclass(frozen=True, slots=True)
class Tail:
    """Pr[h > x] of an arm's questions, for one x fixed before the scores were seen.

    `known` holds the scores made binary at x, in whichever way the arm was drawn.
    """

    known: Drawn
    x: float = 0.0

    @property
    def questions(self) -> int:
        """How many questions the arm has."""
        return len(self.known.scores.query_ids)

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """One entry a question, each of which holds by itself."""
        return self._named(self.known.leakage(confidence=confidence, side=side))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""
        return self._named(self.known.mean(confidence=confidence, side=side))

    def _named(self, bound: stats.Estimate) -> stats.Estimate:
        if not self.x:
            return bound
        return replace(bound, about=replace(bound.about, quantity="tail", parameter=self.x))


def tail_of(run: Run, arm_name: str, scorer: Scorer, x: float) -> Tail:
    """The tail at x of an arm's scores as they are stored, questions in the order of the run.

    Raises InputError for an arm that is not there, is greedy, has copies for draws, or has no
    scores of its present completions; IncompleteError where parts or questions are missing.
    """
    arm = sampled_arm(run, arm_name)
    _require_whole(arm)
    require_scores(arm, scorer)
    require_independent_draws(arm)
    tail = Tail(ArmEvidence(arm, scorer, above=x).known, x)
    if tail.questions < len(run.questions):
        raise IncompleteError(
            f"arm {arm.name!r} of `{run.path}` has draws of {tail.questions} of its "
            f"{len(run.questions)} questions. Restore it from a copy, or begin again elsewhere."
        )
    return tail


def sampled_arm(run: Run, name: str) -> Arm:
    """The arm of that name; InputError where there is none, or only its greedy answers."""
    arms = run.arms
    if name not in arms:
        sampled = [arm.name for arm in arms.values() if not arm.decoding.greedy]
        raise InputError(
            f"`{run.path}` has no arm {name!r}. Name one of these: {', '.join(sampled) or 'none'}."
        )
    if arms[name].decoding.greedy:
        raise InputError(
            f"arm {name!r} of `{run.path}` is greedy: its score is known exactly and says nothing "
            "about the distribution. Name an arm that was sampled."
        )
    if arms[name].key.asks == "attack":
        raise InputError(
            f"arm {name!r} of `{run.path}` asks what a search found, and a claim is about "
            "questions that were chosen beforehand. Name an arm that asks those."
        )
    return arms[name]


def _require_whole(arm: Arm) -> None:
    """Raise IncompleteError where something is missing, DamagedError where masses were changed.

    Changed completions are found where they are read, to see whether the draws are independent.
    """
    where = arm.place
    absent = [part.number for part in arm.parts if not arm.has(part)]
    if absent:
        raise IncompleteError(
            f"{where} lacks {len(absent)} of {len(arm.parts)} parts, first part {absent[0]}. "
            "Run the command that sampled it again."
        )
    if arm.unlooked():
        raise IncompleteError(
            f"{where} has questions that are not decided. Run the command that sampled it again."
        )
    for query_id, reason in arm.failures.items():
        raise IncompleteError(
            f"{where} has no completions of question {query_id!r} ({reason}), and a claim about "
            "all questions needs all. Check the model; then run the command that sampled it again."
        )
    for _ in arm.masses.tables():  # read whole
        pass
