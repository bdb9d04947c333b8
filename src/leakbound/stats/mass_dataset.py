"""The mean over a data set from exact masses and draws of what they leave. See `mass`.

With the parts of question i that its masses settle between low_i and high_i, the unknown slack_i,
and a remainder of mass R_i in which the score has mean q_i,

    sum low_i + sum R_i q_i  <=  N mean  <=  sum (high_i + slack_i) + sum R_i q_i.

The R_i owe nothing to the draws, so sum R_i q_i / sum R_i is a mean of the draws' expectations with
weights fixed beforehand, which `dataset` bounds; only this spends alpha.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.dataset import over_questions
from leakbound.stats.estimate import Estimate, Side, check_side
from leakbound.stats.leakage import Leakage
from leakbound.stats.mass import EXACT, Mass
from leakbound.stats.order import Seed
from leakbound.stats.proportion import tally


def mass_mean_over_questions(
    masses: Sequence[Mass],
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    binary: bool = False,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the mean over these questions of E[X]: surely given the masses, else at `confidence`.

    `masses`: of each question, in the order of the rows; one without draws has no remainder.
    `scores`, `counts`: (N, d), draws of each question's remainder, their numbers fixed beforehand.
    `binary`: the scorer's declared range; scores and ranges are then 0 or 1.
    `missing`: draws without a score, one number or one a question; `seed`: as for
        `mean_over_questions`, one key for all or one a question.
    """
    check_side(side)
    draws = Leakage.read(scores, counts, missing, empty=True)
    if draws.single or len(draws.n) != len(masses):
        raise InputError(
            f"`scores` must be 2-D with one row for each of {len(masses)} masses, got shape "
            f"{np.shape(scores)}."
        )
    weights = np.array([mass.remainder for mass in masses])
    rows = (weights > 0) & (draws.n > 0)
    if (weights[~rows] > 0).any():
        raise InputError(
            "a question without draws can have no remainder that draws were taken from, got "
            f"{weights[~rows].max():g}. Leave it 0: what nothing was drawn of is unknown."
        )
    inside = None
    if rows.any():
        keys = seed if seed is None or isinstance(seed, int) else np.asarray(seed)[rows]
        some = draws.only(rows)
        if binary:
            some = tally((some.counts * (some.values > 0)).sum(axis=1), some.n, some.missing)
        inside = over_questions(
            some, weights[rows], binary=binary, confidence=confidence, side=side, seed=keys
        )
    low, high = (np.mean([m.p @ getattr(m, end) for m in masses]) for end in ("low", "high"))
    slack, share = np.mean([m.slack for m in masses]), weights.mean()
    ends = (inside.lower, inside.upper, inside.value) if inside else (0.0, 1.0, 0.0)
    lower, upper, value = (float(share * end) for end in ends)
    middle = (low + high) / 2 + value
    return Estimate(
        about=About(
            quantity="leak probability" if binary else "mean leakage",
            scope="mean",
            over=len(masses),
        ),
        value=float(min(middle / (1 - slack), 1.0)) if slack < 1 else float("nan"),
        lower=0.0 if side == "upper" else float(low + lower),
        upper=1.0 if side == "lower" else float(min(high + slack + upper, 1.0)),
        confidence=confidence if inside else 1.0,
        side=side,
        n=int(draws.n.sum()),
        missing=int(draws.missing.sum()),
        method=f"{EXACT} + {inside.method}" if inside else EXACT,
        seed=inside.seed if inside else None,
    )
