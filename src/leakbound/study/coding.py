"""Frozen values as plain JSON or YAML, and back: by the types of their fields, strictly."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from leakbound.errors import InputError
from leakbound.registry import suggestion

Value = TypeVar("Value")
_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def plain(value: object) -> Any:
    """A value as JSON holds it: a mapping by field, tuples as lists, paths as texts."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(member) for member in value]
    return str(value) if isinstance(value, Path) else value


def made(kind: type[Value], found: object, name: str) -> Value:
    """The dataclass whose fields a mapping states; fields that it leaves out have their default.

    Raises InputError for one that is unknown, and for a value of another type; `name` is what the
    message calls the whole.
    """
    if not isinstance(found, Mapping):
        raise InputError(f"{name} must have fields, got {found!r}. Write them as `field: value`.")
    hints = get_type_hints(kind)
    known = [field.name for field in fields(kind) if field.compare]  # type: ignore[arg-type]
    for key in found:
        if key not in known:
            near = suggestion(str(key), known)
            raise InputError(f"{name} has no field {key!r}, got {found[key]!r}. {near}")
    return kind(**{key: typed(hints[key], value, key) for key, value in found.items()})


def typed(kind: Any, value: object, name: str) -> Any:
    """The value as a field of this type holds it; InputError where it is of another."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    if value is None and types.NoneType in members:
        return None
    for member in members:
        if get_origin(member) is tuple:
            parts = value if isinstance(value, list | tuple) else [value]
            return tuple(typed(get_args(member)[0], part, name) for part in parts)
        if isinstance(member, type) and is_dataclass(member):
            return made(member, value, f"`{name}`")
        if get_origin(member) is Literal and isinstance(value, str):
            return value  # which the value itself refuses where it is none of them
        if member is float and type(value) is int:
            return float(value)
        if type(value) is member:
            return value
    wanted = " or ".join(filter(None, map(_word, members)))
    raise InputError(f"`{name}` must be {wanted}, got {value!r}. Change it, or leave it out.")


def _word(member: Any) -> str:
    if get_origin(member) is Literal:
        return "a text"
    return _WORDS.get(member, "")
