"""What leaking outputs of known probability prove, alone and beside draws of a model's control.

*Alone.* Distinct outputs are disjoint events: their probabilities add up to a lower bound, without
chance. A proof is as sure as these are, which from an engine is given the measured margin.

*Beyond a control.* A proof says without chance that a question's quantity mu is at least P. With an
upper end U of the control's nu at 1 - q, mu - nu >= P - U but for probability q. A bound L of the
difference by draws fails with its own alpha; so with shares of alpha that were fixed beforehand,

    mu - nu >= max(L at (1 - SHARE) alpha, P - U at SHARE alpha)

fails with probability alpha at most, whether or not a proof was looked for after the draws were
seen: the share is set aside in any case. Over questions the same holds of means, as the mean of the
P is one of the mean; and jointly, as U is then taken jointly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound.stats.estimate import BoundFunction, Estimate, Side, plain, share_of
from leakbound.stats.mass import (
    Mass,
    mass_leak_at_k_bound,
    mass_mean_bound,
    mass_proportion_bound,
)
from leakbound.stats.whole import numbers

SHARE = 0.1  # of a lower end's alpha: for the control's upper end, from which proofs are counted

PROVED = ", raised by a proof, given the measured margin"
"""What the method of an end says that a proof makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakProof:
    """Lower bounds that `texts` leaking texts prove, given `p`: of Pr[X > x], E[X] and leak@k."""

    texts: int
    probability: Estimate
    mean: Estimate
    leak_at_k: Estimate


def proof_of_leak(
    p: npt.ArrayLike, scores: npt.ArrayLike, k: npt.ArrayLike = 1, *, x: float = 0.0
) -> LeakProof:
    """What distinct leaking outputs prove: lower bounds of Pr[X > x], E[X] and leak@k.

    `p` and `scores` (d,): each output's probability under the decoding in question, at least, and
    its score. No draw enters: the proof is as sure as `p` is, which from an engine is given the
    measured margin. E[X] >= sum p score, Pr[X > x] >= the sum of p over scores > x, and
    leak@k >= int 1 - (1 - sum_{score > t} p)^k dt, for any k. How the outputs were found plays no
    part, so searching for them, or looking at samples, costs nothing; hence no point estimates
    either. Raises InputError as `Mass`.
    """
    values = numbers("scores", scores)
    mass = Mass(np.asarray(p, dtype=np.float64), values, values)
    return LeakProof(
        texts=mass.p.size,
        probability=_proved(mass_proportion_bound(mass, x=x, side="lower")),
        mean=_proved(mass_mean_bound(mass, side="lower")),
        leak_at_k=_proved(mass_leak_at_k_bound(mass, k, side="lower")),
    )


def excess_with_proof(
    excess: BoundFunction,
    control: BoundFunction,
    proved: npt.ArrayLike = 0.0,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
) -> Estimate:
    """Bound an excess by draws, and from below also by what is proved of the model.

    Args:
        excess: bounds the excess, one entry a question or one in all.
        control: bounds the control's quantity, with entries as `excess` has.
        proved: lower ends, without chance, of the model's quantity, as many; 0: nothing is proved.
        confidence: with which the ends hold, each pair by itself.
        side: which ends.

    A lower end by draws has 1 - `SHARE` of its alpha, whether anything is proved or not.
    """
    alpha = share_of(confidence, side)
    if side == "upper":
        return excess(confidence=confidence, side=side)
    drawn = excess(confidence=1 - (1 - SHARE) * alpha, side="lower")
    above = control(confidence=1 - SHARE * alpha, side="upper").upper
    most = excess(confidence=1 - alpha, side="upper").upper if side == "both" else drawn.upper
    lower = plain(np.maximum(drawn.lower, np.negative(above)))  # the model's own is at least 0
    both = replace(drawn, lower=lower, upper=most, confidence=confidence, side=side)
    return raised(both, np.subtract(proved, above))


def raised(estimate: Estimate, proved: npt.ArrayLike) -> Estimate:
    """The estimate with lower ends no less than what is `proved` of it, entry by entry.

    A proof needs no confidence. One above an upper end raises nothing: one of the two is wrong, and
    whoever shows them has to say so.
    """
    known = np.asarray(proved)
    higher = (known > estimate.lower) & (known <= estimate.upper)
    if not higher.any():
        return estimate
    lower = plain(np.where(higher, known, estimate.lower))
    return replace(estimate, lower=lower, method=f"{estimate.method}{PROVED}")


def _proved(bound: Estimate) -> Estimate:
    """Outputs that were searched for are typical of nothing: no point estimate."""
    about = replace(bound.about, proved=True)
    value = plain(bound.lower * np.nan)
    return replace(bound, about=about, value=value, method="proof of leakage")
