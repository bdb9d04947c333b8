"""Where the time of an evaluation went, added up over the commands that it took."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.store.files import read_json, write_json
from leakbound.store.record import FILE
from leakbound.types import Headway, Progress

TIMES = "times.json"
_LOADING = "loading "


def written(run: Path) -> frozenset[tuple[str, int]]:
    """Name and size of every table and record of a run: they change if a command resumes it.

    Empty for a folder without a run.
    """
    if not (run / FILE).is_file():
        return frozenset()
    files = [*run.glob("*.json"), *run.glob("*.parquet"), *run.glob("arms/**/*.*")]
    return frozenset((str(file), file.stat().st_size) for file in files if file.name != TIMES)


class Clock:
    """Seconds of each phase, by the name of the phase: those in `file`, and those since.

    A phase within another is subtracted from it, so that all phases add up.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._phases: list[str] = []
        self._since = time.monotonic()
        self.seconds: dict[str, float] = {}
        try:
            stored: Any = read_json(file, "Remove it.") if file.exists() else {}
            self.seconds = {str(name): float(spent) for name, spent in stored.items()}
        except (InputError, AttributeError, TypeError, ValueError):
            pass  # what was measured before is lost, and nothing else

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time meanwhile as this phase's."""
        self._turn()
        depth = len(self._phases)
        self._phases.append(name)
        try:
            yield
        finally:
            self._turn()
            del self._phases[depth:]  # with a load that failed
            self.seconds.setdefault(name, 0.0)

    def hearing(self, progress: Progress) -> Progress:
        """The same `Progress`; loading is counted as a phase."""

        def heard(now: Headway) -> None:
            if now.phase.startswith(_LOADING) and not now.unit:
                self._turn()
                if now.done < now.total:
                    self._phases.append("load")
                elif self._phases[-1:] == ["load"]:
                    self._phases.pop()
            progress(now)

        return heard

    def write(self) -> None:
        """Keep what was measured."""
        self._turn()
        write_json(self._file, {name: round(spent, 3) for name, spent in self.seconds.items()})

    @property
    def line(self) -> str:
        """All of it in one line."""
        phases = (f"{name} {spent:.1f} s" for name, spent in self.seconds.items())
        return f"time: {', '.join(phases)}; {sum(self.seconds.values()):.1f} s in all"

    def _turn(self) -> None:
        now = time.monotonic()
        if self._phases:
            name = self._phases[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now
