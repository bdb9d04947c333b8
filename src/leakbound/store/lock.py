"""One command at a time: a lock on a folder, gone with its process, that says who holds it."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from leakbound.durable import guard, unguard
from leakbound.errors import InputError, MixError
from leakbound.store.files import FILE_MODE, clear_partials, is_running, make_folder
from leakbound.types import from_json

if TYPE_CHECKING:
    from filelock import BaseFileLock

LOCK = ".lock"
"""The file of a run's lock: who holds it, while somebody does."""
SOFT_LOCK = f"{LOCK}.soft"
"""Beside it where the file system has no locks: whoever makes this file holds the lock."""

P = ParamSpec("P")
T = TypeVar("T")
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_WAIT, _POLL = 0.05, 0.01  # seconds: the last holder may be removing the file
Key = tuple[Path, int, int]
"""The file of a lock, and the process and thread that hold it."""
_held: set[Key] = set()


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock: a process of a host, the command it runs, and since when (UTC).

    Attributes:
        pid: the process number.
        host: the host's name.
        command: what it runs, without `leakbound`.
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
def locked(
    folder: Path, command: str, file: Path | None = None, *, makes: Path | None = None
) -> Iterator[None]:
    """Keep every other process and thread that asks from writing into `folder` meanwhile.

    The lock lies in the folder, which is made where it is not there, or in `file`. Whoever holds
    it may take it again. However its process ends, the lock ends with it; where the file system
    has no locks, only this host sees that it has. Raises MixError, naming the holder, where another
    one has it.

    Before each rename within the folder, or to `makes`, its file is looked at again: MixError where
    it was removed, or names another. What killed commands had begun to write in the folder is
    removed.
    """
    fresh = not folder.exists()
    make_folder(folder if file is None else file.parent)
    file = (folder / LOCK if file is None else file).resolve()
    key = file, os.getpid(), threading.get_ident()
    if key in _held:
        yield
        return
    lock = _taken(folder, file)
    _held.add(key)
    with suppress(OSError):
        holder = Holder(os.getpid(), socket.gethostname(), command, utc_now())
        file.write_text(json.dumps(asdict(holder)), encoding="utf-8")
    text = _text(file)
    guarded = [folder] if makes is None else [folder, makes]
    for path in guarded:
        guard(path, partial(_require_held, file, text, folder))
    try:
        if file.parent == folder.resolve():
            clear_partials(folder)
        yield
    finally:
        for path in guarded:
            unguard(path)
        if os.getpid() == key[1]:  # else a forked child, whose parent holds it
            _held.discard(key)
            with suppress(OSError):
                if _text(file) == text:
                    file.unlink()
            lock.release()
            if fresh:
                with suppress(OSError):
                    folder.rmdir()  # a command that was refused leaves none


def _require_held(file: Path, text: bytes, folder: Path) -> None:
    """Refuse to go on where the lock is not this holder's any more."""
    if _text(file) == text:
        return
    why = f"{_holder(file) or 'another command'} has taken it"
    raise MixError(
        f"`{folder}` is no longer locked by this command: "
        f"{why if file.exists() else f'`{file}` was removed'}. It has stopped, so that two do "
        "not mix their results; what was finished is kept. Wait until the other one has ended, "
        "then run this command again."
    )


def holder_of(folder: Path) -> Holder | None:
    """The holder at work in a folder, as its lock says; None where nobody is known to be.

    The lock is looked at and not asked for, so nobody is kept out. What a process of this host
    left when it was killed counts for nothing; one of another host may have ended.
    """
    holder = _holder(folder / LOCK)
    ended = holder and holder.host == socket.gethostname() and not is_running(holder.pid)
    return None if ended else holder


def holding(command: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Run a function with the lock of the folder it writes into: its `out`, or its `run`'s."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def held(*args: P.args, **kwargs: P.kwargs) -> T:
            with locked(_folder(args, kwargs), command):
                return function(*args, **kwargs)

        return held

    return decorate


def _folder(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Path:
    if "out" in kwargs:
        return Path(kwargs["out"])
    run = args[0] if args else kwargs.get("run")
    if isinstance(path := getattr(run, "path", None), Path):
        return path
    raise InputError("`out` is missing, or no open run is given. Name the folder: out='runs/mine'.")


def _taken(folder: Path, file: Path) -> BaseFileLock:
    """The lock on a file, held; where the file system has none, on one that is made beside it."""
    from filelock import FileLock, SoftFileLock, Timeout

    if file.exists() and not file.is_file():
        raise InputError(
            f"`{file}` is no file, and the lock of a folder is one. Remove it, or name another "
            "folder."
        )
    soft = file.with_name(f"{file.name}.soft")
    ended = ""
    how: dict[str, Any] = {"mode": FILE_MODE, "thread_local": False, "timeout": _WAIT}
    lock: BaseFileLock = FileLock(file, fallback_to_soft=False, **how)
    try:
        try:
            lock.acquire(poll_interval=_POLL)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            ended = f" Its file system has no locks: if that has ended already, remove `{soft}`."
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
            f"ended, or name another folder; two commands would mix their results.{ended}"
        ) from error
    except PermissionError as error:
        raise InputError(
            f"cannot write `{file}`: {error.strerror}. Change its rights, or name another folder."
        ) from error
    return lock


def _text(file: Path) -> bytes:
    """The first 10,000 bytes of a lock; nothing where it cannot be read or is a link."""
    try:
        if file.is_symlink() or not file.is_file():  # whoever opens a pipe waits for its other end
            return b""
        with file.open("rb") as stream:
            return stream.read(10_000)
    except OSError:
        return b""


def _holder(file: Path) -> Holder | None:
    """The holder whose name is in the file; None where there is none, or not all of it."""
    try:
        return from_json(Holder, json.loads(_text(file)), f"`{file}`")
    except (InputError, ValueError, RecursionError):
        return None
