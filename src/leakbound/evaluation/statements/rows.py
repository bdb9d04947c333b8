"""Estimates to rows of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.store import ALL, EstimateRow


def rows_of(
    arm: str, scorer: str, query_ids: Sequence[str] | None, estimate: stats.Estimate
) -> Iterator[EstimateRow]:
    """A row for each question, and each x or k, of an estimate; `query_ids` None: of all at once.

    An estimate with one entry a question has them in the order of `query_ids`.
    """
    parameter = estimate.about.parameter
    places = range(len(parameter)) if isinstance(parameter, tuple) else [None]
    axes = np.ndim(estimate.n)  # that of the questions, where it has one
    for i, query_id in enumerate([ALL] if query_ids is None else query_ids):
        for j in places:
            at = ((i,) if axes else ()) + (() if j is None else (j,))
            about = estimate.about.at(i, j)
            yield EstimateRow(arm, scorer, query_id, replace(entry(estimate, at), about=about))


def stack(estimates: Sequence[stats.Estimate]) -> stats.Estimate:
    """Estimates of one quantity as one, with an entry for each."""
    arrays: dict[str, Any] = {
        name: np.array([getattr(estimate, name) for estimate in estimates])
        for name in ("value", "lower", "upper", "n", "missing")
    }
    methods = dict.fromkeys(estimate.method for estimate in estimates)
    seeds = [stats.one_seed(estimate.seed) for estimate in estimates]
    known = np.array(seeds, dtype=np.int64) if all(seed is not None for seed in seeds) else None
    over = tuple(estimate.about.over for estimate in estimates)
    numbers = tuple(number for number in over if isinstance(number, int))
    about = estimates[0].about
    if len(numbers) == len(over):
        about = replace(about, over=numbers)
    return replace(estimates[0], **arrays, about=about, method=" or ".join(methods), seed=known)


def entry(estimate: stats.Estimate, at: tuple[int, ...]) -> stats.Estimate:
    """The numbers of one question, and of one parameter where there are several."""

    def pick(values: Any, index: tuple[int, ...]) -> Any:
        array = np.asarray(values)
        return array[index[: array.ndim]].item()

    return replace(
        estimate,
        value=pick(estimate.value, at),
        lower=pick(estimate.lower, at),
        upper=pick(estimate.upper, at),
        n=pick(estimate.n, at[:1]),
        missing=pick(estimate.missing, at[:1]),
        seed=None if estimate.seed is None else pick(estimate.seed, at[:1]),
    )
