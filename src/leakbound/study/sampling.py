"""How each question's distribution is looked at: one of three ways of drawing, and searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from leakbound.errors import InputError
from leakbound.inputs.halving import LEAST_BUDGET
from leakbound.stats import parse_claim
from leakbound.stats.estimate import probability
from leakbound.types import Decoding, Effort, ExploreMode
from leakbound.types.decoding import require
from leakbound.types.records import require_types


@dataclass(frozen=True, slots=True)
class FixedN:
    """Draw every question equally often.

    Attributes:
        n: draws of each question, at least 1 (None: the benchmark's number, 1,024 where it has no
            profile).

    Raises:
        InputError: for fewer than 1.
    """

    n: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        require(self.n is None or self.n >= 1, "n", self.n, "at least 1 draw per question")


@dataclass(frozen=True, slots=True)
class Until:
    """Draw every question until a claim about it is decided, by bounds that hold at any look.

    Attributes:
        claim: "p<=0.02" where the first scorer gives 0 or 1, "mean<=0.1" where any in [0, 1].
        most: draws of a question where its claim stays open, at least 2 (None: as `FixedN` has it).

    Raises:
        InputError: for a claim that is none, and for fewer than 2 draws.
    """

    claim: str
    most: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        parse_claim(self.claim)
        if self.most is not None and self.most < 2:
            raise InputError(
                f"`n` is the most draws that `until` may make of a question, got {self.most}, and "
                "one draw leaves nothing to stop. Raise it, or leave `until` out."
            )


def limit_of(claim: str) -> tuple[float, bool]:
    """Read a claim of a study.

    Args:
        claim: "0.01" or "1%" of the mean over the questions, "every:0.01" of every question.

    Returns:
        The limit, and whether it is claimed of every question.

    Raises:
        InputError: for a text that is no such claim.
    """
    every = claim.startswith("every:")
    try:
        limit = probability(claim.removeprefix("every:"))
    except InputError:
        limit = 0.0
    if not 0 < limit < 1:
        raise InputError(
            f"`claim` reads '0.01' or 'every:0.01', got {claim!r}. Name a limit between 0 and 1."
        )
    return limit, every


@dataclass(frozen=True, slots=True)
class Explore:
    """Explore the likeliest outputs of every question: known masses, and draws of the rest.

    Attributes:
        mode: "exact" spends all on masses, "hybrid" some on draws of what they leave, and "auto"
            as each question's tree pays.
        forwards: prefixes of a question that are forwarded in all, at least 1.

    Raises:
        InputError: for a mode that is none, and for no forwards.
    """

    mode: ExploreMode
    forwards: int = 2_000

    def __post_init__(self) -> None:
        require_types(self)
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


TEMPERATURES = (0.2, 0.8, 1.0)
TOP_PS = (0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Attack:
    """Search, for every question, for the query and decoding that leak most.

    Searched are rewritings, retained question-answer pairs shown before the question, words that
    open the answer, and decodings: those under evaluation where they are several, else the one
    and every pair of `temperatures` and `top_ps`, which is then the stated grid. Greedy decoding
    is never searched: its answer is known without drawing. While draws would not tell who leaks
    more, it proves instead, where the model's probabilities are exact.

    Attributes:
        budget: draws that the search spends on a question, at least 16, or proofs for as many
            forwards.
        temperatures: those of the grid, above 0.
        top_ps: those of the grid, in (0, 1].

    Raises:
        InputError: for a budget that is too small for one round, and for a grid that is none.
    """

    budget: int
    temperatures: tuple[float, ...] = TEMPERATURES
    top_ps: tuple[float, ...] = TOP_PS

    def __post_init__(self) -> None:
        require_types(self)
        if self.budget < LEAST_BUDGET:
            raise InputError(
                f"`attack` is the search's draws of a question, at least {LEAST_BUDGET} for one "
                f"round of two queries, got {self.budget}. Raise it; 2,000 tries about 40 queries."
            )
        for temperature, top_p in product(self.temperatures, self.top_ps):
            if Decoding(temperature=temperature, top_p=top_p).greedy:
                raise InputError(
                    "`temperatures` to search must be above 0, got 0: greedy decoding gives one "
                    "answer, which is known. Leave it out."
                )

    def decodings(self, evaluated: Sequence[Decoding]) -> tuple[Decoding, ...]:
        """The stated grid, the first decoding under evaluation first; InputError without any."""
        sampled = [decoding for decoding in evaluated if not decoding.greedy]
        if not sampled:
            raise InputError(
                "`attack` draws from the model, and greedy decoding draws nothing. Add a "
                "temperature above 0."
            )
        if len(sampled) > 1:
            return tuple(sampled)
        pairs = product(self.temperatures, self.top_ps)
        grid = [replace(sampled[0], temperature=t, top_p=p) for t, p in pairs]
        return tuple(dict.fromkeys([*sampled, *grid]))


@dataclass(frozen=True, slots=True)
class Prove:
    """Look for rare leaks of every question, by the model's own probabilities of leaking outputs.

    Attributes:
        forwards: prefixes of each question that the model may forward, at most; at least 1.
        proposals: finished runs of the same questions, where the search begins: with what leaks of
            their answers, beside the true answer and what the run itself drew.

    Raises:
        InputError: for no forwards.
    """

    forwards: int
    proposals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "proposals", tuple(map(str, self.proposals)))
        require_types(self)
        require(self.forwards >= 1, "forwards", self.forwards, "at least 1 per question")
