"""Bound the effects of the two parameters of a grid of decodings, such as temperature and top-p."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.estimate import Array, Estimate, error_rate
from leakbound.stats.joint import Joint


def two_way(
    lower: npt.ArrayLike,
    upper: npt.ArrayLike,
    values: npt.ArrayLike,
    rows: str,
    columns: str,
    confidence: float,
) -> Joint:
    """Bound the effects of two decoding parameters from jointly valid intervals for a grid's cells.

    Each cell is decomposed as cell = mean + row effect + column effect + interaction. The effect of
    a parameter is the root mean square, over the grid, of the row or column effects that belong to
    it. The effect of a parameter with only one setting is 0. A row effect is the mean of its row
    minus the mean of the grid. A row effect is linear in the cells, so its exact range over the box
    of the cells' intervals is known. The ranges of the squared row effects bound their mean. The
    three resulting intervals are valid simultaneously if the intervals of the cells are valid
    simultaneously.

    Args:
        lower: the lower bounds of the cells, one per decoding, [R, C].
        upper: the upper bounds of the cells, [R, C].
        values: the point estimates of the cells, [R, C].
        rows: the name of the decoding parameter that differs between rows.
        columns: the name of the decoding parameter that differs between columns.
        confidence: the joint confidence of the cells (see `every_question(independent=False)`), in
            (0, 1]; it is the confidence of the result.

    Returns:
        Three estimates: the effect of the rows' parameter, the effect of the columns' parameter,
        and the interaction (the effect of both parameters together minus the sum of the two
            effects).

    Raises:
        InputError: grids that are not 2-D or differ in shape, a lower bound above its upper bound,
            or an invalid confidence.
    """
    if confidence != 1:  # a confidence of 1 is allowed, because cells may be exact
        error_rate(confidence)
    low, high, centre = _grids(lower, upper, values)
    height, width = centre.shape
    tilt_rows, tilt_columns = _tilt(height), _tilt(width)
    parts = {
        rows: np.kron(tilt_rows, np.full((1, width), 1 / width)),
        columns: np.kron(np.full((1, height), 1 / height), tilt_columns),
        f"{rows} and {columns} together": np.kron(tilt_rows, tilt_columns),
    }
    effects = tuple(
        Estimate(
            about=About(quantity="effect", scope="grid", knob=name, over=centre.size, jointly=True),
            value=float(np.sqrt(np.mean((weights @ centre.ravel()) ** 2))),
            lower=float(np.sqrt(np.mean(squares[0]))),
            upper=float(np.sqrt(np.mean(squares[1]))),
            confidence=confidence,
            side="both",
            n=centre.size,
            missing=0,
            method="interval arithmetic over the cells",
        )
        for name, weights in parts.items()
        for squares in [_square_range(*_range(weights, low.ravel(), high.ravel()))]
    )
    return Joint(effects, confidence)


def _tilt(settings: int) -> Array:
    """Return the matrix that subtracts the mean, [settings, settings]."""
    return np.eye(settings) - 1 / settings


def _range(weights: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smallest and largest value of weights @ cells over the box [low, high]."""
    up, down = np.maximum(weights, 0), np.minimum(weights, 0)
    return up @ low + down @ high, up @ high + down @ low


def _square_range(low: Array, high: Array) -> tuple[Array, Array]:
    """Return the smallest and largest square of a number in [low, high]."""
    nearest = np.maximum(np.maximum(low, -high), 0)
    return nearest**2, np.maximum(-low, high) ** 2


def _grids(*grids: npt.ArrayLike) -> tuple[Array, Array, Array]:
    low, high, centre = (np.asarray(grid, dtype=np.float64) for grid in grids)
    if centre.ndim != 2 or not centre.size or not low.shape == high.shape == centre.shape:
        raise InputError(
            "`lower`, `upper` and `values` must be grids of one shape (rows, columns), got "
            f"{low.shape}, {high.shape} and {centre.shape}."
        )
    if not (low <= high).all():
        row, column = np.argwhere(~(low <= high))[0]
        raise InputError(
            f"`lower` must not exceed `upper`, got {low[row, column]:g} and "
            f"{high[row, column]:g} at row {row}, column {column}."
        )
    return low, high, centre
