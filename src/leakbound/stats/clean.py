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
from leakbound.stats.evidence import Rows
from leakbound.stats.portfolio import log_wealth


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
            See `p_value`.
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
            + " Use p_value."
        )
    order = np.argsort(p, kind="stable")
    passed = p[order] <= error_rate(confidence) / np.arange(len(p), 0, -1)
    holds = np.zeros(len(p), dtype=np.bool_)
    holds[order] = np.logical_and.accumulate(passed)
    return CleanQuestions(limit=limit, holds=holds, p_values=p, confidence=confidence)


def p_value(rows: Rows, limit: float) -> float | Array:
    """The p-value of "leaks more than `limit`", for i.i.d. draws.

    Of a binary scorer P(Bin(n, limit) <= hits), n fixed in advance; it is at most alpha where the
    Clopper-Pearson upper bound is at most `limit`. Of any other, at any look: one over the wealth
    of a portfolio of bets that was fixed without regard to n and alpha.

    Args:
        rows: the draws; missing ones count as leaks.
        limit: of the leak probability or mean leakage, in (0, 1).

    Returns:
        The p-value, in [0, 1]; [Q] for several questions.

    Raises:
        InputError: a limit outside (0, 1).
    """
    _check_limit(limit)
    if rows.binary:
        return rows.single_or_all(np.asarray(bdtr(rows.hits + rows.missing, rows.n, limit)))
    wealth = log_wealth(rows, np.array(limit), anytime_bets())
    return rows.single_or_all(np.exp(np.minimum(-wealth, 0.0)))


def _check_limit(limit: float) -> None:
    if not 0 < limit < 1:
        raise InputError(f"`limit` must lie strictly between 0 and 1, got {limit!r}.")
