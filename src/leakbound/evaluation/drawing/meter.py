"""What is done of an arm, told while its parts are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

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
    _now: float = 0.0
    _tokens: int = 0
    _draws: int = 0
    _distinct: int = 0
    _asked: int = 0

    def show(self) -> None:
        """Tell how far it is: all is done only once the last part is there."""
        done = self.done + self._now
        if self._now:
            done = min(done, math.nextafter(self.total, 0.0))
        told = self._draws > self._asked  # of one draw each there is nothing to tell
        distinct = self._distinct / self._draws if told else None
        self.progress(
            self.phase, done, self.total, self.unit, tokens=self._tokens, distinct=distinct
        )

    @contextmanager
    def part(self, engine: Generate, amount: float) -> Iterator[Callable[[float], None]]:
        """Draw a part of this amount here; gives what is told which share of it is there."""
        self._now = 0.0

        def tell(draws: int, tokens: int) -> None:
            self._tokens += tokens
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
        self.done, self._now = self.done + amount, 0.0
        self.show()

    def _reach(self, amount: float) -> None:
        """So much of the part is there, whatever was told."""
        self._now = max(self._now, amount)
        self.show()
