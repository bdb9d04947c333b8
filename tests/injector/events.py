"""The file events of a command, what may be done to one, and what a power cut would leave of them.

An event is a call that changes what lies below a folder, or makes it durable: `create`, `empty`
(opened for writing, its bytes dropped), `open` (for writing), `write`, `truncate`, `close`,
`fsync`, `rename`, `unlink`, `mkdir`, `rmdir`, `link`, `symlink`; and `read`, where asked for.
"""

from __future__ import annotations

import errno
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

OPENS = ("create", "empty", "open")
SAY = "say"  # a write to the standard output: no event, but what was done before it is promised


@dataclass(frozen=True, slots=True)
class Event:
    """The n-th event of a command; `other` is what a file is renamed to."""

    n: int
    kind: str
    path: str
    other: str = ""

    @classmethod
    def of(cls, line: str) -> Event:
        """A line of the log."""
        n, kind, path, other = line.split("\t")
        return cls(int(n), kind, path, other)


@dataclass(frozen=True, slots=True)
class Action:
    """What is done at an event: codes of `events.c`, and the kinds of event that it is done to."""

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
"""What may be done to an event. A full disk and a read-only one stay so; the rest happens once."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One of `ACTIONS`, at event `at`."""

    action: str
    at: int

    @property
    def reads(self) -> bool:
        """True if reads are counted among the events."""
        return self.action == "EIO reading"

    @property
    def kills(self) -> bool:
        """True if nothing of the command is left to say anything."""
        return self.action.startswith("kill")


def applies(action: str, events: Iterable[Event]) -> list[Event]:
    """The events that this may be done to."""
    return [event for event in events if event.kind in ACTIONS[action].kinds]


_TRANSIENT = re.compile(r"\.partial\b|\.lock\b|/\.tmp\w+$|/#\d+$|\.training/training\.jsonl$")
# /#\d+: what the kernel calls a file that never had a name


def durable_faults(events: Iterable[Event]) -> list[str]:
    """What a power cut would take of that which the command relied on, or had promised.

    Relied on: a file or folder that is renamed into place was flushed, with all that is in it, and
    so was all that lies beside it; whatever is removed is removed after that. Promised: once
    something is said, or the command has ended, every file was flushed after its last change, and
    so was its name, and those of the folders that were made for it. Locks, temporary files and the
    log of a training that is under way are not.
    """
    disk = _Disk()
    got = [fault for event in events for fault in disk.meet(event)]
    return list(dict.fromkeys([*got, *disk.unsafe("it ended", "/")]))


class _Disk:
    """What is not on the disk for certain: the bytes of files, and the names in folders."""

    def __init__(self) -> None:
        self.bytes: set[str] = set()
        self.names: set[str] = set()
        self.known: set[str] = set()

    def meet(self, event: Event) -> list[str]:
        """Follow one event; returns what it should not have relied on."""
        got: list[str] = []
        path = event.path.removesuffix(" (deleted)")
        if event.kind == "fsync":
            self.bytes.discard(path)
            self.names = {name for name in self.names if str(Path(name).parent) != path}
        elif event.kind in ("create", "empty", "write", "truncate"):
            self.bytes.add(path)
        elif event.kind == "close" and path not in self.known:  # its rename was not seen
            self._forget(next((f for f in self.bytes if _beside(f, path)), path))
            self.bytes.add(path)
            self.names.add(path)
        elif event.kind == "unlink":
            if not _TRANSIENT.search(path):
                got = self.unsafe(f"{path} was removed", "/")
            self._forget(path)
        elif event.kind == "rmdir" and not any(_within(f, path + "/") for f in self.known):
            self._forget(path)  # else it holds something, and stays
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
        """What of a folder a power cut would take now."""
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


def _beside(temporary: str, path: str) -> bool:
    """True if it may have been renamed to `path`."""
    at = Path(temporary)
    return at.name.startswith(".tmp") and at.parent == Path(path).parent


def _within(path: str, folder: str) -> bool:
    """True of what lies below, and of `folder` itself unless that ends in a slash."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")
