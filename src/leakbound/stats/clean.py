"""Which questions are clean: the p-values of "this one leaks more than that", and Holm's test.

Holm's procedure needs p-values. A betting bound gives none: run at level alpha, its bet aims at
1/alpha, so what it rejects at one level it need not reject at a larger one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import bdtr

from leakbound.errors import InputError
from leakbound.stats.anytime import anytime_bets
from leakbound.stats.estimate import Array, error_rate
from leakbound.stats.leakage import Leakage
from leakbound.stats.portfolio import log_wealth
from leakbound.stats.proportion import tally


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanQuestions:
    """For which questions "its leakage is at most `limit`" is proved, all of them jointly.

    With probability at least `confidence` every entry that `holds` is true. One that does not
    is not proved, which is not to say that it leaks.
    """

    limit: float
    holds: npt.NDArray[np.bool_]
    p_values: Array
    confidence: float
    method: str = "Holm"


def clean_questions(
    limit: float, p_values: npt.ArrayLike, *, confidence: float = 0.99
) -> CleanQuestions:
    """Prove of as many questions as possible that their leakage is at most `limit`, jointly.

    `p_values` (N,) are those of "more than `limit`", one a question; they may depend on each
    other. Holm (1979): from the smallest on, while the i-th is at most alpha/(N - i + 1).
    """
    _check_limit(limit)
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
        raise InputError(
            f"`p_values` must be numbers in [0, 1], one a question, got shape {p.shape}"
            + (f" in [{p.min():g}, {p.max():g}]." if p.size else ".")
            + " Use proportion_p_value or mean_p_value."
        )
    order = np.argsort(p, kind="stable")
    passed = p[order] <= error_rate(confidence) / np.arange(len(p), 0, -1)
    holds = np.zeros(len(p), dtype=np.bool_)
    holds[order] = np.logical_and.accumulate(passed)
    return CleanQuestions(limit=limit, holds=holds, p_values=p, confidence=confidence)


def proportion_p_value(
    hits: npt.ArrayLike, n: npt.ArrayLike, limit: float, missing: npt.ArrayLike = 0
) -> float | Array:
    """The p-value of "leaks with probability above `limit`": P(Bin(n, limit) <= hits).

    For i.i.d. draws, n fixed beforehand; it is at most alpha where the Clopper-Pearson upper
    bound is at most `limit`. Each argument but `limit` is one number or one a question; `n`
    counts the `missing` draws, which count as leaks.
    """
    _check_limit(limit)
    rows = tally(hits, n, missing)
    return rows.single_or_all(np.asarray(bdtr(rows.hits + rows.missing, rows.n, limit)))


def mean_p_value(
    scores: npt.ArrayLike,
    limit: float,
    counts: npt.ArrayLike | None = None,
    *,
    missing: npt.ArrayLike = 0,
) -> float | Array:
    """The p-value of "mean leakage is above `limit`" for scores in [0, 1], one a question.

    For i.i.d. draws of a question, at any look: one over the wealth of a portfolio of bets that
    was fixed without regard to n and alpha. Missing draws count as 1.
    """
    _check_limit(limit)
    leakage = Leakage.read(scores, counts, missing)
    wealth = log_wealth(leakage, np.array(limit), anytime_bets())
    return leakage.single_or_all(np.exp(np.minimum(-wealth, 0.0)))


def _check_limit(limit: float) -> None:
    if not 0 < limit < 1:
        raise InputError(f"`limit` must lie strictly between 0 and 1, got {limit!r}.")
