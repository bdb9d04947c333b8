"""Looking a member of a family up by name: built in first, then third parties' entry points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from residua.errors import InputError

T = TypeVar("T")


def find(family: str, table: Mapping[str, T], name: str) -> T:
    """The member of a family called `name`.

    `table` holds the built-in members; other packages add theirs in the entry-point group
    `residua.<family>s` (`residua.losses`); a name that is built in is never replaced. An unknown
    name raises InputError, which lists what there is, and so does a member whose package is broken.
    """
    if name in table:
        return table[name]
    from importlib.metadata import entry_points  # costs 50 ms, and is seldom needed

    plural = f"{family}es" if family.endswith("s") else f"{family}s"
    others = entry_points(group=f"residua.{plural}")
    if name in others.names:
        try:
            member: T = others[name].load()
        except (ImportError, AttributeError) as error:
            raise InputError(
                f"{family} {name!r} of another package cannot be loaded from "
                f"{others[name].value!r}: {error}. Repair that package or uninstall it."
            ) from error
        return member
    raise InputError(f"unknown {family} {name!r}. {suggestion(name, {*table, *others.names})}")


def suggestion(name: str, known: Iterable[Any]) -> str:
    """The remedy for a misspelt name: the closest known one, and all of them."""
    import difflib

    names = sorted(map(str, known))
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}There is: {', '.join(names) or 'none'}."
