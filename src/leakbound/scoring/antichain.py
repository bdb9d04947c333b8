"""Outputs of each question that are known to leak: disjoint sets of them, of known mass.

Completions that were drawn, outputs that were explored, the true answer, teacher-forced, and what a
search for leaks found: each is an output, or all outputs that begin alike, with a probability of at
least e^floor. Of two that share outputs one is taken. What remains is an antichain: no event begins
with another, and their masses add up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leakbound.scoring.score import slug
from leakbound.store import Arm, leaking
from leakbound.types import Scorer


class Leaking(NamedTuple):
    """Outputs that leak: their mass, at least, and the range of their scores."""

    mass: float
    low: float
    high: float


Events = dict[tuple[int, ...], Leaking]
"""By the token ids that its outputs begin with, or that its output is."""


def antichains(arm: Arm, scorer: Scorer) -> dict[str, Events]:
    """Each question's events that score above 0, by its id.

    A prefix stands for all its continuations, so none of them is counted beside it.
    """
    return joint_antichains([arm], scorer)


def joint_antichains(arms: Iterable[Arm], scorer: Scorer) -> dict[str, Events]:
    """The same of arms that ask the same model under one decoding: what is known of any of them."""
    by_query: dict[str, Events] = {}
    for arm in arms:
        failed = arm.failures
        for query_id, ids, event in _events(arm, slug(scorer)):
            if query_id not in failed and event.low > 0:
                by_query.setdefault(query_id, {})[ids] = event
    return {query_id: _disjoint(events) for query_id, events in by_query.items()}


def leakage_at_least(events: Events) -> float:
    """The sum of disjoint events: each score by its mass; the masses add up to 1 at most."""
    total = math.fsum(event.mass for event in events.values())
    return math.fsum(event.mass * event.low for event in events.values()) / max(total, 1.0)


def _events(arm: Arm, name: str) -> Iterator[tuple[str, tuple[int, ...], Leaking]]:
    """All that is known of an arm, what leaks and what does not."""
    for query_id, ids, floor, score in leaking(arm, name) if arm.parts else ():
        yield query_id, ids, Leaking(math.exp(floor), score, score)
    for query_id, ids, mass, low in arm.masses.scored(name):
        yield query_id, ids, Leaking(mass, low, 1.0)
    for proof in arm.proofs.stored.values(name):
        event, high = proof.event, proof.low if proof.event.ended else 1.0
        yield proof.query_id, event.token_ids, Leaking(event.mass, proof.low, high)


def _disjoint(events: Events) -> Events:
    """The events of which no other is the beginning, in the order in which they came."""
    kept: set[tuple[int, ...]] = set()
    last: tuple[int, ...] | None = None
    for ids in sorted(events):  # what begins with a text follows it at once
        if last is None or ids[: len(last)] != last:
            kept.add(last := ids)
    return {ids: event for ids, event in events.items() if ids in kept}
