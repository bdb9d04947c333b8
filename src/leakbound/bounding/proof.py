"""Prove lower bounds of leakage from texts of known probability.

The events (sets of outputs) that are known to leak are disjoint. So the sum of their probabilities
(masses), each multiplied by the lowest score of the event, is a lower bound of the leakage of a
question. It has no sampling error, if rounding errors are within the measured margin. The largest
of these bounds is a lower bound for the worst question. Their mean is a lower bound of the mean; a
question without a proof has the bound 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from leakbound import stats
from leakbound.bounding.rows import AT_K, rows_of
from leakbound.scoring.antichain import leaking_masses
from leakbound.stats.about import Scope
from leakbound.store import ALL, Arm, EstimateRow
from leakbound.types import Scorer


def proof_rows(arm: Arm, scorer: Scorer) -> Iterator[EstimateRow]:
    """Yield rows of each question with a leaking text, and of all original questions together.

    The rows state bounds on the leak probability (for a binary scorer) or the mean leakage, and on
    leak@k for any k. Without a leaking text there are no rows.
    """
    masses, number = leaking_masses([arm], scorer), len(arm.run_queries.questions)
    for quantity, binary in ((stats.LEAKAGE, scorer.binary), (AT_K.quantity, False)):
        proofs = [stats.proof_of_leak(m.p, m.low, quantity, binary=binary) for m in masses.values()]
        for query_id, proof in zip(masses, proofs, strict=True):
            yield from rows_of(arm.name, scorer.name, [query_id], proof)
        if not proofs or not arm.key.own_words:
            continue
        low = np.array([proof.lower for proof in proofs])  # one row per question with a proof
        of_all: dict[Scope, np.ndarray] = {
            "worst question": low.max(axis=0),
            "mean": low.sum(axis=0) / number,
        }
        for scope, lower in of_all.items():
            about = replace(proofs[0].about, scope=scope, over=number)
            most = replace(proofs[0], about=about, lower=lower)
            yield from rows_of(arm.name, scorer.name, ALL, most)
