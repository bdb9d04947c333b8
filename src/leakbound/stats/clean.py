"""Clean questions: the p-values of "this one leaks more than that", and Holm's test.

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
    """Questions of which "its leakage is at most `limit`" is proved, all of them jointly.

    With probability at least `confidence` every entry that `holds` is true. One that does not
    is not proved, which is not to say that it leaks.

    Attributes:
        limit: of the leakage, in (0, 1).
        holds: whether it is proved of each question, [N].
        p_values: those of "more than `limit`", [N].
        confidence: the probability, at least, that all that is proved is true, in (0, 1).
        method: by what it was proved.
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

    Holm (1979): from the smallest p-value on, while the i-th is at most alpha/(N - i + 1).

    Args:
        limit: of the leakage, in (0, 1).
        p_values: those of "more than `limit`", one a question, [N]; they may depend on each other.
            See `proportion_p_value` and `mean_p_value`.
        confidence: with which probability all that is proved is true, in (0, 1).

    Returns:
        The questions of which it is proved.

    Raises:
        InputError: a limit or confidence outside (0, 1), or p-values that are no row of numbers in
            [0, 1].
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
    bound is at most `limit`.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        limit: of the leakage, in (0, 1).
        missing: draws without a score, [Q] or one number; they count as leaks.

    Returns:
        The p-value, in [0, 1]; [Q] where an argument is.

    Raises:
        InputError: counts that cannot be, or a limit outside (0, 1).
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
    was fixed without regard to n and alpha.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        limit: of the leakage, in (0, 1).
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        missing: draws without a score, [Q] or one number; they count as 1.

    Returns:
        The p-value, in [0, 1]; [Q] where `scores` are [Q, m].

    Raises:
        InputError: scores or counts that cannot be, or a limit outside (0, 1).
    """
    _check_limit(limit)
    leakage = Leakage.read(scores, counts, missing)
    wealth = log_wealth(leakage, np.array(limit), anytime_bets())
    return leakage.single_or_all(np.exp(np.minimum(-wealth, 0.0)))


def _check_limit(limit: float) -> None:
    if not 0 < limit < 1:
        raise InputError(f"`limit` must lie strictly between 0 and 1, got {limit!r}.")
