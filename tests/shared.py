"""Models, runs and pages that many tests read: made once per session and never changed.

A fixture that outlives a test gives its folder to `keep`. A module fails if a kept folder has
changed after it. Tests that write take a copy.
"""

from __future__ import annotations

from pathlib import Path

_kept: dict[Path, dict[str, tuple[int, int]]] = {}


def keep(folder: Path) -> Path:
    """Return the folder; no test may change it afterwards."""
    _kept[folder] = _files(folder)
    return folder


def changed() -> list[Path]:
    """Return the kept folders in which a file changed; each folder only once."""
    got = [folder for folder, before in _kept.items() if _files(folder) != before]
    for folder in got:
        del _kept[folder]
    return got


def forget() -> None:
    """Forget all folders: pytest removes those of earlier sessions in the same process."""
    _kept.clear()


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the time and size of each file except locks, which come and go."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
