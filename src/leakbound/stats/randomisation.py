"""Test whether teaching changed the leakage of one model, if a coin chose the taught subjects.

A model is taught about k of m subjects. Each of the C(m, k) choices was equally
likely, and the choice was independent of everything else. Let y_i be the
leakage of subject i, computed by the same rule for all subjects. The null
hypothesis, *nothing changed*, is that the y do not depend on which subjects are
taught, for any randomness of training and drawing. Under this hypothesis, given
the y, the sum over the taught subjects is the sum over a random choice, and

    p = fraction of all choices whose sum is at least the sum of the taught

is at most alpha with probability at most alpha, for every alpha. The reason is that at most alpha
C(m, k) of the C(m, k) equally likely sums have a p of at most alpha (Fisher 1935; Pitman 1937). No
distribution of the y is assumed, and subjects may be dependent. All questions about a subject must
belong to that subject.

If there are too many choices to evaluate all, R = 99,999 random choices are
evaluated. Under "nothing changed", the sum over the taught subjects and the R
random sums are exchangeable. So (1 + number of random sums that are at least as
large)/(1 + R) is a p-value in the same sense.

The test is about this coin only. A small p-value shows that the choice of the taught subjects
changed the leakage of some subject. The test does not bound the size of the difference or the
number of such subjects.
"""

from __future__ import annotations

import math
from itertools import chain, combinations

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Estimate

MOST = 200_000  # up to this number of choices, all are evaluated
DRAWN = 99_999
_BLOCK = 1 << 20  # numbers shuffled in one batch
_TIE = 1e-12  # allowed rounding error of a sum, per subject


def randomisation_test(
    taught: npt.ArrayLike, untaught: npt.ArrayLike, *, seed: int = 0
) -> Estimate:
    """Return the p-value of "teaching changed nothing", against "the taught subjects leak more".

    The number of taught subjects must be fixed before the coin is tossed; otherwise the test is
    conditional on that number.

    Args:
        taught: the leakage of each taught subject, in [0, 1], [k].
        untaught: the leakage of each other subject, in [0, 1], [m - k].
        seed: the seed of the random choices if there are too many choices to evaluate all, a whole
            number >= 0.

    Returns:
        An estimate whose `value` and bounds all equal the p-value. `method` reports the number of
            choices, and `n` is the number of subjects.

    Raises:
        InputError: no taught subject, no untaught subject, or numbers outside [0, 1].
    """
    sides = [np.atleast_1d(np.asarray(side, dtype=np.float64)) for side in (taught, untaught)]
    for name, side in zip(("taught", "untaught"), sides, strict=True):
        if not len(side):
            raise InputError(f"`{name}` has no subjects. Each group needs at least one subject.")
        if not np.all((side >= 0) & (side <= 1)):
            raise InputError(f"`{name}` must contain numbers in [0, 1], got {side.tolist()}.")
    values, chosen = np.concatenate(sides), len(sides[0])
    least = math.fsum(sides[0]) - _TIE * len(values)
    choices = math.comb(len(values), chosen)
    if choices <= MOST:
        reached, total = _all(values, chosen, least), choices
    else:
        reached, total = 1 + _drawn(values, chosen, least, seed), 1 + DRAWN
    p = reached / total
    return Estimate(
        about=About(quantity="randomisation p-value", scope="halves", over=len(values)),
        value=p, lower=p, upper=p, confidence=1.0, side="both", n=len(values), missing=0,
        method=f"{'all' if total == choices else 'of'} {total:,} choices",
        seed=None if total == choices else seed,
    )  # fmt: skip


def _all(values: Array, chosen: int, least: float) -> int:
    """Count the choices, among all of this size, whose sum is at least `least`."""
    places = chain.from_iterable(combinations(range(len(values)), chosen))
    rows = np.fromiter(places, dtype=np.int16).reshape(-1, chosen)
    return int((values[rows].sum(axis=1) >= least).sum())


def _drawn(values: Array, chosen: int, least: float, seed: int) -> int:
    """Count the choices, among `DRAWN` random ones, whose sum is at least `least`."""
    rng, reached, left = np.random.default_rng([seed, len(values)]), 0, DRAWN
    while left:
        rows = min(left, max(1, _BLOCK // len(values)))
        shuffled = rng.permuted(np.tile(values, (rows, 1)), axis=1)
        reached += int((shuffled[:, :chosen].sum(axis=1) >= least).sum())
        left -= rows
    return reached
