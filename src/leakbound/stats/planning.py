"""Plan the number of draws that a guarantee or an extraction needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Side, error_rate, plain, share_of

_UP = 1 + 2.0**-50  # the relative error of a quotient of two logarithms is below 2^-50


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawsNeeded:
    """The number of draws per question that each guarantee needs; None: it was not requested.

    Attributes:
        epsilon: the number of draws after which Pr[X > x] is known within epsilon at every x.
        clean: the number of draws that certifies a small leak probability if no draw leaks.
        confidence: the confidence of each guarantee.
    """

    epsilon: int | None
    clean: int | None
    confidence: float


def plan(
    *,
    epsilon: float | None = None,
    clean: float | None = None,
    confidence: float = 0.99,
    side: Side = "both",
) -> DrawsNeeded:
    """Return the number of draws per question that a guarantee needs.

    Args:
        epsilon: the largest distance of a bound from the estimate of Pr[X > x] at any x, in (0, 1);
            None: not requested.
        clean: the leak probability to certify if no draw leaks, in (0, 1); None: not requested.
        confidence: the probability that the guarantee is valid, in (0, 1).
        side: the bounds on Pr[X > x] at distance epsilon: "upper", "lower" or "both". For "both",
            each bound has error rate alpha/2.

    Returns:
        The number of draws for each requested guarantee.

    Raises:
        InputError: neither epsilon nor clean is given, one of them is outside (0, 1), or the
            confidence or side is invalid.
    """
    if epsilon is None and clean is None:
        raise InputError(
            "both --epsilon and --clean are missing. Pass one, such as --epsilon 0.01."
        )
    return DrawsNeeded(
        epsilon=None if epsilon is None else samples_for(epsilon, confidence, side),
        clean=None if clean is None else clean_samples_for(clean, confidence),
        confidence=confidence,
    )


def samples_for(epsilon: float, confidence: float = 0.99, side: Side = "both") -> int:
    """Return the number of draws after which DKW's band is within `epsilon` of the empirical CDF.

    The number is ceil(ln(1/alpha)/(2 epsilon^2)) for one side. For both sides, ln(2/alpha) replaces
    ln(1/alpha). The formula in the appendix of Scholten et al. (2025) has a wrong exponent. The
    number is also enough for Hoeffding's bound on a mean.

    Args:
        epsilon: the largest distance, in (0, 1).
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The number of draws, at least 1.

    Raises:
        InputError: an epsilon outside (0, 1), or an invalid confidence or side.
    """
    if not 0 < epsilon < 1:
        raise InputError(f"`epsilon` must be strictly between 0 and 1, got {epsilon!r}.")
    return math.ceil(math.log(1 / min(share_of(confidence, side), 0.5)) / (2 * epsilon**2))


def clean_samples_for(p0: float, confidence: float = 0.99) -> int:
    """Return the number of draws that certify a leak probability of at most `p0` if no draw leaks.

    Args:
        p0: the leak probability to be certified, in (0, 1).
        confidence: the probability that the bound is valid, in (0, 1).

    Returns:
        The number of draws, at least 1.

    Raises:
        InputError: a p0 or a confidence outside (0, 1).
    """
    if not 0 < p0 < 1:
        raise InputError(f"`p0` must be strictly between 0 and 1, got {p0!r}.")
    return math.ceil(math.log(error_rate(confidence)) / math.log1p(-p0))


def extraction_draws(
    leak: npt.ArrayLike, chance: float = 0.5, *, fewest: bool = False
) -> float | Array:
    """Return the number of draws n that contain a leak with probability at least `chance`.

    A leak is then called (n, `chance`)-discoverably extractable. At leak probability p, n draws
    contain a leak with probability 1 - (1 - p)^n = leak@n, which is at least `chance` if n >= ln(1
    - chance)/ln(1 - p) (Hayes et al., "Measuring memorization in language models via probabilistic
    extraction", 2024, arXiv 2410.19482, eq. 2). leak@n grows with p. So if `leak` is a lower bound
    of p, n draws suffice. If `leak` is an upper bound of p (with `fewest`), no smaller n suffices.
    The result accounts for rounding errors in both cases.

    Args:
        leak: a bound of p, in [0, 1], of any shape.
        chance: the probability of a leak among the n draws, in (0, 1).
        fewest: whether `leak` is an upper bound; n is then the smallest number that may suffice.

    Returns:
        The n, of the shape of `leak`: whole numbers >= 1, or infinity where `leak` is 0.

    Raises:
        InputError: a `leak` outside [0, 1], or a `chance` not strictly between 0 and 1.
    """
    if not 0 < chance < 1:
        raise InputError(f"`chance` must be strictly between 0 and 1, got {chance!r}.")
    p = np.asarray(leak, dtype=np.float64)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"`leak` must be in [0, 1], got {leak!r}.")
    with np.errstate(divide="ignore"):
        needed = np.log1p(-chance) / np.log1p(-p)
    return plain(np.maximum(np.ceil(needed / _UP if fewest else needed * _UP), 1.0))
