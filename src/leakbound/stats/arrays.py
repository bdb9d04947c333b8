"""Check arrays of numbers, and find points by bisection."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Counts


def whole_numbers(name: str, values: npt.ArrayLike) -> Counts:
    """Return the values as int64; raise InputError unless all are whole numbers >= 0.

    Integers are not converted to float64, so they keep every digit.
    """
    array, exact = numbers(name, values), np.asarray(values)
    if exact.dtype.kind == "i" and (exact >= 0).all():
        return exact.astype(np.int64)
    bad = ~((array >= 0) & (array == np.floor(array)) & np.isfinite(array))
    if bad.any():
        raise InputError(f"`{name}` must contain whole numbers >= 0, got {array[bad].flat[0]:g}.")
    return array.astype(np.int64)


def per_question(name: str, values: npt.ArrayLike, questions: int) -> Counts:
    """Return one whole number per question; a single number is repeated for all questions."""
    array = whole_numbers(name, values)
    if array.shape not in ((), (questions,)):
        raise InputError(
            f"`{name}` must be one number, or one number per question ({questions}), got shape "
            f"{array.shape}."
        )
    return np.broadcast_to(array, (questions,))


def numbers(name: str, values: npt.ArrayLike) -> Array:
    """Return an array of float64.

    Numbers of lower precision are converted by their printed decimals. For example, a float32 of .1
    becomes .1, not the stored .10000000149, so it does not exceed a threshold of .1. The conversion
    preserves order and ties.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            return array.astype(str).astype(np.float64)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of numbers, got {type(values).__name__}. "
            "Pad rows to one length, and set `counts` to 0 on the padding."
        ) from None


def relative(weights: npt.ArrayLike, questions: int) -> Array:
    """Return weights divided by the largest weight, so that squares neither vanish nor overflow."""
    array = np.asarray(weights, dtype=np.float64)
    fits = array.shape == (questions,) and np.isfinite(array).all()
    if not (fits and (array >= 0).all() and array.any()):
        raise InputError(
            f"`weights` must be one number >= 0 for each of {questions} questions, not all 0, "
            f"got {weights!r}."
        )
    return np.asarray(array / array.max())


def bisected(
    condition: Callable[[Array], npt.NDArray[np.bool_]], inside: Array, outside: Array, times: int
) -> tuple[Array, Array]:
    """Return the last point where a condition is true, and a point just beyond, by bisection."""
    for _ in range(times):
        middle = (inside + outside) / 2
        still = condition(middle)
        inside, outside = np.where(still, middle, inside), np.where(still, outside, middle)
    return inside, outside
