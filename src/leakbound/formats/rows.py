"""The one shape of what every reader gives: a file of samples, and its rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from leakbound.types import Output

MOST = 1_000_000
"""The largest count of one row, and the largest number of epochs or generations."""
REDACTED = "(redacted)"
"""The placeholder of a text in a file that holds scores only."""

Json: TypeAlias = Mapping[str, Any]
Settings: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleRow:
    """One output for one question.

    Attributes:
        id: the question's name in the file, or its place there.
        question: the text that the model got; None in a file that holds scores only.
        answers: the targets that the file has, the first of them the answer.
        output: None for a draw that was requested and failed.
        scores: the scores of the output, under the scorers' names; None: undecided.
        count: the number of draws that the row represents; None: one, and the rows of the file
            are in the order in which they were drawn.
        stated: the settings of this draw, for files that state them by row; None: not stated.
        place: where the row is, for messages.
    """

    id: str
    question: str | None
    answers: tuple[str, ...] = ()
    output: Output | None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    count: int | None = None
    stated: Settings | None = None
    place: str = ""


def _never(name: str) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleFile:
    """A file: the facts that it states about all its rows, and the rows.

    Attributes:
        path: the file.
        tool: the tool that wrote it, with its version where the file has that.
        task: the file's own name for its questions.
        rows: read once; the draws of a question in the order of the file, because that order shows
            whether some are copies of others.
        stated: the settings of all draws: `model`, the names of `Decoding`, and others (a seed, a
            penalty) under their own names.
        binary: whether the scores of this name can only be 0 and 1.
        notes: warnings for the user.
        claim: the claim whose decision ended a question's draws, by our rule in the tool; "": none.
        most: with a claim, the largest number of draws of a question.
    """

    path: Path
    tool: str
    task: str
    rows: Iterable[SampleRow]
    stated: Settings = field(default_factory=dict)
    binary: Callable[[str], bool] = _never
    notes: tuple[str, ...] = ()
    claim: str = ""
    most: int = 0


def score_of(value: object) -> float | None:
    """A score as a finite number; None for anything else: a scorer could not decide."""
    try:
        number = float(value) if isinstance(value, int | float | str) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def is_number(value: object) -> TypeGuard[float]:
    """True for a number that is not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)
