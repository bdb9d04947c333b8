"""Frozen values as JSON and back: what a record holds is said once, by the types of its fields."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin
from typing import get_type_hints as hints_of

from leakbound.errors import InputError
from leakbound.registry import suggestion

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
    type(None): "null", Path: "a path",
}  # fmt: skip
_OBJECT = "an object, with fields"
_SHOWN = 200  # characters of a value in a message


def to_json(value: object) -> Json:
    """The value as JSON holds it.

    Frozen values become objects by the names of their fields, of which those that play no part in
    comparing are left out; tuples become lists, keys of mappings texts. A value with a `text` form
    of its own (a method `from_text` reads it back) becomes that.
    """
    if hasattr(value, "from_text") or isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value):
        return {name: to_json(getattr(value, name)) for name in _fields(type(value))}
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


def changed(value: object) -> dict[str, Any]:
    """The fields of a frozen value that are not at their default, as `to_json` names them."""
    known = _fields(type(value)) if is_dataclass(value) else {}
    values = {name: getattr(value, name) for name in known}
    return {name: each for name, each in values.items() if each != known[name].default}


def different(one: JsonObject, other: JsonObject) -> list[str]:
    """The names of what two objects do not have alike, sorted."""
    return sorted(key for key in {**one, **other} if one.get(key) != other.get(key))


def from_json(kind: type[T], found: Json, where: str = "the record", *, by_hand: bool = False) -> T:
    """The value of this kind whose `to_json` was found.

    `where` names the place in messages. What was written `by_hand` may say one thing where a list
    is meant, and whole numbers for any; else these stay as they are: a digest of 1 is none of 1.0.
    Raises InputError, naming the member of it that is missing, unknown or of another kind; a member
    with a default may be missing.
    """
    return cast("T", _Reader(by_hand).read(kind, found, where))


@dataclass(frozen=True, slots=True)
class _Reader:
    """See `from_json`."""

    by_hand: bool

    def read(self, kind: Any, found: Any, where: str) -> Any:
        origin, of = get_origin(kind), get_args(kind)
        if kind is object or kind is Any:
            return found
        if origin in (Union, types.UnionType):
            return self.union(of, found, where)
        if origin is Literal:
            return self.checked(found in of, found, where, " or ".join(map(repr, of)))
        if origin in (tuple, list, Sequence):
            members = self.members(of, found, where)
            return list(members) if origin is list else members
        if origin in (dict, Mapping):
            self.checked(isinstance(found, Mapping), found, where, _OBJECT)
            return {
                self.key(of[0], key, where): self.read(of[1], member, f"{where}: {key}")
                for key, member in found.items()
            }
        if hasattr(kind, "from_text"):
            return _of_text(
                kind, self.checked(isinstance(found, str), found, where, "a text"), where
            )
        if is_dataclass(kind):
            return self.fields(kind, found, where)
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            return float(found) if self.by_hand else found
        fits = isinstance(found, kind) and (kind is bool or not isinstance(found, bool))
        return self.checked(fits, found, where, _word(kind))

    def fields(self, kind: Any, found: Any, where: str) -> Any:
        self.checked(isinstance(found, Mapping), found, where, _OBJECT)
        known = _fields(kind)
        if unknown := [name for name in found if name not in known]:
            near = suggestion(str(unknown[0]), known)
            raise InputError(
                f"{where} has no field {unknown[0]!r}, got {_short(found[unknown[0]])}. {near}"
            )
        defaults = {name: (field.default, field.default_factory) for name, field in known.items()}
        needed = [name for name, both in defaults.items() if both == (MISSING, MISSING)]
        if lacking := [name for name in needed if name not in found]:
            remedy = " Add it." if self.by_hand else ""
            raise InputError(f"{where} lacks {lacking[0]!r}.{remedy}")
        hints = _hints(kind)
        members = {k: self.read(hints[k], value, f"{where}: {k}") for k, value in found.items()}
        try:
            return kind(**members)
        except InputError as error:  # the value itself refuses them
            raise InputError(f"{where}: {error}") from error

    def union(self, members: tuple[Any, ...], found: Any, where: str) -> Any:
        """Of several kinds of values the one whose `kind` is named; else the first that fits."""
        if found is None and type(None) in members:
            return None
        rest = [member for member in members if member is not type(None)]
        if len(rest) == 1:
            return self.read(rest[0], found, where)
        tagged = [m for m in rest if "kind" in getattr(m, "__dataclass_fields__", ())]
        kinds = {k: m for m in tagged for k in get_args(_hints(m)["kind"])}
        if kinds and isinstance(found, Mapping):
            name = found.get("kind")
            self.checked(name in kinds, name, f"{where}: kind", " or ".join(map(repr, kinds)))
            return self.read(kinds[name], found, where)
        for member in rest:
            try:
                return self.read(member, found, where)
            except InputError:
                continue
        return self.checked(False, found, where, " or ".join(map(_word, rest)))

    def members(self, of: tuple[Any, ...], found: Any, where: str) -> tuple[Any, ...]:
        fits = isinstance(found, Sequence) and not isinstance(found, str)
        if self.by_hand and not fits:
            found, fits = [found], True
        self.checked(fits, found, where, "a list")
        kinds = of
        if len(of) == 1 or of[-1] is Ellipsis:
            kinds = (of[0],) * len(found)
        self.checked(len(kinds) == len(found), found, where, f"{len(kinds)} values")
        pairs = zip(kinds, found, strict=True)
        return tuple(self.read(kind, one, f"{where}[{i}]") for i, (kind, one) in enumerate(pairs))

    def key(self, kind: Any, key: str, where: str) -> Any:
        """A key of an object, which is a text in any file."""
        if hasattr(kind, "from_text"):
            return _of_text(kind, key, where)
        if kind is int:
            whole = self.checked(
                key.isdecimal(), key, where, "an object with whole numbers as keys"
            )
            return int(whole)
        return key

    def checked(self, fits: bool, found: Any, where: str, want: str) -> Any:
        if not fits:
            remedy = " Change it, or leave it out." if self.by_hand else ""
            raise InputError(f"{where} must be {want}, got {_short(found)}.{remedy}")
        return found


def _short(value: Any) -> str:
    """A value for a message: of a long one the beginning."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _of_text(kind: Any, text: str, where: str) -> Any:
    try:
        return kind.from_text(text)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _word(kind: Any) -> str:
    return _WORDS.get(kind, _OBJECT if is_dataclass(kind) else str(kind))


def _fields(kind: Any) -> Mapping[str, Field[Any]]:
    """The fields of a value that are written, by name."""
    return {field.name: field for field in fields(kind) if field.compare}


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return hints_of(kind)
