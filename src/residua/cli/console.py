"""What a person sees while a command runs: progress with a rate and the time left, and tables."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from residua.types import Progress, silent

_QUIET_SECONDS = 5.0  # between two plain lines of one phase


@contextmanager
def progress_bar(shown: bool = True) -> Iterator[Progress]:
    """A `Progress` on standard error: a live bar on a terminal, a line now and then elsewhere."""
    if not shown:
        yield silent
    elif sys.stderr.isatty():
        yield from _bar()
    else:
        yield _Lines()


def _bar() -> Iterator[Progress]:
    from rich import progress as rich_progress
    from rich.console import Console

    columns = (
        rich_progress.TextColumn("{task.description:<24}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}"),
        rich_progress.TextColumn("{task.fields[said]}"),
        rich_progress.TimeRemainingColumn(),
    )
    tasks: dict[str, rich_progress.TaskID] = {}
    rates: dict[str, _Rates] = {}
    with rich_progress.Progress(*columns, console=Console(stderr=True)) as bar:

        def report(phase: str, done: float, total: float, unit: str = "", tokens: int = 0) -> None:
            rate = rates.setdefault(phase, _Rates(done))
            if phase not in tasks:
                tasks[phase] = bar.add_task(phase, total=total, unit=unit, said="")
            bar.update(
                tasks[phase], completed=done, total=total, said=rate.text(done, unit, tokens)
            )

        yield report


class _Lines:
    """Progress as plain lines: the first, the last, and one every few seconds."""

    def __init__(self) -> None:
        self._rates: dict[str, _Rates] = {}
        self._said: dict[str, tuple[float, tuple[float, int]]] = {}  # when, and how much was done

    def __call__(
        self, phase: str, done: float, total: float, unit: str = "", tokens: int = 0
    ) -> None:
        now = time.monotonic()
        rates = self._rates.setdefault(phase, _Rates(done))
        when, last = self._said.get(phase, (-math.inf, (-math.inf, 0)))
        ends = done == total and last[0] != total
        if (done, tokens) == last or (not ends and now - when < _QUIET_SECONDS):
            return
        self._said[phase] = now, (done, tokens)
        left = rates.left(done, total) if done < total else ""
        said = [
            f"{phase}: {_whole(done, total):,}/{total:,.0f} {unit}",
            rates.text(done, unit, tokens),
            left and f"{left} left",
        ]
        click.echo(", ".join(filter(None, said)), err=True)


def _whole(done: float, total: float) -> int:
    """What is finished, as a whole number: all of it only where it is all."""
    return int(done) if done < total else round(total)


class _Rates:
    """Speeds since the first report of a phase, of its units and of tokens."""

    def __init__(self, first: float) -> None:
        now = time.monotonic()
        self._units, self._tokens = _Rate(first, now), _Rate(0.0, now)

    def text(self, done: float, unit: str, tokens: int = 0) -> str:
        """The units a second; beside them, where they are told, tokens and how many a second."""
        said = [self._units.text(done, unit)]
        if tokens:
            said.append(f"{tokens:,} tokens ({self._tokens.per_second(tokens):,.3g}/s)")
        return ", ".join(filter(None, said))

    def left(self, done: float, total: float) -> str:
        """The time left at this speed, as a person says it; nothing where none is known."""
        return self._units.left(done, total)


class _Rate:
    """Speed since the first report of a phase."""

    def __init__(self, first: float, started: float) -> None:
        self._first, self._started = first, started

    def per_second(self, done: float) -> float:
        seconds = time.monotonic() - self._started
        return (done - self._first) / seconds if seconds > 0 else 0.0

    def text(self, done: float, unit: str) -> str:
        speed = self.per_second(done)
        return f"{speed:,.3g} {unit}/s" if speed > 0 else ""

    def left(self, done: float, total: float) -> str:
        speed = self.per_second(done)
        return duration((total - done) / speed) if speed > 0 else ""


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return (
        f"{minutes} min {rest:02d} s"
        if minutes < 60
        else f"{minutes // 60} h {minutes % 60:02d} min"
    )


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=False))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    echo: Callable[[str], None] = click.echo,
) -> None:
    """A table on standard output: the first column left and never wrapped, the others right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", title_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i else "left", no_wrap=not i)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=140)
    with console.capture() as capture:
        console.print(table)
    echo(capture.get().rstrip())
