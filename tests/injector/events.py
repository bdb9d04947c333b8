"""The file events of a command, their faults, and the effect of a power cut.

An event is a call that changes a folder or makes a change durable: `create`, `empty` (opened for
writing, its bytes dropped), `open` (for writing), `write`, `truncate`, `close`, `fsync`, `rename`,
`unlink`, `mkdir`, `rmdir`, `link`, `symlink`; and `read` on request.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

OPENS = ("create", "empty", "open")
SAY = "say"  # a write to the standard output: no event, but it promises all work before it


@dataclass(frozen=True, slots=True)
class Event:
    """The n-th event of a command; `other` is the new name of a renamed file."""

    n: int
    kind: str
    path: str
    other: str = ""

    @classmethod
    def of(cls, line: str) -> Event:
        """Parse a line of the log."""
        n, kind, path, other = line.split("\t")
        return cls(int(n), kind, path, other)


@dataclass(frozen=True, slots=True)
class Action:
    """A fault: codes of `events.c`, and the kinds of event that it applies to."""

    code: int
    number: int = 0
    span: int = 0
    kinds: tuple[str, ...] = ()


_FULL, _READ_ONLY, _ONCE = 1, 2, 4
_GROWS = ("create", "write", "mkdir", "link", "symlink")
_ANY = (*OPENS, "write", "truncate", "close", "fsync", "rename", "unlink", "mkdir", "rmdir")

ACTIONS: Mapping[str, Action] = {
    "kill before": Action(1, kinds=_ANY),
    "kill after": Action(2, kinds=_ANY),
    "kill halfway": Action(3, kinds=("write",)),
    "ENOSPC": Action(4, errno.ENOSPC, _FULL, _GROWS),
    "EIO": Action(4, errno.EIO, _ONCE, _ANY),
    "EROFS": Action(4, errno.EROFS, _READ_ONLY, tuple(k for k in _ANY if k != "close")),
    "EMFILE": Action(4, errno.EMFILE, _ONCE, OPENS),
    "EIO reading": Action(4, errno.EIO, _ONCE, ("read",)),
    "SIGTERM": Action(5, signal.SIGTERM, kinds=_ANY),
    "SIGINT": Action(5, signal.SIGINT, kinds=_ANY),
}
"""The faults. A full disk and a read-only one stay so; the others happen once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of `ACTIONS` at event `at`."""

    action: str
    at: int

    @property
    def reads(self) -> bool:
        """Return whether reads count among the events."""
        return self.action == "EIO reading"

    @property
    def kills(self) -> bool:
        """Return whether the command dies without a message."""
        return self.action.startswith("kill")


def applies(action: str, events: Iterable[Event]) -> list[Event]:
    """Return the events that the fault applies to."""
    return [event for event in events if event.kind in ACTIONS[action].kinds]


_TRANSIENT = re.compile(r"\.partial\b|\.lock\b|/\.tmp\w+$|/#\d+$|\.training/training\.jsonl$")
# /#\d+: the kernel's name of a file that never had a name


def durable_faults(events: Iterable[Event]) -> list[str]:
    """Return the losses by a power cut of files that the command relied on or promised.

    Relied on: a file or folder that is renamed into place was flushed with all its contents, and so
    were the files in the same place; removals come later. Promised: after any output, and at the
    end of the command, every file was flushed after its last change, with its name and the names of
    the folders made for it. Locks, temporary files and the log of a training in progress are
    exempt.
    """
    disk = _Disk()
    got = [fault for event in events for fault in disk.meet(event)]
    return list(dict.fromkeys([*got, *disk.unsafe("it ended", "/")]))


class _Disk:
    """Tracks what a power cut could lose: the bytes of files, and the names in folders."""

    def __init__(self) -> None:
        self.bytes: set[str] = set()
        self.names: set[str] = set()
        self.known: set[str] = set()

    def meet(self, event: Event) -> list[str]:
        """Follow one event; return what the command wrongly relied on."""
        got: list[str] = []
        path = event.path.removesuffix(" (deleted)")
        if event.kind == "fsync":
            self.bytes.discard(path)
            self.names = {name for name in self.names if str(Path(name).parent) != path}
        elif event.kind in ("create", "empty", "write", "truncate"):
            self.bytes.add(path)
        elif event.kind == "close" and path not in self.known:  # its rename was not recorded
            self._forget(next((f for f in self.bytes if _in_same_folder(f, path)), path))
            self.bytes.add(path)
            self.names.add(path)
        elif event.kind == "unlink":
            if not _TRANSIENT.search(path):
                got = self.unsafe(f"{path} was removed", "/")
            self._forget(path)
        elif event.kind == "rmdir" and not any(_within(f, path + "/") for f in self.known):
            self._forget(path)  # otherwise it is not empty, and stays
        elif event.kind == "rename":
            got = self._renamed(path, event.other)
        elif event.kind == SAY:
            got = self.unsafe("something was said", "/")
        if event.kind in ("create", "mkdir"):
            self.names.add(path)
        if event.kind not in ("unlink", "rmdir"):
            self.known.add(event.other or path)
        return got

    def _renamed(self, path: str, to: str) -> list[str]:
        moved = [f for f in self.bytes if _within(f, path)]
        got = [f"{f} was not flushed before {path} was renamed" for f in moved]
        self._forget(path)
        got += self.unsafe(f"{to} was put there", str(Path(to).parent) + "/")
        self.names.add(to)
        return got

    def unsafe(self, when: str, folder: str) -> list[str]:
        """Return what a power cut would remove from a folder now."""
        seen = {"bytes": self.bytes, "name": self.names}
        return [
            f"the {what} of {path} not flushed when {when}"
            for what, paths in seen.items()
            for path in sorted(paths)
            if _within(path, folder) and not _TRANSIENT.search(path)
        ]

    def _forget(self, path: str) -> None:
        for paths in (self.bytes, self.names, self.known):
            paths -= {known for known in paths if _within(known, path)}


def _in_same_folder(temporary: str, path: str) -> bool:
    """Return whether it may have been renamed to `path`."""
    at = Path(temporary)
    return at.name.startswith(".tmp") and at.parent == Path(path).parent


def _within(path: str, folder: str) -> bool:
    """Return whether it is inside `folder`, or the folder itself unless that ends in a slash."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
