"""Collect the known leaking outputs of each question, as disjoint events of known mass.

An event is an output, or the set of all outputs with the same beginning. Its `floor` is a lower
bound on its log-probability. Events come from drawn completions, explored outputs, teacher-forced
reference answers, and searches for leaks. If two events share outputs, only one event is used. The
remaining events form an antichain: the token ids of no event begin with the token ids of another
event. So the events are disjoint and their masses add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from leakbound.scoring.score import slug
from leakbound.stats import Mass
from leakbound.store import Arm, leaking
from leakbound.types import Scorer

Ids = tuple[int, ...]
"""The token ids of an output, or of the beginning of an event's outputs."""


def leaking_masses(arms: Iterable[Arm], scorer: Scorer) -> dict[str, Mass]:
    """Return the masses and the lowest scores of the leaking events of each question.

    An event leaks if its lowest score is above 0. The arms must be of one model under one decoding;
    the events of all arms are used. An event with a shorter prefix contains the events that
    continue this prefix, so the contained events are left out. If rounding raises the total mass
    above 1, the masses are scaled down.
    """
    by_query: dict[str, dict[Ids, tuple[float, float]]] = {}
    for arm in arms:
        failed = arm.failures
        for query_id, ids, mass, low in _events(arm, slug(scorer)):
            if query_id not in failed and low > 0:
                by_query.setdefault(query_id, {})[ids] = mass, low
    masses = {}
    for query_id, events in by_query.items():
        p, low = np.array([events[ids] for ids in _disjoint(events)]).T
        masses[query_id] = Mass(p / max(1.0, math.fsum(p)), low, low)
    return masses


def _events(arm: Arm, name: str) -> Iterator[tuple[str, Ids, float, float]]:
    """Yield the question, token ids, mass and lowest score of every known event."""
    for query_id, ids, floor, score in leaking(arm, name) if arm.parts else ():
        yield query_id, ids, math.exp(floor), score
    yield from arm.masses.scored(name)
    for proof in arm.proofs.stored.values(name):
        yield proof.query_id, proof.event.token_ids, proof.event.mass, proof.low


def _disjoint(events: Mapping[Ids, object]) -> list[Ids]:
    """Return the events that no other event contains, in the given order."""
    kept: set[Ids] = set()
    last: Ids | None = None
    for ids in sorted(events):  # in sorted order, continuations directly follow their beginning
        if last is None or ids[: len(last)] != last:
            kept.add(last := ids)
    return [ids for ids in events if ids in kept]
