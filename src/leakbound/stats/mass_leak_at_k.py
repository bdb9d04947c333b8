"""leak@k from exact masses, and what single leaking outputs prove. See `mass`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Counts, Estimate, Side, plain
from leakbound.stats.leak_at_k import leak_at, whole_sizes
from leakbound.stats.mass import (
    Mass,
    drawn,
    mass_mean_bound,
    mass_proportion_bound,
    mass_survival_bound,
)
from leakbound.stats.proportion import carried
from leakbound.stats.whole import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakProof:
    """Lower bounds that `texts` leaking texts prove, given `p`: of Pr[X > x], E[X] and leak@k."""

    texts: int
    probability: Estimate
    mean: Estimate
    leak_at_k: Estimate


def mass_leak_at_k_bound(
    mass: Mass,
    k: npt.ArrayLike,
    scores: npt.ArrayLike | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
    missing: int = 0,
) -> Estimate:
    """Bound leak@k for every entry of `k` at once, any k >= 1.

    E[max of k] = int_0^1 1 - (1 - Pr[X > t])^k dt, increasing in the tail, which
    `mass_survival_bound` bounds for all t at once. Conditions and arguments are its own.
    """
    sizes = whole_sizes(k)
    draws = drawn(scores, counts, missing)
    seen = np.empty(0) if draws is None else draws.values[0]
    knots = np.unique(np.concatenate([[0.0, 1.0], mass.low, mass.high, seen]))
    tail = mass_survival_bound(
        mass, knots[:-1], scores, counts,
        confidence=confidence, side=side, method=method, missing=missing,
    )  # fmt: skip

    def largest(tails: float | Array) -> float | Array:
        return plain(np.minimum(_any_of(sizes, tails) @ np.diff(knots), 1.0))

    return replace(
        tail,
        about=leak_at(sizes),
        value=largest(tail.value),
        lower=largest(tail.lower),
        upper=largest(tail.upper),
    )


def mass_leak_at_k_proportion_bound(
    mass: Mass,
    k: npt.ArrayLike,
    hits: int = 0,
    n: int = 0,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    missing: int = 0,
) -> Estimate:
    """Bound 1 - (1 - p)^k, the chance of a leak among k draws, for every k at once.

    For a binary scorer: InputError where an event's range ends anywhere but at 0 and 1. Carries
    over the bound on p of `mass_proportion_bound`, whose arguments it takes.
    """
    sizes = whole_sizes(k)
    ranges = np.concatenate([mass.low, mass.high])
    if not np.isin(ranges, (0, 1)).all():
        raise InputError(
            "`mass` must have ranges that end at 0 and 1, as a binary scorer's do, got "
            f"{ranges[~np.isin(ranges, (0, 1))][0]:g}. Use mass_leak_at_k_bound."
        )
    leak = mass_proportion_bound(mass, hits, n, confidence=confidence, side=side, missing=missing)
    return carried(leak, sizes)


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


def _proved(bound: Estimate) -> Estimate:
    """Outputs that were searched for are typical of nothing: no point estimate."""
    about = replace(bound.about, proved=True)
    value = plain(bound.lower * np.nan)
    return replace(bound, about=about, value=value, method="proof of leakage")


def _any_of(k: Counts, chance: float | Array) -> Array:
    """1 - (1 - chance)^k, exact for tiny chances and huge k: k's axis, then that of `chance`."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(np.multiply.outer(k, np.log1p(-np.asarray(chance)))))
