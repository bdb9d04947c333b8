"""Proofs of leakage: lower bounds without sampling error, from outputs of known probability.

Distinct outputs are disjoint events, so the probabilities of leaking outputs
add up to a lower bound. The bound is as certain as these probabilities, which an engine computes up
to a measured margin. A proof uses no draws, and does not change the intervals that draws give.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.stats.arrays import numbers
from leakbound.stats.estimate import Estimate, plain
from leakbound.stats.mass import Mass, Masses
from leakbound.stats.quantity import LEAKAGE, Quantity
from leakbound.stats.theorems import bound


def proof_of_leak(
    p: npt.ArrayLike,
    scores: npt.ArrayLike,
    quantity: Quantity = LEAKAGE,
    *,
    binary: bool = False,
) -> Estimate:
    """Prove a lower bound of a quantity from distinct leaking outputs.

    No draws are used. The proof is as certain as `p`, which an engine computes up to a measured
    margin. The bounds are E[X] >= sum p score, Pr[X > x] >= the sum of p over scores > x, and
    leak@k >= int 1 - (1 - sum_{score > t} p)^k dt, for any k. These bounds are valid for any way of
    finding the outputs, so a search spends no alpha. There is no point estimate.

    Args:
        p: a lower bound of the probability of each output under the decoding, [d].
        scores: the score of each output, in [0, 1], [d].
        quantity: `LEAKAGE` (default), `tail(x)` or `leak_at(k)`.
        binary: the scorer's declared range; True: `LEAKAGE` is the leak probability.

    Returns:
        The lower bound, at confidence 1 and without a point estimate.

    Raises:
        InputError: probabilities below 0 or adding up to more than 1, scores outside [0, 1], shapes
            that differ, or a quantity that masses do not bound.
    """
    values = numbers("scores", scores)
    known = Masses.of(Mass(np.asarray(p, dtype=np.float64), values, values), binary=binary)
    lower = bound(known, quantity, side="lower")
    about, none = replace(lower.about, proved=True), plain(lower.lower * np.nan)
    return replace(lower, about=about, value=none, method="proof of leakage")
