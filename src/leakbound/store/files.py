"""Write files atomically, and records with a digest of their content.

The digest reveals accidental damage to a record. It does not reveal a forgery,
because anyone who can write a record can write its digest. `leakbound verify`
compares the digest with a copy that is stored in another place.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import Any, TypeVar

from leakbound.durable import sha256_of, sync_file, sync_names
from leakbound.errors import PASSING, IncompleteError, InputError, require_no_fault
from leakbound.registry import near
from leakbound.text.shown import visible
from leakbound.types import Json, JsonObject, from_json, object_of

NO_SPACE = tuple(getattr(errno, name, errno.ENOSPC) for name in ("ENOSPC", "EDQUOT"))
REFUSED = (errno.EACCES, errno.EPERM)
FOLDER_MODE, FILE_MODE = 0o700, 0o600  # forget-set answers are secrets
_PARTIAL = re.compile(r"\..+\.[0-9a-f]+\.partial")


def make_folder(path: Path) -> None:
    """Create a folder that only its owner can read, and the missing folders above it.

    New folders survive a power cut. Raises InputError if a folder cannot be made or written into,
    and IncompleteError if the disk is full or fails.
    """
    missing = takewhile(lambda above: not above.exists(), path.parents)
    with _explain(f"make the folder `{path}`", "Use another folder.", lambda n: n not in PASSING):
        for folder in reversed([path, *missing]):
            if not folder.is_dir():
                folder.mkdir(mode=FOLDER_MODE, exist_ok=True)  # parents=True ignores `mode`
                with suppress(PermissionError):  # a folder that can be written but not read
                    sync_names(folder.parent)
    if not os.access(path, os.W_OK):
        raise InputError(f"cannot write into `{path}`. Fix its permissions, or use another folder.")


def make_private(path: Path) -> None:
    """Create a folder that only its owner can read, or change an existing one.

    The rights of another user's folder are not changed; new files in it are private.
    """
    make_folder(path)
    with suppress(PermissionError):
        path.chmod(FOLDER_MODE)


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` to fill a temporary file, then flush the file to disk and rename it to `path`.

    Only the file's owner may read it. Temporary files that killed processes left are removed.
    """
    make_folder(path.parent)
    partial = path.with_name(f".{path.name}.{token_hex(4)}.partial")
    instead = "Use another path, or fix its permissions."
    with _explain(f"write `{path}`", instead, REFUSED.__contains__):
        clear_partials(path.parent.glob(f".{escape(path.name)}.*.partial"))
        descriptor = os.open(partial, os.O_CREAT | os.O_WRONLY, FILE_MODE)
        try:
            _lock(descriptor)
            write(partial)
            sync_file(partial)
            partial.replace(path)
        finally:
            os.close(descriptor)
            partial.unlink(missing_ok=True)
        sync_names(path.parent)


def _lock(descriptor: int) -> bool:
    """Lock a file; return False if another process has the lock, or locks are not supported."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


def clear_partials(files: Iterable[Path]) -> None:
    """Remove temporary files, except files that any process is still writing."""
    for file in filter(Path.is_file, files):
        with suppress(OSError):
            descriptor = os.open(file, os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0))
            try:
                if _PARTIAL.fullmatch(file.name) and _lock(descriptor):
                    file.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


@contextmanager
def _explain(task: str, instead: str, is_refusal: Callable[[int | None], bool]) -> Iterator[None]:
    """Convert an OSError of a task to an error that states the reason and the fix."""
    try:
        yield
    except OSError as error:
        why, remedy = error.strerror or error, "Check its disk, then"
        if error.errno in NO_SPACE:
            why, remedy = "no space is left on its disk", "Free some space, then"
        elif is_refusal(error.errno):
            raise InputError(f"cannot {task}: {why}. {instead}") from error
        raise IncompleteError(
            f"cannot {task}: {why}. {remedy} run the same command again; finished parts are kept."
        ) from error


def append(path: Path, text: str) -> None:
    """Append a text to a file that only its owner can read, and flush it to disk.

    A killed process may leave the beginning of the text. For a new file, the directory entry is
    flushed as well.
    """
    if new := not path.exists():
        make_folder(path.parent)
    instead = "Use another path, or fix its permissions."
    with _explain(f"write `{path}`", instead, REFUSED.__contains__):
        descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, FILE_MODE)
        try:
            with os.fdopen(descriptor, "ab", closefd=False) as stream:
                stream.write(text.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if new:
            sync_names(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_whole(path, lambda partial: partial.write_bytes(text.encode("utf-8", "backslashreplace")))


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically, with the keys in their order.

    Letters are not escaped. Characters that would control a terminal or an editor are escaped, such
    as `\\u202e`.
    """
    write_text(path, visible(json.dumps(value, indent=1, ensure_ascii=False)) + "\n")


T = TypeVar("T")

DIGEST = "digest"
"""The key of a record's digest in the record."""

ELSEWHERE = "Restore it from a copy, or begin again in another folder."
"""The fix for a damaged file that no command can make again."""


class DamagedError(InputError):
    """A file of the run is truncated, altered, or from another run."""


def digest_of(values: JsonObject) -> str:
    """Return the SHA-256 of a record's canonical JSON without its own digest."""
    rest = {name: value for name, value in values.items() if name != DIGEST}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return sha256_of(text)


def as_read(values: JsonObject) -> dict[str, Json]:
    """Return a record as it would be read from its file: tuples become lists, keys become text."""
    read: dict[str, Json] = json.loads(json.dumps(values))
    return read


def write_sealed(path: Path, record: object) -> None:
    """Write a record, which is a frozen value or a mapping, as JSON with its digest."""
    values = object_of(record)
    write_json(path, {**values, DIGEST: digest_of(values)})


def read_sealed(path: Path, remedy: str) -> dict[str, Json]:
    """Read a record without its digest; raise DamagedError, with the remedy, if it changed."""
    return unsealed(path, read_json(path, remedy), remedy)


def unsealed(path: Path, values: Json, remedy: str) -> dict[str, Json]:
    """Return the record in the result of `read_json`; raise DamagedError if it changed."""
    if not isinstance(values, dict) or values.get(DIGEST) != digest_of(values):
        raise DamagedError(f"`{path}` was changed after it was written. {remedy}")
    return {name: value for name, value in values.items() if name != DIGEST}


def read_value(kind: type[T], path: Path, remedy: str = ELSEWHERE) -> T | None:
    """Return the value that `write_sealed` wrote; None if there is no file.

    Raises DamagedError, with the remedy, if the value changed or has another type.
    """
    return value_of(kind, path, read_sealed(path, remedy), remedy) if path.exists() else None


def value_of(kind: type[T], path: Path, values: Json, remedy: str = ELSEWHERE) -> T:
    """Convert JSON to this type; raise DamagedError, with the remedy, if it does not fit."""
    try:
        return from_json(kind, values, f"`{path}`")
    except InputError as error:
        raise DamagedError(f"{error} {remedy}") from error


def read_json(path: Path, remedy: str) -> Json:
    """Read a JSON file; raise DamagedError, with the remedy, if it is not valid JSON."""
    content = read_bytes(path, remedy)
    try:
        value: Json = json.loads(content)
        return value
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"`{path}` is not JSON ({error}). {remedy}") from error


def read_bytes(path: Path, remedy: str) -> bytes:
    """Read a file; raise DamagedError, with the remedy, if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        require_no_fault(path, error)
        fault = f"`{path}` cannot be read ({error.strerror}). {near(path)}{remedy}"
        raise DamagedError(fault) from error
