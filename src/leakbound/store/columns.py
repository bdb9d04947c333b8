"""Frozen values as the rows of a table, and back: a column a field, by the types of the fields."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leakbound.errors import InputError

T = TypeVar("T")
_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _same(cell: Any) -> Any:
    return cell


@dataclass(frozen=True, slots=True)
class _Cells:
    """How a column holds a field: its type, and what becomes of each cell there and back."""

    type: pa.DataType
    write: Callable[[Any], Any] = _same
    read: Callable[[Any], Any] = _same


def schema_of(kind: Any) -> pa.Schema:
    """The columns of a table of values of this dataclass.

    The fields of a value within a value are columns like its own.
    """
    columns: list[pa.Field] = []
    for name, cells in _fields(kind).items():
        columns += [pa.field(name, cells.type)] if isinstance(cells, _Cells) else schema_of(cells)
    return pa.schema(columns)


def row_of(value: Any) -> dict[str, Any]:
    """The row of a value, by column; a number that must be there and is not (NaN) is None."""
    row: dict[str, Any] = {}
    kind: Any = type(value)
    for name, cells in _fields(kind).items():
        own = getattr(value, name)
        row |= {name: cells.write(own)} if isinstance(cells, _Cells) else row_of(own)
    return row


def table_of(kind: type[Any], values: Sequence[object]) -> pa.Table:
    """A row a value, a column a field."""
    return pa.Table.from_pylist([row_of(value) for value in values], schema_of(kind))


def values_of(kind: Callable[..., T], table: pa.Table) -> Iterator[T]:
    """The inverse of `table_of`; columns of other names are passed over."""
    known = _fields(kind)
    for row in zip(*(_read(*field, table) for field in known.items()), strict=True):
        yield kind(**dict(zip(known, row, strict=True)))


def _read(name: str, cells: _Cells | type, table: pa.Table) -> Iterable[Any]:
    if isinstance(cells, _Cells):
        return map(cells.read, table[name].to_pylist())
    return values_of(cells, table)


def to_pandas(table: pa.Table) -> Any:
    """The table as a `pandas.DataFrame`; InputError, with the remedy, without pandas."""
    try:
        import_module("pandas")
    except ImportError as error:
        raise InputError(
            f"a data frame needs pandas, which is not installed ({error}). Run `pip install "
            "pandas`, or take `.to_arrow()`, which needs nothing more."
        ) from error
    return table.to_pandas()


@cache
def _fields(kind: Any) -> dict[str, _Cells | type]:
    """By the name of each field its column, or the kind of the value that it holds."""
    # `types` imports NumPy for a type checker alone
    hints = get_type_hints(kind, localns={"np": np, "NDArray": NDArray})
    return {
        name: hint if is_dataclass(hint) and isinstance(hint, type) else _cells(hint)
        for name, hint in hints.items()
    }


def _cells(hint: Any) -> _Cells:
    """The column of a field; where it may hold several, of the first kind that is named."""
    union = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    kind = next(member for member in union if member is not types.NoneType)
    origin, of = get_origin(kind), get_args(kind)
    if origin is Literal:
        return _Cells(pa.string())
    if origin is tuple:
        return _Cells(pa.list_(_cells(of[0]).type), read=_frozen)
    if origin is np.ndarray:
        (dtype,) = get_args(of[1])
        return _Cells(pa.list_(pa.from_numpy_dtype(dtype)), read=partial(np.array, dtype=dtype))
    if kind is float and types.NoneType not in union:
        return _Cells(pa.float64(), _null, _nan)
    return _Cells(_TYPES[kind])


def _null(number: float) -> float | None:
    return None if math.isnan(number) else number


def _nan(cell: float | None) -> float:
    return math.nan if cell is None else cell


def _frozen(cell: Any) -> Any:
    return tuple(map(_frozen, cell)) if isinstance(cell, list) else cell
