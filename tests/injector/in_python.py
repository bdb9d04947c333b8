"""The events of `events.c`, as far as Python makes them: where there is no C compiler.

`os` and `open` are replaced by functions that count. Libraries that write files themselves
(Parquet's, safetensors') are not seen doing so.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

_KILL_BEFORE, _KILL_AFTER, _KILL_HALFWAY, _FAIL, _SIGNAL = 1, 2, 3, 4, 5
_FULL, _READ_ONLY = 1, 2
_GROWS = ("create", "write", "mkdir", "link", "symlink")
_WRITES = os.O_WRONLY | os.O_RDWR


class _Injector:
    """Counts the events below a folder, and spoils one."""

    def __init__(
        self, root: str, log: int, chosen: int, action: int, number: int, span: int
    ) -> None:
        self.root, self.log, self.chosen = root, log, chosen
        self.action, self.number, self.span = action, number, span
        self.count = 0
        self.armed = True

    def meet(self, kind: str, path: str, call: Callable[[], Any], other: str = "",
             half: Callable[[], Any] | None = None) -> Any:  # fmt: skip
        """Make a call that is an event, unless it is to be spoilt."""
        if not (self.armed and any(self._below(p) for p in (path, other))):
            return call()
        self.count += 1
        _write(self.log, f"{self.count}\t{kind}\t{path}\t{other}\n".encode())
        if self._fails(kind):
            raise OSError(self.number, os.strerror(self.number), path)
        if self.count != self.chosen:
            return call()
        if self.action == _SIGNAL:
            os.kill(os.getpid(), self.number)
        if self.action == _KILL_HALFWAY and half:
            half()
        elif self.action == _KILL_AFTER:
            call()
        if self.action in (_KILL_BEFORE, _KILL_AFTER, _KILL_HALFWAY):
            os.kill(os.getpid(), signal.SIGKILL)
        return call()

    def _below(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _fails(self, kind: str) -> bool:
        if self.action != _FAIL or not 0 < self.chosen <= self.count:
            return False
        lasts = kind in _GROWS if self.span == _FULL else self.span == _READ_ONLY
        return self.count == self.chosen or (lasts and kind != "close")


_write = os.write


def _place(name: Any, folder: int | None = None) -> str:
    """The absolute path of a name, or of what a descriptor is open for."""
    if isinstance(name, int):
        with suppress(OSError):
            return os.readlink(f"/proc/self/fd/{name}")
        return ""
    base = os.getcwd() if folder is None else os.readlink(f"/proc/self/fd/{folder}")
    return os.path.join(base, os.fsdecode(name))


def arm(root: str, log: int, at: int, action: int, number: int, span: int) -> Callable[[], None]:
    """Count from now on; returns what ends it."""
    injector = _Injector(root, log, at, action, number, span)
    _replace_opening(injector)
    _replace_calls(injector)

    def disarm() -> None:
        injector.armed = False

    return disarm


def _kind_of_open(path: str, flags: int) -> str | None:
    if flags & os.O_CREAT and not os.path.lexists(path):
        return "create"
    if not flags & _WRITES:
        return None
    return "empty" if flags & os.O_TRUNC else "open"


def _replace_opening(injector: _Injector) -> None:
    real_open, real_io = os.open, io.open

    @functools.wraps(real_open)
    def counted(name: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path = _place(name, dir_fd)
        kind = _kind_of_open(path, flags)
        call = functools.partial(real_open, name, flags, mode, dir_fd=dir_fd)
        return injector.meet(kind, path, call) if kind else call()

    class Counted(io.FileIO):
        def write(self, content: Any) -> int:
            part = memoryview(content)[: len(content) // 2]
            call, half = (functools.partial(io.FileIO.write, self, c) for c in (content, part))
            return int(injector.meet("write", _place(self.fileno()), call, half=half))

        def close(self) -> None:
            call = functools.partial(io.FileIO.close, self)
            injector.meet("close", _place(self.fileno()), call) if not self.closed else call()

    def opened(file: Any, mode: str = "r", buffering: int = -1, encoding: str | None = None,
               errors: str | None = None, newline: str | None = None, closefd: bool = True,
               opener: Any = None) -> Any:  # fmt: skip
        rest = (buffering, encoding, errors, newline, closefd, opener)
        if isinstance(file, int) or not set(mode) & set("wax+") or opener or buffering == 0:
            return real_io(file, mode, *rest)
        plain = "".join(c for c in mode if c in "rwax+")
        raw = Counted(file, plain, opener=lambda name, flags: counted(name, flags, 0o666))
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline)

    os.open = counted
    io.open = builtins.open = opened  # type: ignore[assignment]


def _replace_calls(injector: _Injector) -> None:
    def replace(name: str, kind: str, there: bool | None) -> None:
        real = getattr(os, name)

        @functools.wraps(real)
        def counted(of: Any, *rest: Any, **how: Any) -> Any:
            path = _place(of, how.get("dir_fd"))
            call = functools.partial(real, of, *rest, **how)
            if there is not None and os.path.lexists(path) != there:
                return call()
            return injector.meet(kind, path, call)

        setattr(os, name, counted)

    def move(name: str, kind: str) -> None:
        real = getattr(os, name)

        @functools.wraps(real)
        def counted(old: Any, new: Any, **how: Any) -> Any:
            call = functools.partial(real, old, new, **how)
            return injector.meet(kind, _place(old), call, _place(new))

        setattr(os, name, counted)

    for name, kind, there in (
        ("fsync", "fsync", None), ("fdatasync", "fsync", None), ("ftruncate", "truncate", None),
        ("truncate", "truncate", None), ("mkdir", "mkdir", False), ("rmdir", "rmdir", True),
        ("unlink", "unlink", True), ("remove", "unlink", True),
    ):  # fmt: skip
        replace(name, kind, there)
    for name, kind in (
        ("rename", "rename"),
        ("replace", "rename"),
        ("link", "link"),
        ("symlink", "symlink"),
    ):
        move(name, kind)
    _replace_written(injector)


def _replace_written(injector: _Injector) -> None:
    real_write, real_close = os.write, os.close

    def write(to: int, content: Any) -> int:
        call, half = (
            functools.partial(real_write, to, c) for c in (content, content[: len(content) // 2])
        )
        return int(injector.meet("write", _place(to), call, half=half))

    def close(descriptor: int) -> None:
        path, call = _place(descriptor), functools.partial(real_close, descriptor)
        injector.meet("close", path, call) if _is_written(descriptor, path) else call()

    os.write, os.close = write, close


def _is_written(descriptor: int, path: str) -> bool:
    import fcntl

    with suppress(OSError):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        return bool(flags & _WRITES) and stat.S_ISREG(os.fstat(descriptor).st_mode) and bool(path)
    return False
