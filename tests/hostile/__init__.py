"""Hostile files and servers, as tables: what is in each, and what becomes of it."""

from __future__ import annotations

import traceback
from pathlib import Path

Found = tuple[str, str]
"""(same, refused, wrong or traceback; why)."""


def called(arguments: tuple[object, ...], *, taken: bool, named: Path, unmade: Path) -> Found:
    """What becomes of a command that reads a hostile file.

    It must be refused with `named` in its message and `unmade` not there, or, if it is `taken`,
    end well.
    """
    from commands import leakbound

    try:
        said = leakbound(*arguments)
    except Exception:
        return "traceback", traceback.format_exc()[-700:]
    if said.status == 0:
        return ("same" if taken else "wrong"), "it was taken"
    if named.name not in said.err:
        return "wrong", f"not named: {said.err[-400:]}"
    if unmade.exists() or said.status not in (2, 3):
        return "wrong", f"status {said.status}, and {unmade} is there: {said.err[-400:]}"
    return "refused", said.err[-300:]
