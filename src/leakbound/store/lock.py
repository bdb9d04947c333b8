"""One command at a time: a lock on a folder that the kernel holds, and drops with its process."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from secrets import token_hex
from typing import Any, ParamSpec, TypeVar

from leakbound.durable import guard, unguard
from leakbound.errors import InputError, MixError
from leakbound.store.files import clear_partials, is_running, make_folder

LOCK = ".lock"
"""The file of a run's lock: who holds it, while somebody does."""

P = ParamSpec("P")
T = TypeVar("T")
_KERNEL = Path("/proc/sys/kernel/random/boot_id")
_MACHINE, _UPTIME = Path("/etc/machine-id"), Path("/proc/uptime")
_FAR = 1 << 30  # the byte that Windows locks: beyond the text, which others must read
_NO_WAIT: int = getattr(os, "O_NONBLOCK", 0)  # whoever opens a pipe waits for its other end
_TAKEN = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK)
Key = tuple[Path, int]
"""The file of a lock, and the thread that asked for it."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a lock: a process of a host, the command it runs, and since when (UTC).

    Containers of one host have the kernel in common, and each other's process numbers; containers
    of two hosts may even have one name.

    Attributes:
        pid: the process number.
        host: the host's name.
        command: what it runs, without `leakbound`.
        since: when it took the lock.
        kernel: that of the host since it was started; empty where nothing tells.
        machine: the installed system; empty where nothing tells.
        token: this holder's own.
    """

    pid: int
    host: str
    command: str
    since: str
    kernel: str = ""
    machine: str = ""
    token: str = ""

    @classmethod
    def this(cls, command: str) -> Holder:
        """This process."""
        kernel, machine = (_line_of(file) for file in (_KERNEL, _MACHINE))
        name = socket.gethostname()
        return cls(os.getpid(), name, command, utc_now(), kernel, machine, token_hex(8))

    def has_ended(self, holder: Holder) -> bool:
        """True if the kernel of `holder`, whom it gave the lock, knows that this process is gone.

        It does of its own processes, in whatever container, and of those before it was started.
        """
        if self.kernel == holder.kernel != "":
            return True
        if self.host != holder.host:
            return False
        if not (self.kernel and holder.kernel):
            return True
        return self.machine == holder.machine != "" and self.since < _started()

    def __str__(self) -> str:
        return f"`leakbound {self.command}` (pid {self.pid} on {self.host}, since {self.since})"


def _line_of(file: Path) -> str:
    """The text of a file of one line; empty where it cannot be read."""
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _started() -> str:
    """When the kernel was started, as `utc_now` writes it; the beginning of time if unknown."""
    seconds = _line_of(_UPTIME).partition(" ")[0]
    if not seconds:
        return ""
    before = datetime.now(UTC) - timedelta(seconds=float(seconds))
    return before.isoformat(timespec="seconds")


_held: dict[Key, tuple[int, Holder]] = {}  # what this process holds: descriptors, and who it was


def utc_now() -> str:
    """Date and time in UTC, to the second, as ISO 8601 writes them."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@contextmanager
def locked(
    folder: Path, command: str, file: Path | None = None, *, makes: Path | None = None
) -> Iterator[None]:
    """Keep every other process and thread that asks from writing into `folder` meanwhile.

    The lock lies in the folder, which is made where it is not there, or in `file`. Whoever holds
    it may take it again. However its process ends, the lock ends with it. Raises MixError, naming
    the holder, where another one has it; where the file system has no locks; and where a process
    of another host was never seen to end.

    Before each rename within the folder, or to `makes`, it is looked at again: MixError where the
    lock was removed, or taken by one whom this kernel's locks do not reach. What killed commands
    had begun to write in the folder is removed.
    """
    fresh = not folder.exists()
    make_folder(folder if file is None else file.parent)
    file = (folder / LOCK if file is None else file).resolve()
    key = file, threading.get_ident()
    if key in _held:
        yield
        return
    holder = Holder.this(command)
    _held[key] = _taken(folder, file, holder), holder
    guarded = [folder] if makes is None else [folder, makes]
    for path in guarded:
        guard(path, partial(_require_held, key, folder))
    try:
        if file.parent == folder.resolve():
            clear_partials(folder)
        yield
    finally:
        for path in guarded:
            unguard(path)
        _release(key)
        if fresh:
            with suppress(OSError):
                folder.rmdir()  # a command that was refused leaves none


def _require_held(key: Key, folder: Path) -> None:
    """Refuse to go on where the lock is not this holder's any more."""
    if key not in _held:  # a forked child, whose parent holds it
        return
    descriptor, holder = _held[key]
    if not _is(descriptor, key[0]):
        why = f"`{key[0]}` was removed or replaced"
    elif (other := _read(descriptor)) != holder:
        why = f"{other or 'another command'} has taken it"
    else:
        return
    raise MixError(
        f"`{folder}` is no longer locked by this command: {why}. It has stopped, so that two do "
        "not mix their results; what was finished is kept. Wait until the other one has ended, "
        "then run this command again."
    )


def holder_of(folder: Path) -> Holder | None:
    """The holder at work in a folder, as its lock says; None where nobody is known to be.

    The lock is looked at and not asked for, so nobody is kept out. What a process of this kernel
    left when it was killed counts for nothing; one of another host may have ended.
    """
    try:
        # a link leads elsewhere
        own = getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(folder / LOCK, os.O_RDONLY | own | _NO_WAIT)
    except OSError:
        return None
    try:
        holder = _read(descriptor)
    finally:
        os.close(descriptor)
    if holder is None or not isinstance(holder.pid, int):
        return None
    seen = Holder.this("").kernel == holder.kernel
    return None if seen and not is_running(holder.pid) else holder


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
    path: Path = (args[0] if args else kwargs["run"]).path
    return path


def _taken(folder: Path, file: Path, holder: Holder) -> int:
    """A descriptor that holds the lock, with this holder's name in the file."""
    while True:
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | _NO_WAIT, 0o600)
        except OSError as error:
            if error.errno in (errno.EISDIR, errno.ENXIO):
                raise _no_file(file) from error
            if not isinstance(error, PermissionError):
                raise
            raise InputError(
                f"cannot write `{file}`: {error.strerror}. Change its rights, or name another "
                "folder."
            ) from error
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise _no_file(file)
            _lock(descriptor, folder)
            if _is(descriptor, file):  # not one that its last holder has just removed
                _require_ended(descriptor, folder, file, holder)
                os.ftruncate(descriptor, 0)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, json.dumps(asdict(holder)).encode())
                os.fsync(descriptor)
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _no_file(file: Path) -> InputError:
    return InputError(
        f"`{file}` is no file, and the lock of a folder is one. Remove it, or name another folder."
    )


def _lock(descriptor: int, folder: Path) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, _FAR, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _TAKEN:
            holder = _read(descriptor) or "another command"
            raise MixError(
                f"`{folder}` is in use by {holder}. Wait until that has ended, or name another "
                "folder; two commands would mix their results."
            ) from error
        raise MixError(
            f"`{folder}` cannot be locked ({error.strerror}): its file system has no locks, so two "
            "commands could mix their results unseen. Name a folder on another one."
        ) from error


def _require_ended(descriptor: int, folder: Path, file: Path, holder: Holder) -> None:
    """Refuse where a process of another host may still be at work.

    The name is removed when the lock is given back. A name of this kernel that is still there is
    that of a process that was killed: the kernel gave its lock away. Of another host's processes
    this kernel may know nothing.
    """
    before = _read(descriptor)
    if before is not None and not before.has_ended(holder):
        raise MixError(
            f"`{folder}` was in use by {before}, and from {holder.host} it cannot be seen whether "
            f"that has ended. If it has, remove `{file}` and run this command again."
        )


def _read(descriptor: int) -> Holder | None:
    """The holder whose name is in the file; None where there is none, or not all of it."""
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        return Holder(**json.loads(os.read(descriptor, 10_000)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


def _is(descriptor: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), file.stat())
    except FileNotFoundError:
        return False


def _release(key: Key) -> None:
    """Remove the file while its lock is held, or on Windows right after; then nobody has it.

    One that has become another's stays.
    """
    if key not in _held:  # in a forked child
        return
    descriptor, holder = _held.pop(key)
    if not _is(descriptor, key[0]) or _read(descriptor) != holder:
        os.close(descriptor)
        return
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        if sys.platform != "win32":
            key[0].unlink()
    os.close(descriptor)
    if sys.platform == "win32":
        with suppress(OSError):
            key[0].unlink()


def _let_go() -> None:
    """A forked child holds nothing: its parent's lock ends with the parent."""
    for descriptor, _ in _held.values():
        with suppress(OSError):
            os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
