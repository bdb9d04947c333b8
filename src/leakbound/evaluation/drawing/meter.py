"""What is done of an arm, told while its parts are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from leakbound.store import DrawnPart
from leakbound.types import Generate, Progress, Tells, untold


@dataclass(slots=True)
class Meter:
    """Tells `progress` how much of `phase` is done: `done` of `total` units, and what the part
    that is drawn now adds.

    An engine that tells (see `Tells`) moves it while it works: by the draws it finishes or, where
    `worth` says how many units a forward is worth, by its forwards.
    """

    progress: Progress
    phase: str
    unit: str
    done: float
    total: float
    worth: float = 0.0
    _first: float = field(init=False)
    _amount: float = 0.0  # of the part
    _now: float = 0.0
    _before: int = 0  # tokens of the parts that are done
    _each: float | None = None
    _tokens: int = 0
    _draws: int = 0
    _distinct: int = 0
    _asked: int = 0

    def __post_init__(self) -> None:
        self._first = self.done

    def show(self) -> None:
        """Tell how far it is: all is done only once the last part is there."""
        done = self.done + self._now
        if self._now:
            done = min(done, math.nextafter(self.total, 0.0))
        told = self._draws > self._asked  # of one draw each there is nothing to tell
        distinct = self._distinct / self._draws if told else None
        self.progress(
            self.phase,
            done,
            self.total,
            self.unit,
            tokens=self._tokens,
            distinct=distinct,
            share=self._share(),
        )

    def _share(self) -> float | None:
        """Which share of the tokens of all parts is there, if draws take as many as these do.

        A part whose draws end last is foreseen by what its engine tells of each; None where that
        is nothing.
        """
        if self._each is None:
            return None
        tokens: float = self._before
        draws = self.done - self._first
        if math.isfinite(self._each):
            tokens, draws = tokens + self._each * self._amount, draws + self._amount
        if not tokens:
            return 0.0
        return min(self._tokens * draws / (tokens * (self.total - self._first)), 1.0)

    @contextmanager
    def part(self, engine: Generate, amount: float) -> Iterator[Callable[[float], None]]:
        """Draw a part of this amount here; gives what is told which share of it is there."""
        self._now, self._amount = 0.0, amount

        def tell(draws: int, tokens: int, each: float | None = None) -> None:
            self._tokens += tokens
            self._each = None if self.worth else each
            self._now = min(self._now + (tokens * self.worth or draws), amount)
            self.show()

        if isinstance(engine, Tells):
            engine.tell = tell
        self.show()
        try:
            yield lambda share: self._reach(share * amount)
        finally:
            if isinstance(engine, Tells):
                engine.tell = untold
        self._add(amount)

    def add(self, amount: float, drawn: DrawnPart) -> None:
        """A part of this amount was drawn elsewhere."""
        self._tokens += drawn.usage.forwards
        self.found(drawn)
        self._add(amount)

    def found(self, drawn: DrawnPart) -> None:
        """How many draws of a part there are, and how many of them differ."""
        self._asked += len(drawn.completions["query_id"].unique())
        self._draws += drawn.draws
        self._distinct += drawn.distinct

    def _add(self, amount: float) -> None:
        self.done, self._now, self._before = self.done + amount, 0.0, self._tokens
        self._each = None if self._each is None else math.inf
        self.show()

    def _reach(self, amount: float) -> None:
        """So much of the part is there, whatever was told."""
        self._now = max(self._now, amount)
        self.show()
