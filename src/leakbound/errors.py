"""What can go wrong, as a tree.

    LeakboundError
    ├── InputError        wrong use or bad input: nothing was started         (exit status 2)
    │   └── MixError      a run directory that another command made           (exit status 2)
    ├── ModelError        a model, tokenizer or checkpoint that cannot be used (exit status 2)
    └── IncompleteError   part of the work is missing; run the same again      (exit status 3)
        └── UnansweredError  some questions have no completions; all else is done

Every message names the thing, the value it had and the remedy.
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
"""Errors of a machine that fails: they say nothing of the file, which may be whole."""


class LeakboundError(Exception):
    """Base of every error that leakbound raises on purpose."""

    exit_status = 1


class InputError(LeakboundError, ValueError):
    """A value the user gave cannot be used; raised before anything costly starts."""

    exit_status = 2


class MixError(InputError):
    """A run directory holds the results of another command; they are never mixed."""


class ModelError(LeakboundError):
    """A model, tokenizer or checkpoint is missing, damaged or of the wrong kind."""

    exit_status = 2


class IncompleteError(LeakboundError):
    """The work ended with parts missing; what was finished is kept."""

    exit_status = 3


class UnansweredError(IncompleteError):
    """Some questions could not be sampled; the others are sampled, scored and bounded."""


def require_no_fault(path: Path, error: BaseException) -> None:
    """Raise IncompleteError where `path` was not read because the machine failed.

    Else what it holds is to blame, or its name.
    """
    if isinstance(error, OSError) and error.errno in PASSING:
        raise IncompleteError(
            f"`{path}` could not be read ({error.strerror or error}). See to its disk, then run "
            "the same command again: nothing was changed."
        ) from error


def install(extra: str) -> str:
    """The remedy for a library that is missing: what installs it, from a copy of the source.

    `extra` is one of the optional dependencies in pyproject.toml.
    """
    return f"Install it with `pip install '.[{extra}]'` in leakbound's source folder"


@contextmanager
def needing(what: str, extra: str, instead: str = "") -> Iterator[None]:
    """What is imported here may not be installed: then InputError says that `what` needs it.

    `extra` is as for `install`; `instead` tells what else helps.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(
            f"{what} needs {error.name}, which is not installed. {install(extra)}{instead}."
        ) from error
