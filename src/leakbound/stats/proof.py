"""Proofs by leaking outputs of known probability: lower bounds without sampling error.

Distinct outputs are disjoint events: their probabilities add up to a lower bound. It is as certain
as these are, which from an engine is given the measured margin. A proof is a statement of its own:
it changes no interval that rests on draws.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound.stats.estimate import Estimate, plain
from leakbound.stats.mass import Mass, Masses
from leakbound.stats.quantity import LEAKAGE, leak_at, tail
from leakbound.stats.theorems import bound
from leakbound.stats.whole import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakProof:
    """Lower bounds that leaking texts prove, given their probabilities.

    Attributes:
        texts: how many there are.
        probability: of Pr[X > x].
        mean: of E[X].
        leak_at_k: of leak@k.
    """

    texts: int
    probability: Estimate
    mean: Estimate
    leak_at_k: Estimate


def proof_of_leak(
    p: npt.ArrayLike, scores: npt.ArrayLike, k: npt.ArrayLike = 1, *, x: float = 0.0
) -> LeakProof:
    """Prove lower bounds of Pr[X > x], E[X] and leak@k from distinct leaking outputs.

    No draw enters: the proof is as sure as `p` is, which from an engine is given the measured
    margin. E[X] >= sum p score, Pr[X > x] >= the sum of p over scores > x, and
    leak@k >= int 1 - (1 - sum_{score > t} p)^k dt, for any k. How the outputs were found plays no
    part, so searching for them, or looking at samples, costs nothing; hence no point estimates
    either.

    Args:
        p: the probability of each output under the decoding in question, at least, [d].
        scores: its score, in [0, 1], [d].
        k: of how many draws the largest is meant, a whole number >= 1; or [K], the last axis then.
        x: what a score must exceed to count in Pr[X > x], a finite number.

    Returns:
        The three lower bounds, at confidence 1 and without a point value.

    Raises:
        InputError: probabilities below 0 or adding up to more than 1, scores outside [0, 1], shapes
            that differ, or a k or x that cannot be.
    """
    values = numbers("scores", scores)
    mass = Mass(np.asarray(p, dtype=np.float64), values, values)
    proof = Masses.of(mass)
    leak = _proved(bound(proof, tail(x), side="lower"))
    if x == 0:
        leak = replace(leak, about=replace(LEAKAGE.about(binary=True), proved=True))
    return LeakProof(
        texts=mass.p.size,
        probability=leak,
        mean=_proved(bound(proof, LEAKAGE, side="lower")),
        leak_at_k=_proved(bound(proof, leak_at(k), side="lower")),
    )


def _proved(lower: Estimate) -> Estimate:
    """Outputs that were searched for are typical of nothing: no point estimate."""
    about = replace(lower.about, proved=True)
    value = plain(lower.lower * np.nan)
    return replace(lower, about=about, value=value, method="proof of leakage")
