"""What is known of an output distribution without a draw: masses, given the measured margin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from leakbound.types.decoding import require
from leakbound.types.draws import Sample
from leakbound.types.prompts import Query

ExploreMode = Literal["exact", "hybrid", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A complete output, or all outputs that begin with `token_ids`, and how likely it is at least.

    `mass` is a lower bound of its probability under the decoding, given the measured margin.
    `ended`: complete; `text` is then the completion. Else `text` is what every continuation's
    text begins with. Two events of one query share no output.
    """

    text: str
    token_ids: tuple[int, ...]
    ended: bool
    mass: float


Ranges = Callable[[Query, Sequence[tuple[str, bool]]], list[tuple[float, float]]]
"""(query, (text, ended) pairs) -> lowest and highest score that the text can end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How an output distribution is explored: `forwards` prefixes of a query forwarded in all.

    `exact` spends all of them on the likeliest prefixes; `hybrid` some, and the others on
    `Draws` of the remainder; `auto` lets each query's tree decide, draws alone included. (seed,
    purpose) keys the draws as in `Draws`.
    """

    mode: ExploreMode
    forwards: int
    seed: int = 0
    purpose: str = "remainder"

    def __post_init__(self) -> None:
        known = get_args(ExploreMode)
        require(self.mode in known, "explore", self.mode, f"one of {', '.join(known)}")
        require(self.forwards >= 1, "budget", self.forwards, "at least 1 forward per question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What is known of one query's output distribution: exact masses, and draws from the rest.

    `events` are disjoint. `sample` was drawn from the distribution given that none of them
    happens, and `remainder` is a lower bound of that chance; without draws (n = 0) it is 0.
    What `events` and `remainder` leave of 1 is unknown: rounding and, without draws, what was
    not explored. `explored` prefixes were forwarded before the draws, `forwards` in all.
    """

    events: tuple[Event, ...]
    remainder: float
    sample: Sample
    explored: int
    forwards: int

    @property
    def query(self) -> Query:
        return self.sample.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """Leaking outputs of one query that were looked for, and what they prove.

    `events` are disjoint; an output in `events[i]` scores at least `lows[i]` > 0. `forwards`
    prefixes were forwarded to find them.
    """

    query: Query
    events: tuple[Event, ...]
    lows: tuple[float, ...]
    forwards: int
