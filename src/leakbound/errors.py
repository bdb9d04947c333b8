"""The hierarchy of exceptions.

    LeakboundError
    ├── InputError        wrong use or bad input: nothing was started         (exit status 2)
    │   └── MixError      a run directory with results of a different command (exit status 2)
    ├── ModelError        a model, tokenizer or checkpoint that cannot be used (exit status 2)
    └── IncompleteError   work is missing; run the same command again          (exit status 3)
        └── UnansweredError  some questions have no completions; the others are done

Every message states what is wrong, the value and the fix.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PASSING = frozenset(
    getattr(errno, name)
    for name in ("EIO", "EMFILE", "ENFILE", "ENOMEM", "ESTALE", "ETIMEDOUT", "ENOTCONN", "EBUSY")
    if hasattr(errno, name)
)
"""Error numbers of machine faults. After such a fault, the file itself may be valid."""


class LeakboundError(Exception):
    """Base of every error that leakbound raises on purpose.

    Attributes:
        exit_status: the exit status of a command that ends with this error.
    """

    exit_status = 1


class InputError(LeakboundError, ValueError):
    """A value from the user cannot be used. It is raised before anything costly starts."""

    exit_status = 2


class MixError(InputError):
    """A run directory contains results of a different command; leakbound never mixes results."""


class ModelError(LeakboundError):
    """A model, tokenizer or checkpoint is missing, damaged or of the wrong kind."""

    exit_status = 2


class IncompleteError(LeakboundError):
    """The work ended, but parts of it are missing. Finished parts are kept."""

    exit_status = 3


class UnansweredError(IncompleteError):
    """Some questions could not be sampled; the others are sampled, scored and bounded."""


def require_no_fault(path: Path, error: BaseException) -> None:
    """Raise IncompleteError if a file could not be read because the machine failed.

    Otherwise the cause is the file's content or name, and nothing is raised.

    Args:
        path: the file.
        error: the exception from reading it.

    Raises:
        IncompleteError: the error shows that the machine failed.
    """
    if isinstance(error, OSError) and error.errno in PASSING:
        raise IncompleteError(
            f"`{path}` could not be read ({error.strerror or error}). Nothing was changed. Check "
            "its disk, then run the same command again."
        ) from error


def install(extra: str) -> str:
    """Return an instruction to install a missing library: the command, and where to run it.

    Args:
        extra: one of the optional dependencies in pyproject.toml.

    Returns:
        A sentence without its full stop.
    """
    return f"Install it with `pip install '.[{extra}]'` in leakbound's source folder"


@contextmanager
def needing(feature: str, extra: str, instead: str = "") -> Iterator[None]:
    """Return a context that turns the failed import of an optional library into an InputError.

    Args:
        feature: the feature that needs the library; the message begins with it.
        extra: as for `install`.
        instead: an alternative fix that the message adds; empty for none.

    Raises:
        InputError: a module is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{feature} needs {error.name}, which is not installed. {install(extra)}{instead}."
        ) from error
