"""Print progress (with speed and time left), notes, tables and JSON on the console."""

from __future__ import annotations

import json
import math
import re
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from leakbound.cli.output import bold, columns_there, say, steerable, write
from leakbound.text.shown import tied, visible
from leakbound.types import Headway, Progress, silent

if TYPE_CHECKING:
    from leakbound.evaluation import Table

_TIE = "\ue000"  # replaces blanks within figures: rich breaks lines at any blank
_OF = re.compile(r"(?<=\d) (?=of \d)|(?<=\d of) (?=\d)")
_WIDE = 140  # the width of tables without a terminal, in columns
_BAR = 8  # the fewest columns of a live bar with its blanks
_GAP = 2  # blanks between two columns of a table
_QUIET_SECONDS = 5.0  # the wait before a phase's second plain line; later waits double,
_LONGEST_SECONDS = 60.0  # up to this wait


@contextmanager
def progress_bar(shown: bool = True) -> Iterator[Progress]:
    """Yield a `Progress` that writes to standard error: a live bar on a terminal, else a few lines.

    If `shown` is False, it prints only notes.
    """
    with (_bar if shown and steerable(sys.stderr) else nullcontext)() as bar:
        report = bar or (_Lines() if shown else silent)
        yield lambda now: say_notes([now.note]) if now.note else report(now)


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich import progress as rich_progress
    from rich.console import Console
    from rich.table import Column

    console = Console(stderr=True)
    room = console.width
    tasks: dict[str, rich_progress.TaskID] = {}
    phases: dict[str, _Phase] = {}
    columns = (
        rich_progress.TextColumn(
            "{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")
        ),
        rich_progress.BarColumn(bar_width=max(4, min(30, room - 76))),
        rich_progress.TextColumn("{task.fields[shown]}", table_column=Column(no_wrap=True)),
    )
    with rich_progress.Progress(*columns, console=console) as bar:

        def report(now: Headway) -> None:
            phase = now.phase
            line, *others = phases.setdefault(phase, _Phase(now.done)).parts(now)
            left = room - _BAR - min(len(phase), room // 3)
            for part in others:  # all parts that fit the width
                line = f"{line}, {part}" if len(line) + len(part) + 2 <= left else line
            if phase not in tasks:
                tasks[phase] = bar.add_task(visible(phase), total=None, shown="")
            total = now.total if now.unit or now.done else None  # with None the bar shows activity
            bar.update(tasks[phase], completed=now.done, total=total, shown=line)

        yield report


class _Lines:
    """Print progress as plain lines, for files and pipes.

    A phase has a first line, a last line, and a few lines in between. If a short phase begins soon
    after another line, only its last line is printed.
    """

    def __init__(self) -> None:
        self._phases: dict[str, _Phase] = {}
        self._last = -math.inf

    def __call__(self, now: Headway) -> None:
        at, due = time.monotonic(), self._last + _QUIET_SECONDS
        phase = self._phases.setdefault(now.phase, _Phase(now.done, due))
        is_last = now.done == now.total and (phase.shown is None or phase.shown[0] != now.total)
        if not now.unit:  # the first report is printed, and the last report if the phase took long
            is_last = phase.shown is None or (is_last and phase.seconds >= _QUIET_SECONDS)
        if (now.done, now.tokens) == phase.shown or (at < phase.due and not is_last):
            return
        phase.due, phase.pause = at + phase.pause, min(2 * phase.pause, _LONGEST_SECONDS)
        self._last, phase.shown = at, (now.done, now.tokens)
        say(f"{now.phase}: {', '.join(phase.parts(now))}", err=True)


class _Phase:
    """The state of one phase: its start, and the progress at its last printed line."""

    def __init__(self, first: float, due: float = 0.0) -> None:
        self._first, self._started = first, time.monotonic()
        self.due, self.pause = due, _QUIET_SECONDS
        self.shown: tuple[float, int] | None = None  # the speed in units of work, and in tokens

    def parts(self, now: Headway) -> list[str]:
        """Return texts: the work done and, if known, the time left, the speed and the tokens.

        If a step has no unit of work, return an ellipsis, or its duration when it ends.
        """
        if not now.unit:
            return [duration(self.seconds) if now.done == now.total else "…"]
        done = (
            int(now.done) if now.done < now.total else round(now.total)
        )  # the total only at the end
        parts = [f"{done:,}/{now.total:,.0f} {now.unit}"]
        speed = self._speed(now.done - self._first)
        if speed > 0:
            if now.done < now.total:
                parts.append(f"{duration((now.total - now.done) / speed)} left")
            parts.append(f"{_figure(speed)} {now.unit}/s")
        if now.tokens:
            parts.append(f"{now.tokens:,} tokens ({_figure(self._speed(now.tokens))}/s)")
        return parts

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def _speed(self, amount: float) -> float:
        return amount / self.seconds if self.seconds > 0 else 0.0


def _figure(speed: float) -> str:
    """Return a speed with three digits, or as an integer from 100."""
    return f"{speed:,.0f}" if speed >= 100 else f"{speed:.3g}"


def duration(seconds: float) -> str:
    """Return a number of seconds as text, in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    say(json.dumps(value, indent=1, ensure_ascii=False))


def say_notes(notes: Iterable[str]) -> None:
    """Print each of these notes once, on standard error."""
    for note in dict.fromkeys(notes):
        say(f"note: {note}", err=True)


def print_table(table: Table, echo: Callable[[str], None] = write) -> None:
    """Print a table with its lead above and its note below.

    Numbers are right-aligned and words are left-aligned. No number is cut. Columns that do not fit
    are printed below the other columns, and the first column is repeated. If not even two columns
    fit, each row becomes a list of its cells. The width is the environment variable COLUMNS, or
    else the width of the terminal. If neither is known, tables are 140 columns wide and sentences
    are not broken.
    """
    columns, rows = [*map(visible, table.columns)], [[*map(visible, row)] for row in table.texts]
    room = columns_there() or _WIDE
    blocks = _blocks(columns, rows, room)
    words = {0, *(i for row in table.rows for i, cell in enumerate(row) if cell.prose)}
    shown = [_side_by_side(columns, rows, block, words) for block in blocks]
    title = bold("\n".join(lines_of(visible(table.title), room)))
    body = f"{title}\n" + ("\n\n".join(shown) or _stacked(columns, rows, room))
    parts = (prose(table.lead), body, prose(table.note))
    echo("\n\n".join(filter(None, parts)) + "\n")


def prose(text: str) -> str:
    """Return the text with its lines broken between words at the width of the terminal."""
    room = columns_there()
    paragraphs = visible(text).splitlines()
    if room is None:
        return "\n".join(paragraphs)
    return "\n".join(line for paragraph in paragraphs for line in lines_of(paragraph, room))


def lines_of(text: str, room: int, first: str = "", rest: str = "") -> list[str]:
    """Return a paragraph in lines of at most `room` columns; no word or interval is broken."""
    lines = textwrap.wrap(
        _tied(text),
        room,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_TIE, " ") for line in lines]


Block = Mapping[int, int]
"""The columns of a table that are printed side by side, with their widths."""


def _side_by_side(
    columns: Sequence[str], rows: Sequence[Sequence[str]], block: Block, words: Collection[int]
) -> str:
    """Return these columns as one table; `words` has the columns to align left."""
    from rich import box
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    table = rich_table.Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0)
    )
    for i, width in block.items():
        justify: Literal["left", "right"] = "left" if i in words else "right"
        table.add_column(Text(columns[i]), justify=justify, width=width, overflow="fold")
    for row in rows:
        table.add_row(*(Text(_tied(row[i])) for i in block))
    console = Console(width=_wide(block.values()), color_system=None, legacy_windows=False)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().replace(_TIE, " ").splitlines()
    return "\n".join(line.rstrip() for line in lines)


def _stacked(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return one paragraph per row: the row's name, then a line with column and value per cell."""
    lines = []
    room = max(map(len, columns[1:]), default=0) + 4
    for row in rows:
        lines.append(row[0])
        for column, cell in zip(columns[1:], row[1:], strict=True):
            heading = f"  {column}"
            lines += lines_of(cell, width, heading.ljust(room), " " * room) or [heading]
    return "\n".join(lines)


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[Block]:
    """Divide the columns into blocks that fit the width, each with the first column.

    The result is empty if not even two columns fit. Lines of the first column are not broken. In
    the other columns, no word and no interval is broken. Unused width of a block goes to its
    columns, the leftmost column first.
    """
    from rich.cells import cell_len

    cells = [(column, *(row[i] for row in rows)) for i, column in enumerate(columns)]
    full = [max(map(cell_len, column)) for column in cells]
    least = [
        max(cell_len(word) for cell in own for word in _tied(cell).split(" ")) for own in cells
    ]
    least[0] = full[0]
    blocks: list[dict[int, int]] = [{0: full[0]}]
    for i in range(1, len(columns)):
        if _wide([*blocks[-1].values(), least[i]]) > room:
            blocks.append({0: full[0]})
        blocks[-1][i] = least[i]
    if any(_wide(block.values()) > room for block in blocks) or len(blocks[0]) < min(2, len(full)):
        return []
    for block in blocks:
        left = room - _wide(block.values())
        for i in block:
            more = min(full[i] - block[i], left)
            block[i] += more
            left -= more
    return [*blocks]


def _tied(text: str) -> str:
    """Return the text with non-breaking blanks in numbers and in phrases such as `3 of 12`."""
    return _OF.sub(_TIE, tied(text, _TIE))


def _wide(widths: Iterable[int]) -> int:
    """Return the total width of columns of these widths, with gaps."""
    columns = [*widths]
    return sum(columns) + _GAP * (len(columns) - 1)
