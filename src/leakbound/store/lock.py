"""Lock a folder so that one command at a time uses it. The lock ends with its process."""

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
"""The lock file of a run; it describes the process that has the lock."""
SOFT_LOCK = f"{LOCK}.soft"
"""The file whose existence is the lock if the file system does not support locks."""

P = ParamSpec("P")
T = TypeVar("T")
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)
_WAIT, _POLL = 0.05, 0.01  # seconds: the last holder may be removing the file
_mine: set[tuple[Path, int, int]] = set()
"""The locks that this process has, each as (file, process, thread)."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that has a lock.

    Attributes:
        pid: the process number.
        host: the host's name.
        command: the command line, without `leakbound`.
        since: the time when the lock was taken (UTC).
    """

    pid: int
    host: str
    command: str
    since: str

    def __str__(self) -> str:
        return f"`leakbound {self.command}` (pid {self.pid} on {self.host}, since {self.since})"


def utc_now() -> str:
    """Return date and time in UTC, to the second, in ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def locked(folder: Path, command: str, file: Path | None = None) -> Iterator[None]:
    """Lock a folder against other processes and threads; create it if it is missing.

    The thread that has the lock may acquire it again. The lock ends with its process. If the file
    system does not support locks, other hosts cannot detect that the process has ended. Temporary
    files that killed commands left in the folder are removed.

    Args:
        folder: the folder.
        command: the command that acquires the lock, for messages.
        file: the file of the lock (None: `LOCK` in the folder).

    Raises:
        MixError: another command has the lock; the message names it.
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
            clear_partials(folder.rglob(".*.partial"))
        yield
    finally:
        if os.getpid() == key[1]:  # not in a forked child, whose parent has the lock
            _mine.discard(key)
            with suppress(OSError):
                if _holder(file) == holder:  # not if another process took it
                    file.unlink()
            lock.release()
            if fresh:
                with suppress(OSError):
                    folder.rmdir()  # a refused command leaves no folder


def holder_of(folder: Path) -> Holder | None:
    """Return the holder of a folder's lock; None if no command seems to run there.

    The function does not acquire the lock. It returns a holder on this host only if the process
    still runs. It always returns a holder on another host, although the process may have ended.
    """
    holder = _holder(folder / LOCK)
    ended = holder and holder.host == socket.gethostname() and not _is_running(holder.pid)
    return None if ended else holder


def _is_running(pid: int) -> bool:
    """Return False only if this machine has no process with this number."""
    if sys.platform == "win32":
        return True  # on Windows, `os.kill` would end the process
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def holding(command: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function so that it locks the folder of its `out` or of its `run`."""

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @wraps(function)
        def with_lock(*args: P.args, **kwargs: P.kwargs) -> T:
            run = args[0] if args else kwargs.get("run")
            folder: Any = kwargs.get("out", getattr(run, "path", None))
            if folder is None:
                raise InputError(
                    "`out` is missing, and no open run was passed. Pass out='runs/mine'."
                )
            with locked(Path(folder), command):
                return function(*args, **kwargs)

        return with_lock

    return decorate


def _taken(folder: Path, file: Path) -> BaseFileLock:
    """Acquire the lock on a file. If the file system has no locks, create a file as the lock."""
    from filelock import FileLock, SoftFileLock, Timeout

    if file.exists() and not file.is_file():
        raise InputError(
            f"`{file}` must be a file, because it is the lock of the folder. Remove `{file.name}`, "
            "or use another folder."
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
            remedy = f" The file system has no locks. If that command has ended, remove `{soft}`."
            lock = SoftFileLock(soft, **how)
            lock.acquire(poll_interval=_POLL)
            warnings.warn(
                f"the file system of `{folder}` has no locks, so `{soft}` is the lock. If this "
                "command is killed, the folder stays locked until you remove that file.",
                stacklevel=2,
            )
    except Timeout as error:
        raise MixError(
            f"`{folder}` is in use by {_holder(file) or 'another command'}. Wait until it has "
            f"ended, or use another folder; two commands would mix their results.{remedy}"
        ) from error
    except PermissionError as error:
        raise InputError(
            f"cannot write `{file}`: {error.strerror}. Fix its permissions, or use another folder."
        ) from error
    return lock


def _holder(file: Path) -> Holder | None:
    """Return the holder that a lock file describes; None if the file describes no holder."""
    try:
        if file.is_symlink() or not file.is_file():  # opening a pipe would block
            return None
        with file.open("rb") as stream:
            return from_json(Holder, json.loads(stream.read(10_000)), f"`{file}`")
    except (OSError, InputError, ValueError, RecursionError):
        return None
