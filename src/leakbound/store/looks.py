"""The looks of an arm that is sampled until a claim is decided, and the rounds they lead to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from leakbound.store.cut import Cut
from leakbound.store.plan import CHUNK, Part, Plan
from leakbound.store.sealed import ELSEWHERE, DamagedError, read_value, write_sealed


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen of one question, and what followed.

    After `n` draws the claim about it stood at `decision`; it is drawn on until it has `next`,
    which is `n` where it stops.
    """

    n: int
    decision: str
    next: int


Looks = tuple[Mapping[str, Look], ...]
"""Each look in turn: the questions looked at, by query id."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What the file of an arm's looks says: whose they are, and the looks."""

    arm: str
    looks: Looks


def read_looks(file: Path, arm: str) -> Looks:
    """The looks recorded in `file` for the arm with that identity; none where there is no file.

    Raises DamagedError where the file is not what was written there for this arm.
    """
    found = read_value(_Recorded, file)
    if found is None:
        return ()
    if found.arm != arm:
        raise DamagedError(f"`{file}` belongs to another run. {ELSEWHERE}")
    return found.looks


def write_looks(file: Path, arm: str, looks: Looks) -> None:
    """Record the looks made so far."""
    write_sealed(file, _Recorded(arm, looks))


def rounds_of(
    query_ids: Sequence[str], first: int, looks: Looks, cut: Cut
) -> tuple[tuple[Part, ...], ...]:
    """The parts of every round: `first` draws of every query, then what each look asked for.

    Queries that get equally many draws share parts. A query's chunks are numbered by itself, so
    its draws do not depend on what the others were found to do.
    """
    wanted: list[dict[str, int]] = [dict.fromkeys(query_ids, first)]
    wanted += [{q: seen.next for q, seen in look.items() if seen.next > seen.n} for look in looks]
    have = dict.fromkeys(query_ids, (0, 0))  # draws and chunks so far
    rounds: list[tuple[Part, ...]] = []
    number = 0
    for goals in wanted:
        alike: dict[tuple[int, int], list[str]] = {}
        for query_id, n in goals.items():
            drawn, chunks = have[query_id]
            alike.setdefault((n - drawn, chunks), []).append(query_id)
            have[query_id] = n, chunks + ceil((n - drawn) / CHUNK)
        parts: list[Part] = []
        for (more, chunks), ids in alike.items():
            start = number + len(parts)
            parts += Plan.of(more).parts(ids, cut, first=start, first_chunk=chunks)
        rounds.append(tuple(parts))
        number += len(parts)
    return tuple(rounds)
