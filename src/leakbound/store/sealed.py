"""Records under a digest of all that they say, so that an accident anywhere in one is noticed.

Not a forgery: whoever can write a record can write its digest. Against that one is kept elsewhere,
see `leakbound verify`.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TypeVar

from leakbound.errors import InputError, require_no_fault
from leakbound.registry import near
from leakbound.store.files import write_json
from leakbound.types import Json, JsonObject, from_json, object_of

T = TypeVar("T")

DIGEST = "digest"
"""The key under which a record has the digest of the rest."""

ELSEWHERE = "Restore it from a copy, or begin again in another folder."
"""What helps where nothing in the run makes the file again."""


class DamagedError(InputError):
    """A file of the run is cut short, altered, or of another run."""


def digest_of(values: JsonObject) -> str:
    """SHA-256 over the canonical JSON of a record, its own digest left out."""
    rest = {name: value for name, value in values.items() if name != DIGEST}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def as_read(values: JsonObject) -> dict[str, Json]:
    """A record as it comes back from its file: tuples as lists, keys as text."""
    read: dict[str, Json] = json.loads(json.dumps(values))
    return read


def write_sealed(path: Path, record: object) -> None:
    """Write a record, a frozen value or a mapping, whole, as JSON, with its digest."""
    values = object_of(record)
    write_json(path, {**values, DIGEST: digest_of(values)})


def read_sealed(path: Path, remedy: str) -> dict[str, Json]:
    """The record, without its digest; DamagedError, with the remedy, unless it is as written."""
    return unsealed(path, read_json(path, remedy), remedy)


def read_value(kind: type[T], path: Path, remedy: str = ELSEWHERE) -> T | None:
    """The value that `write_sealed` wrote; None where there is no file.

    DamagedError, with the remedy, unless it is as written and a value of this kind.
    """
    return value_of(kind, path, read_sealed(path, remedy), remedy) if path.exists() else None


def value_of(kind: type[T], path: Path, values: JsonObject, remedy: str = ELSEWHERE) -> T:
    """What `read_sealed` found in a file, as a value of this kind; DamagedError for no such one."""
    try:
        return from_json(kind, values, f"`{path}`")
    except InputError as error:
        raise DamagedError(f"{error} {remedy}") from error


def read_json(path: Path, remedy: str) -> Json:
    """What a JSON file holds, unjudged; DamagedError, with the remedy, where it holds none."""
    try:
        found: Json = json.loads(path.read_text(encoding="utf-8"))
        return found
    except OSError as error:
        require_no_fault(path, error)
        said = f"`{path}` cannot be read ({error.strerror}). {near(path)}{remedy}"
        raise DamagedError(said) from error
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"`{path}` is not JSON ({error}). {remedy}") from error


def unsealed(path: Path, values: Json, remedy: str) -> dict[str, Json]:
    """What `read_json` found, if it is a record as it was written."""
    if not isinstance(values, dict) or values.get(DIGEST) != digest_of(values):
        raise DamagedError(f"`{path}` was changed after it was written. {remedy}")
    return {name: value for name, value in values.items() if name != DIGEST}
