"""Estimates to rows of the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.store import ALL, EstimateRow

_AXES = {"value": 2, "lower": 2, "upper": 2, "n": 1, "missing": 1, "seed": 1}
"""The numbers of an estimate, and how many axes they may have: questions, and x or k."""


def rows_of(
    arm: str, scorer: str, query_ids: Sequence[str] | None, *estimates: stats.Estimate
) -> Iterator[EstimateRow]:
    """A row for each question, and each x or k, of estimates; `query_ids` None: of all at once.

    An estimate with one entry a question has them in the order of `query_ids`.
    """
    for estimate in estimates:
        parameter = estimate.about.parameter
        places = range(len(parameter)) if isinstance(parameter, tuple) else [None]
        for i, query_id in enumerate([ALL] if query_ids is None else query_ids):
            for j in places:
                yield EstimateRow(arm, scorer, query_id, at(estimate, i, j))


def at(estimate: stats.Estimate, i: int, j: int | None = None) -> stats.Estimate:
    """What it says of one question, where it has several, and of one x or k."""
    axes = np.ndim(estimate.n)  # that of the questions, where it has one
    place = ((i,) if axes else ()) + (() if j is None else (j,))
    return replace(_entry(estimate, place), about=estimate.about.at(i, j))


def stack(estimates: Sequence[stats.Estimate]) -> stats.Estimate:
    """Estimates of one quantity as one, with an entry for each."""
    arrays: dict[str, Any] = {
        name: np.array([getattr(estimate, name) for estimate in estimates])
        for name in _AXES
        if name != "seed"
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


def _entry(estimate: stats.Estimate, at: tuple[int, ...]) -> stats.Estimate:
    """The numbers of one question, and of one parameter where there are several."""
    picked: dict[str, Any] = {}
    for name, axes in _AXES.items():
        if (values := getattr(estimate, name)) is not None:
            array = np.asarray(values)
            picked[name] = array[at[: min(axes, array.ndim)]].item()
    return replace(estimate, **picked)
