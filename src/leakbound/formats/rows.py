"""The common form of files with samples and of their rows, and functions for all readers."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard, TypeVar

import pyarrow as pa

from leakbound.errors import InputError, LeakboundError
from leakbound.text.shown import kind_of
from leakbound.types import Output

T = TypeVar("T")
R = TypeVar("R")

MOST = 1_000_000
"""The largest count of one row, and the largest number of epochs or generations."""
REDACTED = "(redacted)"
"""The placeholder of a text in a file that has scores only."""

Json: TypeAlias = Mapping[str, Any]
Settings: TypeAlias = Mapping[str, object]

# The names that other tools give to settings of `Decoding`.
_OURS = {
    "max_gen_toks": "max_new_tokens",
    "max_tokens": "max_new_tokens",
    "stop_seqs": "stop",
    "until": "stop",
}
# Settings of requests that change no probability.
_IDLE = {"max_retries", "timeout", "attempt_timeout", "max_connections", "adaptive_connections",
         "cache", "batch", "system_message"}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One output for one question.

    Attributes:
        id: the question's name in the file, or its place in the file.
        question: the model's input; None in a file of scores only.
        answers: the targets in the file; the first target is the answer.
        output: the output; None for a draw that was requested and failed.
        scores: the scores of the output, by scorer; None for an undecided score.
        count: the number of draws of the row. None means one draw, and that the rows of the file
            are in the order of drawing.
        stated: the settings of this draw, if the file has settings in each row; else None.
        place: the place of the row, for messages.
    """

    id: str
    question: str | None
    answers: tuple[str, ...] = ()
    output: Output | None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    count: int | None = None
    stated: Settings | None = None
    place: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFile:
    """A file with samples: facts about all its rows, and the rows.

    Attributes:
        path: the file.
        tool: the tool that wrote the file, with its version if known.
        task: the name of the questions in the file.
        rows: the rows; they can be iterated over once. The draws of a question are in the order of
            the file, so that copies can be found.
        stated: the settings of all draws: `model`, settings with the names of `Decoding`, and
            others (such as a seed or penalty) with their own names.
        binary: a function that returns whether the scores of a given name are always 0 or 1.
        note: a warning for the user; "" if there is none.
        claim: the claim at which our plug-in stopped the draws of a question; "" if there is none.
        most: the largest number of draws of a question, if there is a claim.
    """

    path: Path
    tool: str
    task: str
    rows: Iterable[SampleRow]
    stated: Settings = field(default_factory=dict)
    binary: Callable[[str], bool] = field(default=lambda name: False)
    note: str = ""
    claim: str = ""
    most: int = 0


def score_of(value: object) -> float | None:
    """Return a score as a finite number; None (undecided) for any other value."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# RuntimeError: an archive that is encrypted or compressed by an unknown method.
_FAULTS = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RuntimeError,
           EOFError, zipfile.BadZipFile, zlib.error, struct.error, pa.ArrowException)  # fmt: skip


@contextmanager
def reading(
    place: str,
    remedy: str = "Import the file as its tool wrote it, or name its format with --format.",
) -> Iterator[None]:
    """Return a context that reports an error in a record with its place and cause.

    The message contains no text of an output.
    """
    try:
        yield
    except LeakboundError:
        raise
    except _FAULTS as error:
        cause = f"{type(error).__name__}: {error}"
        if isinstance(error, KeyError):
            cause = f"it has no {error}"
        elif isinstance(error, ValueError):  # it may quote an output
            cause = type(error).__name__
        raise InputError(f"{place} cannot be read: {cause}. {remedy}") from error


def each(records: Iterable[tuple[str, T]], read: Callable[[str, T], R]) -> Iterator[R]:
    """Apply `read` to each record and its place. The message of an error has the place."""
    for place, record in records:
        with reading(place):
            yield read(place, record)


def stated_count(path: Path, value: Any, noun: str) -> int:
    """Return the file's number of draws per question; raise InputError outside 1 to `MOST`."""
    count = int(value)
    if not 1 <= count <= MOST:
        raise InputError(f"`{path}` must have 1 to {MOST:,} {noun}, got {count}. Correct the file.")
    return count


def settings_of(given: Settings) -> dict[str, object]:
    """Return the settings in another tool's file under our names.

    If `do_sample` is False, decoding was greedy, so the temperature becomes 0.
    """
    settings = {
        _OURS.get(name, name): value
        for name, value in given.items()
        if value is not None and name not in _IDLE
    }
    if settings.pop("do_sample", None) is False:
        settings["temperature"] = 0.0
    stop: Any = settings.pop("stop", ())
    stops = [stop] if isinstance(stop, str) else stop
    return settings | {"stop": tuple(text for text in stops if text)}


def text_of(content: Any) -> str:
    """Return the text of a message, or the texts of the user's turns, one per line.

    A message is a text, an object with a text, or a list of parts. Only parts of type "text" are
    used.
    """
    if isinstance(content, Mapping):
        content = content["turns"] if "turns" in content else content["text"] or ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise TypeError(f"{kind_of(content)} in place of a text")
    if content and "role" in content[0]:
        return "\n".join(text_of(turn["content"]) for turn in content if turn["role"] == "user")
    return "".join(text_of(part) for part in content if part["type"] == "text")


def require_one_turn(place: str, talk: Sequence[Json], prompt: Sequence[Json]) -> None:
    """Raise InputError if a conversation has more than one turn of the model after its prompt."""
    of_model, given = (sum(t["role"] == "assistant" for t in turns) for turns in (talk, prompt))
    if (turns := of_model - given) > 1:
        raise InputError(
            f"a sample must have one output of the model, got {turns} turns of the model in "
            f"{place}. Evaluate with one generation and no tools."
        )
