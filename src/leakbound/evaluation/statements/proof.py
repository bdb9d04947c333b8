"""Proofs of leakage: lower bounds, given the measured margin, from texts of known probability.

Completions that were drawn, outputs that were explored, the true answer, teacher-forced, and what a
search for leaks found: each is an output, or all outputs that begin alike, with a probability of at
least e^floor. Of two that share outputs one is taken, so that what remains are disjoint events:
their scores bound the leakage from below, without any confidence to be spent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from leakbound import stats
from leakbound.evaluation.scoring.score import slug
from leakbound.evaluation.statements.quantities import ALL_K
from leakbound.store import Arm, leaking
from leakbound.types import Scorer

Events = dict[tuple[int, ...], tuple[float, float]]
"""Token ids -> mass, and score, at least, of the outputs that begin with them."""


def proved(arm: Arm, scorer: Scorer) -> Iterator[tuple[str, stats.Estimate]]:
    """(query id, estimate) for each question with a leaking text.

    Leak probability (for a binary scorer) or mean leakage, and leak@k for any k.
    """
    for query_id, texts in _leaking(arm, scorer).items():
        mass, scores = np.array(list(texts.values())).T
        # a law's masses add up to 1; what rounding adds beyond that is taken off
        proof = stats.proof_of_leak(mass / max(1.0, math.fsum(mass)), scores, ALL_K)
        yield query_id, proof.probability if scorer.binary else proof.mean
        yield query_id, proof.leak_at_k


def proved_tail(arm: Arm, scorer: Scorer, x: float) -> dict[str, float]:
    """Pr[h > x] at least, by the id of each question of which something is proved."""
    found = {}
    for query_id, events in _leaking(arm, scorer, x).items():
        total = math.fsum(mass for mass, _ in events.values())
        found[query_id] = total / max(1.0, total)
    return found


def _leaking(arm: Arm, scorer: Scorer, x: float = 0.0) -> dict[str, Events]:
    """Each question's events that score above x: mass and score at least, by what they begin with.

    A prefix stands for all its continuations, so none of them is counted beside it.
    """
    found: dict[str, Events] = {}
    failed = arm.failures
    for query_id, ids, floor, score in leaking(arm, slug(scorer)):
        if query_id not in failed and score > x:
            found.setdefault(query_id, {})[ids] = math.exp(floor), score
    for query_id, event, mass, low in arm.masses.scored(slug(scorer)):
        if low > x:
            found.setdefault(query_id, {})[event] = mass, low
    for query_id, event, mass, low in arm.proofs.rows(slug(scorer)):
        if query_id not in failed and low > x:
            found.setdefault(query_id, {})[event] = mass, low
    return {query_id: _disjoint(events) for query_id, events in found.items()}


def _disjoint(events: Events) -> Events:
    """Those of which no other is the beginning."""
    known = {len(ids) for ids in events}
    return {
        ids: event
        for ids, event in events.items()
        if not any(ids[:length] in events for length in known if length < len(ids))
    }
