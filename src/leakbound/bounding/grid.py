"""Bound the target's leakage under every decoding of a grid, and the effects of its parameters.

A grid has D cells, one per decoding. The cells are bounded jointly, each at
alpha/D. Draws under several decodings of one model may share randomness, so the
error rates add up (Bonferroni). Statements derived from the cells need no
further correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from leakbound import stats
from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import RunEvidence
from leakbound.bounding.rows import FEWEST_BLOCKS, LEAKAGE, TOGETHER_K, at, rows_of, stacked
from leakbound.store import ALL, TARGET, Arm, EstimateRow
from leakbound.types import Decoding

GRID = f"{TARGET} grid"  # used in place of an arm's name in rows about all cells
KNOBS = ("temperature", "top-p")
Setting = tuple[float, float]
"""Temperature and top-p."""


def grid_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Yield rows about all decodings of the target, if there are several.

    Every cell has a row of the mean leakage over the questions and, if every n was fixed, a row of
    leak@k. The rows of each quantity are valid simultaneously over the cells. There is a row of the
    decoding that leaks most. If the cells are all pairs of several temperatures and several top-p,
    there are rows of the effects of temperature and of top-p on the mean. There are no rows if a
    cell has no draws of some question.
    """
    cells = _cells(run)
    if len(cells) < 2:
        return
    names, scorer = [cell.arm.name for cell in cells], run.scorer.name
    means = stacked([_mean(cell) for cell in cells])
    joint = _jointly(means, len(cells), confidence)
    yield from _cell_rows(names, scorer, joint)
    largest = stats.worst_question(means, len(cells), confidence=confidence, side="both")
    # A cell may be selected afterwards: the lower bounds of all cells are at alpha/2D.
    picked = max(range(len(cells)), key=lambda i: (at(joint, i).lower, at(joint, i).value))
    about = replace(largest.about, scope="most-leaking decoding")
    most = replace(largest, about=about, value=at(joint, picked).value)
    yield from rows_of(names[picked], scorer, ALL, most)
    effects = _effects([cell.arm for cell in cells], joint)
    yield from rows_of(GRID, scorer, ALL, *effects, family="grid")
    sampled = [cell for cell in cells if not cell.greedy]
    if sampled and all(cell.rows is not None for cell in sampled):
        k = min(TOGETHER_K, *(int(cell.draws.n.min()) for cell in sampled))
        if min(cell.blocks(k) for cell in sampled) < FEWEST_BLOCKS:
            return
        repeated = stacked([_mean(cell, k) for cell in cells])
        yield from _cell_rows(names, scorer, _jointly(repeated, len(cells), confidence))


def _mean(cell: Drawn, k: int | None = None) -> stats.BoundFunction:
    """Return a bound of a cell's mean leakage or mean leak@k, which is exact for a greedy cell."""
    quantity = stats.LEAKAGE if k is None else stats.leak_at(k)

    def bound(*, confidence: float, side: stats.Side) -> stats.Estimate:
        if not cell.greedy:
            return cell.bound(quantity.mean(), confidence=confidence, side=side)
        return cell.greedy_mean(LEAKAGE[not cell.binary] if k is None else "leak@k", k)

    return bound


def _cells(run: RunEvidence) -> list[Drawn]:
    """Return the draws under each decoding of the target, or [] if a question lacks draws."""
    cells = [
        cell
        for cell in run.arms.values()
        if cell.arm.key.own_words and not (cell.arm.key.is_control or cell.arm.key.greedy)
    ]
    number = len(run.run.questions)
    return cells if all(len(cell.query_ids) == number for cell in cells) else []


def _jointly(bound: stats.BoundFunction, cells: int, confidence: float) -> stats.Estimate:
    """Bound all cells simultaneously, even if their draws are dependent."""
    return stats.every_question(bound, cells, confidence=confidence, side="both", independent=False)


def _cell_rows(names: Sequence[str], scorer: str, joint: stats.Estimate) -> Iterator[EstimateRow]:
    for i, name in enumerate(names):
        yield from rows_of(name, scorer, ALL, at(joint, i), family="grid")


def _effects(arms: Sequence[Arm], joint: stats.Estimate) -> Sequence[stats.Estimate]:
    """Bound the effect of each parameter on the mean; return () if the cells form no grid."""
    decodings = [arm.decoding for arm in arms]
    axes = axes_of(decodings)
    if axes is None or min(map(len, axes)) < 2:
        return ()
    places = [setting_of(decoding) for decoding in decodings]
    order = [places.index(setting) for setting in product(*axes)]
    shape = tuple(map(len, axes))
    lower, upper, values = (
        np.reshape(np.asarray(ends)[order], shape)
        for ends in (joint.lower, joint.upper, joint.value)
    )
    return stats.two_way(lower, upper, values, *KNOBS, joint.confidence).estimates


def axes_of(decodings: Sequence[Decoding]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Return temperatures and top-p values if the decodings are all their pairs, else None."""
    if len({replace(decoding, temperature=1.0, top_p=1.0) for decoding in decodings}) != 1:
        return None
    settings = sorted(map(setting_of, decodings))
    temperatures, top_ps = (tuple(sorted(set(axis))) for axis in zip(*settings, strict=True))
    return (temperatures, top_ps) if settings == list(product(temperatures, top_ps)) else None


def setting_of(decoding: Decoding) -> Setting:
    return decoding.temperature, decoding.top_p
