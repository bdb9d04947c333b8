"""Read and write Parquet files of frozen values, with their sources in the metadata.

Each row is a value of a dataclass. The columns are the fields of the dataclass,
and the types of the fields determine the Arrow types.
"""

from __future__ import annotations

import hashlib
import json
import math
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import cache, lru_cache, partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from leakbound.errors import InputError, require_no_fault
from leakbound.store.files import DIGEST, DamagedError, as_read, digest_of, write_whole
from leakbound.text.counting import CountedAs, counted_as, is_missing, visible
from leakbound.types import Completion, Decoding, Event, Json, JsonObject, Sample

T = TypeVar("T")
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


class _Column(NamedTuple):
    """The column of a field: its Arrow type, and the function that converts a cell to a value.

    `nan`: whether NaN is stored as null.
    """

    type: pa.DataType
    read: Callable[[Any], Any] | None = None
    nan: bool = False


def schema_of(kind: Any) -> pa.Schema:
    """Return the schema of a table of values of this dataclass.

    The fields of a nested dataclass are columns of the same table.
    """
    return table_of(kind, ()).schema


def row_of(value: Any) -> dict[str, Any]:
    """Return a value as a row, by column; NaN becomes None if the column stores NaN as null."""
    row: dict[str, Any] = {}
    kind: Any = type(value)
    for name, column in _columns(kind).items():
        own = getattr(value, name)
        if isinstance(column, _Column):
            row[name] = None if column.nan and math.isnan(own) else own
        else:
            row |= row_of(own)
    return row


def table_of(kind: Any, values: Sequence[object]) -> pa.Table:
    """Return a table with a row per value and a column per field."""
    columns: dict[str, pa.Array] = {}
    for name, column in _columns(kind).items():
        own = list(map(attrgetter(name), values))
        if isinstance(column, _Column):
            columns[name] = pa.array(own, column.type, from_pandas=column.nan)
        else:
            inner = table_of(column, own)
            columns |= dict(zip(inner.column_names, inner.columns, strict=True))
    return pa.table(columns)


def values_of(kind: Callable[..., T], table: pa.Table) -> Iterator[T]:
    """Yield the values of a table: the inverse of `table_of`. Other columns are ignored."""
    columns = _columns(kind)
    for row in zip(*(_read(*field, table) for field in columns.items()), strict=True):
        yield kind(**dict(zip(columns, row, strict=True)))


def _read(name: str, column: _Column | type, table: pa.Table) -> Iterable[Any]:
    if not isinstance(column, _Column):
        return values_of(column, table)
    cells = table[name].to_pylist()
    return map(column.read, cells) if column.read else cells


def cells_of(table: pa.Table, *names: str) -> Iterator[Any]:
    """Yield the cells of these columns, row by row."""
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def to_pandas(table: pa.Table) -> Any:
    """Return the table as a `pandas.DataFrame`; raise InputError without pandas."""
    try:
        import_module("pandas")
    except ImportError as error:
        raise InputError(
            f"a data frame needs pandas, which is not installed ({error}). Run `pip install "
            "pandas`, or use `.to_arrow()`, which does not need pandas."
        ) from error
    return table.to_pandas()


@cache
def _columns(kind: Any) -> dict[str, _Column | type]:
    """Return the column of each field by name; for a nested value, its dataclass."""
    # `types` imports NumPy only for type checkers
    hints = get_type_hints(kind, localns={"np": np, "NDArray": NDArray})
    return {
        name: hint if is_dataclass(hint) and isinstance(hint, type) else _column(hint)
        for name, hint in hints.items()
    }


def _column(hint: Any) -> _Column:
    """Return the column of a field; for a union, of its first member that is not None."""
    union = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kind = next(member for member in union if member is not types.NoneType)
    origin, of = get_origin(kind), get_args(kind)
    if hasattr(origin, "__value__"):  # a `type` statement, as NDArray is one from NumPy 2.5 on
        return _column(origin.__value__[of])
    if origin is Literal:
        return _Column(pa.string())
    if origin is tuple:
        return _Column(pa.list_(_column(of[0]).type), _frozen)
    if origin is np.ndarray:
        (dtype,) = get_args(of[1])
        return _Column(pa.list_(pa.from_numpy_dtype(dtype)), partial(np.array, dtype=dtype))
    if kind is float and types.NoneType not in union:
        return _Column(pa.float64(), lambda cell: math.nan if cell is None else cell, nan=True)
    return _Column(_TYPES[kind])


def _frozen(cell: Any) -> Any:
    return tuple(map(_frozen, cell)) if isinstance(cell, list) else cell


_META = b"leakbound"
_ROWS, _TABLE = "rows", "table"  # keys of the metadata besides `DIGEST`
_BATCH = 2**16  # rows that are converted in one batch, because Python values take much memory
_KEPT = 32  # the largest number of tables in memory
_UNCHANGED = set[tuple[Path, tuple[int, ...]]]()
"""Files, with their state, whose digest was found correct and is not computed again."""
# Errors that damaged bytes may raise in pyarrow or later.
_UNREADABLE = (
    pa.ArrowException, OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError,
    MemoryError, RecursionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DrawnRow:
    """A row of a file of completions.

    `unanswered`: whether the answer counts as missing if content filters are not part of the
    evaluated system.
    """

    query_id: str
    completion: Completion
    counted: CountedAs
    unanswered: bool

    @classmethod
    def of(cls, sample: Sample, completion: Completion) -> DrawnRow:
        """Make the row of a completion of a sample."""
        counted = counted_as(completion, sample.decoding.stop)
        return cls(sample.query.id, completion, counted, is_missing(completion, counted))


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of a file of masses."""

    query_id: str
    event: Event


DRAWN_AGAIN = "Restore it from a copy, or remove it and run the sampling command again."
"""The fix for a damaged file of a part."""

SCORED_AGAIN = "Restore it from a copy, or remove it and run `leakbound score` again."
"""The fix for a damaged file of scores."""


def write_table(path: Path, table: pa.Table, meta: JsonObject) -> str:
    """Write a table with metadata and one digest of both, and return the digest."""
    values = as_read({k: v for k, v in meta.items() if k not in (_ROWS, _TABLE, DIGEST)})
    values |= {_ROWS: table.num_rows, _TABLE: digest(table)}
    about = digest_of(values)
    table = table.replace_schema_metadata({_META: json.dumps({**values, DIGEST: about}).encode()})
    write_whole(path, lambda partial: pq.write_table(table, partial, compression="zstd"))
    return about


def read_meta(path: Path, remedy: str = "") -> dict[str, Json]:
    """Return the metadata of a file, with its `digest`.

    Raises DamagedError, with the remedy, if the file is damaged, changed or not written by
    leakbound, and IncompleteError if the disk fails.
    """
    with reading(path, remedy):
        return {**_meta_of(path, _state(path))}


def read_table(path: Path, remedy: str = "") -> pa.Table:
    """Return the table; raise DamagedError, with the remedy, if table or metadata were changed."""
    with reading(path, remedy):
        return _table_of(path, _state(path))


def _state(path: Path) -> tuple[int, ...]:
    """Return a tuple that changes when a file is written again."""
    stat = path.stat()
    return stat.st_ino, stat.st_ctime_ns, stat.st_mtime_ns, stat.st_size


@lru_cache(maxsize=2**12)
def _meta_of(path: Path, state: tuple[int, ...]) -> dict[str, Json]:
    """Return the metadata of a file in this state, from memory after the first call."""
    with pq.ParquetFile(path) as file:
        return _meta(path, file)


@lru_cache(maxsize=_KEPT)
def _table_of(path: Path, state: tuple[int, ...]) -> pa.Table:
    """Return the table of a file in this state; the last few stay in memory."""
    with pq.ParquetFile(path) as file:
        meta, table = _meta(path, file), file.read()
    if (path, state) not in _UNCHANGED:
        _require_unchanged(path, meta[_TABLE] == digest(table))
        _UNCHANGED.add((path, state))
    return table


def _meta(path: Path, file: pq.ParquetFile) -> dict[str, Json]:
    raw = file.schema_arrow.metadata or {}
    if _META not in raw:
        raise DamagedError(f"`{path}` was not written by leakbound")
    meta: dict[str, Json] = json.loads(raw[_META])
    _require_unchanged(path, meta[DIGEST] == digest_of(meta))
    return meta


@contextmanager
def reading(path: Path, remedy: str) -> Iterator[None]:
    """Convert an error of reading a file to a DamagedError with the file, the fault and the fix."""
    try:
        yield
    except _UNREADABLE as error:
        require_no_fault(path, error)
        fault = str(error)
        if not isinstance(error, DamagedError):
            line = fault.strip().partition("\n")[0][:200]
            fault = f"`{path}` is not a complete Parquet file ({line})"
        raise DamagedError(f"{fault}. {remedy}" if remedy else fault) from error


def _require_unchanged(path: Path, unchanged: bool) -> None:
    if not unchanged:
        raise DamagedError(f"`{path}` was changed after it was written")


def states(meta: JsonObject, wanted: JsonObject) -> bool:
    """Return whether the metadata of a file have all these values."""
    return all(meta.get(key) == value for key, value in wanted.items())


def digest(table: pa.Table) -> str:
    """Return a SHA-256 of the columns' names, types and values, for any layout in memory."""
    total = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        total.update(f"{json.dumps([name, len(column)])}\n".encode())
        if pa.types.is_string(column.type):
            column = column.cast(pa.large_string())  # rows of a batch may hold more than 2 GB
        for start in range(0, len(column), _BATCH):
            _feed(total, column.slice(start, _BATCH).combine_chunks())
    return total.hexdigest()


def _feed(total: hashlib._Hash, cells: pa.Array) -> None:
    """Hash which cells are null, then the length of each list or text, then the contents."""
    _feed_numbers(total, cells.is_null())
    cells = cells.drop_null()
    if pa.types.is_list(cells.type):
        _feed_numbers(total, pc.list_value_length(cells))
        _feed(total, pc.list_flatten(cells))
    elif pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells = cells.cast(pa.large_string())
        _feed_numbers(total, pc.binary_length(cells))
        if len(cells):
            _, ends, text = cells.buffers()
            where = np.frombuffer(ends, np.int64)[cells.offset : cells.offset + len(cells) + 1]
            total.update(memoryview(text)[where[0] : where[-1]])
    else:
        _feed_numbers(total, cells)


def _feed_numbers(total: hashlib._Hash, cells: pa.Array) -> None:
    """Hash the type of numbers without nulls, then each number, least byte first."""
    numbers = cells.to_numpy(zero_copy_only=False)
    kind = numbers.dtype.newbyteorder("<")
    if kind.hasobject:
        raise TypeError(f"leakbound cannot write a column of type {cells.type}")
    total.update(kind.str.encode())
    total.update(np.ascontiguousarray(numbers, kind).data)


def missing(table: pa.Table, decoding: Decoding) -> pa.ChunkedArray:
    """Return a mask of the stored completions whose answer is missing, see `is_missing`."""
    if decoding.filter == "missing":
        return table["unanswered"]
    return pc.and_(table["unanswered"], pc.not_equal(table["counted"], "filtered"))


def tally(table: pa.Table) -> dict[tuple[str, str], int]:
    """Count the draws of a table of completions by (query id, class of a `Ledger`)."""
    seen = pa.array(filter(visible, table["thought"].unique().to_pylist()), pa.string())
    kinds = ("query_id", "counted", "refused", "hidden", "thought")
    columns = {name: table[name] for name in (*kinds, "count")}
    columns["thought"] = pc.is_in(table["thought"], seen)
    groups = pa.table(columns).group_by([*kinds]).aggregate([("count", "sum")]).to_pylist()
    total = Counter[tuple[str, str]]()
    for row in groups:
        marks = {
            row["counted"]: True,
            "refused": row["refused"] and row["counted"] == "complete",
            "hidden": row["hidden"],
            "thoughts": row["thought"],
        }
        for name in filter(marks.get, marks):
            total[row["query_id"], name] += row["count_sum"]
    return {key: n for key, n in total.items() if n}


def completions_of(table: pa.Table) -> Iterator[tuple[str, Completion]]:
    """Yield (query id, completion) of each row of a table of completions."""
    return zip(table["query_id"].to_pylist(), values_of(Completion, table), strict=True)
