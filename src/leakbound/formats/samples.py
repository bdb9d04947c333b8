"""JSON lines and CSV of samples: one row a completion, with a count where rows are distinct texts.

Columns: `id`, `question`, `answer` (optional), `completion` (null: a draw that failed), `count`
(optional), `scores` (an object of numbers by name, optional); and, the same in every row, `seed`,
`order` (the key of the order in which bets meet the draws, as `leakbound export` writes it),
`model` and what is known of the decoding, by the names of `Decoding`.

Optional columns state how an output is counted (`leakbound.text.counting`): `finish` (also
`finish_reason`, `stop_reason`; a word of `finish_of`), `thought` (also `reasoning`,
`reasoning_content`; or in tags at the start of the completion), `tokens` (also
`completion_tokens`), `refused` and `hidden` (true or false).

Rows with `id`, `scores` and `count` only are draws without their texts, as `leakbound export
--redact` writes them. The scores have the names of their scorers, and null stands for draws that
failed. `unanswered` is true where the answer was missing, and `thought` a placeholder.

A cell of CSV holds a text, a number or JSON; a blank one counts as absent, but for `completion`,
where it is an empty text.

Rows may stand in any order. They are read one at a time, and their draws go to disk: what is held
are the questions. Only a file that is one JSON array is read whole.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from leakbound.errors import InputError
from leakbound.formats.imported import (
    DECODING,
    MOST,
    Draw,
    ImportedLog,
    ImportedQuestion,
    Scores,
    is_number,
    same_settings,
)
from leakbound.formats.spool import DrawsByQuestion, Spool
from leakbound.text.counting import finish_of, output_of
from leakbound.text.rows import Row, each_row, parse_json
from leakbound.text.shown import kind_of
from leakbound.types import Finish, Output

_MOST = sys.float_info.max
SETTINGS = (*DECODING, "seed", "order", "model")
REDACTED = "(redacted)"
"""What stands for a text that is not told."""
_FINISH = ("finish", "finish_reason", "stop_reason")
_THOUGHT = ("thought", "reasoning", "reasoning_content")
_TOKENS = ("tokens", "completion_tokens")
_VALUES = {*SETTINGS, *_TOKENS, "count", "scores"} - {"model", "adaptive_mode", "filter"}


def read(path: Path, spool: Spool, form: Literal["jsonl", "csv"] = "jsonl") -> ImportedLog:
    """The samples of a file; a row that is not one raises InputError that names it.

    Their draws are put into `spool`, which must be open as long as they are read.
    """
    rows = _Rows(spool)
    for row in each_row(path, form):
        rows.add(row if form == "jsonl" else replace(row, values=_cells(row)))
    model = str(rows.stated.pop("model", "unnamed"))
    return ImportedLog(
        path=path,
        tool=form,
        model=model,
        task="samples",  # ids are the user's own, in whichever file
        stated=rows.stated,
        asked=rows.questions(),
        ordered=rows.texts and not rows.counted,
        texts=rows.texts,
        scorers=dict.fromkeys(rows.scorers, False),
    )


def _cells(row: Row) -> Mapping[str, object]:
    """The values of a row of CSV, as JSON lines would have them."""
    values = dict(row.values)
    for name in _VALUES & values.keys():
        if cell := str(values.pop(name)).strip():
            values[name] = parse_json(cell, f"{name!r} in {row.place}")
    return values


class _Rows:
    """The rows so far: the settings of all, and of each question its first row."""

    def __init__(self, spool: Spool) -> None:
        self.stated: dict[str, object] = {}
        self.scorers: dict[str, None] = {}
        self.texts = self.counted = False
        self._draws = DrawsByQuestion(spool)
        self._first: Row | None = None
        self._asked: dict[str, _Question] = {}

    def add(self, row: Row) -> None:
        """Take a row in; InputError where it is no sample, or does not belong to those before."""
        id, stated, scores = _id(row), _stated(row), _scores(row)
        if self._first is None:
            self._first, self.stated, self.texts = row, stated, _has_text(row)
        if stated != self.stated:
            same_settings({self._first.place: self.stated, row.place: stated})
        if _has_text(row) != self.texts:
            (self._first if _has_text(row) else row).text("question")  # which it lacks
        self.scorers.update(dict.fromkeys(name for name, _ in scores))
        self.counted |= "count" in row.values
        self._require_same_question(id, row)
        draw = _draw(row, scores) if self.texts else _scored(row, scores)
        self._draws.add(id, draw, _count(row))

    def questions(self) -> tuple[ImportedQuestion, ...]:
        """The questions in the order of their first rows."""
        draws = self._draws.draws()
        return tuple(
            ImportedQuestion(id=id, text=q.text, answers=q.answers, draws=draws[id])
            for id, q in self._asked.items()
        )

    def _require_same_question(self, id: str, row: Row) -> None:
        first = self._asked.get(id)
        text = row.text("question") if self.texts else REDACTED
        answer = row.maybe("answer") if self.texts else None
        answers = () if answer is None else (answer,)
        if first is None:
            self._asked[id] = _Question(row.place, text, answers)
        elif (first.text, first.answers) != (text, answers):
            raise InputError(
                f"{row.place} has another question or answer than {first.place}, "
                f"and the same id {id!r}. Give each question an id of its own."
            )


class _Question(NamedTuple):
    """A question, and the place of the first row that is about it."""

    place: str
    text: str
    answers: tuple[str, ...]


def _id(row: Row) -> str:
    """The row's id, which may be a whole number; without one, its question."""
    return row.maybe("id") or row.text("question")


def _has_text(row: Row) -> bool:
    """False for a row of scores alone."""
    return "completion" in row.values or "question" in row.values


def _scored(row: Row, scores: Scores) -> Draw | None:
    """A draw of which nothing is told but its scores."""
    if "scores" not in row.values:
        raise InputError(
            f"{row.place} has neither 'completion' nor 'scores'. Add one of them; null says "
            "that the draw failed."
        )
    text = "" if _flag(row, "unanswered") else REDACTED
    return None if row.values["scores"] is None else Draw(_output(row, text), scores)


def _scores(row: Row) -> Scores:
    """The scores of a row, by name; null where a scorer could not decide."""
    scores = row.values.get("scores")
    if scores is None:
        return ()
    values = scores.values() if isinstance(scores, dict) else [scores]
    odd = [s for s in values if not (s is None or (is_number(s) and abs(s) <= _MOST))]
    if odd or not isinstance(scores, dict):
        raise InputError(
            f"'scores' must be an object of numbers by name, null where one could not be decided, "
            f"got {kind_of(next(iter(odd), scores))} in {row.place}. Correct the row."
        )
    return tuple((name, None if score is None else float(score)) for name, score in scores.items())


def _draw(row: Row, scores: Scores) -> Draw | None:
    if "completion" not in row.values:
        raise InputError(
            f"{row.place} has no 'completion'. Add it; null says that the draw failed."
        )
    text = row.values["completion"]
    if text is not None and not isinstance(text, str):
        raise InputError(
            f"'completion' must be text, or null for a draw that failed, got {kind_of(text)} in "
            f"{row.place}. Correct the row."
        )
    return None if text is None else Draw(_output(row, text), scores)


def _output(row: Row, text: str) -> Output:
    """The output of a row; of columns that mean the same, the first that is filled."""
    word, thought = (
        next(filter(None, map(row.maybe, names)), None) for names in (_FINISH, _THOUGHT)
    )
    if finish_of(word) is None:
        raise InputError(
            f"'finish' must be one of {', '.join(get_args(Finish))}, or a known server's word for "
            f"one, got {word!r} in {row.place}. Correct it, or leave it out where it is not known."
        )
    return output_of(
        text,
        word,
        thoughts=[thought],
        tokens=next(filter(None, map(row.values.get, _TOKENS)), None),
        refused=_flag(row, "refused"),
        hidden=_flag(row, "hidden"),
    )


def _flag(row: Row, name: str) -> bool:
    word = str(row.values.get(name) or False).lower()
    if word not in ("true", "false"):
        raise InputError(
            f"{name!r} must be true or false, got {kind_of(row.values[name])} in {row.place}. "
            "Correct it."
        )
    return word == "true"


def _count(row: Row) -> int:
    count = row.values.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(
            f"'count' must be a whole number of at least 1, got {count!r} in {row.place}. "
            "Correct the row, or leave it out."
        )
    if count > MOST:
        raise InputError(
            f"'count' must be at most {MOST:,}, got {count} in {row.place}. Correct the row."
        )
    return count


def _stated(row: Row) -> dict[str, object]:
    stated = {key: row.values[key] for key in SETTINGS if row.values.get(key) is not None}
    stop = stated.get("stop", [])
    if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
        raise InputError(f"'stop' must be a list of texts, got {stop!r} in {row.place}.")
    return stated
