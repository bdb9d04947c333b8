"""Arrays of numbers: as callers give them, checked; and the search for where a condition ends."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Counts

_EPSILONS = 4 * np.finfo(np.float64).eps


def whole(name: str, values: npt.ArrayLike) -> Counts:
    """An array of whole numbers >= 0, or InputError. Integers keep every digit."""
    exact = np.asarray(values) if _rectangular(values) else None
    if exact is not None and exact.dtype.kind == "i" and (exact >= 0).all():
        return exact.astype(np.int64)
    array = numbers(name, values)
    bad = ~((array >= 0) & (array == np.floor(array)) & np.isfinite(array))
    if bad.any():
        raise InputError(f"`{name}` must be whole numbers >= 0, got {array[bad].flat[0]:g}.")
    return array.astype(np.int64)


def per_question(name: str, values: npt.ArrayLike, questions: int) -> Counts:
    """Whole numbers, one a question, from one number or one a question."""
    array = whole(name, values)
    if array.shape not in ((), (questions,)):
        raise InputError(
            f"`{name}` must be one number or one a question ({questions}), got shape {array.shape}."
        )
    return np.broadcast_to(array, (questions,))


def numbers(name: str, values: npt.ArrayLike) -> Array:
    """An array of float64, or InputError.

    Numbers of less precision are read as the decimals that they are printed as: a float32 .1 is .1,
    not the .10000000149 that it is stored as, so that it does not exceed a threshold of .1. That
    keeps their order, and ties.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            return array.astype(str).astype(np.float64)
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"`{name}` must be an array of numbers, got {type(values).__name__} that is none. "
            "Pad rows to one length and give the padding count 0."
        ) from None


def relative(weights: npt.ArrayLike, questions: int) -> Array:
    """Weights as parts of the largest, whose squares neither vanish nor overflow; or InputError."""
    array = np.asarray(weights, dtype=np.float64)
    fits = array.shape == (questions,) and np.isfinite(array).all()
    if not (fits and (array >= 0).all() and array.any()):
        raise InputError(
            f"`weights` must be one number >= 0 for each of {questions} questions, not all 0, "
            f"got {weights!r}."
        )
    return np.asarray(array / array.max())


def _rectangular(values: npt.ArrayLike) -> bool:
    """False for what NumPy makes no array of, such as rows of two lengths."""
    try:
        np.asarray(values)
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


def root(function: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """A root between two ends at which a function has unlike signs, by Brent's method.

    Step for step `scipy.optimize.brentq`, which takes a fifth of a second to import.
    """
    last, at, other = low, high, low
    f_last, f_at = function(last), function(at)
    f_other, before, step = f_last, 0.0, 0.0
    while True:
        if f_last and f_at and (f_last > 0) != (f_at > 0):
            other, f_other = last, f_last
            before = step = at - last
        if abs(f_other) < abs(f_at):
            last, at, other = at, other, at
            f_last, f_at, f_other = f_at, f_other, f_at
        least = (tolerance + _EPSILONS * abs(at)) / 2
        half = (other - at) / 2
        if f_at == 0 or abs(half) < least:
            return at
        tried = math.inf
        if abs(before) > least and abs(f_at) < abs(f_last):
            if last == other:
                tried = -f_at * (at - last) / (f_at - f_last)
            else:
                rise, fall = (f_last - f_at) / (last - at), (f_other - f_at) / (other - at)
                tried = -f_at * (f_other * fall - f_last * rise)
                tried /= fall * rise * (f_other - f_last)
        shorter = 2 * abs(tried) < min(abs(before), 3 * abs(half) - least)
        before, step = (step, tried) if shorter else (half, half)
        last, f_last = at, f_at
        at += step if abs(step) > least else math.copysign(least, half)
        f_at = function(at)
