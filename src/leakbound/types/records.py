"""Convert frozen values to JSON and back; the types of the fields define the JSON structure."""

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
    """A value of a JSON file."""
    JsonObject: TypeAlias = Mapping[str, Json]
    """An object of a JSON file."""
else:  # a recursive alias cannot be resolved at run time: a field of this type accepts anything
    Json, JsonObject = object, Mapping[str, object]

T = TypeVar("T")
_PLAIN = (str, int, float, bool, type(None))
_WORDS = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false",
    type(None): "null", Path: "a path",
}  # fmt: skip
_OBJECT = "an object, with fields"
_SHOWN = 200  # largest number of characters of a value in a message


def to_json(value: object) -> Json:
    """Return the value as JSON values.

    Frozen values become objects with the names of their fields; fields that are ignored in
    comparisons (`compare=False`) are left out. Tuples become lists, sets become sorted lists, and
    keys of mappings become texts. A value whose class has a method `from_text` becomes its text,
    which `from_text` converts back.

    Args:
        value: a frozen value, a path, a mapping, a sequence, a set, or a JSON value.

    Returns:
        Lists, mappings, texts, numbers, truth values and None.

    Raises:
        TypeError: the value or a part of it has a type that is not listed under `value`.
    """
    if type(value) in _PLAIN:  # most values, so it is checked first
        return cast("Json", value)
    if hasattr(value, "from_text") or isinstance(value, PurePath):
        return str(value)
    if is_dataclass(value):
        kind: Any = type(value)
        return {name: to_json(getattr(value, name)) for name in _fields(kind)}
    if isinstance(value, Mapping):
        return {str(key): to_json(member) for key, member in value.items()}
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, Sequence):
        return [to_json(member) for member in value]
    if isinstance(value, AbstractSet):
        return sorted(str(member) for member in value)
    raise TypeError(f"a record cannot store {value!r}, of type {type(value).__name__}")


def object_of(value: object) -> JsonObject:
    """Return `to_json` of a frozen value or a mapping.

    Args:
        value: the value.

    Returns:
        The object.
    """
    return cast("JsonObject", to_json(value))


def changed(value: object) -> dict[str, Any]:
    """Return the fields of a frozen value whose values differ from the defaults.

    Args:
        value: the value. A value that is not a dataclass has no fields.

    Returns:
        Values by the names of their fields; only fields that `to_json` writes.
    """
    kind: Any = type(value)
    by_name = _fields(kind) if is_dataclass(value) else {}
    values = {name: getattr(value, name) for name in by_name}
    return {name: member for name, member in values.items() if member != by_name[name].default}


def spec_of(name: str, value: object, *, first: bool = False) -> str:
    """Return `name`, or `name:setting=value,...` with the fields that differ from their defaults.

    With `first`, only the value of the first field is written, without the field's name.
    """
    kind: Any = type(value)
    unnamed = [*_fields(kind)][: int(first)]
    written = [str(v) if k in unnamed else f"{k}={v}" for k, v in changed(value).items()]
    return f"{name}:{','.join(written)}" if written else name


def require_types(value: object) -> None:
    """Raise InputError if a member of a frozen value does not have the type of its field.

    Args:
        value: the value; fields that `to_json` leaves out may have any value.

    Raises:
        InputError: a member has a type other than its field's. The message states the field, the
            value and the required type.
    """
    kind: Any = type(value)
    for name in _fields(kind):
        _Reader(by_hand=True).read(_hints(kind)[name], getattr(value, name), f"`{name}`")


def different(first: JsonObject, second: JsonObject) -> list[str]:
    """Return the names of the members that differ between two JSON objects.

    Args:
        first: an object; a name that it lacks counts as None.
        second: another object.

    Returns:
        The names, sorted.
    """
    return sorted(key for key in {**first, **second} if first.get(key) != second.get(key))


def from_json(kind: type[T], value: Json, where: str = "the record", *, by_hand: bool = False) -> T:
    """Return a value of a type from its JSON, as the inverse of `to_json`.

    Args:
        kind: the type of the value.
        value: the result of `to_json`.
        where: the place of the JSON, for error messages.
        by_hand: whether a person wrote the JSON. It may then have a single value instead of a list,
            and whole numbers are converted to float where a float is needed. Otherwise numbers stay
            unchanged, because 1 and 1.0 have different digests.

    Returns:
        The value; a member with a default may be missing.

    Raises:
        InputError: a member is missing, unknown or not of the type of its field. The message names
            the member.
    """
    return cast("T", _Reader(by_hand).read(kind, value, where))


@dataclass(frozen=True, slots=True)
class _Reader:
    """See `from_json`."""

    by_hand: bool

    def read(self, kind: Any, value: Any, where: str) -> Any:
        if type(value) is kind and kind in _PLAIN:  # most values, so it is checked first
            return value
        origin, of = get_origin(kind), get_args(kind)
        if kind is object or kind is Any:
            return value
        if origin in (Union, types.UnionType):
            return self.union(of, value, where)
        if origin is Literal:
            return self.checked(value in of, value, where, " or ".join(map(repr, of)))
        if origin in (tuple, list, Sequence):
            members = self.members(of, value, where)
            return list(members) if origin is list else members
        if origin in (dict, Mapping):
            self.checked(isinstance(value, Mapping), value, where, _OBJECT)
            return {
                self.key(of[0], key, where): self.read(of[1], member, f"{where}: {key}")
                for key, member in value.items()
            }
        if hasattr(kind, "from_text"):
            return _of_text(
                kind, self.checked(isinstance(value, str), value, where, "a text"), where
            )
        if is_dataclass(kind):
            return value if type(value) is kind else self.fields(kind, value, where)
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value) if self.by_hand else value
        fits = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        return self.checked(fits, value, where, _word(kind))

    def fields(self, kind: Any, value: Any, where: str) -> Any:
        self.checked(isinstance(value, Mapping), value, where, _OBJECT)
        by_name = _fields(kind)
        if unknown := [name for name in value if name not in by_name]:
            near = suggestion(str(unknown[0]), by_name)
            raise InputError(
                f"{where} has no field {unknown[0]!r}, got {_short(value[unknown[0]])}. {near}"
            )
        defaults = {name: (field.default, field.default_factory) for name, field in by_name.items()}
        needed = [name for name, both in defaults.items() if both == (MISSING, MISSING)]
        if lacking := [name for name in needed if name not in value]:
            remedy = " Add it." if self.by_hand else ""
            raise InputError(f"{where} lacks {lacking[0]!r}.{remedy}")
        hints = _hints(kind)
        members = {k: self.read(hints[k], member, f"{where}: {k}") for k, member in value.items()}
        try:
            return kind(**members)
        except InputError as error:  # the constructor refuses the members
            raise InputError(f"{where}: {error}") from error

    def union(self, members: tuple[Any, ...], value: Any, where: str) -> Any:
        """Return a value of a union, by its member `kind`, or else by the first type that fits."""
        if value is None and type(None) in members:
            return None
        choices = [member for member in members if member is not type(None)]
        if len(choices) == 1:
            return self.read(choices[0], value, where)
        tagged = [m for m in choices if "kind" in getattr(m, "__dataclass_fields__", ())]
        kinds = {k: m for m in tagged for k in get_args(_hints(m)["kind"])}
        if kinds and isinstance(value, Mapping):
            name = value.get("kind")
            self.checked(name in kinds, name, f"{where}: kind", " or ".join(map(repr, kinds)))
            return self.read(kinds[name], value, where)
        for member in choices:
            try:
                return self.read(member, value, where)
            except InputError:
                continue
        return self.checked(False, value, where, " or ".join(map(_word, choices)))

    def members(self, of: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
        fits = isinstance(value, Sequence) and not isinstance(value, str)
        if self.by_hand and not fits:
            value, fits = [value], True
        self.checked(fits, value, where, "a list")
        kinds = of
        if len(of) == 1 or of[-1] is Ellipsis:
            kinds = (of[0],) * len(value)
        self.checked(len(kinds) == len(value), value, where, f"{len(kinds)} values")
        pairs = zip(kinds, value, strict=True)
        return tuple(self.read(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(pairs))

    def key(self, kind: Any, key: str, where: str) -> Any:
        """Convert a key of an object to its type, because every key in a file is text."""
        if hasattr(kind, "from_text"):
            return _of_text(kind, key, where)
        if kind is int:
            whole = self.checked(
                key.isdecimal(), key, where, "an object with whole numbers as keys"
            )
            return int(whole)
        return key

    def checked(self, fits: bool, value: Any, where: str, want: str) -> Any:
        if not fits:
            remedy = " Change or omit it." if self.by_hand else ""
            raise InputError(f"{where} must be {want}, got {_short(value)}.{remedy}")
        return value


def _short(value: Any) -> str:
    """Return a value as text for a message, cut if it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _of_text(kind: Any, text: str, where: str) -> Any:
    try:
        return kind.from_text(text)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def _word(kind: Any) -> str:
    return _WORDS.get(kind, _OBJECT if is_dataclass(kind) else str(kind))


@cache
def _fields(kind: Any) -> Mapping[str, Field[Any]]:
    """Return the fields of a type that `to_json` writes, by name."""
    return {field.name: field for field in fields(kind) if field.compare}


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    return hints_of(kind)
