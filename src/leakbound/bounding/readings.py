"""The three readings of an arm: leakage in the answer, in the thought, and in either of them.

The statement about each reading fails with probability at most alpha/3. By the
union bound, the probability that any of the three statements fails is at most
alpha, for any dependence between answer and thought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbound import stats
from leakbound.bounding.comparisons import excess_over_questions
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence
from leakbound.bounding.rows import LEAKAGE, rows_of
from leakbound.scorers import Of
from leakbound.scoring.score import parts_of, slug
from leakbound.stats.about import Quantity
from leakbound.store import ALL, Arm, EstimateRow
from leakbound.types import Scorer

READ: Mapping[Of, tuple[Quantity, Quantity]] = {
    "answer": ("leak probability in the answer", "mean leakage in the answer"),
    "thought": ("leak probability in the thought", "mean leakage in the thought"),
    "either": ("leak probability in either", "mean leakage in either"),
}
"""The quantities of each reading: for a binary scorer, and for any other scorer."""


def scored_parts(arms: Mapping[str, Arm], scorer: Scorer) -> tuple[Scorer, ...]:
    """Return the scorers of the answer and of the thought, or () if an arm lacks their scores."""
    parts = parts_of(scorer)
    scored = all(
        arm.digests(part.name, slug(part)) is not None for part in parts for arm in arms.values()
    )
    return parts if scored else ()


def reading_rows(
    run: RunEvidence, parts: Sequence[Scorer], confidence: float
) -> Iterator[EstimateRow]:
    """Yield the mean and the worst question in each reading, and their excess over the control.

    Args:
        run: the evidence under a scorer of answer and thought together ("either").
        parts: the scorers of only the answer and of only the thought, see `scored_parts`.
        confidence: the probability that a statement is valid in the three readings simultaneously.

    Returns:
        Rows under the name of the scorer of `run`, for each arm that was sampled with the original
            questions and has draws of all of them.
    """
    arms = {name: draws.arm for name, draws in run.arms.items()}
    read = [run, *(RunEvidence(run.run, part, arms) for part in parts)] if parts else []
    for of, evidence in zip(READ, [*read[1:], *read[:1]], strict=False):
        for name, arm in evidence.arms.items():
            if not arm.arm.key.own_words or arm.greedy or not arm.complete:
                continue
            control = None if arm.arm.key.is_control else evidence.of(arm.arm.key.control)
            for estimate in _of_all(arm, control, len(read), confidence):
                quantity = READ[of][LEAKAGE.index(estimate.about.quantity)]
                about = replace(estimate.about, quantity=quantity, jointly=True)
                joint = replace(estimate, about=about, confidence=confidence)
                yield from rows_of(name, run.scorer.name, ALL, joint, family="readings")


def _of_all(
    draws: Drawn, control: Drawn | None, readings: int, confidence: float
) -> Iterator[stats.Estimate]:
    """Yield the mean and the worst question of one reading, each at its part of alpha."""
    share = 1 - (1 - confidence) / readings
    yield draws.mean(confidence=share, side="both")
    yield draws.worst(confidence=share)
    if control is not None and control.query_ids == draws.query_ids:
        yield from excess_over_questions(draws, control, share)
