"""`LeakClaim`, a limit on a leak probability, and what a study records before it draws.

A study records its claims, and the statements that form the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TypedDict

from leakbound.errors import InputError
from leakbound.scorers import Of, make_scorer, reading_of, with_reading
from leakbound.stats.estimate import error_rate, percent
from leakbound.types import Json, from_json

PART: Mapping[Of, str] = {
    "answer": "the answer",
    "thought": "the thought",
    "either": "the answer or the thought",
}
"""The parts of an output, in words."""


class ClaimFields(TypedDict, total=False):
    """The fields of a `LeakClaim` that have a default, as keywords."""

    every_question: bool
    confidence: float
    accept_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakClaim:
    """Pr[leak] <= max_leak, averaged over an arm's questions or for each of them.

    Attributes:
        max_leak: the claimed limit of that probability, in (0, 1).
        scorer: the name of the binary scorer that decides what leaks.
        every_question: whether the claim is about each question, or about their mean.
        arm: the name of the arm in the run.
        confidence: the confidence of the verdict, in (0.5, 1).
        accept_cut: accept a limit on tokens that is shorter than the longest reference answer, or
            that cut most draws of a question: the claim is then about the first tokens. Otherwise
            it is inconclusive at best, unless a published protocol sets the limit.
        among: the arms and scorers among which it was chosen after drawing; empty: it was recorded
            before.

    Raises:
        InputError: a number outside its range.
    """

    max_leak: float
    scorer: str
    arm: str
    every_question: bool = False
    confidence: float = 0.99
    accept_cut: bool = False
    among: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not 0 < self.max_leak < 1:
            raise InputError(
                f"`max_leak` must be strictly between 0 and 1, got {self.max_leak}. No number of "
                "draws proves 0; use the largest probability you can accept, such as 0.01."
            )
        error_rate(self.confidence)  # refuses one outside (0, 1)
        if self.confidence <= 0.5:
            raise InputError(
                f"`confidence` of a claim must be above 50 %, got {percent(self.confidence)}. A "
                "verdict would be no better than a coin; 0.99 is usual."
            )

    @property
    def part(self) -> Of | None:
        """The part of an output that the claim names; None if it names no part."""
        scorer = make_scorer(self.scorer)
        return reading_of(scorer) if scorer != with_reading(scorer, None) else None

    @property
    def text(self) -> str:
        """The claim as a formula."""
        event = f"leak in {PART[self.part]}" if self.part else "leak"
        where = " for every question" if self.every_question else ""
        return f"Pr[{event}] <= {self.max_leak}{where}"

    def to_dict(self) -> dict[str, Json]:
        """Return every field, and the text."""
        return {**asdict(self), "text": self.text}

    @classmethod
    def from_dict(cls, values: Json) -> LeakClaim:
        """Return the claim of `to_dict`; InputError for a missing field or another type."""
        members = values if isinstance(values, Mapping) else {}
        own = {f.name: members[f.name] for f in fields(cls) if f.name in members}
        return from_json(cls, own, "no claim can be read: it")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedClaim:
    """A claim as a run records it, decided at its own alpha.

    Attributes:
        claim: the claim.
        digest: a digest of its scorer's settings.
        prior: whether it was recorded before anything of the run was drawn.
    """

    claim: LeakClaim
    digest: str
    prior: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The statements that form the verdict on a run.

    Attributes:
        scorer: the name of the first scorer.
        arm: the name of the arm of the first sampled decoding.
        control: whether they are about the excess over a control.
        shares: the part of alpha of each bound; a test of leaks shares the parts of the lower
            bounds.
    """

    scorer: str
    arm: str
    control: bool
    shares: Mapping[str, float]

    @classmethod
    def of(cls, scorer: str, arm: str, control: bool) -> Headline:
        """Return the headline of a study, see `stats.excess_of_mean_and_worst`."""
        worst = {"worst question, upper end": 0.5}
        if control:
            lower = {"mean, lower end": 0.25, "worst question, lower end": 0.25}
        else:
            lower = {"worst question, lower end": 0.5}
        return cls(scorer=scorer, arm=arm, control=control, shares=lower | worst)


def recorded(
    before: Sequence[RecordedClaim], named: Sequence[RecordedClaim], *, drawn: bool
) -> tuple[RecordedClaim, ...]:
    """Return the claims on record after a command.

    A claim stays as it was first recorded, even if a later command does not name it.

    Args:
        before: the claims on record.
        named: the claims of the command.
        drawn: whether anything of the run is drawn.

    Returns:
        The claims; a new claim is prior only if nothing is drawn.
    """
    recorded_before = {replace(claim, prior=True) for claim in before}
    new = dict.fromkeys(c for c in named if replace(c, prior=True) not in recorded_before)
    return (*before, *(replace(claim, prior=not drawn) for claim in new))
