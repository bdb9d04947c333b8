"""Find a member of a family (such as one scorer) by its name.

Built-in members come first, then plug-ins. A plug-in is a member that another package declares as
an entry point. A plug-in may raise any error, exit, or return a value that does not fit the family.
The error message then names the package.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from leakbound.errors import InputError, LeakboundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")

_MOST = 25  # the largest number of names that a message lists
_NEAR = 3
_REPAIR = "Repair that package or uninstall it."
# A comma belongs to a value unless another setting follows.
_COMMA = re.compile(r",(?=\s*\w+\s*=)")
_TRUTH = {"yes": True, "no": False, "true": True, "false": False}


_packages: dict[tuple[str, str], tuple[str, str]] = {}
"""The package (with version) and the module of each loaded plug-in, by family and name."""


def find(family: str, table: Mapping[str, T], name: str, remedy: str = "") -> T:
    """Return the member of a family that has this name.

    Other packages add members in the family's entry-point group, such as `leakbound.losses`.
    A plug-in never replaces a built-in member.

    Args:
        family: such as "scorer".
        table: the built-in members with their names.
        name: the member's name.
        remedy: an additional fix for the message about an unknown name.

    Returns:
        The member.

    Raises:
        InputError: an unknown name (the message lists the known names), or a member whose package
            is broken.
    """
    if name in table:
        return table[name]
    others = _points(family)
    if name not in others.names:
        near = suggestion(name, {*table, *others.names})
        raise InputError(f"unknown {family} {name!r}. {near} {remedy}".rstrip())
    point, package = others[name], "unknown"
    if point.dist is not None:
        package = f"{point.dist.name} {point.dist.version}"
    _packages[family, name] = package, point.module.partition(".")[0]
    with opening(family, name):
        member: T = point.load()
    return member


def plug_ins(family: str) -> set[str]:
    """Return the names of a family's plug-ins, without loading the plug-ins.

    Args:
        family: such as "scorer".

    Returns:
        The names.
    """
    return set(_points(family).names)


@contextmanager
def opening(family: str, name: str) -> Iterator[None]:
    """Return a context that reports an error of a plug-in with the name of its package.

    Errors of built-in members, and errors of leakbound, are not changed.

    Args:
        family: such as "scorer".
        name: the member's name.

    Raises:
        InputError: a plug-in raised an error that is not a leakbound error, or exited.
    """
    try:
        yield
    except (LeakboundError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        if (family, name) not in _packages:
            raise
        raise InputError(f"{_plug_in(family, name)} raised {error!r}. {_REPAIR}") from error


def require_parts(family: str, name: str, made: object, parts: Iterable[str]) -> None:
    """Raise InputError if a plug-in's result lacks an attribute.

    Args:
        family: such as "scorer".
        name: the member's name; a built-in member is not checked.
        made: the result that the member returned.
        parts: names of attributes that the result must have.

    Raises:
        InputError: the result lacks one of the attributes.
    """
    # A property is not evaluated, because its evaluation may be slow.
    lacking = [part for part in parts if inspect.getattr_static(made, part, None) is None]
    lacking = [part for part in lacking if not hasattr(made, part)]
    if lacking and (family, name) in _packages:
        raise InputError(
            f"{_plug_in(family, name)} returns {type(made).__name__}, which has no attribute "
            f"{', '.join(lacking)}. {_REPAIR}"
        )


def setting_types(family: str, name: str, member: object) -> dict[str, Any]:
    """Return the types of a member's settings, by name.

    Args:
        family: such as "scorer".
        name: the member's name.
        member: a dataclass of settings; fields with `compare=False` are not settings.

    Returns:
        The types; empty if the member is not a dataclass.

    Raises:
        InputError: the types of a plug-in cannot be read.
    """
    with opening(family, name):
        hints = get_type_hints(member)
    own = fields(member) if is_dataclass(member) else ()
    return {field.name: hints[field.name] for field in own if field.compare}


def make(
    family: str, name: str, member: Any, values: Mapping[str, object], parts: Iterable[str]
) -> Any:
    """Call a member with these settings, and return the result.

    Args:
        family: such as "scorer".
        name: the member's name.
        member: the result of `find`.
        values: its settings by name.
        parts: names of attributes that the result must have.

    Returns:
        The value that the member returns.

    Raises:
        InputError: a required setting is missing, or a plug-in is broken.
    """
    for field in fields(member) if is_dataclass(member) else ():
        if field.name not in values and field.default is field.default_factory is MISSING:
            form = f"{name}:{field.name}=…"
            raise InputError(f"{family} {name!r} needs its setting {field.name!r}. Write `{form}`.")
    with opening(family, name):
        made = member(**values)
    require_parts(family, name, made, parts)
    return made


def _plug_in(family: str, name: str) -> str:
    return f"{family} {name!r} of the package {_packages[family, name][0]}"


def split_settings(written: str) -> list[str]:
    """Split a list of settings at its commas; a comma within a value does not split it."""
    return _COMMA.split(written)


def read_settings(
    family: str, name: str, written: str, types: Mapping[str, object], first: str = ""
) -> dict[str, object]:
    """Parse the settings after a member's name: `setting=value,...`.

    Args:
        family: such as "scorer".
        name: the member's name.
        written: the text after the colon.
        types: the types of the member's settings, by name.
        first: the setting whose name may be omitted if it comes first; empty for no setting.

    Returns:
        The values of the written settings, by name.

    Raises:
        InputError: an unknown or repeated setting, or an invalid value; the message names the
            setting.
    """
    begin, *others = split_settings(written)
    if begin and "=" not in begin and first in types:
        begin = f"{first}={begin}"
    values: dict[str, object] = {}
    for pair in filter(None, (begin, *others)):
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InputError(f"settings of {family} {name!r} are `name=value`, got {pair!r}.")
        if key not in types:
            raise InputError(f"{family} {name!r} has no setting {key!r}. {suggestion(key, types)}")
        if key in values or not text:
            raise InputError(f"{name}:{key} must have one value. Write `{key}=…` once, or omit it.")
        values[key] = read_value(f"{name}:{key}", text, types[key])
    return values


def read_value(where: str, text: str, kind: Any) -> Any:
    """Return a setting's value from its text.

    Args:
        where: the setting's name in messages.
        text: the setting's value as the user wrote it.
        kind: `int`, `float`, `bool`, a `Literal` of a few words, the union of one of these types
            with None, or a tuple of these types (in the text, separated by commas). For any other
            type, the value is the text.

    Returns:
        A number, a bool, a word of the `Literal`, a tuple of these, or the text.

    Raises:
        InputError: the text is not a number, or not one of the words.
    """
    origin, of = get_origin(kind), get_args(kind)
    if type(None) in of:
        return read_value(where, text, of[0])
    if origin is tuple:
        return tuple(read_value(where, part.strip(), of[0]) for part in text.split(","))
    if origin is Literal or kind is bool:
        choices = {str(value): value for value in of} or _TRUTH
        if text not in choices:
            raise InputError(f"{where} cannot be {text!r}. {suggestion(text, choices)}")
        return choices[text]
    if kind not in (int, float):
        return text
    try:
        return kind(text)
    except ValueError:
        called = "whole number" if kind is int else "number"
        raise InputError(f"{where} must be a {called}, got {text.strip()!r}.") from None


def origin(value: object) -> str:
    """Return a text with the package that defines the class of a value, for messages.

    Args:
        value: any object.

    Returns:
        ` of the package <name and version>` for a class of another package, else empty.
    """
    module = type(value).__module__.partition(".")[0]
    package = next((package for package, own in _packages.values() if own == module), None)
    return "" if package is None else f" of the package {package}"


def suggestion(name: str, names: Iterable[Any]) -> str:
    """Return a remedy for a misspelt name: the closest name, and all names unless there are many.

    Args:
        name: the name as the user wrote it.
        names: the known names.

    Returns:
        One or two sentences.
    """
    import difflib

    choices = sorted(map(str, names))
    close = difflib.get_close_matches(name, choices, n=_NEAR)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    if close and len(choices) > _MOST:
        return f"{hint}There are {len(choices)} choices, such as {', '.join(close)}."
    return f"{hint}The choices are: {', '.join(choices) or 'none'}."


def near(path: Path) -> str:
    """Return `Did you mean …? ` if a path does not exist but a path with a similar name does.

    Args:
        path: the path that was looked for.

    Returns:
        The question with a blank after it, or an empty text.
    """
    import difflib

    at = path.absolute()
    while not at.parent.is_dir() and at != at.parent:
        at = at.parent  # a folder on the way may be the misspelt one
    try:
        there = [] if at.exists() else [other.name for other in at.parent.iterdir()]
    except OSError:
        there = []
    close = difflib.get_close_matches(at.name, there, n=1)
    if not close:
        return ""
    guess = at.with_name(close[0])  # written as the path was: absolute or relative
    return f"Did you mean `{guess if path.is_absolute() else Path(os.path.relpath(guess))}`? "


def _points(family: str) -> EntryPoints:
    """Return the entry points of a family in other packages."""
    from importlib.metadata import entry_points  # this import takes 50 ms, and is seldom needed

    plural = f"{family}es" if family.endswith("s") else f"{family}s"
    return entry_points(group=f"leakbound.{plural}")
