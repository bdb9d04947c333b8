"""Measure the time of each phase of an evaluation, added up over all its commands."""

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
    """Return the name and size of every table and record of a run; an empty set without a run.

    This set changes if a command resumes the run.
    """
    if not (run / FILE).is_file():
        return frozenset()
    files = [*run.glob("*.json"), *run.glob("*.parquet"), *run.glob("arms/**/*.*")]
    return frozenset((str(file), file.stat().st_size) for file in files if file.name != TIMES)


class Clock:
    """Measure the seconds of each phase, and add them to the seconds stored in `file`.

    If a phase contains another phase, the time of the inner phase counts only for the inner phase.
    So the times of all phases add up to the total time.
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
            pass  # a damaged file only loses earlier measurements

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the body of a `with` statement as part of a phase."""
        self._turn()
        depth = len(self._phases)
        self._phases.append(name)
        try:
            yield
        finally:
            self._turn()
            del self._phases[depth:]  # including a load that failed
            self.seconds.setdefault(name, 0.0)

    def timed(self, progress: Progress) -> Progress:
        """Return a `Progress` that calls this one, and also times loading as a phase."""

        def report(now: Headway) -> None:
            if now.phase.startswith(_LOADING) and not now.unit:
                self._turn()
                if now.done < now.total:
                    self._phases.append("load")
                elif self._phases[-1:] == ["load"]:
                    self._phases.pop()
            progress(now)

        return report

    def write(self) -> None:
        """Write the seconds of all phases into the file."""
        self._turn()
        write_json(self._file, {name: round(spent, 3) for name, spent in self.seconds.items()})

    @property
    def line(self) -> str:
        """The seconds of all phases in one line."""
        phases = (f"{name} {spent:.1f} s" for name, spent in self.seconds.items())
        return f"time: {', '.join(phases)}; {sum(self.seconds.values()):.1f} s in all"

    def _turn(self) -> None:
        now = time.monotonic()
        if self._phases:
            name = self._phases[-1]
            self.seconds[name] = self.seconds.get(name, 0.0) + now - self._since
        self._since = now
