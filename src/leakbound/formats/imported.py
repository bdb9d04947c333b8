"""Other tools' files of samples as values: an `ImportedLog` of questions, and their draws.

Every reader gives draws one by one, in the order in which the file has them: that order is what
shows whether some are copies of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from leakbound.errors import InputError
from leakbound.types import Decoding, Output
from leakbound.types.decoding import UNSTATED

MOST = 1_000_000
"""Draws that a count may stand for: one beyond this is a slip."""
DECODING = tuple(field.name for field in fields(Decoding) if field.name != "unknown")
_NO_NUMBERS = ("adaptive_mode", "stop", "filter")

Json: TypeAlias = Mapping[str, Any]
Scores: TypeAlias = tuple[tuple[str, float | None], ...]
"""What the scorers of a file gave a draw, by name; None where one could not decide."""


class Draw(NamedTuple):
    """One output, with its scores: a judge may give one output several."""

    output: Output
    scores: Scores = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedQuestion:
    """A question and its draws.

    Attributes:
        id: its name in the file, or its place there.
        text: what was put to the model.
        answers: the targets that the file has, the first of them the answer.
        draws: None for one that was asked for and failed. They may lie on disk (see `Spool`), and
            are then read whenever they are asked for.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    draws: Sequence[Draw | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLog:
    """The questions of one file with their draws, and what it states of them.

    Attributes:
        path: the file.
        tool: what wrote it, with its version where the file has that.
        model: as the file calls it; "unnamed" where it does not.
        task: what was asked, by the file's own name.
        stated: the settings under which was drawn, as far as the file states them, by the names of
            `Decoding`; others (a seed, a penalty) under their own.
        asked: the questions.
        ordered: False where draws stand as counts, so that their order is not known.
        texts: False where it has scores alone.
        scorers: the names of the scores that its draws have, and whether they can be 0 and 1 only.
        notes: what its user should know of it.
        claim: whose decision ended a question's draws by our own rule; empty where none did.
        most: with a claim, the draws of a question at most.
    """

    path: Path
    tool: str
    model: str
    task: str
    stated: Mapping[str, object]
    asked: tuple[ImportedQuestion, ...]
    ordered: bool = True
    texts: bool = True
    scorers: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    claim: str = ""
    most: int = 0

    @property
    def decoding(self) -> Decoding:
        """The output distribution that was drawn from, with what is unknown of it."""
        values: dict[str, Any] = {k: v for k, v in self.stated.items() if k in DECODING}
        if values.get("top_k") == -1:  # as several tools say: all
            values["top_k"] = 0
        bad = [k for k, v in values.items() if k not in _NO_NUMBERS and not is_number(v)]
        if bad:
            raise InputError(
                f"`{bad[0]}` must be a number, got {values[bad[0]]!r} in `{self.path}`. Correct it."
            )
        try:
            return Decoding(**values, unknown=tuple(k for k in UNSTATED if k not in values))
        except InputError as error:
            raise InputError(f"{error} It stands so in `{self.path}`; correct it.") from error

    @property
    def others(self) -> dict[str, object]:
        """Settings that the file states beside the decoding."""
        return {k: v for k, v in self.stated.items() if k not in DECODING}


def same_settings(settings: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """The settings that all samples, named by the keys, were drawn with; InputError where two."""
    (first, common), *others = settings.items()
    for name, stated in others:
        for key in {**common, **stated}:
            if common.get(key) != stated.get(key):
                raise InputError(
                    f"all draws must be of one model under one decoding: `{key}` is "
                    f"{common.get(key)!r} in {first} and {stated.get(key)!r} in {name}. Import "
                    "them as two runs."
                )
    return dict(common)


def is_number(value: object) -> TypeGuard[float]:
    """True for a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
