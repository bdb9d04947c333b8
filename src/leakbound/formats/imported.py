"""What other tools' files of samples tell: an `ImportedLog` of questions, and their draws.

Every reader gives draws one by one, in the order in which the file has them: that order is what
shows whether some are copies of others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeGuard

from leakbound.errors import InputError
from leakbound.types import Decoding, FinishReason
from leakbound.types.decoding import UNSTATED

MOST = 1_000_000
"""Draws that a count may stand for: one beyond this is a slip."""
DECODING = tuple(field.name for field in fields(Decoding) if field.name != "unknown")
_NO_NUMBERS = ("adaptive_mode", "stop")

Json: TypeAlias = Mapping[str, Any]
Scores: TypeAlias = tuple[tuple[str, float | None], ...]
"""What the scorers of a file gave a draw, by name; None where one could not decide."""


class Draw(NamedTuple):
    """One output, with its scores; how it ended is `stop` where the file does not tell."""

    text: str
    finish_reason: FinishReason = "stop"
    scores: Scores = ()

    @property
    def output(self) -> Draw:
        """The same without scores: a judge may give one text several."""
        return self._replace(scores=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedQuestion:
    """A question and its draws, None for one that was asked for and failed.

    `answers` are the targets that the file has, the first of them the answer. The draws may lie
    on disk (see `Spool`), and are then read whenever they are asked for.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    draws: Sequence[Draw | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLog:
    """What one file tells.

    `stated` are the settings under which was drawn, as far as the file states them, by the names
    of `Decoding`; others (a seed, a penalty) under their own. `ordered` is False where draws stand
    as counts, so that their order is not known; `texts` where it has scores alone. `scorers`: the
    names of the scores that its draws have, and whether they can be 0 and 1 only. `claim`: whose
    decision ended a question's draws, `most` at most, by our own rule, where one did.
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
        known: dict[str, Any] = {k: v for k, v in self.stated.items() if k in DECODING}
        if known.get("top_k") == -1:  # as several tools say: all
            known["top_k"] = 0
        bad = [k for k, v in known.items() if k not in _NO_NUMBERS and not is_number(v)]
        if bad:
            raise InputError(
                f"`{bad[0]}` must be a number, got {known[bad[0]]!r} in `{self.path}`. Correct it."
            )
        try:
            return Decoding(**known, unknown=tuple(k for k in UNSTATED if k not in known))
        except InputError as error:
            raise InputError(f"{error} It stands so in `{self.path}`; correct it.") from error

    @property
    def others(self) -> dict[str, object]:
        """Settings that the file states beside the decoding."""
        return {k: v for k, v in self.stated.items() if k not in DECODING}


def same_settings(settings: Mapping[str, Mapping[str, object]]) -> dict[str, object]:
    """The settings that all samples, named by the keys, were drawn with; InputError where two."""
    (first, known), *rest = settings.items()
    for name, stated in rest:
        for key in {**known, **stated}:
            if known.get(key) != stated.get(key):
                raise InputError(
                    f"all draws must be of one model under one decoding: `{key}` is "
                    f"{known.get(key)!r} in {first} and {stated.get(key)!r} in {name}. Import them "
                    "as two runs."
                )
    return dict(known)


def is_number(value: object) -> TypeGuard[float]:
    """True for a number, which a truth value is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
