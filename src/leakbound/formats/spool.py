"""Draws that lie on disk by question: a file of samples may hold more than memory does.

Its rows come in any order. Those of a question wait until there are enough of them for a block, or
until all that wait become too large; then they are written one block after the other.
"""

from __future__ import annotations

import json
import os
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Self

from leakbound.errors import IncompleteError
from leakbound.formats.imported import Draw
from leakbound.types import Output

_ROWS = 1024  # of a block, at most
_WAITING = 1 << 28  # bytes, about, of all rows that wait to be written
_ROW, _SCORE = 250, 250  # bytes that Python needs beside the text

Counted = tuple[Draw | None, int]
"""A draw, None for one that failed, and how many times it came in a row."""


class Spool:
    """A file without a name in `folder`: it ends with its process, however that ends.

    Whatever is done raises IncompleteError where the disk is full or fails.
    """

    def __init__(self, folder: Path) -> None:
        partial = f".{os.getpid()}.partial"  # of the name that some systems need for a moment
        with _telling():
            self._file = TemporaryFile(dir=folder, prefix=".draws.", suffix=partial)  # noqa: SIM115
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # of a full disk, of which was told already
            self._file.close()

    def write(self, blocks: Sequence[Sequence[Counted]]) -> list[Block]:
        """Write blocks of rows behind the others; where they lie."""
        written = []
        with _telling():
            self._file.seek(self._end)
            for rows in blocks:
                text = json.dumps(rows, default=asdict).encode()
                self._file.write(text)
                written.append(Block(self, sum(n for _, n in rows), self._end, len(text)))
                self._end += len(text)
            self._file.flush()
        return written

    def read(self, start: int, length: int) -> list[Counted]:
        """Read the rows that were written there."""
        with _telling():
            self._file.seek(start)
            text = self._file.read(length)
        return [(_draw(draw), count) for draw, count in json.loads(text)]


@contextmanager
def _telling() -> Iterator[None]:
    """Say of what cannot be done to the disk why, and what to do."""
    try:
        yield
    except OSError as error:
        raise IncompleteError(
            f"cannot keep the draws of the files on the run's disk: {error.strerror or error}. See "
            "that it has as much free space as they, then run the same command again."
        ) from error


def _draw(values: Any) -> Draw | None:
    """The inverse of what JSON made of a draw."""
    if values is None:
        return None
    output, scores = values
    return Draw(Output(**output), tuple(map(tuple, scores)) if scores else ())


@dataclass(frozen=True, slots=True)
class Block(Sequence[Draw | None]):
    """`n` draws of a question that lie in a spool."""

    spool: Spool
    n: int
    start: int
    length: int

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[Draw | None]:
        for draw, count in self.spool.read(self.start, self.length):
            for _ in range(count):
                yield draw

    def __getitem__(self, at: Any) -> Any:
        """The draws of a slice without a step, as a list."""
        first, last, _ = at.indices(self.n)
        draws: list[Draw | None] = []
        end = 0
        for draw, count in self.spool.read(self.start, self.length):
            begin, end = end, end + count
            draws += [draw] * (min(end, last) - max(begin, first))
        return draws


class Chained(Sequence[Draw | None]):
    """Draws of one question in several pieces, each of which is read when it is asked for."""

    def __init__(self, pieces: Sequence[Sequence[Draw | None]]) -> None:
        self._pieces = pieces
        self._ends = list(accumulate(map(len, pieces)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[Draw | None]:
        return chain.from_iterable(self._pieces)

    def __getitem__(self, at: Any) -> Any:
        """The draws of a slice without a step, as a list."""
        first, last, _ = at.indices(len(self))
        draws: list[Draw | None] = []
        number = bisect_right(self._ends, first)
        while first < last:
            piece = self._pieces[number]
            begin = self._ends[number] - len(piece)
            draws += piece[first - begin : last - begin]
            first, number = self._ends[number], number + 1
        return draws


@dataclass(frozen=True, slots=True)
class Mapped(Sequence[Draw | None]):
    """Draws as `made` makes them when they are asked for; one that failed stays so."""

    draws: Sequence[Draw | None]
    made: Callable[[Draw], Draw]

    def __len__(self) -> int:
        return len(self.draws)

    def __iter__(self) -> Iterator[Draw | None]:
        return (None if draw is None else self.made(draw) for draw in self.draws)

    def __getitem__(self, at: Any) -> Any:
        """The draws of a slice, as a list."""
        return [None if draw is None else self.made(draw) for draw in self.draws[at]]


class DrawsByQuestion:
    """The draws of a file by question, put into a spool as they come."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._waiting: dict[str, list[Counted]] = {}
        self._blocks: dict[str, list[Block]] = {}
        self._held = 0

    def add(self, question: str, draw: Draw | None, count: int) -> None:
        """Add the next draws of a question, `count` alike."""
        waiting = self._waiting.setdefault(question, [])
        waiting.append((draw, count))
        self._held += _size(draw)
        if len(waiting) >= _ROWS:
            self._write([question])
        elif self._held > _WAITING:
            self._write(list(self._waiting))

    def draws(self) -> dict[str, Chained]:
        """The draws of every question that has any."""
        self._write(list(self._waiting))
        return {question: Chained(blocks) for question, blocks in self._blocks.items()}

    def _write(self, questions: Sequence[str]) -> None:
        rows = [self._waiting.pop(question) for question in questions]
        self._held -= sum(_size(draw) for waiting in rows for draw, _ in waiting)
        for question, block in zip(questions, self._spool.write(rows), strict=True):
            self._blocks.setdefault(question, []).append(block)


def _size(draw: Draw | None) -> int:
    """The bytes, about, that a row takes while it waits."""
    if draw is None:
        return _ROW
    texts = sys.getsizeof(draw.output.answer) + sys.getsizeof(draw.output.thought)
    return _ROW + texts + _SCORE * len(draw.scores)
