"""Parquet files with what made them in their metadata."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from leakbound.errors import require_no_fault
from leakbound.store.files import write_whole
from leakbound.store.sealed import DIGEST, DamagedError, as_read, digest_of
from leakbound.types import (
    Completion,
    Event,
    Exploration,
    Failure,
    Json,
    JsonObject,
    Prompt,
    Query,
    Sample,
    Usage,
    from_json,
)

T = TypeVar("T")
_META = b"leakbound"
_ROWS, _TABLE, _SEAL = "rows", "table", "seal"  # keys of the metadata
_DIGESTS = frozenset({_ROWS, _TABLE, _SEAL, DIGEST})
_COSTS = frozenset({"usage", "machine"})
# What damaged bytes may raise in pyarrow, or in what looks at what it made of them.
_UNREADABLE = (
    pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError,
    MemoryError, RecursionError,
)  # fmt: skip
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

SCORED_AGAIN = "Restore the file from a copy, or remove it and run `leakbound score` again."
"""What helps where a file of scores is damaged."""


def write_table(path: Path, table: pa.Table, meta: JsonObject) -> str:
    """Write a table whole, with `meta` and digests of all of it; what `file_digest` gives."""
    said = as_read({k: v for k, v in meta.items() if k not in _DIGESTS})
    said |= {_ROWS: table.num_rows, _TABLE: digest(table)}
    about = digest_of({k: v for k, v in said.items() if k not in _COSTS})
    stored = {**said, DIGEST: about}
    stored[_SEAL] = _seal(stored)
    table = table.replace_schema_metadata({_META: json.dumps(stored).encode()})
    write_whole(path, lambda partial: pq.write_table(table, partial, compression="zstd"))
    return about


def read_meta(path: Path) -> dict[str, Json]:
    """What made the file, as it was written, and its `digest`: see `file_digest`.

    Raises DamagedError if it is no whole Parquet file of ours, or says anything else by now, and
    IncompleteError where the disk fails, which says nothing of the file.
    """
    try:
        raw = pq.read_schema(path).metadata or {}
        if _META not in raw:
            raise DamagedError(f"`{path}` was not written by leakbound")
        meta: dict[str, Json] = json.loads(raw[_META])
        whole = meta[_SEAL] == _seal(meta)
    except _UNREADABLE as error:
        require_no_fault(path, error)
        raise DamagedError(f"`{path}` is not a whole Parquet file ({_line(error)})") from error
    if not whole:
        raise DamagedError(f"`{path}` was changed after it was written")
    return meta


def read_table(path: Path) -> pa.Table:
    """The table; raises DamagedError unless it and its metadata are those that were written."""
    meta = read_meta(path)
    try:
        table = pq.read_table(path)
        found = digest(table)
    except _UNREADABLE as error:
        require_no_fault(path, error)
        raise DamagedError(f"`{path}` cannot be read ({_line(error)})") from error
    if found != meta[_TABLE]:
        raise DamagedError(f"`{path}` was changed after it was written")
    return table


def file_digest(path: Path) -> str:
    """A digest of what the file says: its table, and its metadata but for what it cost to make.

    So the same draws, made again elsewhere, have the same one.
    """
    return str(read_meta(path)[DIGEST])


def _seal(meta: JsonObject) -> str:
    """A digest of all the metadata."""
    return digest_of({f"meta {k}": v for k, v in meta.items() if k != _SEAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMeta:
    """What is recorded with the draws of a part.

    digest: of the draws.
    failures: why queries have no completions, by their ids.
    missing: how many draws of a query never came, by its id.
    usage: what the part cost.
    """

    digest: str
    failures: Mapping[str, str]
    missing: Mapping[str, int]
    usage: Usage


def read_part_meta(file: Path, owner: JsonObject, kind: type[T]) -> T:
    """What is recorded in a file of a part of a run, which says that it is `owner`'s.

    DamagedError, with the remedy, as `read_meta`, and where the file is of another part or run.
    """
    with _drawn_again():
        meta = read_meta(file)
        if any(meta.get(key) != value for key, value in owner.items()):
            raise DamagedError(f"`{file}` belongs to another run")
        names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
        return from_json(kind, {name: meta.get(name) for name in names}, f"`{file}`")


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


def require_whole(file: Path, remedy: str) -> None:
    """Raise DamagedError, with the remedy, unless a table is there as it was written."""
    try:
        read_table(file)
    except DamagedError as error:
        raise DamagedError(f"{error}. {remedy}") from error


def count_rows(path: Path) -> int:
    """Rows of the table at `path`, which is not read; DamagedError as `read_meta`."""
    return int(str(read_meta(path)[_ROWS]))


def is_made_from(file: Path, made_from: JsonObject) -> bool:
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
