"""What a person sees while a command runs: progress with a rate and the time left, and tables."""

from __future__ import annotations

import json
import math
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli.saying import say
from leakbound.text.figures import tied
from leakbound.text.plain import visible
from leakbound.types import Progress, silent

if TYPE_CHECKING:
    from leakbound.evaluation import Table

_TIE = "\ue000"  # within figures while lines are broken: rich breaks at any blank
_WIDE = 140  # columns, where there is no terminal to ask
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
        say(", ".join(filter(None, said)), err=True)


def _whole(done: float, total: float) -> int:
    """What is finished, as a whole number: all of it only where it is all."""
    return int(done) if done < total else round(total)


class _Rates:
    """Speeds since the first report of a phase, of its units and of tokens."""

    def __init__(self, first: float) -> None:
        self._first, self._started = first, time.monotonic()

    def text(self, done: float, unit: str, tokens: int = 0) -> str:
        """The units a second; beside them, where they are told, tokens and how many a second."""
        speed = self._speed(done - self._first)
        said = [f"{speed:,.3g} {unit}/s"] if speed > 0 else []
        said += [f"{tokens:,} tokens ({self._speed(tokens):,.3g}/s)"] if tokens else []
        return ", ".join(said)

    def left(self, done: float, total: float) -> str:
        """The time left at this speed, as a person says it; nothing where none is known."""
        speed = self._speed(done - self._first)
        return duration((total - done) / speed) if speed > 0 else ""

    def _speed(self, amount: float) -> float:
        seconds = time.monotonic() - self._started
        return amount / seconds if seconds > 0 else 0.0


def duration(seconds: float) -> str:
    """Seconds as a person says them."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    say(json.dumps(value, indent=1, ensure_ascii=False))


def print_table(table: Table, echo: Callable[[str], None] = click.echo) -> None:
    """A table on standard output, between its lead and its note: the first column left.

    No figure is ever cut: where the columns do not fit side by side, with an interval in one
    piece, each row is a list of its cells. The width is the terminal's, or COLUMNS; 140 where
    there is no terminal.
    """
    title, columns = visible(table.title), [*map(visible, table.columns)]
    rows = [[*map(visible, row)] for row in table.texts]
    width = shutil.get_terminal_size(fallback=(_WIDE, 0)).columns
    widths = _widths(columns, rows, width)
    text = _side_by_side(title, columns, rows, widths) if widths else ""
    said = (visible(table.lead), text or _stacked(title, columns, rows, width), visible(table.note))
    for part in filter(None, said):
        echo(part)


def _side_by_side(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int]
) -> str:
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    table = rich_table.Table(title=Text(title), title_justify="left", title_style="bold")
    for i, (column, width) in enumerate(zip(columns, widths, strict=True)):
        table.add_column(column, justify="right" if i else "left", width=width, overflow="fold")
    for row in rows:
        table.add_row(*(Text(tied(cell, _TIE)) for cell in row))
    console = Console(width=sum(widths) + _frame(columns))
    with console.capture() as capture:
        console.print(table)
    return capture.get().rstrip().replace(_TIE, " ")


def _stacked(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """A paragraph a row: its name, then a line for each cell with the column's name before it."""
    said = textwrap.wrap(title, width, break_long_words=False, break_on_hyphens=False)
    room = max(map(len, columns[1:]), default=0) + 4
    for row in rows:
        said.append(row[0])
        for column, cell in zip(columns[1:], row[1:], strict=True):
            said += textwrap.wrap(
                tied(cell, _TIE),
                width,
                initial_indent=f"  {column}".ljust(room),
                subsequent_indent=" " * room,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [f"  {column}"]
    return "\n".join(said).replace(_TIE, " ")


def _widths(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int
) -> Sequence[int] | None:
    """How wide each column is, so that no word of it breaks; None where that is too wide.

    The first column never breaks at all. What room is left goes to the columns from the left.
    """
    cells = [(column, *(row[i] for row in rows)) for i, column in enumerate(columns)]
    whole = [max(map(len, mine)) for mine in cells]
    tight = [[tied(cell, _TIE) for cell in mine] for mine in cells]
    words = [max(len(word) for cell in mine for word in cell.split(" ")) for mine in tight]
    widths = [whole[0], *words[1:]]
    room = width - sum(widths) - _frame(columns)
    if room < 0:
        return None
    for i, wanted in enumerate(whole):
        more = min(wanted - widths[i], room)
        widths[i] += more
        room -= more
    return widths


def _frame(columns: Sequence[str]) -> int:
    """What the rules of a table and the blanks beside them take."""
    return 3 * len(columns) + 1
