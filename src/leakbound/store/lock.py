"""One command at a time: a lock on a folder that ends with its process and names its holder."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from leakbound.errors import InputError, MixError
from leakbound.store.files import FILE_MODE, clear_partials, make_folder
from leakbound.types import from_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
"""The file of a run's lock: its holder, while a command is at work."""
SOFT_LOCK = f"{LOCK}.soft"
"""The file whose existence is the lock where the file system has no locks."""

P = ParamSpec("P")
T = TypeVar("T")
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_WAIT, _POLL = 0.05, 0.01  # seconds: the last holder may be removing the file
_mine: set[tuple[Path, int, int]] = set()
"""Locks that are taken: the file, and the process and thread that took it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock: a process of a host, the command it runs, and since when (UTC).

    Attributes:
        pid: the process number.
        host: the host's name.
        command: the command line, without `leakbound`.
        since: when it took the lock.
    """

    pid: int
    host: str
    command: str
    since: str

    def __str__(self) -> str:
        return f"`leakbound {self.command}` (pid {self.pid} on {self.host}, since {self.since})"


def utc_now() -> str:
    """Date and time in UTC, to the second, as ISO 8601 writes them."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def locked(folder: Path, command: str, file: Path | None = None) -> Iterator[None]:
    """Keep every other process and thread that calls this from writing into `folder` meanwhile.

    The lock is `file`, or a file in the folder, which is made where it is missing. The thread that
    has the lock may take it again. The lock ends with its process. Where the file system has no
    locks, only this host can know that the process has ended.

    The beginnings of files that killed commands left in the folder are removed.

    Raises:
        MixError: another command has the lock; it names the command.
    """
    fresh = not folder.exists()
    make_folder(folder if file is None else file.parent)
    file = (folder / LOCK if file is None else file).resolve()
    key = file, os.getpid(), threading.get_ident()
    if key in _mine:
        yield
        return
    lock = _taken(folder, file)
    _mine.add(key)
    holder = Holder(os.getpid(), socket.gethostname(), command, utc_now())
    with suppress(OSError):
        file.write_text(json.dumps(asdict(holder)), encoding="utf-8")
    try:
        if file.parent == folder.resolve():
            clear_partials(folder)
        yield
    finally:
        if os.getpid() == key[1]:  # else a forked child, whose parent has the lock
            _mine.discard(key)
            with suppress(OSError):
                if _holder(file) == holder:  # else another command's, after this one was removed
                    file.unlink()
            lock.release()
            if fresh:
                with suppress(OSError):
                    folder.rmdir()  # a command that was refused leaves no folder


def holder_of(folder: Path) -> Holder | None:
    """The holder at work in a folder, by its lock; None where no command is known to be at work.

    The lock is only read. A process of this host that was killed does not count; a process of
    another host may have ended.
    """
    holder = _holder(folder / LOCK)
    ended = holder and holder.host == socket.gethostname() and not _is_running(holder.pid)
    return None if ended else holder


def _is_running(pid: int) -> bool:
    """True unless this machine knows that it has no process of this number."""
    if sys.platform == "win32":
        return True  # a signal ends the process there
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def holding(command: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Run a function with the lock of the folder it writes into: its `out`, or its `run`'s."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def with_lock(*args: P.args, **kwargs: P.kwargs) -> T:
            run = args[0] if args else kwargs.get("run")
            folder: Any = kwargs.get("out", getattr(run, "path", None))
            if folder is None:
                raise InputError(
                    "`out` is missing, or no open run is given. Name the folder: out='runs/mine'."
                )
            with locked(Path(folder), command):
                return function(*args, **kwargs)

        return with_lock

    return decorate


def _taken(folder: Path, file: Path) -> BaseFileLock:
    """The lock on a file, taken; where the file system has no locks, on a file that it makes."""
    from filelock import FileLock, SoftFileLock, Timeout

    if file.exists() and not file.is_file():
        raise InputError(
            f"`{file}` is no file, and the lock of a folder is one. Remove it, or name another "
            "folder."
        )
    how: dict[str, Any] = {"mode": FILE_MODE, "thread_local": False, "timeout": _WAIT}
    soft, remedy = file.with_name(f"{file.name}.soft"), ""
    lock: BaseFileLock = FileLock(file, fallback_to_soft=False, **how)
    try:
        try:
            lock.acquire(poll_interval=_POLL)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            remedy = f" Its file system has no locks: if that has ended already, remove `{soft}`."
            lock = SoftFileLock(soft, **how)
            lock.acquire(poll_interval=_POLL)
            warnings.warn(
                f"the file system of `{folder}` has no locks, so `{soft}` keeps others out. If "
                "this command is killed, other hosts keep out until you remove that file.",
                stacklevel=2,
            )
    except Timeout as error:
        raise MixError(
            f"`{folder}` is in use by {_holder(file) or 'another command'}. Wait until that has "
            f"ended, or name another folder; two commands would mix their results.{remedy}"
        ) from error
    except PermissionError as error:
        raise InputError(
            f"cannot write `{file}`: {error.strerror}. Change its rights, or name another folder."
        ) from error
    return lock


def _holder(file: Path) -> Holder | None:
    """The holder that a lock names; None where it names none, or is no file of usual size."""
    try:
        if file.is_symlink() or not file.is_file():  # to open a pipe waits for its other end
            return None
        with file.open("rb") as stream:
            return from_json(Holder, json.loads(stream.read(10_000)), f"`{file}`")
    except (OSError, InputError, ValueError, RecursionError):
        return None
