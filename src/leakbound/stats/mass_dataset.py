"""The mean over a data set from exact masses and draws of what they leave. See `mass`.

With the parts of question i that its masses settle between low_i and high_i, the unknown slack_i,
and a remainder of mass R_i in which the score has mean q_i,

    sum low_i + sum R_i q_i  <=  N mean  <=  sum (high_i + slack_i) + sum R_i q_i.

The R_i owe nothing to the draws, so sum R_i q_i / sum R_i is a mean of the draws' expectations with
weights fixed beforehand, which `dataset` bounds; only this spends alpha.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.dataset import mean_over_questions, proportion_over_questions
from leakbound.stats.estimate import Array, Counts, Estimate, Side, check_side
from leakbound.stats.mass import EXACT, Mass
from leakbound.stats.order import Seed
from leakbound.stats.whole import per_question, whole


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
    draws = _Draws.read(scores, counts, missing, len(masses))
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
        inside = draws.bound(rows, weights[rows], binary, confidence, side, keys)
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


@dataclass(frozen=True, slots=True)
class _Draws:
    """Draws of every question's remainder, of some questions none."""

    scores: Array
    counts: Counts
    missing: Counts

    @classmethod
    def read(
        cls, scores: npt.ArrayLike, counts: npt.ArrayLike | None, missing: npt.ArrayLike, rows: int
    ) -> _Draws:
        values = np.asarray(scores, dtype=np.float64)
        tally = np.ones(values.shape, np.int64) if counts is None else whole("counts", counts)
        if values.ndim != 2 or len(values) != rows or tally.shape != values.shape:
            raise InputError(
                f"`scores` must be 2-D with one row for each of {rows} masses, and `counts` of its "
                f"shape, got {values.shape} and {tally.shape}."
            )
        return cls(values, tally, per_question("missing", missing, rows))

    @property
    def n(self) -> Counts:
        """Draws of each question, the missing ones included: (N,)."""
        return np.asarray(self.counts.sum(axis=1) + self.missing)

    def bound(
        self,
        rows: npt.NDArray[np.bool_],
        weights: Array,
        binary: bool,
        confidence: float,
        side: Side,
        seed: Seed,
    ) -> Estimate:
        """The weighted mean of the expectations inside the remainders of these questions."""
        scores, counts, missing = self.scores[rows], self.counts[rows], self.missing[rows]
        if binary:
            hits = np.where(scores > 0, counts, 0).sum(axis=1)
            return proportion_over_questions(
                hits, self.n[rows], weights=weights, missing=missing,
                confidence=confidence, side=side, seed=seed,
            )  # fmt: skip
        return mean_over_questions(
            scores, counts, weights=weights, missing=missing,
            confidence=confidence, side=side, seed=seed,
        )  # fmt: skip
