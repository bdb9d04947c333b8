"""Proofs of leakage: lower bounds, given the measured margin, from texts of known probability.

Completions that were drawn, outputs that were explored, and the true answer, teacher-forced: each
is an output with a probability of at least e^floor, and distinct token sequences are disjoint
events. Their scores then bound the leakage from below, without any confidence to be spent.
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


def _leaking(arm: Arm, scorer: Scorer) -> dict[str, dict[tuple[int, ...], tuple[float, float]]]:
    """Each question's distinct leaking sequences: mass at least, and score.

    A settled prefix that leaks stands for all its continuations, so none of them is counted again:
    draws come from what the events leave.
    """
    found: dict[str, dict[tuple[int, ...], tuple[float, float]]] = {}
    failed = arm.failures
    for query_id, ids, floor, score in leaking(arm, slug(scorer)):
        if query_id not in failed:
            found.setdefault(query_id, {})[ids] = math.exp(floor), score
    for query_id, event, mass, low in arm.masses.scored(slug(scorer)):
        if low:
            texts = found.setdefault(query_id, {})
            for inside in [known for known in texts if known[: len(event)] == event]:
                del texts[inside]  # the teacher-forced answer, where it lies in this event
            texts[event] = mass, low
    return found
