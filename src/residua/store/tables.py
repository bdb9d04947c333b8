"""Parquet files with what made them in their metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from residua.errors import InputError
from residua.store.files import write_whole
from residua.types import Completion, Event, Exploration, Failure, Prompt, Query, Sample

_META = b"residua"
_TEXTS = pa.list_(pa.string())

COMPLETIONS = pa.schema(
    [
        ("query_id", pa.string()),
        ("chunk", pa.int32()),
        ("count", pa.int64()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("logprob", pa.float64()),
        ("model_logprob", pa.float64()),
        ("confidence", pa.float64()),
        ("finish_reason", pa.string()),
        ("logprob_floor", pa.float64()),
    ]
)
SCORES = pa.schema([("query_id", pa.string()), ("count", pa.int64()), ("score", pa.float64())])
MASSES = pa.schema(
    [
        ("query_id", pa.string()),
        ("text", pa.string()),
        ("token_ids", pa.list_(pa.int32())),
        ("ended", pa.bool_()),
        ("mass", pa.float64()),
    ]
)
RANGES = pa.schema(
    [
        ("query_id", pa.string()),
        ("mass", pa.float64()),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)
ESTIMATES = pa.schema(
    [
        ("arm", pa.string()),
        ("scorer", pa.string()),
        ("query_id", pa.string()),
        ("pool", pa.int32()),
        ("parameter", pa.float64()),
        ("estimand", pa.string()),
        ("target", pa.string()),
        ("value", pa.float64()),
        ("lower", pa.float64()),
        ("upper", pa.float64()),
        ("confidence", pa.float64()),
        ("side", pa.string()),
        ("n", pa.int64()),
        ("missing", pa.int64()),
        ("method", pa.string()),
        ("seed", pa.int64()),
        ("stopping", pa.string()),
    ]
)


def _texts_schema(kind: type[Prompt] | type[Query]) -> pa.Schema:
    """A column a field: a text, texts, or pairs of texts."""
    return pa.schema(
        [
            (f.name, pa.list_(_TEXTS) if f.name == "examples" else _TEXTS)
            if str(f.type).startswith("tuple")
            else (f.name, pa.string())
            for f in fields(kind)
        ]
    )


QUERIES = _texts_schema(Query)
PROMPTS = _texts_schema(Prompt)


DRAWN_AGAIN = (
    "Restore the file from a copy, or run the command that sampled it again: it sets the file "
    "aside and draws the part anew."
)
"""What helps where a file of a part is damaged."""


class DamagedError(InputError):
    """A file of the run is cut short, altered, or of another run."""


def write_table(path: Path, table: pa.Table, meta: Mapping[str, Any]) -> None:
    """Write a table whole, with `meta` and a digest of its contents."""
    stored = {**meta, "digest": digest(table)}
    table = table.replace_schema_metadata({_META: json.dumps(stored).encode()})
    write_whole(path, lambda partial: pq.write_table(table, partial, compression="zstd"))


def read_meta(path: Path) -> dict[str, Any]:
    """What made the file. Raises DamagedError if it is no whole Parquet file of ours."""
    try:
        raw = pq.read_schema(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"`{path}` is not a whole Parquet file ({_line(error)})") from error
    if _META not in raw:
        raise DamagedError(f"`{path}` was not written by residua")
    meta: dict[str, Any] = json.loads(raw[_META])
    return meta


def read_table(path: Path) -> pa.Table:
    """The table; raises DamagedError unless its contents are those that were written."""
    meta = read_meta(path)
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise DamagedError(f"`{path}` cannot be read ({_line(error)})") from error
    if digest(table) != meta["digest"]:
        raise DamagedError(f"`{path}` was changed after it was written")
    return table


def read_part_meta(file: Path) -> dict[str, Any]:
    """What made a file of a part of a run; DamagedError, with the remedy, as `read_meta`."""
    with _drawn_again():
        return read_meta(file)


def read_part(file: Path) -> pa.Table:
    """The table of a file of a part of a run; DamagedError, with the remedy, as `read_table`."""
    with _drawn_again():
        return read_table(file)


@contextmanager
def _drawn_again() -> Iterator[None]:
    try:
        yield
    except DamagedError as error:
        raise DamagedError(f"{error}. {DRAWN_AGAIN}") from error


def count_rows(path: Path) -> int:
    """Rows of the table at `path`."""
    return int(pq.read_metadata(path).num_rows)


def is_made_from(file: Path, made_from: Mapping[str, Any]) -> bool:
    """True if a table of the run is there, whole, and was made from just this."""
    if not file.exists():
        return False
    try:
        read_table(file)
        meta = read_meta(file)
    except DamagedError:
        return False
    return all(meta.get(key) == value for key, value in made_from.items())


def digest(table: pa.Table) -> str:
    """SHA-256 over column names and values."""
    total = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        total.update(json.dumps([name, column.to_pylist()]).encode())
    return total.hexdigest()


def completions_table(samples: Sequence[Sample]) -> pa.Table:
    """One row a completion, queries in the order given."""
    names = [f.name for f in fields(Completion)]
    rows = [
        {"query_id": s.query.id} | {name: getattr(c, name) for name in names}
        for s in samples
        for c in s.completions
    ]
    return pa.Table.from_pylist(rows, schema=COMPLETIONS)


def completions_of(table: pa.Table) -> Iterator[tuple[str, Completion]]:
    """The inverse of `completions_table`: (query id, completion) of each row."""
    for row in table.to_pylist():
        query_id = row.pop("query_id")
        yield query_id, Completion(**{k: _frozen(v) for k, v in row.items()})


def masses_table(found: Sequence[Exploration]) -> pa.Table:
    """One row an event, queries in the order given."""
    names = [f.name for f in fields(Event)]
    rows = [
        {"query_id": one.query.id} | {name: getattr(event, name) for name in names}
        for one in found
        for event in one.events
    ]
    return pa.Table.from_pylist(rows, schema=MASSES)


def prompts_table(prompts: Sequence[Prompt]) -> pa.Table:
    """One row a prompt."""
    return _values_table(prompts, PROMPTS)


def queries_table(queries: Sequence[Query]) -> pa.Table:
    """One row a query."""
    return _values_table(queries, QUERIES)


def prompts_of(table: pa.Table) -> tuple[Prompt, ...]:
    """The inverse of `prompts_table`."""
    return tuple(Prompt(**{k: _frozen(v) for k, v in row.items()}) for row in table.to_pylist())


def queries_of(table: pa.Table) -> tuple[Query, ...]:
    """The inverse of `queries_table`."""
    return tuple(Query(**row) for row in table.to_pylist())


def failures_of(results: Sequence[Sample | Exploration | Failure]) -> dict[str, str]:
    """Reasons by query id."""
    return {r.query.id: r.reason for r in results if isinstance(r, Failure)}


def _values_table(values: Sequence[Any], schema: pa.Schema) -> pa.Table:
    rows = [{name: getattr(value, name) for name in schema.names} for value in values]
    return pa.Table.from_pylist(rows, schema=schema)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(v) for v in value) if isinstance(value, list) else value


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:200]
