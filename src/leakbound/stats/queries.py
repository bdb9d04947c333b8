"""The queries of one prompt one by one, some of which may have got no output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.estimate import Array, Estimate, Side
from leakbound.stats.questions import BoundFunction, worst_question
from leakbound.stats.whole import whole


def each_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Every query's own bound of a quantity in [0, 1]: one entry a query, each holds by itself.

    `outputs` (C,): how many each query got. `bound` is about those that got any, in their order;
    it holds given the numbers, which owe nothing to the scores. The others have [0, 1] and no
    value.
    """
    got = whole("outputs", outputs)
    drawn = got > 0
    if got.ndim != 1 or not drawn.any():
        raise InputError(f"`outputs` must be 1-D, one number a query, not all 0, got {outputs!r}.")
    made = bound(confidence=confidence, side=side)
    rows = np.atleast_1d(made.n)
    if not np.array_equal(rows, got[drawn]):
        raise InputError(
            f"`bound` must be about the {drawn.sum()} queries with outputs, and as many of them, "
            f"got one about {rows}. Leave out the rows of the others."
        )

    def spread(entries: npt.ArrayLike, nothing: float) -> Array:
        known = np.asarray(entries)
        result = np.full((len(got), *known.shape[1:]), nothing, dtype=known.dtype)
        result[drawn] = known
        return result

    keys = made.seed
    return replace(
        made,
        value=spread(made.value, np.nan),
        lower=spread(made.lower, 0.0),
        upper=spread(made.upper, 1.0),
        n=got,
        missing=spread(made.missing, 0).astype(np.int64),
        # a query without outputs has no order: its key is 0
        seed=spread(keys, 0).astype(np.int64) if isinstance(keys, np.ndarray) else keys,
    )


def worst_query(
    bound: BoundFunction, outputs: npt.ArrayLike, *, confidence: float = 0.99, side: Side = "upper"
) -> Estimate:
    """Bound the largest over all queries of a quantity in [0, 1], arguments as for `each_query`.

    As `worst_question`: the lower end pays for the choice among all C queries, those without
    outputs included; a single one of these makes the upper end 1.
    """

    def of_all(*, confidence: float, side: Side) -> Estimate:
        return each_query(bound, outputs, confidence=confidence, side=side)

    queries = np.size(outputs)
    made = worst_question(of_all, queries, confidence=confidence, side=side)
    about = replace(made.about, scope="question", inputs="worst query")
    return replace(made, about=about)
