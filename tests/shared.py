"""Models, runs and pages that many tests read: made once a session, and as they were made.

A fixture that outlives a test gives its folder to `keep`; after each module that is looked at, and
a test that wrote into one of them fails its module. Tests that write take a copy.
"""

from __future__ import annotations

from pathlib import Path

_kept: dict[Path, dict[str, tuple[int, int]]] = {}


def keep(folder: Path) -> Path:
    """The folder, which no test may change from now on."""
    _kept[folder] = _files(folder)
    return folder


def changed() -> list[Path]:
    """Return the folders in which a file changed since; each folder only once."""
    found = [folder for folder, before in _kept.items() if _files(folder) != before]
    for folder in found:
        del _kept[folder]
    return found


def forget() -> None:
    """Look at no folder of an earlier session: where a process has several, pytest removes them."""
    _kept.clear()


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    """When each file was written, and its size; of locks, which come and go, nothing."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}
