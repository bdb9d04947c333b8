"""Frozen values as JSON and back: what a record holds is said once, by the types of its fields."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from leakbound.errors import InputError

if TYPE_CHECKING:
    from typing import TypeAlias

    Json: TypeAlias = "str | int | float | bool | Sequence[Json] | Mapping[str, Json] | None"
    """What a JSON file can hold."""
    JsonObject: TypeAlias = Mapping[str, Json]
    """What stands between braces in a JSON file."""
else:  # a recursive alias cannot be resolved while the program runs: a field of it takes anything
    Json, JsonObject = object, Mapping[str, object]

T = TypeVar("T")
_PLAIN = (str, int, float, bool, type(None))
_WORDS = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false",
    type(None): "null",
}  # fmt: skip


def to_json(value: object) -> Json:
    """The value as JSON holds it.

    Frozen values become objects by the names of their fields, tuples lists, keys of mappings texts.
    A value with a `text` form of its own (a method `from_text` reads it back) becomes that.
    """
    if hasattr(value, "from_text") or isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(member) for key, member in value.items()}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Sequence):
        return [to_json(member) for member in value]
    if isinstance(value, AbstractSet):
        return sorted(str(member) for member in value)
    raise TypeError(f"a record cannot hold {value!r}, of type {type(value).__name__}")


def object_of(value: object) -> JsonObject:
    """`to_json` of a frozen value or a mapping."""
    return cast("JsonObject", to_json(value))


def from_json(kind: type[T], found: Json, where: str = "the record") -> T:
    """The value of this kind whose `to_json` was found.

    `where` names the place in messages. Raises InputError, naming the member of it that is missing,
    unknown or of another kind; a member with a default may be missing.
    """
    return cast("T", _read(kind, found, where))


def _read(kind: Any, found: Any, where: str) -> Any:
    origin, of = get_origin(kind), get_args(kind)
    if kind is object or kind is Any:
        return found
    if origin in (Union, types.UnionType):
        return _of_union(of, found, where)
    if origin is Literal:
        return _checked(found in of, found, where, " or ".join(map(repr, of)))
    if origin in (tuple, list, Sequence):
        members = _of_list(of, found, where)
        return list(members) if origin is list else members
    if origin in (dict, Mapping):
        _checked(isinstance(found, Mapping), found, where, "an object")
        return {
            _key(of[0], key, where): _read(of[1], member, f"{where}: {key}")
            for key, member in found.items()
        }
    if hasattr(kind, "from_text"):
        return _of_text(kind, _checked(isinstance(found, str), found, where, "a text"), where)
    if is_dataclass(kind):
        return _of_fields(kind, found, where)
    if kind is float and isinstance(found, int) and not isinstance(found, bool):
        return found  # as it was written: a digest of 1 is none of 1.0
    fits = isinstance(found, kind) and (kind is bool or not isinstance(found, bool))
    return _checked(fits, found, where, _WORDS.get(kind, str(kind)))


def _of_fields(kind: Any, found: Any, where: str) -> Any:
    _checked(isinstance(found, Mapping), found, where, "an object")
    known = {field.name: field for field in fields(kind)}
    if unknown := [name for name in found if name not in known]:
        raise InputError(f"{where} has {unknown[0]!r}, which this version does not know.")
    if lacking := [name for name, field in known.items() if name not in found and _needed(field)]:
        raise InputError(f"{where} lacks {lacking[0]!r}.")
    hints = _hints(kind)
    members = {k: _read(hints[k], value, f"{where}: {k}") for k, value in found.items()}
    try:
        return kind(**members)
    except InputError as error:  # the value itself refuses them
        raise InputError(f"{where}: {error}") from error


def _of_union(members: tuple[Any, ...], found: Any, where: str) -> Any:
    """Of several kinds of values the one whose `kind` is named; else the first that fits."""
    if found is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) > 1 and isinstance(found, Mapping):
        named = {k: member for member in rest for k in get_args(_hints(member)["kind"])}
        name = found.get("kind")
        _checked(name in named, name, f"{where}: kind", " or ".join(map(repr, named)))
        return _read(named[name], found, where)
    for member in rest[:-1]:
        try:
            return _read(member, found, where)
        except InputError:
            continue
    return _read(rest[-1], found, where)


def _of_list(of: tuple[Any, ...], found: Any, where: str) -> tuple[Any, ...]:
    fits = isinstance(found, Sequence) and not isinstance(found, str)
    _checked(fits, found, where, "a list")
    kinds = of
    if len(of) == 1 or of[-1] is Ellipsis:
        kinds = (of[0],) * len(found)
    _checked(len(kinds) == len(found), found, where, f"{len(kinds)} values")
    pairs = zip(kinds, found, strict=True)
    return tuple(_read(kind, one, f"{where}[{i}]") for i, (kind, one) in enumerate(pairs))


def _of_text(kind: Any, text: str, where: str) -> Any:
    try:
        return kind.from_text(text)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _key(kind: Any, key: str, where: str) -> Any:
    """A key of an object, which is a text in any file."""
    if hasattr(kind, "from_text"):
        return _of_text(kind, key, where)
    if kind is int:
        return int(_checked(key.isdecimal(), key, where, "an object with whole numbers as keys"))
    return key


def _checked(fits: bool, found: Any, where: str, want: str) -> Any:
    if not fits:
        raise InputError(f"{where} must be {want}, got {found!r}.")
    return found


def _needed(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return hints_of(kind)
