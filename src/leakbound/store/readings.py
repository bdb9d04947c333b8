"""What a model makes of given texts, and its greedy answers to questions that no arm asks.

Both lie beside the arm of the model's greedy answers and hold for its fingerprint alone:
`forced.parquet` has a row for each text read, `answers.parquet` one for each question answered.
What was read or answered of other words than those asked for now is not found.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from leakbound.store import tables
from leakbound.store.arm import Arm
from leakbound.store.files import set_aside
from leakbound.store.sealed import DamagedError
from leakbound.types import JsonObject, Query, Reading, to_json

_NUMBERS = pa.list_(pa.float64())
_PLACES = [
    ("part", pa.string()),
    ("prompt_id", pa.string()),
    ("kind", pa.string()),
    ("index", pa.int32()),
    ("asked", pa.string()),
]
FORCED = pa.schema(
    [
        *_PLACES,
        ("token_ids", pa.list_(pa.int32())),
        ("text", pa.string()),
        ("logprobs", _NUMBERS),
        ("top", pa.list_(pa.bool_())),
        ("mean", _NUMBERS),
        ("std", _NUMBERS),
        ("confidence", _NUMBERS),
        ("gradient_norm", pa.float64()),
    ]
)
ANSWERS = pa.schema([*_PLACES, ("text", pa.string())])
_PLAIN = ("token_ids", "text")  # the fields of a reading that are no arrays
_DTYPES: dict[str, Any] = {"top": np.bool_}  # of the arrays of a reading; float64 the others


@dataclass(frozen=True, slots=True)
class Place:
    """Which text it is: of what part and prompt, of what kind, and its number among those.

    `asked` is a digest of the query and the text: of other words nothing is known.
    """

    part: str
    prompt_id: str
    kind: str
    index: int
    asked: str

    @classmethod
    def of(cls, part: str, query: Query, kind: str, index: int = 0, text: str = "") -> Place:
        """Where a text after a query is kept or, without one, the answer to it."""
        words = json.dumps([asdict(query), text], sort_keys=True)
        digest = hashlib.sha256(words.encode()).hexdigest()
        return cls(part, query.prompt_id, kind, index, digest)


@dataclass(frozen=True, slots=True)
class Read:
    """A text as the model read it; `gradient_norm` is None where nobody asked for it."""

    reading: Reading
    gradient_norm: float | None = None


class Readings:
    """What is known of the model of `arm`, which draws its greedy answers; `save` keeps it.

    DamagedError where a file cannot be read; with `mend`, for who reads the texts now, it is set
    aside with a note in the run, and what it held is unknown.
    """

    def __init__(self, arm: Arm, *, mend: bool = False) -> None:
        self._arm, self._mend = arm, mend
        self.texts: dict[Place, Read] = {
            _place(row): _read(row) for row in self._rows("forced.parquet", self._made_from())
        }
        self.answers: dict[Place, str] = {
            _place(row): row["text"] for row in self._rows("answers.parquet", self._answered_by())
        }

    def save(self) -> None:
        """Write what is known: each file whole, in place of what it was."""
        if self.texts:
            rows = [{**asdict(place), **_row(read)} for place, read in self.texts.items()]
            self._write("forced.parquet", pa.Table.from_pylist(rows, FORCED), self._made_from())
        if self.answers:
            rows = [{**asdict(place), "text": text} for place, text in self.answers.items()]
            self._write("answers.parquet", pa.Table.from_pylist(rows, ANSWERS), self._answered_by())

    def _rows(self, name: str, made_from: JsonObject) -> list[dict[str, Any]]:
        """The rows of a file of this model; none where there is no such file."""
        file = self._arm.folder / name
        if not file.exists():
            return []
        try:
            meta, table = tables.read_meta(file), tables.read_table(file)
        except DamagedError as error:
            if not self._mend:
                raise DamagedError(
                    f"{error}. Restore it from a copy, or run the command that read it again."
                ) from error
            note = f"{error}; set aside as {set_aside(file).name}, to be redone"
            self._arm.note(note)
            return []
        ours = all(meta.get(key) == value for key, value in made_from.items())
        rows: list[dict[str, Any]] = table.to_pylist() if ours else []
        return rows

    def _write(self, name: str, table: pa.Table, made_from: JsonObject) -> None:
        file: Path = self._arm.folder / name
        tables.write_table(file, table, made_from)

    def _made_from(self) -> JsonObject:
        return {"model": to_json(self._arm.spec.fingerprint)}

    def _answered_by(self) -> JsonObject:
        return {**self._made_from(), "decoding": to_json(self._arm.decoding)}


def _place(row: Mapping[str, Any]) -> Place:
    return Place(*(row[name] for name, _ in _PLACES))


def _read(row: Mapping[str, Any]) -> Read:
    arrays = {
        field.name: np.array(row[field.name], dtype=_DTYPES.get(field.name, np.float64))
        for field in fields(Reading)
        if field.name not in _PLAIN
    }
    known = Reading(token_ids=tuple(row["token_ids"]), text=row["text"], **arrays)
    return Read(known, row["gradient_norm"])


def _row(read: Read) -> dict[str, Any]:
    values = {field.name: getattr(read.reading, field.name) for field in fields(Reading)}
    return {**values, "gradient_norm": read.gradient_norm}
