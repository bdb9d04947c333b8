"""Looking a member of a family up by name: built in first, then third parties' entry points.

What comes of other packages is other people's code, which may raise anything, exit, or give what
is no member of the family. Here it is told by name, with the package that it came from.
"""

from __future__ import annotations

import inspect
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

from leakbound.errors import InputError, LeakboundError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

T = TypeVar("T")

_MOST = 25  # names that a message lists
_NEAR = 3
_OURS = __name__.partition(".")[0]
# A comma is part of a value unless another setting follows: models have commas in their names.
_COMMA = re.compile(r",(?=\s*\w+\s*=)")


@dataclass(frozen=True, slots=True)
class PlugIn:
    """A member of a family that another package brings, and where in that package it is."""

    family: str
    name: str
    package: str
    value: str

    def __str__(self) -> str:
        return f"{self.family} {self.name!r} of another package ({self.package}, `{self.value}`)"

    @property
    def module(self) -> str:
        """The top-level module that it is in."""
        return self.value.partition(":")[0].strip().partition(".")[0]


_loaded: dict[tuple[str, str], PlugIn] = {}


def find(family: str, table: Mapping[str, T], name: str) -> T:
    """The member of a family called `name`.

    `table` holds the built-in members; other packages add theirs in the entry-point group
    `leakbound.<family>s` (`leakbound.losses`); a name that is built in is never replaced. An
    unknown name raises InputError, which lists what there is, and so does a member whose package
    is broken.
    """
    if name in table:
        return table[name]
    others = _points(family)
    if name not in others.names:
        raise InputError(f"unknown {family} {name!r}. {suggestion(name, {*table, *others.names})}")
    found, package = others[name], "unknown"
    if found.dist is not None:
        package = f"{found.dist.name} {found.dist.version}"
    plug_in = PlugIn(family, found.name, package, found.value)
    _loaded[family, name] = plug_in
    with _named(plug_in, "cannot be loaded"):
        member: T = found.load()
    return member


def plug_ins(family: str) -> set[str]:
    """The names that other packages bring of a family; nothing of theirs is loaded."""
    return set(_points(family).names)


@contextmanager
def opening(family: str, name: str) -> Iterator[None]:
    """Whatever a member of another package raises here, and its exits, name it as InputErrors.

    What it raises of our own passes: it means to say that.
    """
    if (family, name) not in _loaded:
        yield
        return
    with _named(_loaded[family, name], "cannot be opened"):
        yield


def require_parts(family: str, name: str, made: object, parts: Iterable[str]) -> None:
    """Refuse what a member of another package made if it lacks one of these attributes."""
    if (family, name) not in _loaded:
        return
    # What a class has is told without asking for the value, which may cost much.
    lacking = [
        part
        for part in parts
        if inspect.getattr_static(made, part, None) is None and not hasattr(made, part)
    ]
    if lacking:
        raise InputError(
            f"{_loaded[family, name]} is no {family}: it gives {type(made).__name__}, which has no "
            f"{', '.join(lacking)}. Repair that package or uninstall it."
        )


def read_settings(
    family: str, name: str, written: str, types: Mapping[str, object], first: str = ""
) -> dict[str, object]:
    """The settings of a member as they are written behind its name: `setting=value,...`.

    types: of each setting it has. first: that which may be written without its name, as the first.
    Raises InputError, naming the setting, for one that it has not and a value that cannot be.
    """
    begin, *others = _COMMA.split(written)
    if begin and "=" not in begin and first in types:
        begin = f"{first}={begin}"
    values: dict[str, object] = {}
    for pair in filter(None, (begin, *others)):
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InputError(f"{family} {name!r} takes `setting=value`, got {pair!r}.")
        if key not in types:
            raise InputError(f"{family} {name!r} has no setting {key!r}. {suggestion(key, types)}")
        values[key] = read_value(f"{name}:{key}", text, types[key])
    return values


def read_value(where: str, text: str, kind: Any) -> Any:
    """A setting's value from its text: a number, one of a few words, or the text itself."""
    if get_origin(kind) is Literal:
        known = {str(value): value for value in get_args(kind)}
        if text not in known:
            raise InputError(f"{where} cannot be {text!r}. {suggestion(text, known)}")
        return known[text]
    if kind not in (int, float):
        return text
    try:
        return kind(text)
    except ValueError:
        called = "whole number" if kind is int else "number"
        raise InputError(f"{where} must be a {called}, got {text.strip()!r}.") from None


def origin(value: object) -> str:
    """` of <package>` where another package made this, for messages about what it does."""
    module = type(value).__module__.partition(".")[0]
    found = (one.package for one in _loaded.values() if one.module == module)
    package = next(found, None)
    return "" if package is None else f" of the package {package}"


def blamed(error: BaseException) -> str | None:
    """A message where an error came out of another package's member; None where it is our own.

    Of the calls that led to the error the last one that is theirs or ours tells whose it is.
    """
    modules = {plug_in.module: plug_in for plug_in in _loaded.values()}
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        own = str(frame.f_globals.get("__name__")).partition(".")[0]
        if own == _OURS:
            return None
        if own in modules:
            where = f"{frame.f_code.co_filename}, line {line}"
            return (
                f"{modules[own]} {_did(error)} ({where}). Repair that package or uninstall it, "
                "then run the same command again: what was finished is kept."
            )
    return None


def suggestion(name: str, known: Iterable[Any]) -> str:
    """The remedy for a misspelt name: the closest known one, and all of them unless too many."""
    import difflib

    names = sorted(map(str, known))
    close = difflib.get_close_matches(name, names, n=_NEAR)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    if close and len(names) > _MOST:
        return f"{hint}There are {len(names)}, among them: {', '.join(close)}."
    return f"{hint}There is: {', '.join(names) or 'none'}."


def near(path: Path) -> str:
    """`Did you mean …? ` where nothing is at `path` and something nearby has almost that name."""
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
    found = at.with_name(close[0])  # told from where the path was
    return f"Did you mean `{found if path.is_absolute() else Path(os.path.relpath(found))}`? "


def _points(family: str) -> EntryPoints:
    """What other packages bring of a family."""
    from importlib.metadata import entry_points  # costs 50 ms, and is seldom needed

    plural = f"{family}es" if family.endswith("s") else f"{family}s"
    return entry_points(group=f"leakbound.{plural}")


@contextmanager
def _named(plug_in: PlugIn, what: str) -> Iterator[None]:
    try:
        yield
    except (LeakboundError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        raise InputError(
            f"{plug_in} {what}: it {_did(error)}. Repair that package or uninstall it."
        ) from error


def _did(error: BaseException) -> str:
    said = str(error).strip().partition("\n")[0]
    if isinstance(error, SystemExit):
        return f"ended the program (exit status {said or 0})"
    return f"raised {type(error).__name__}: {said}" if said else f"raised {type(error).__name__}"
