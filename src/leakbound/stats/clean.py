"""Find the questions whose leakage is proved to be at most a limit, by Holm's procedure.

The hypothesis for each question is "this question leaks more than the limit".
Holm's procedure needs p-values. The bounds of the module `betting` provide no p-values, because
their bets aim at a wealth of 1/alpha. So a mean that is rejected at one alpha need not be rejected
at a larger alpha.
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
    """The questions whose leakage is proved to be at most `limit`; all proofs are jointly valid.

    The claim about a question is that its leakage is at most `limit`. With probability at least
    `confidence` the claim is true for every question where `holds` is True. Where `holds` is
    False, nothing is proved: the leakage may be above or below the limit.

    Attributes:
        limit: the largest leakage that the claim allows, in (0, 1).
        holds: whether the claim is proved for each question, [N].
        p_values: the p-values of the hypothesis "leaks more than `limit`", [N].
        confidence: a lower bound of the probability that all proved claims are true, in (0, 1).
        method: the name of the test.
    """

    limit: float
    holds: npt.NDArray[np.bool_]
    p_values: Array
    confidence: float
    method: str = "Holm"


def clean_questions(
    limit: float, p_values: npt.ArrayLike, *, confidence: float = 0.99
) -> CleanQuestions:
    """Return the questions that are proved, jointly, to leak at most `limit`.

    With probability at least `confidence`, the claim is true for every question returned. The
    procedure (Holm 1979) visits the p-values in ascending order. It accepts the claim as long as
    the i-th p-value is at most alpha/(N - i + 1).

    Args:
        limit: the largest leakage that the claim allows, in (0, 1).
        p_values: the p-values of the hypothesis "leaks more than `limit`", one per question, [N];
            they may be dependent. See `p_value`.
        confidence: the probability that all proved claims are true, in (0, 1).

    Returns:
        The questions for which the claim is proved.

    Raises:
        InputError: a limit or confidence outside (0, 1), or p-values that are not a 1-D array of
            numbers in [0, 1].
    """
    _check_limit(limit)
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not p.size or not ((p >= 0) & (p <= 1)).all():
        raise InputError(
            f"`p_values` must be numbers in [0, 1], one per question, got shape {p.shape}"
            + (f" with values from {p.min():g} to {p.max():g}." if p.size else ".")
            + " `stats.p_value` computes them."
        )
    order = np.argsort(p, kind="stable")
    passed = p[order] <= error_rate(confidence) / np.arange(len(p), 0, -1)
    holds = np.zeros(len(p), dtype=np.bool_)
    holds[order] = np.logical_and.accumulate(passed)
    return CleanQuestions(limit=limit, holds=holds, p_values=p, confidence=confidence)


def p_value(rows: Rows, limit: float) -> float | Array:
    """Return the p-value of "leaks more than `limit`", for i.i.d. draws.

    For a binary scorer with S leaks the p-value is P(Bin(n, limit) <= S), with n fixed in advance.
    It is at most alpha if the Clopper-Pearson upper bound is at most `limit`. For other scorers the
    p-value is 1 divided by the wealth of a portfolio of bets (see `portfolio`). These bets depend
    on neither n nor alpha, so sampling may stop at any time.

    Args:
        rows: the draws; missing draws count as leaks.
        limit: the limit of the leak probability or of the mean leakage, in (0, 1).

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
        raise InputError(f"`limit` must be strictly between 0 and 1, got {limit!r}.")
