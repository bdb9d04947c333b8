"""Proofs of leakage: lower bounds, given the measured margin, from texts of known probability.

The events that are known to leak are disjoint: their scores bound the leakage from below, without
any confidence to be spent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from leakbound import stats
from leakbound.bounding.rows import AT_K
from leakbound.scoring.antichain import antichains
from leakbound.store import Arm
from leakbound.types import Scorer


def proved(arm: Arm, scorer: Scorer) -> Iterator[tuple[str, stats.Estimate]]:
    """(query id, estimate) for each question with a leaking text.

    Leak probability (for a binary scorer) or mean leakage, and leak@k for any k.
    """
    for query_id, texts in antichains(arm, scorer).items():
        mass, scores, _ = np.array(list(texts.values())).T
        # a law's masses add up to 1; what rounding adds beyond that is taken off
        mass = mass / max(1.0, math.fsum(mass))
        yield query_id, stats.proof_of_leak(mass, scores, binary=scorer.binary)
        yield query_id, stats.proof_of_leak(mass, scores, AT_K.quantity)
