"""What is done of an arm, told while its parts are drawn, and what each part took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from leakbound.types import Generate, Progress, Tells, Usage, untold


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

    def show(self) -> None:
        """Tell how far it is."""
        done = min(self.done + self._now, self.total)
        self.progress(self.phase, done, self.total, self.unit, tokens=self._tokens)

    @contextmanager
    def part(self, engine: Generate, amount: float) -> Iterator[Usage]:
        """Draw a part of this amount; gives what it cost, which is known once it is drawn."""
        before, started = replace(engine.usage, notes=[]), time.perf_counter()
        cost = Usage()
        self._now = 0.0

        def tell(draws: int, tokens: int) -> None:
            self._tokens += tokens
            self._now = min(self._now + (tokens * self.worth or draws), amount)
            self.show()

        if isinstance(engine, Tells):
            engine.tell = tell
        self.show()
        try:
            yield cost
        finally:
            if isinstance(engine, Tells):
                engine.tell = untold
        cost.add(engine.usage.since(before, time.perf_counter() - started))
        self.done, self._now = self.done + amount, 0.0
        self.show()

    def reach(self, amount: float) -> None:
        """So much of the part is there, whatever was told."""
        self._now = max(self._now, amount)
        self.show()
