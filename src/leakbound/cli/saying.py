"""Words to the user: models, files and logs of others name much of them.

Faults of the machine that may be foreseen are told as messages: what happened, what to do. They
come from any library: as an OSError, as an error of that library's own that only quotes the
system's words, or as a lack of memory.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
from collections.abc import Iterator
from typing import TextIO

import click

from leakbound.text.shown import visible

VERIFICATION_FAILED = 6
"""The exit status where what was checked differs."""
KEPT = "run the same command again: what was finished is kept."
_NOT_WRITTEN = 0  # by a library that says no more
_REMEDIES = {
    _NOT_WRITTEN: "a file was not written whole, as where a disk is full or fails ({what}). "
    "See to it, then {kept}",
    errno.ENOSPC: "no space is left on a disk ({what}). Free some, then {kept}",
    errno.EDQUOT: "a quota of disk space is used up ({what}). Free some, then {kept}",
    errno.EROFS: "a file system is read-only ({what}). Make it writable again, then {kept}",
    errno.EACCES: "the system refuses access ({what}). Change the rights, then {kept}",
    errno.EPERM: "the system refuses access ({what}). Change the rights, then {kept}",
    errno.EIO: "a disk or its connection fails ({what}). See to it, then {kept}",
    errno.ENOMEM: "memory ran out ({what}). {memory}, then {kept}",
    errno.EMFILE: "too many files are open ({what}). Raise `ulimit -n`, then {kept}",
    errno.ENFILE: "too many files are open on this machine ({what}). Wait, then {kept}",
    errno.EFBIG: "a file grew too large for its disk ({what}). Use another, then {kept}",
    errno.ESTALE: "a network file system lost a file ({what}). Mount it again, then {kept}",
    errno.ETIMEDOUT: "a file system or server does not answer ({what}). Wait, then {kept}",
    errno.ENOTCONN: "a file system is disconnected ({what}). Mount it again, then {kept}",
    errno.EBUSY: "a file is in use ({what}). Wait, then {kept}",
}
_MEMORY = "Leave it more, or take a smaller batch, --dtype bfloat16 or a larger device"
_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_NO_WRITING = re.compile(r"PytorchStreamWriter failed|inline_container.*unexpected pos")
_SHOWN = 300  # characters of what a library says


def say(text: str, *, err: bool = False) -> None:
    """Print a line that steers no terminal, on standard output or, with `err`, standard error."""
    click.echo(visible(text), err=err)


def write(text: str) -> None:
    """Print lines on standard output, with what `bold` put into them."""
    click.echo(text, color=True)


def bold(text: str) -> str:
    """The text as a heading."""
    return click.style(text, bold=True) if styled(sys.stdout) else text


def on_terminal() -> bool:
    """True where standard output is read by a person as it comes."""
    return sys.stdout.isatty()


def styled(stream: TextIO) -> bool:
    """True where what is written may be bold.

    NO_COLOR, of any length but 0, forbids it; else FORCE_COLOR demands it; else a terminal that
    understands it is needed.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or steerable(stream)


def steerable(stream: TextIO) -> bool:
    """True for a terminal on which lines can be written over."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def columns_there() -> int | None:
    """How many columns there are: as COLUMNS says, else the terminal's; None without either."""
    return shutil.get_terminal_size(fallback=(0, 0)).columns or None


def foreseen(error: BaseException) -> str | None:
    """The message for a fault of the machine; None for any other error, which may be our own."""
    cases = [(number, cause) for cause in _causes(error) if (number := _number(cause)) in _REMEDIES]
    # what a library leaves unsaid, an error before it may say
    for number, cause in sorted(cases, key=lambda case: case[0] == _NOT_WRITTEN):
        what = " ".join(str(cause).split())[:_SHOWN] or repr(cause)
        return _REMEDIES[number].format(what=what, kept=KEPT, memory=_MEMORY)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it was raised from, or while they were handled."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        yield at
        seen.append(at)
        explicit = at.__cause__ is not None or at.__suppress_context__
        at = at.__cause__ if explicit else at.__context__


def _number(error: BaseException) -> int | None:
    """The number of the system's error that an error is, or quotes."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    text = str(error)
    if isinstance(error, MemoryError):
        return errno.ENOMEM
    if isinstance(error, RuntimeError) and _NO_MEMORY.search(text):
        return errno.ENOMEM
    quoted = (number for number in _REMEDIES if number and os.strerror(number) in text)
    unsaid = isinstance(error, RuntimeError) and _NO_WRITING.search(text)
    return next(quoted, _NOT_WRITTEN if unsaid else None)
