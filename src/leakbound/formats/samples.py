"""JSON lines and CSV of samples: one row per completion, or per distinct text with its count.

Columns: `id`, `question`, `answer` (optional), `completion` (null for a failed draw), `count`
(optional), and `scores` (optional: an object of numbers by name). Some columns must have the same
value in every row: `seed`, `model`, the known settings of the decoding (with the names of
`Decoding`), and `order`. `leakbound export` writes `order`, the key of the order in which betting
bounds process the draws.

Optional columns decide the class of an output (`leakbound.text.counting`):

- `finish`, `finish_reason` or `stop_reason`: a finish reason that `finish_of` knows;
- `thought`, `reasoning` or `reasoning_content`; or tags at the start of the completion;
- `tokens` or `completion_tokens`; `refused` and `hidden` (true or false).

`leakbound export --redact` writes draws without texts. A row then has only `id`, `scores` and
`count`. `scores` is an object of scores by scorer, or null for failed draws. `unanswered` is true
if the answer was missing, and `thought` is a placeholder.

A cell of CSV contains a text, a number or JSON. A blank cell means that the value is absent, but in
the column `completion` it is an empty text.
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
_FLAGS = {"refused", "hidden", "unanswered"}
_FLAG_CELLS = {"true": True, "false": False, "": None}
_COLUMNS = {*_SETTINGS, *_FINISH, *_THOUGHT, *_TOKENS, *_FLAGS, "id", "question", "answer",
            "completion", "count", "scores"}  # fmt: skip
_VALUES = {*_SETTINGS, *_TOKENS, "count", "scores"} - {"model", "adaptive_mode", "filter"}


def read(path: Path, form: Literal["jsonl", "csv"] = "jsonl") -> SampleFile:
    """Read a file row by row. Only a file with one JSON array is loaded completely."""
    return SampleFile(path=path, tool=form, task="samples", rows=_rows(path, form))


def _rows(path: Path, form: Literal["jsonl", "csv"]) -> Iterator[SampleRow]:
    first: Row | None = None
    for row in each_row(path, form):
        filled = row if form == "jsonl" else replace(row, values=_cells(row))
        first, absent = first or filled, _COLUMNS - filled.values.keys()
        for name in filled.values:
            if known := absent & {f"{name}s", name.removesuffix("s")}:
                raise InputError(f"{row.place} has a column {name!r}. Rename it to {min(known)!r}.")
        if _has_text(filled) != _has_text(first):
            (first if _has_text(filled) else filled).text("question")  # raises an error
        with reading(row.place):
            yield _row(filled, texts=_has_text(filled))


def _cells(row: Row) -> Mapping[str, object]:
    """Return the values of a row of CSV, with the types that JSON lines have."""
    values = dict(row.values)
    for name in _VALUES & values.keys():
        if cell := str(values.pop(name)).strip():
            values[name] = parse_json(cell, f"{name!r} in {row.place}")
    for name in _FLAGS & values.keys():
        values[name] = _FLAG_CELLS.get(str(values[name]).strip().lower(), values[name])
    return values


def _has_text(row: Row) -> bool:
    """Return whether a row has texts, not only scores."""
    return "completion" in row.values or "question" in row.values


def _require(row: Row, name: str, fits: bool, want: str, shown: str = "") -> None:
    """Raise InputError unless a value `fits`. Quote only `shown`: other texts may be outputs."""
    if not fits:
        got = shown or kind_of(row.values.get(name))
        raise InputError(f"{name!r} must be {want}, got {got} in {row.place}. Correct it.")


def _row(row: Row, *, texts: bool) -> SampleRow:
    column, answer = "completion" if texts else "scores", row.maybe("answer") if texts else None
    if column not in row.values:
        absent = "'completion'" if texts else "'completion' and no 'scores'"
        raise InputError(f"{row.place} has no {absent}. Add it, with null for a draw that failed.")
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
    """Return the output of a row. Of several synonymous columns, the first filled one is used."""
    word, thought = (
        next(filter(None, map(row.maybe, names)), None) for names in (_FINISH, _THOUGHT)
    )
    finishes = f"one of {', '.join(get_args(Finish))}, or the word of a known server"
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
    value = row.values.get(name)
    shown = f"{value!r} in quotes" if value in _FLAG_CELLS else ""  # another text may be an output
    _require(row, name, value is None or isinstance(value, bool), "true or false", shown)
    return value is True


def _scores(row: Row) -> dict[str, float | None]:
    """Return the scores of a row by name; None for an undecided score."""
    scores: Any = row.values.get("scores") or {}
    fits = isinstance(scores, dict) and all(
        score is None or (is_number(score) and math.isfinite(score)) for score in scores.values()
    )
    want = "an object of finite numbers, null for an undecided score"
    _require(row, "scores", fits, want)
    return {name: None if score is None else float(score) for name, score in scores.items()}


def _count(row: Row) -> int | None:
    count: Any = row.values.get("count")
    fits = count is None or (type(count) is int and 1 <= count <= MOST)
    _require(row, "count", fits, f"a whole number from 1 to {MOST:,}")
    return None if count is None else int(count)


def _stated(row: Row) -> dict[str, object]:
    stated = {key: row.values[key] for key in _SETTINGS if row.values.get(key) is not None}
    stop = stated.get("stop", [])
    texts = isinstance(stop, list) and all(isinstance(text, str) for text in stop)
    _require(row, "stop", texts, "a list of texts")
    return stated
