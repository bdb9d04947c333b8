"""`Estimate`, the frozen result of every bound, and the words its callers use."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Context, Decimal
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Side = Literal["upper", "lower", "both"]
_ERROR = Context(prec=6)  # digits of an error rate that are said; the rest is arithmetic's


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A quantity, the bounds that hold for it, and the evidence behind them.

    With probability at least `confidence` over the draws (and over their order, where `seed` is
    not None) the estimand lies in [lower, upper]; where several x or k stand in one estimate of
    a tail or leak@k, all of them at once. With `side` "upper" the lower end is the trivial one,
    and conversely. One entry a question where the scores were two-dimensional: each question's
    statement then holds by itself. `value` is the point estimate over the scored draws, NaN
    where there is none. `n` counts all draws, the `missing` ones included.
    """

    estimand: str
    target: str = "this query under this decoding"
    value: float | Array
    lower: float | Array
    upper: float | Array
    confidence: float
    side: Side
    n: int | Counts
    missing: int | Counts
    method: str
    seed: int | Counts | None = None
    stopping: str = "fixed n"

    def to_dict(self) -> dict[str, object]:
        """Every field, as JSON holds it: arrays as lists, NaN as None."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def error_rate(confidence: float) -> float:
    """alpha = 1 - confidence; a confidence outside (0, 1) is refused."""
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence!r}. "
            "Use 0.99 for bounds that fail at most once in a hundred."
        )
    return 1 - confidence


def percent(confidence: float) -> str:
    """A confidence for a person, as '99.9 %': only certainty itself is said to be '100 %'.

    Six digits of the error rate are kept, however small it is. Every text that names a confidence
    calls this.
    """
    error = _ERROR.create_decimal(1 - Decimal(str(float(confidence))))
    return f"{(100 * (1 - error)).normalize():f} %"


def check_side(side: str) -> None:
    """Refuse a side that is none of upper, lower, both."""
    if side not in ("upper", "lower", "both"):
        raise InputError(f"`side` must be 'upper', 'lower' or 'both', got {side!r}.")


def one_or_all(rows: Array, single: bool) -> float | Array:
    """A result with one row a question, without that axis if there was one question."""
    result = rows[0] if single else rows
    return float(result) if np.ndim(result) == 0 else np.asarray(result)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value
