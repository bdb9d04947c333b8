"""JSON lines of samples: one row a completion, with a count where rows are distinct texts.

Columns: `id`, `question`, `answer` (optional), `completion` (null: a draw that failed), `count`
(optional), `scores` (an object of numbers by name, optional); and, the same in every row, `seed`,
`order` (the key of the order in which bets meet the draws, as `leakbound export` writes it),
`model` and what is known of the decoding, by the names of `Decoding`.

Rows with `id`, `scores` and `count` alone are draws whose texts are not told, as `leakbound export
--redact` writes them: their scores are named by the scorers that gave them, and null stands for
draws that failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats.imported import (
    DECODING,
    MOST,
    Draw,
    ImportedLog,
    ImportedQuestion,
    is_number,
    same_settings,
)
from leakbound.text.rows import Row, read_rows

_MOST = sys.float_info.max
SETTINGS = (*DECODING, "seed", "order", "model")
REDACTED = "(redacted)"
"""What stands for a text that is not told."""


def read(path: Path) -> ImportedLog:
    """The samples of a file; a row that is not one raises InputError that names it."""
    rows = read_rows(path, "jsonl")
    asked: dict[str, list[Row]] = {}
    for row in rows:
        asked.setdefault(_id(row), []).append(row)
    stated = same_settings({row.place: _stated(row) for row in rows})
    texts = any("completion" in row.values or "question" in row.values for row in rows)
    names = dict.fromkeys(name for row in rows for name, _ in _scores(row))
    return ImportedLog(
        path=path,
        tool="jsonl",
        model=str(stated.pop("model", "unnamed")),
        task="samples",  # ids are the user's own, in whichever file
        stated=stated,
        asked=tuple((_asked if texts else _scored)(id, of_id) for id, of_id in asked.items()),
        ordered=texts and not any("count" in row.values for row in rows),
        texts=texts,
        scorers=dict.fromkeys(names, False),
    )


def _id(row: Row) -> str:
    """The row's id, which may be a whole number; without one, its question."""
    value = row.values.get("id")
    return str(value) if _is_whole(value) else row.maybe("id") or row.text("question")


def _asked(id: str, rows: list[Row]) -> ImportedQuestion:
    first = rows[0]
    texts = {(row.text("question"), row.maybe("answer")): row for row in rows}
    if len(texts) > 1:
        raise InputError(
            f"{list(texts.values())[1].place} has another question or answer than {first.place}, "
            f"and the same id {id!r}. Give each question an id of its own."
        )
    answer = first.maybe("answer")
    return ImportedQuestion(
        id=id,
        text=first.text("question"),
        answers=() if answer is None else (answer,),
        draws=tuple(draw for row in rows for draw in [_draw(row)] * _count(row)),
    )


def _scored(id: str, rows: list[Row]) -> ImportedQuestion:
    """A question of which nothing is told but how often its draws had which scores."""
    draws: list[Draw | None] = []
    for row in rows:
        if "scores" not in row.values:
            raise InputError(
                f"{row.place} has neither 'completion' nor 'scores'. Add one of them; null says "
                "that the draw failed."
            )
        draw = None if row.values["scores"] is None else Draw(REDACTED, scores=_scores(row))
        draws += [draw] * _count(row)
    return ImportedQuestion(id=id, text=REDACTED, draws=tuple(draws))


def _scores(row: Row) -> tuple[tuple[str, float | None], ...]:
    """The scores of a row, by name; null where a scorer could not decide."""
    found = row.values.get("scores")
    if found is None:
        return ()
    if not isinstance(found, dict) or not all(
        score is None or (is_number(score) and abs(score) <= _MOST) for score in found.values()
    ):
        raise InputError(
            f"'scores' must be an object of numbers by name, null where one could not be decided, "
            f"got {str(found)[:80]} in {row.place}. Correct the row."
        )
    return tuple((name, None if score is None else float(score)) for name, score in found.items())


def _draw(row: Row) -> Draw | None:
    if "completion" not in row.values:
        raise InputError(
            f"{row.place} has no 'completion'. Add it; null says that the draw failed."
        )
    text = row.values["completion"]
    if text is not None and not isinstance(text, str):
        raise InputError(
            f"'completion' must be text, or null for a draw that failed, got {text!r} in "
            f"{row.place}. Correct the row."
        )
    return None if text is None else Draw(text, scores=_scores(row))


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


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
