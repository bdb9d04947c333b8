"""Prove lower bounds of leakage from texts of known probability, given the measured margin.

The events (sets of outputs) that are known to leak are disjoint. So their
masses and scores give a lower bound of the leakage, which has no sampling
error.
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

    The estimates are of the leak probability (for a binary scorer) or the mean leakage, and of
    leak@k for any k.
    """
    for query_id, masses in leaking_masses([arm], scorer).items():
        yield query_id, stats.proof_of_leak(masses.p, masses.low, binary=scorer.binary)
        yield query_id, stats.proof_of_leak(masses.p, masses.low, AT_K.quantity)
