"""Pr[h > x] of every question of an arm, bounded in the way that the arm's draws allow."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from residua import stats
from residua.errors import IncompleteError, InputError
from residua.evaluation.score import slug
from residua.evaluation.stopped import EACH_CONFIDENCE
from residua.stats.estimate import Counts
from residua.store import Arm, Run
from residua.types import Scorer


class Tail(Protocol):
    """Pr[h > x] of an arm's questions, for one x fixed before the scores were seen."""

    @property
    def questions(self) -> int:
        """How many questions the arm has."""
        ...

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """One entry a question, each of which holds by itself."""
        ...

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""
        ...


@dataclass(frozen=True, slots=True)
class FixedTail:
    """The tail of an arm whose n was fixed when it was sampled: `hits` of `n` draws above x."""

    hits: Counts
    n: Counts
    missing: Counts
    x: float = 0.0

    @property
    def questions(self) -> int:
        return len(self.n)

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Clopper-Pearson for every question; missing draws count against the claim."""
        bound = stats.proportion_bound(
            self.hits, self.n, confidence=confidence, side=side, missing=self.missing
        )
        return _named(bound, self.x)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Hoeffding's form of Clopper-Pearson: the questions need not be alike."""
        bound = stats.proportion_over_questions(
            self.hits, self.n, confidence=confidence, side=side, missing=self.missing
        )
        return _named(bound, self.x)


@dataclass(frozen=True, slots=True)
class StoppedTail:
    """The tail of an arm whose questions stopped at some look, at most at `cap` draws."""

    hits: Counts
    n: Counts
    missing: Counts
    cap: int
    x: float = 0.0

    @property
    def questions(self) -> int:
        return len(self.n)

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """Any-time bounds, whatever rule made a question stop."""
        bound = stats.stopped_proportion_bound(
            self.hits, self.n, self.cap, confidence=confidence, side=side, missing=self.missing
        )
        return _named(bound, self.x)

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean of the questions' bounds, and room for those of them that fail."""
        return stats.mean_over_stopped_questions(
            self.each,
            self.questions,
            confidence=confidence,
            each_confidence=EACH_CONFIDENCE,
            side=side,
        )


def tail_of(run: Run, arm_name: str, scorer: Scorer, x: float) -> Tail:
    """The tail at x of an arm's scores as they are stored, questions in the order of the run.

    Raises InputError for an arm that is not there, is greedy, or has no scores of its present
    completions; IncompleteError where parts or questions are missing.
    """
    arm = sampled_arm(run, arm_name)
    if "explore" in arm.spec:
        raise InputError(f"arm {arm.name!r} of `{run.path}` was explored: name one that was drawn.")
    _require_whole(arm)
    if not arm.has_scores(scorer.name, slug(scorer)):
        raise InputError(
            f"arm {arm.name!r} of `{run.path}` has no scores of {scorer.name!r} for the "
            "completions it has now. Run `residua score` first."
        )
    scores = arm.scores(slug(scorer))
    if len(scores.query_ids) < len(run.queries):
        raise IncompleteError(
            f"arm {arm.name!r} of `{run.path}` has draws of {len(scores.query_ids)} of its "
            f"{len(run.queries)} questions. Restore it from a copy, or begin again elsewhere."
        )
    hits = np.where(scores.scores > x, scores.counts, 0).sum(axis=1)
    if arm.stopping is not None:
        return StoppedTail(hits, scores.n, scores.missing, arm.plan.n, x)
    return FixedTail(hits, scores.n, scores.missing, x)


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
    return arms[name]


def _named(bound: stats.Estimate, x: float) -> stats.Estimate:
    return replace(bound, estimand=f"Pr[h > {x:g}]") if x else bound


def _require_whole(arm: Arm) -> None:
    """Raise IncompleteError where something is missing, DamagedError where a part was changed."""
    where = f"arm {arm.name!r} of `{arm.run.path}`"
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
    for part in arm.parts:
        arm.completions(part)
