"""Proofs by leaking outputs of known probability, alone and beside draws of a model's control.

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
"""The words that end the method of an end that a proof makes."""


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

    A lower end by draws has 1 - `SHARE` of its alpha, whether anything is proved or not.

    Args:
        excess: bounds the excess, one entry a question or one in all.
        control: bounds the control's quantity, with entries as `excess` has.
        proved: lower ends, without chance, of the model's quantity, as many; 0: nothing is proved.
        confidence: with which probability each pair of ends holds by itself, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        The excess's estimate; its method says where a proof raised a lower end.

    Raises:
        InputError: a confidence or side that is none, or whatever `excess` and `control` refuse.
    """
    alpha = share_of(confidence, side)
    if side == "upper":
        return excess(confidence=confidence, side=side)
    drawn = excess(confidence=1 - (1 - SHARE) * alpha, side="lower")
    above = control(confidence=1 - SHARE * alpha, side="upper").upper
    most = excess(confidence=1 - alpha, side="upper").upper if side == "both" else drawn.upper
    lower = plain(np.maximum(drawn.lower, np.negative(above)))  # the model's own is at least 0
    bound = replace(drawn, lower=lower, upper=most, confidence=confidence, side=side)
    return raised(bound, np.subtract(proved, above))


def raised(estimate: Estimate, proved: npt.ArrayLike) -> Estimate:
    """The estimate with lower ends no less than what is `proved` of it, entry by entry.

    A proof needs no confidence. One above an upper end raises nothing: one of the two is wrong, and
    whoever shows them has to say so.
    """
    proofs = np.asarray(proved)
    higher = (proofs > estimate.lower) & (proofs <= estimate.upper)
    if not higher.any():
        return estimate
    lower = plain(np.where(higher, proofs, estimate.lower))
    return replace(estimate, lower=lower, method=f"{estimate.method}{PROVED}")


def _proved(bound: Estimate) -> Estimate:
    """Outputs that were searched for are typical of nothing: no point estimate."""
    about = replace(bound.about, proved=True)
    value = plain(bound.lower * np.nan)
    return replace(bound, about=about, value=value, method="proof of leakage")
