"""Proofs of leakage: lower bounds, given the measured margin, from texts of known probability.

The events that are known to leak are disjoint: their scores bound the leakage from below, without
spending alpha.
"""

from __future__ import annotations

from collections.abc import Iterator

from leakbound import stats
from leakbound.bounding.rows import AT_K
from leakbound.scoring.antichain import leaking_masses
from leakbound.store import Arm
from leakbound.types import Scorer


def proved(arm: Arm, scorer: Scorer) -> Iterator[tuple[str, stats.Estimate]]:
    """Yield (query id, estimate) for each question with a leaking text.

    Leak probability (for a binary scorer) or mean leakage, and leak@k for any k.
    """
    for query_id, masses in leaking_masses([arm], scorer).items():
        yield query_id, stats.proof_of_leak(masses.p, masses.low, binary=scorer.binary)
        yield query_id, stats.proof_of_leak(masses.p, masses.low, AT_K.quantity)
