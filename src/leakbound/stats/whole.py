"""Arrays of numbers: as callers give them, checked; and the search for where a condition ends."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Counts


def whole(name: str, given: npt.ArrayLike) -> Counts:
    """An array of whole numbers >= 0, or InputError. Integers keep every digit."""
    exact = np.asarray(given) if _rectangular(given) else None
    if exact is not None and exact.dtype.kind == "i" and (exact >= 0).all():
        return exact.astype(np.int64)
    found = numbers(name, given)
    bad = ~((found >= 0) & (found == np.floor(found)) & np.isfinite(found))
    if bad.any():
        raise InputError(f"`{name}` must be whole numbers >= 0, got {found[bad].flat[0]:g}.")
    return found.astype(np.int64)


def per_question(name: str, given: npt.ArrayLike, questions: int) -> Counts:
    """Whole numbers, one a question, from one number or one a question."""
    found = whole(name, given)
    if found.shape not in ((), (questions,)):
        raise InputError(
            f"`{name}` must be one number or one a question ({questions}), got shape {found.shape}."
        )
    return np.broadcast_to(found, (questions,))


def numbers(name: str, given: npt.ArrayLike) -> Array:
    """An array of float64, or InputError.

    Numbers of less precision are read as the decimals that they are printed as: a float32 .1 is .1,
    not the .10000000149 that it is stored as, so that it does not exceed a threshold of .1. That
    keeps their order, and ties.
    """
    try:
        found = np.asarray(given)
        if found.dtype.kind == "f" and found.dtype.itemsize < 8:
            return found.astype(str).astype(np.float64)
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of numbers, got {type(given).__name__} that is none. "
            "Pad rows to one length and give the padding count 0."
        ) from None


def _rectangular(given: npt.ArrayLike) -> bool:
    """False for what NumPy makes no array of, such as rows of two lengths."""
    try:
        np.asarray(given)
    except ValueError:
        return False
    return True


def halved(
    holds: Callable[[Array], npt.NDArray[np.bool_]], inside: Array, outside: Array, times: int
) -> tuple[Array, Array]:
    """The last point where a condition holds on the way to where it does not, from both sides."""
    for _ in range(times):
        middle = (inside + outside) / 2
        still = holds(middle)
        inside, outside = np.where(still, middle, inside), np.where(still, outside, middle)
    return inside, outside
