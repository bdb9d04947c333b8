"""Checks, and how two JSON values are compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

SLACK = 1e-12  # of recomputed numbers: the last digit may differ between machines
ABSENT = "nothing"

Status = Literal["ok", "differs", "note", "unchecked"]


@dataclass(frozen=True, slots=True)
class Difference:
    """What the certificate says of a thing, and what was found in the run."""

    where: str
    certificate: Any
    found: Any


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. A `note` is worth knowing and refutes nothing.

    `unchecked`: it was asked for and nothing of it could be compared, which verifies nothing.
    """

    name: str
    status: Status
    says: str
    differences: tuple[Difference, ...] = ()


def compared(name: str, says: str, certificate: Any, found: Any) -> Check:
    """A check that two values are the same, numbers to the last digit but one."""
    differing = tuple(differences(certificate, found))
    return Check(name, mark(differing), says, differing)


def mark(differing: Sequence[Difference]) -> Status:
    """The status of a check that found these differences."""
    return "differs" if differing else "ok"


def differences(certificate: Any, found: Any, where: str = "") -> Iterator[Difference]:
    """Where two JSON values differ, leaf by leaf."""
    if isinstance(certificate, Mapping) and isinstance(found, Mapping):
        for key in {**certificate, **found}:
            below = f"{where}.{key}" if where else str(key)
            yield from differences(certificate.get(key, ABSENT), found.get(key, ABSENT), below)
    elif isinstance(certificate, list) and isinstance(found, list):
        for i, (said, seen) in enumerate(zip_longest(certificate, found, fillvalue=ABSENT)):
            yield from differences(said, seen, f"{where}[{i}]")
    elif not _same(certificate, found):
        yield Difference(where, certificate, found)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=0, abs_tol=SLACK)
    return type(one) is type(other) and bool(one == other)
