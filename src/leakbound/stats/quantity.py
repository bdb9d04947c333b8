"""`Quantity`: the number to bound for a score's distribution, and the questions it is about."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About, parameter_of
from leakbound.stats.arrays import numbers, whole_numbers
from leakbound.stats.estimate import Array, Counts

Over = Literal["each", "mean", "worst", "every", "count"]


@dataclass(frozen=True)
class Quantity:
    """A number to bound, such as E[X] for a score X, and the questions that it is about.

    Start from `LEAKAGE`, `SD`, `tail(x)`, `leak_at(k)` or `ed(rho)`, and select questions by the
    methods below. Any `reading` in `THEOREMS` that needs no parameter can also be constructed
    directly, for example `Quantity("median")`.

    Attributes:
        reading: the name of the number. "leakage" is Pr[X = 1] of a binary scorer and E[X] of any
            other scorer. "tail" is Pr[X > x], and "leak@k" is the expected largest of k scores.
            "standard deviation" and "median" are the standard deviation and the median of X.
            "expectation deviation" is the mean plus rho standard deviations.
        at: the x, k or rho; several x or k are bounded simultaneously.
        over: "each" question individually, the "mean" over the questions, the "worst" question,
            "every" question simultaneously, or the "count" of questions above a level.
        weights: the weight of each question in a mean, >= 0, [Q]; None: equal weights.
        level: the number that a question's quantity must exceed for the question to be counted, or
            several numbers, [K]; only for a count.
    """

    reading: str = "leakage"
    at: float | tuple[float, ...] | None = None
    over: Over = "each"
    weights: npt.ArrayLike | None = None
    level: npt.ArrayLike = 0.0

    def mean(self, weights: npt.ArrayLike | None = None) -> Quantity:
        """Return the mean of this quantity over the questions, with weights fixed in advance."""
        return replace(self, over="mean", weights=weights)

    def worst(self) -> Quantity:
        """Return this quantity of the worst question; see `worst_question`."""
        return replace(self, over="worst")

    def every(self) -> Quantity:
        """Return this quantity of every question simultaneously; see `every_question`."""
        return replace(self, over="every")

    def above(self, level: npt.ArrayLike) -> Quantity:
        """Return the number of questions above `level`; see `leaking_questions`."""
        return replace(self, over="count", level=level)

    def about(self, *, binary: bool = False) -> About:
        """Return the `About` of one question's estimate; `binary`: whether the scorer is binary."""
        match self.reading:
            case "leakage":
                return About(quantity="leak probability" if binary else "mean leakage")
            case "expectation deviation":
                return About(quantity=self.reading, constant=self.rho)
        return About(quantity=self.reading, parameter=self.at)

    @property
    def rho(self) -> float:
        """Return the number of standard deviations of an expectation deviation."""
        assert isinstance(self.at, float)
        return self.at

    @property
    def points(self) -> Array:
        """Return the x or k as an array, 0-D or 1-D."""
        return np.asarray(self.at, dtype=np.float64)

    @property
    def sizes(self) -> Counts:
        """Return the k as whole numbers, 0-D or 1-D."""
        return self.points.astype(np.int64)


LEAKAGE = Quantity()
SD = Quantity("standard deviation")


def tail(x: npt.ArrayLike) -> Quantity:
    """Return the quantity Pr[X > x]; its bounds are valid for every x simultaneously.

    Args:
        x: a finite number, or [K] numbers, which form the last axis of an estimate. An x may be
            chosen after looking at the results.

    Returns:
        The quantity.

    Raises:
        InputError: an x that is not finite.
    """
    return Quantity("tail", parameter_of(finite("x", x)))


def leak_at(k: npt.ArrayLike) -> Quantity:
    """Return the quantity leak@k: the expected largest score of k draws.

    Args:
        k: a whole number >= 1, fixed in advance; or [K] such numbers, which form the last axis of
            an estimate. The bounds are then valid for every k simultaneously.

    Returns:
        The quantity.

    Raises:
        InputError: a k that is not a whole number >= 1.
    """
    return Quantity("leak@k", parameter_of(whole_sizes(k)))


def ed(rho: float = 2.0) -> Quantity:
    """Return the expectation deviation score: the mean plus rho standard deviations.

    Args:
        rho: a finite number >= 0.

    Returns:
        The quantity.

    Raises:
        InputError: a rho that is negative or not finite.
    """
    if not (math.isfinite(rho) and rho >= 0):
        raise InputError(f"`rho` must be a number >= 0, got {rho!r}.")
    return Quantity("expectation deviation", float(rho))


def finite(name: str, values: npt.ArrayLike) -> Array:
    """Return numbers as an array, 0-D or 1-D; raise InputError unless all are finite."""
    points = numbers(name, values)
    if points.ndim > 1 or not points.size or not np.isfinite(points).all():
        raise InputError(
            f"`{name}` must be a finite number or a 1-D array of finite numbers, got {values!r}."
        )
    return points


def whole_sizes(k: npt.ArrayLike) -> Counts:
    """Return k as an array, 0-D or 1-D; raise InputError unless all are whole numbers >= 1."""
    sizes = whole_numbers("k", k)
    if sizes.ndim > 1 or not sizes.size or sizes.min() < 1:
        raise InputError(
            f"`k` must be a whole number >= 1, or a 1-D array of such numbers, got {k!r}."
        )
    return sizes
