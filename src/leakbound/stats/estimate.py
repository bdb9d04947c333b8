"""`Estimate`, the frozen result of every bound, and helpers for confidences and probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Context, Decimal
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Side = Literal["upper", "lower", "both"]
OPPOSITE: Mapping[Side, Side] = {"upper": "lower", "lower": "upper", "both": "both"}
_ERROR = Context(prec=6)  # shown digits of an error rate; further digits are rounding errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A quantity with its bounds and the facts about their evidence.

    With probability at least `confidence` over the draws (and over their order, where `seed` is not
    None) the quantity is in [lower, upper]. The bounds for several x of one tail, or several k of
    leak@k, are valid simultaneously. Scores of several questions give one entry per question, each
    valid individually.

    Attributes:
        about: the quantity as data; `estimand` and `target` state it in words.
        value: the point estimate over the scored draws, or NaN.
        lower: the lower bound; if `side` is "upper", the smallest possible value.
        upper: the upper bound; if `side` is "lower", the largest possible value.
        confidence: the bounds are valid with at least this probability, in (0, 1]; 1: certain.
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.
        n: the number of draws, including missing draws.
        missing: the number of draws without a score, which count as the worst case in both bounds.
        method: the name of the method of the bounds.
        seed: the key of the order of the draws; None if no order was used.
        stopping: the stopping rules for which the bounds are valid.
    """

    about: About
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

    def __str__(self) -> str:
        """Return one line with every field to six digits, and the range in place of an array."""
        stated = {f.name: getattr(self, f.name) for f in fields(self)[1:]}
        parts = [f"{name} {_shown(x)}" for name, x in stated.items() if x is not None]
        return f"{self.estimand}: {', '.join(parts)}"

    @property
    def estimand(self) -> str:
        """Return the quantity in words, such as 'excess mean leakage, largest of 12'."""
        return self.about.estimand

    @property
    def target(self) -> str:
        """Return the scope in words: 'the mean over these questions under this decoding'."""
        return self.about.target

    def to_dict(self) -> dict[str, object]:
        """Return all fields, with `about` in words; arrays become lists, and NaN becomes None."""
        words = {"estimand": self.estimand, "target": self.target, "about": self.about.to_dict()}
        return words | {f.name: _as_json(getattr(self, f.name)) for f in fields(self)[1:]}


class BoundFunction(Protocol):
    """A function that bounds a quantity of given scores: `partial(bound, rows, quantity)`."""

    def __call__(self, *, confidence: float, side: Side) -> Estimate:
        """Bound the quantity from the given scores.

        Args:
            confidence: the probability that the bound is valid, in (0, 1).
            side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

        Returns:
            The estimate with one entry per question.
        """
        ...


def error_rate(confidence: float) -> float:
    """Return alpha = 1 - confidence; raise InputError for a confidence outside (0, 1)."""
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence!r}. Use a number "
            "such as 0.99."
        )
    return 1 - confidence


def share_of(confidence: float, side: Side) -> float:
    """Return the error rate of each bound: alpha for one side, alpha/2 for "both"."""
    if side not in ("upper", "lower", "both"):
        raise InputError(f"`side` must be 'upper', 'lower' or 'both', got {side!r}.")
    return error_rate(confidence) / (2 if side == "both" else 1)


def percent(confidence: float) -> str:
    """Format a confidence as '99.9 %'; only a confidence of 1 becomes '100 %'.

    The error rate keeps six significant digits, even if it is small. All texts use this function
    for confidences.

    Args:
        confidence: a probability, at most 1.

    Returns:
        The confidence in per cent, with the per cent sign.
    """
    error = _ERROR.create_decimal(1 - Decimal(str(float(confidence))))
    return f"{(100 * (1 - error)).normalize():f} %"


def probability(text: str) -> float:
    """Parse a probability such as "0.02" or "2%"; raise InputError if the text is not a number."""
    number = text.strip()
    try:
        return float(f"{number[:-1].strip()}e-2" if number.endswith("%") else number)
    except ValueError:
        raise InputError(
            f"expected a number or a percentage, such as 0.02 or 2%, got {text!r}."
        ) from None


def plain(value: npt.ArrayLike) -> float | Array:
    """Return a single number as a float, and anything else as an array."""
    return float(np.asarray(value)) if np.ndim(value) == 0 else np.asarray(value)


def _shown(value: Any) -> str:
    ends = dict.fromkeys([value] if isinstance(value, str) else [np.min(value), np.max(value)])
    return " to ".join(f"{end:.6g}" if isinstance(end, float) else str(end) for end in ends)


def _as_json(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [_as_json(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and np.isnan(value) else value
