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
--redact` writes them. The scores have the names of their scorers, and null marks draws that
failed. `unanswered` is true where the answer was missing, and `thought` a placeholder.

A cell of CSV holds a text, a number or JSON; a blank one counts as absent, except for `completion`,
where it is an empty text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from leakbound.errors import InputError
from leakbound.formats.grouping import DECODING
from leakbound.formats.rows import MOST, REDACTED, SampleFile, SampleRow, is_number, reading
from leakbound.text.counting import finish_of, output_of
from leakbound.text.rows import Row, each_row, parse_json
from leakbound.text.shown import kind_of
from leakbound.types import Finish, Output

_SETTINGS = (*DECODING, "seed", "order", "model")
_FINISH = ("finish", "finish_reason", "stop_reason")
_THOUGHT = ("thought", "reasoning", "reasoning_content")
_TOKENS = ("tokens", "completion_tokens")
_VALUES = {*_SETTINGS, *_TOKENS, "count", "scores"} - {"model", "adaptive_mode", "filter"}


def read(path: Path, form: Literal["jsonl", "csv"] = "jsonl") -> SampleFile:
    """Read a file row by row; only one that is a single JSON array is held."""
    return SampleFile(path=path, tool=form, task="samples", rows=_rows(path, form))


def _rows(path: Path, form: Literal["jsonl", "csv"]) -> Iterator[SampleRow]:
    first: Row | None = None
    for row in each_row(path, form):
        filled = row if form == "jsonl" else replace(row, values=_cells(row))
        first = first or filled
        if _has_text(filled) != _has_text(first):
            (first if _has_text(filled) else filled).text("question")  # raises: it has none
        with reading(row.place):
            yield _row(filled, texts=_has_text(filled))


def _cells(row: Row) -> Mapping[str, object]:
    """The values of a row of CSV, as JSON lines would have them."""
    values = dict(row.values)
    for name in _VALUES & values.keys():
        if cell := str(values.pop(name)).strip():
            values[name] = parse_json(cell, f"{name!r} in {row.place}")
    return values


def _has_text(row: Row) -> bool:
    """False for a row of scores only."""
    return "completion" in row.values or "question" in row.values


def _require(row: Row, name: str, fits: bool, want: str, shown: str = "") -> None:
    """Refuse a value; texts are not quoted, but for `shown`: they may be outputs."""
    if not fits:
        got = shown or kind_of(row.values.get(name))
        raise InputError(f"{name!r} must be {want}, got {got} in {row.place}. Correct it.")


def _row(row: Row, *, texts: bool) -> SampleRow:
    column, answer = "completion" if texts else "scores", row.maybe("answer") if texts else None
    if column not in row.values:
        absent = "'completion'" if texts else "'completion' and no 'scores'"
        raise InputError(f"{row.place} has no {absent}. Add it; null marks a draw that failed.")
    value = row.values[column]
    text_or_null = not texts or value is None or isinstance(value, str)
    _require(row, column, text_or_null, "text, or null for a draw that failed")
    text = value if texts else "" if _flag(row, "unanswered") else REDACTED
    return SampleRow(
        id=row.maybe("id") or row.text("question"),
        question=row.text("question") if texts else None,
        answers=() if answer is None else (answer,),
        output=None if value is None else _output(row, text),
        scores=_scores(row),
        count=_count(row),
        stated=_stated(row),
        place=row.place,
    )


def _output(row: Row, text: Any) -> Output:
    """The output of a row; of columns that mean the same, the first that is filled."""
    word, thought = (
        next(filter(None, map(row.maybe, names)), None) for names in (_FINISH, _THOUGHT)
    )
    finishes = f"one of {', '.join(get_args(Finish))}, or a known server's word for one"
    _require(row, "finish", finish_of(word) is not None, finishes, repr(word))
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
    _require(row, name, word in ("true", "false"), "true or false")
    return word == "true"


def _scores(row: Row) -> dict[str, float | None]:
    """The scores of a row; None where a scorer could not decide."""
    scores: Any = row.values.get("scores") or {}
    fits = isinstance(scores, dict) and all(
        score is None or (is_number(score) and math.isfinite(score)) for score in scores.values()
    )
    want = "an object of finite numbers by name, null where one could not be decided"
    _require(row, "scores", fits, want)
    return {name: None if score is None else float(score) for name, score in scores.items()}


def _count(row: Row) -> int | None:
    count: Any = row.values.get("count")
    whole = count is None or (type(count) is int and 1 <= count <= MOST)
    _require(row, "count", whole, f"a whole number from 1 to {MOST:,}")
    return None if count is None else int(count)


def _stated(row: Row) -> dict[str, object]:
    stated = {key: row.values[key] for key in _SETTINGS if row.values.get(key) is not None}
    stop = stated.get("stop", [])
    texts = isinstance(stop, list) and all(isinstance(text, str) for text in stop)
    _require(row, "stop", texts, "a list of texts")
    return stated
