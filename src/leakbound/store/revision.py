"""Which code made the estimates of a run: those made by other code are made again."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import leakbound

MAKERS = ("stats", "evaluation", "store/scores.py", "store/masses.py")
"""What turns stored scores into estimates, within the package."""


@cache
def made_by() -> dict[str, str]:
    """The version of leakbound, and a digest of all the code that estimates depend on.

    Of the source itself, so that no change of a bound can be forgotten; a change of mere words in
    it has estimates made again too, which costs seconds and no model.
    """
    package = Path(leakbound.__file__).parent
    return {"version": leakbound.__version__, "statistics": revision(package)}


def revision(package: Path) -> str:
    """A digest of the Python files that estimates depend on, of the package in this folder."""
    total = hashlib.sha256()
    for maker in MAKERS:
        place = package / maker
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            name, text = file.relative_to(package).as_posix(), file.read_text(encoding="utf-8")
            total.update(f"{name} {len(text)}\n{text}".encode())
    return total.hexdigest()[:16]
