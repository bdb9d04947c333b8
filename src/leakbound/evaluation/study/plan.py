"""How the distribution of a question is looked at: the choice between three ways of drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from leakbound.errors import InputError
from leakbound.evaluation.study.attack import Attack, Search
from leakbound.evaluation.study.until import Until
from leakbound.scorers import settings
from leakbound.store import ArmKey
from leakbound.types import Effort, ExploreMode, Scorer

BUDGET = 2_000
MODES: tuple[ExploreMode, ...] = get_args(ExploreMode)


@dataclass(frozen=True, slots=True)
class Exploring:
    """Explore each question with an effort of `forwards`; `scorer` says what is settled."""

    mode: ExploreMode
    forwards: int
    scorer: Scorer

    def to_dict(self) -> dict[str, Any]:
        """As the spec of an arm holds it."""
        return {"mode": self.mode, "forwards": self.forwards, "scorer": settings(self.scorer)}


@dataclass(frozen=True, slots=True)
class Drawing:
    """n draws of every question; or at most n, `until` a claim is decided; or `exploring`.

    With a `search`, n draws too of what it finds to leak most of each question.
    """

    n: int
    until: Until | None = None
    exploring: Exploring | None = None
    search: Search | None = None

    @classmethod
    def read(
        cls,
        scorers: Sequence[Scorer],
        *,
        n: int,
        until: str | None = None,
        explore: str | None = None,
        budget: int = BUDGET,
        attack: Attack | None = None,
        confidence: float = 0.99,
    ) -> Drawing:
        """What a command asks for, the first scorer steering where one does.

        Raises InputError for a claim that does not fit the scorer, a mode that is none, a budget
        below 1, and for several at once.
        """
        if explore is not None and explore not in MODES:
            raise InputError(f"`explore` must be one of {', '.join(MODES)}, got {explore!r}.")
        if until is not None and explore is not None:
            raise InputError(
                f"`until` and `explore` {explore!r} are two ways of drawing. Choose one: "
                "`until` stops early, `explore` explores the likeliest outputs."
            )
        if attack is not None:
            if until is not None or explore is not None:
                raise InputError(
                    "`attack` bounds what it finds by a fixed number of draws, and `until` and "
                    "`explore` fix none. Leave one of them out."
                )
            return cls(n, search=Search(attack, scorers[0]))
        if until is not None:
            return cls(n, until=Until.read(until, scorers[0], cap=n, confidence=confidence))
        for mode in MODES:
            if explore == mode:
                Effort(mode=mode, forwards=budget)  # refuses a budget of 0
                return cls(n, exploring=Exploring(mode, budget, scorers[0]))
        return cls(n)


def scoring(key: ArmKey) -> str:
    """The purpose of draws that an arm is given to be scored."""
    return f"score:{key}"
