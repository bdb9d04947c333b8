"""Sampling plans (a study uses one of them), and settings of the searches for leaks."""

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
    """Draw the same number of outputs for every question.

    Attributes:
        n: the number of draws per question, at least 1 (None: the number of the benchmark's
            profile, or 1,024 without a profile).

    Raises:
        InputError: `n` is less than 1.
    """

    n: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        require(self.n is None or self.n >= 1, "n", self.n, "at least 1 draw per question")


@dataclass(frozen=True, slots=True)
class Until:
    """Draw outputs of every question until a claim about the question is decided.

    The bounds that decide the claim stay valid if they are computed repeatedly.

    Attributes:
        claim: "p<=0.02" for a binary first scorer, "mean<=0.1" for scores in [0, 1].
        most: the maximum number of draws per question, at least 2 (None: as for `FixedN`).

    Raises:
        InputError: the claim is not valid, or `most` is less than 2.
    """

    claim: str
    most: int | None = None

    def __post_init__(self) -> None:
        require_types(self)
        parse_claim(self.claim)
        if self.most is not None and self.most < 2:
            raise InputError(
                f"with `until`, `n` is the maximum number of draws per question and must be at "
                f"least 2, got {self.most}. Increase it, or omit `until`."
            )


def limit_of(claim: str) -> tuple[float, bool]:
    """Parse a claim of a study.

    Args:
        claim: "0.01" or "1%" for the mean over the questions, "every:0.01" for every question.

    Returns:
        The limit, and whether it is claimed for every question.

    Raises:
        InputError: the text is not a claim.
    """
    every = claim.startswith("every:")
    try:
        limit = probability(claim.removeprefix("every:"))
    except InputError:
        limit = 0.0
    want, remedy = "like '0.01' or 'every:0.01'", "Name a limit between 0 and 1."
    require(0 < limit < 1, "claim", claim, want, remedy)
    return limit, every


@dataclass(frozen=True, slots=True)
class Explore:
    """Compute exact probabilities of every question's likeliest outputs; draw from the remainder.

    Attributes:
        mode: "exact" only computes probabilities, "hybrid" also draws from the remainder, and
            "auto" chooses for each question.
        forwards: the total number of forward passes per question, at least 1.

    Raises:
        InputError: the mode is unknown, or `forwards` is less than 1.
    """

    mode: ExploreMode
    forwards: int = 2_000

    def __post_init__(self) -> None:
        require_types(self)
        Effort(mode=self.mode, forwards=self.forwards)  # raises for invalid values


SamplingPlan: TypeAlias = FixedN | Until | Explore


def with_draws(plan: SamplingPlan, n: int) -> SamplingPlan:
    """Return the plan, with n draws per question if the plan has no number of draws."""
    if isinstance(plan, FixedN):
        return plan if plan.n is not None else FixedN(n)
    if isinstance(plan, Until):
        return plan if plan.most is not None else replace(plan, most=n)
    return plan


def draws_of(plan: SamplingPlan) -> int | None:
    """Return the maximum number of draws per question; None if not set, or for `Explore`."""
    if isinstance(plan, Explore):
        return None
    return plan.n if isinstance(plan, FixedN) else plan.most


TEMPERATURES = (0.2, 0.8, 1.0)
TOP_PS = (0.8, 1.0)


@dataclass(frozen=True, slots=True)
class Attack:
    """Search for the query and decoding that leak most, for every question.

    The search tries rewritings of the question, question-answer pairs of the retain set before the
    question, beginnings of the answer, and decodings. If several decodings are evaluated, it tries
    these decodings. If only one decoding is evaluated, it tries this decoding and the grid of
    `temperatures` and `top_ps`. It omits greedy decoding, whose answer is known without drawing.
    If leaks are too rare to compare queries by draws, the search compares proved lower bounds
    instead. For this, the model must have exact probabilities.

    Attributes:
        budget: the maximum number of draws per question (for proofs: of forward passes), at least
            16.
        temperatures: the temperatures of the grid, above 0.
        top_ps: the top-p values of the grid, in (0, 1].

    Raises:
        InputError: the budget is too small for one round, or the grid is not valid.
    """

    budget: int
    temperatures: tuple[float, ...] = TEMPERATURES
    top_ps: tuple[float, ...] = TOP_PS

    def __post_init__(self) -> None:
        require_types(self)
        if self.budget < LEAST_BUDGET:
            raise InputError(
                f"`attack` must be at least {LEAST_BUDGET} draws per question, for one round of "
                f"two queries, got {self.budget}. Increase it; 2,000 draws try about 40 queries."
            )
        for temperature, top_p in product(self.temperatures, self.top_ps):
            if Decoding(temperature=temperature, top_p=top_p).greedy:
                raise InputError(
                    "`temperatures` of an attack must be above 0, got 0. Omit 0: greedy answers "
                    "need no search."
                )

    def decodings(self, evaluated: Sequence[Decoding]) -> tuple[Decoding, ...]:
        """Return the decodings to try; raise InputError if all evaluated decodings are greedy."""
        sampled = [decoding for decoding in evaluated if not decoding.greedy]
        if not sampled:
            raise InputError(
                "`attack` needs sampling, and all decodings are greedy. Add a temperature above 0."
            )
        if len(sampled) > 1:
            return tuple(sampled)
        pairs = product(self.temperatures, self.top_ps)
        grid = [replace(sampled[0], temperature=t, top_p=p) for t, p in pairs]
        return tuple(dict.fromkeys([*sampled, *grid]))


@dataclass(frozen=True, slots=True)
class Prove:
    """Search for rare leaks of every question with the probabilities that the model computes.

    Attributes:
        forwards: the maximum number of forward passes per question, at least 1.
        proposals: finished runs of the same questions. The search begins with the leaking answers
            of these runs, the reference answer, and the answers of the run that is searched.

    Raises:
        InputError: `forwards` is less than 1.
    """

    forwards: int
    proposals: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "proposals", tuple(map(str, self.proposals)))
        require_types(self)
        require(self.forwards >= 1, "forwards", self.forwards, "at least 1 per question")
