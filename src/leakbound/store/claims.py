"""`LeakClaim`, the claim that a leak probability is below a limit, and its record in a run.

A run records its claims, and which statements form its verdict, before it draws.
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
    """The fields of a `LeakClaim` that have a default, for use as keyword arguments."""

    every_question: bool
    confidence: float
    accept_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakClaim:
    """The claim Pr[leak] <= max_leak, on average over an arm's questions or for each question.

    Attributes:
        max_leak: the claimed limit of Pr[leak], in (0, 1).
        scorer: the name of the binary scorer that decides which outputs leak.
        every_question: True: the claim is about each question; False: about the mean over the
            questions.
        arm: the name of the arm in the run.
        confidence: the confidence of the verdict, in (0.5, 1).
        accept_cut: whether to decide a claim about outputs that were cut too early. They are cut
            too early if a stop string cuts a reference answer or a keyword. They are also cut too
            early if the token limit is shorter than the longest reference answer, or cuts most
            draws of a question. If True, the claim is about the beginnings of outputs. If False,
            its decision is at best inconclusive, unless a published protocol sets the token limit.
        among: the arms and scorers from which the claim was selected after drawing; empty: the
            claim was recorded before drawing.

    Raises:
        InputError: a number is outside its range.
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
        error_rate(self.confidence)  # raises for a confidence outside (0, 1)
        if self.confidence <= 0.5:
            raise InputError(
                f"`confidence` of a claim must be above 50 %, got {percent(self.confidence)}. A "
                "coin toss has 50 %. Use a confidence such as 0.99."
            )

    @property
    def part(self) -> Of | None:
        """The part of an output that the claim is about; None: the claim specifies no part."""
        scorer = make_scorer(self.scorer)
        return reading_of(scorer) if scorer != with_reading(scorer, None) else None

    @property
    def text(self) -> str:
        """The claim as a formula."""
        event = f"leak in {PART[self.part]}" if self.part else "leak"
        where = " for every question" if self.every_question else ""
        return f"Pr[{event}] <= {self.max_leak}{where}"

    def to_dict(self) -> dict[str, Json]:
        """Return all fields and the text, as values for JSON."""
        return {**asdict(self), "text": self.text}

    @classmethod
    def from_dict(cls, values: Json) -> LeakClaim:
        """Return the claim that `to_dict` converted; raise InputError for an invalid field."""
        members = values if isinstance(values, Mapping) else {}
        own = {f.name: members[f.name] for f in fields(cls) if f.name in members}
        return from_json(cls, own, "the claim cannot be read: it")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedClaim:
    """A claim as it is recorded in a run. Each recorded claim is decided at its own alpha.

    Attributes:
        claim: the claim.
        digest: a digest of the settings of the claim's scorer.
        prior: whether the claim was recorded before anything of the run was drawn.
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
        control: whether the statements are about the excess over a control. This determines how the
            statements share alpha, see `stats.excess_of_mean_and_worst`.
        prior: whether the headline was recorded before anything of the run was drawn.
    """

    scorer: str
    arm: str
    control: bool
    prior: bool = True


def recorded(
    before: Sequence[RecordedClaim], named: Sequence[RecordedClaim], *, drawn: bool
) -> tuple[RecordedClaim, ...]:
    """Return the claims that are recorded in a run after a command.

    Claims from earlier commands stay recorded, without changes.

    Args:
        before: the recorded claims before the command.
        named: the claims of the command.
        drawn: whether the run already has draws.

    Returns:
        The claims; a new claim is marked as prior only if the run has no draws.
    """
    recorded_before = {replace(claim, prior=True) for claim in before}
    new = dict.fromkeys(c for c in named if replace(c, prior=True) not in recorded_before)
    return (*before, *(replace(claim, prior=not drawn) for claim in new))
