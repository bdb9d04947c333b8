"""Print text without control characters, and explain faults of the machine.

Texts of models and files may contain control characters. An expected fault of the machine, such as
a full disk, becomes a message with a remedy. A library may raise an OSError for such a fault, or
another error that quotes the message of the operating system.
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
"""The exit status of a failed verification."""
KEPT = "run the same command again: finished parts are kept."
_NOT_WRITTEN = 0  # an error whose library gives no reason
_REMEDIES = {
    _NOT_WRITTEN: "only part of a file was written ({what}): a disk may be full or failing. "
    "Check the disk, then {kept}",
    errno.ENOSPC: "no space is left on a disk ({what}). Free some space, then {kept}",
    errno.EDQUOT: "a quota of disk space is used up ({what}). Free some space, then {kept}",
    errno.EROFS: "a file system is read-only ({what}). Make it writable again, then {kept}",
    errno.EACCES: "the system refuses access ({what}). Change the permissions, then {kept}",
    errno.EPERM: "the system refuses access ({what}). Change the permissions, then {kept}",
    errno.EIO: "a disk or its connection fails ({what}). Check both, then {kept}",
    errno.ENOMEM: "memory ran out ({what}). {memory}, then {kept}",
    errno.EMFILE: "too many files are open ({what}). Raise `ulimit -n`, then {kept}",
    errno.ENFILE: "too many files are open on this machine ({what}). Wait, then {kept}",
    errno.EFBIG: "a file grew too large for its disk ({what}). Use another disk, then {kept}",
    errno.ESTALE: "a network file system lost a file ({what}). Mount it again, then {kept}",
    errno.ETIMEDOUT: "a file system or server does not answer ({what}). Wait, then {kept}",
    errno.ENOTCONN: "a file system is disconnected ({what}). Mount it again, then {kept}",
    errno.EBUSY: "a file is in use ({what}). Wait, then {kept}",
}
_MEMORY = "Free memory, or use a smaller batch, --dtype bfloat16 or a larger device"
_NO_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory", re.IGNORECASE)
_NO_WRITING = re.compile(r"PytorchStreamWriter failed|inline_container.*unexpected pos")
_SHOWN = 300  # characters shown of a library's message


def say(text: str, *, err: bool = False) -> None:
    """Print a line without control characters, on standard output or error."""
    click.echo(visible(text), err=err)


def write(text: str) -> None:
    """Print lines on standard output and keep their bold formatting."""
    click.echo(text, color=True)


def bold(text: str) -> str:
    """Return the text in bold, if standard output shows it."""
    return click.style(text, bold=True) if styled(sys.stdout) else text


def on_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout.isatty()


def styled(stream: TextIO) -> bool:
    """Return True if text on this stream may be bold.

    The result is False if NO_COLOR is set and not empty. Otherwise it is True if FORCE_COLOR is set
    or the stream is a capable terminal.
    """
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or steerable(stream)


def steerable(stream: TextIO) -> bool:
    """Return True for a terminal on which lines can be overwritten."""
    return stream.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")


def columns_there() -> int | None:
    """Return the width in columns: COLUMNS if set, else the width of the terminal, else None."""
    return shutil.get_terminal_size(fallback=(0, 0)).columns or None


def foreseen(error: BaseException) -> str | None:
    """Return the message for an expected fault of the machine; None for any other error."""
    cases = [(number, cause) for cause in _causes(error) if (number := _number(cause)) in _REMEDIES]
    # an error without a reason comes last: an earlier error may give one
    for number, cause in sorted(cases, key=lambda case: case[0] == _NOT_WRITTEN):
        what = " ".join(str(cause).split())[:_SHOWN] or repr(cause)
        return _REMEDIES[number].format(what=what, kept=KEPT, memory=_MEMORY)
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its causes, and the errors during whose handling it was raised."""
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        yield at
        seen.append(at)
        explicit = at.__cause__ is not None or at.__suppress_context__
        at = at.__cause__ if explicit else at.__context__


def _number(error: BaseException) -> int | None:
    """Return the operating system's number for an error, even if the error only quotes it."""
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
