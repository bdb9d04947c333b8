"""Outputs of each question that are known to leak: disjoint sets of them, of known mass.

Completions that were drawn, outputs that were explored, the true answer, teacher-forced, and what a
search for leaks found: each is an output, or all outputs that begin alike, with a probability of at
least e^floor. Of two that share outputs one is taken. What remains is an antichain: no event begins
with another, and their masses add up.
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
"""The token ids that the outputs of an event begin with, or that its output is."""


def leaking_masses(arms: Iterable[Arm], scorer: Scorer) -> dict[str, Mass]:
    """The masses of each question's events that score above 0, by its id, at their lowest scores.

    The arms ask one model under one decoding, and what is known of any of them counts. A prefix
    stands for all its continuations, so none of them is counted as well. What rounding adds beyond
    a mass of 1 in all is taken off.
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
    """The question, ids, mass and lowest score of all that is known, what leaks and what not."""
    for query_id, ids, floor, score in leaking(arm, name) if arm.parts else ():
        yield query_id, ids, math.exp(floor), score
    yield from arm.masses.scored(name)
    for proof in arm.proofs.stored.values(name):
        yield proof.query_id, proof.event.token_ids, proof.event.mass, proof.low


def _disjoint(events: Mapping[Ids, object]) -> list[Ids]:
    """The events of which no other is the beginning, in the order in which they came."""
    kept: set[Ids] = set()
    last: Ids | None = None
    for ids in sorted(events):  # what begins with a text follows it at once
        if last is None or ids[: len(last)] != last:
            kept.add(last := ids)
    return [ids for ids in events if ids in kept]
