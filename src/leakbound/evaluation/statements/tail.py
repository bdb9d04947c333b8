"""Pr[h > x] of every question of an arm, bounded in the way that the arm's draws allow."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakbound import stats
from leakbound.errors import IncompleteError, InputError
from leakbound.evaluation.scoring.checks import require_scores
from leakbound.evaluation.statements.drawn import ArmEvidence, drawn
from leakbound.evaluation.statements.independence import require_independent_draws
from leakbound.store import Arm, Run
from leakbound.types import Scorer


@dataclass(frozen=True, slots=True)
class Tail:
    """Pr[h > x] of an arm's questions, for one x fixed before the scores were seen.

    `drawn` holds the scores made binary at x, and knows how the arm was drawn.
    """

    drawn: ArmEvidence
    x: float = 0.0

    @property
    def questions(self) -> int:
        """How many questions the arm has."""
        return len(self.drawn.scores.query_ids)

    def each(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """One entry a question, each of which holds by itself."""
        return self._named(self.drawn.leakage(confidence=confidence, side=side))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""
        return self._named(self.drawn.mean(confidence=confidence, side=side))

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
    tail = Tail(drawn(arm, scorer, above=x), x)
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
