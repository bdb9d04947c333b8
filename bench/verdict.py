"""Whether any of many bounds misses more often than it may.

Each row is judged by an exact binomial test: the chance of as many misses or more, had they chance
alpha each. It fails below `FALSE_ALARM` over the number of rows (Bonferroni), so that correct
bounds, however many and however dependent, raise any alarm with probability `FALSE_ALARM` at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from scipy.stats import binom, binomtest

FALSE_ALARM = 0.001  # of a whole run of a benchmark
Row = TypeVar("Row")


def p_value(misses: int, trials: int, alpha: float) -> float:
    """The chance of as many misses or more at alpha each; 1 without a trial."""
    return float(binomtest(misses, trials, alpha, "greater").pvalue) if trials else 1.0


def too_often(rows: Sequence[Row], counted: Sequence[tuple[int, int]], alpha: float) -> list[Row]:
    """The rows whose (misses, trials) chance does not explain, beside all the others."""
    return unlikely(rows, [p_value(misses, trials, alpha) for misses, trials in counted])


def unlikely(rows: Sequence[Row], p_values: Sequence[float]) -> list[Row]:
    """The rows whose p-value chance does not explain, beside all the others."""
    return [row for row, p in zip(rows, p_values, strict=True) if p < FALSE_ALARM / len(rows)]


def most_misses(trials: int, rows: int, alpha: float) -> int:
    """So many misses are no alarm in a row of that many trials, one of `rows`."""
    return int(binom.isf(FALSE_ALARM / max(rows, 1), trials, alpha))
