"""How the distribution of each question is looked at: one of three ways of drawing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from leakbound.errors import InputError
from leakbound.stats import parse_claim
from leakbound.types import Effort, ExploreMode
from leakbound.types.decoding import require

FORWARDS = 2_000


@dataclass(frozen=True, slots=True)
class FixedN:
    """Draw every question equally often.

    Attributes:
        n: draws of each question (None: the benchmark's number, 1,024 where it has no profile).
    """

    n: int | None = None

    def __post_init__(self) -> None:
        require(self.n is None or self.n >= 1, "n", self.n, "at least 1 draw per question")


@dataclass(frozen=True, slots=True)
class Until:
    """Draw every question until a claim about it is decided, by bounds that hold at any look.

    Attributes:
        claim: "p<=0.02" where the first scorer gives 0 or 1, "mean<=0.1" where any in [0, 1].
        most: draws of a question where its claim stays open (None: as `FixedN` has it).
    """

    claim: str
    most: int | None = None

    def __post_init__(self) -> None:
        parse_claim(self.claim)
        if self.most is not None and self.most < 2:
            raise InputError(
                f"`n` is the most draws that `until` may make of a question, got {self.most}, and "
                "one draw leaves nothing to stop. Raise it, or leave `until` out."
            )


@dataclass(frozen=True, slots=True)
class Explore:
    """Explore the likeliest outputs of every question: known masses, and draws of the rest.

    Attributes:
        mode: "exact" spends all on masses, "hybrid" some on draws of what they leave, and "auto"
            as each question's tree pays.
        forwards: prefixes of a question that are forwarded in all.
    """

    mode: ExploreMode
    forwards: int = FORWARDS

    def __post_init__(self) -> None:
        Effort(mode=self.mode, forwards=self.forwards)  # refuses what is no effort


SamplingPlan: TypeAlias = FixedN | Until | Explore


def with_draws(plan: SamplingPlan, n: int) -> SamplingPlan:
    """The plan with n draws of a question where it leaves their number open."""
    if isinstance(plan, FixedN):
        return plan if plan.n is not None else FixedN(n)
    if isinstance(plan, Until):
        return plan if plan.most is not None else replace(plan, most=n)
    return plan


def draws_of(plan: SamplingPlan) -> int | None:
    """The draws of a question, at most; None where they are left open or follow from exploring."""
    if isinstance(plan, Explore):
        return None
    return plan.n if isinstance(plan, FixedN) else plan.most
