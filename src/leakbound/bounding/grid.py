"""A grid of decodings: how much the target leaks in every cell, and which knob moves it more.

Cells are bounded jointly, each at alpha/D: decodings of one model may share randomness, so their
errors are added up (Bonferroni), and whatever is read off the cells afterwards costs nothing more.
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

GRID = f"{TARGET} grid"  # in place of an arm's name: about all cells
KNOBS = ("temperature", "top-p")
Setting = tuple[float, float]
"""Temperature and top-p."""


def grid_rows(run: RunEvidence, confidence: float) -> Iterator[EstimateRow]:
    """Rows of what holds of all the target's decodings at once; nothing unless there are several.

    For every cell the mean leakage over the questions, and leak@k where every n was fixed, each
    jointly over the cells; the decoding that leaks most; and, where the cells are every pair of
    several temperatures and several top-p, how far each knob moves the mean. Nothing either
    where a cell lacks questions: no statement is made about fewer.
    """
    cells = _cells(run)
    if len(cells) < 2:
        return
    names, scorer = [cell.arm.name for cell in cells], run.scorer.name
    means = stacked([_mean(cell) for cell in cells])
    joint = _jointly(means, len(cells), confidence)
    yield from _cell_rows(names, scorer, joint)
    largest = stats.worst_question(means, len(cells), confidence=confidence, side="both")
    # Whichever cell is named, its lower bound holds: all of them do, at alpha/2D each.
    picked = max(range(len(cells)), key=lambda i: (at(joint, i).lower, at(joint, i).value))
    about = replace(largest.about, scope="most-leaking decoding")
    most = replace(largest, about=about, value=at(joint, picked).value)
    yield from rows_of(names[picked], scorer, ALL, most, family="grid")
    effects = _effects([cell.arm for cell in cells], joint)
    yield from rows_of(GRID, scorer, ALL, *effects, family="grid")
    sampled = [cell for cell in cells if not cell.greedy]
    if sampled and all(cell.rows is not None for cell in sampled):
        k = min(TOGETHER_K, *(int(cell.scores.n.min()) for cell in sampled))
        if min(cell.blocks(k) for cell in sampled) < FEWEST_BLOCKS:
            return
        repeated = stacked([_mean(cell, k) for cell in cells])
        yield from _cell_rows(names, scorer, _jointly(repeated, len(cells), confidence))


def _mean(cell: Drawn, k: int | None = None) -> stats.BoundFunction:
    """Return the bound of the mean leakage of a cell, or of its mean leak@k; exact if it is greedy."""
    quantity = stats.LEAKAGE if k is None else stats.leak_at(k)

    def bound(*, confidence: float, side: stats.Side) -> stats.Estimate:
        if not cell.greedy:
            return cell.bound(quantity.mean(), confidence=confidence, side=side)
        return cell.greedy_mean(LEAKAGE[not cell.binary] if k is None else "leak@k", k)

    return bound


def _cells(run: RunEvidence) -> list[Drawn]:
    """Return the target's decodings, and what is known of each; none where one lacks questions."""
    cells = [
        cell
        for cell in run.arms.values()
        if cell.arm.key.own_words and not (cell.arm.key.is_control or cell.arm.key.greedy)
    ]
    number = len(run.run.questions)
    return cells if all(len(cell.query_ids) == number for cell in cells) else []


def _jointly(bound: stats.BoundFunction, cells: int, confidence: float) -> stats.Estimate:
    """Return all cells at once, whatever randomness their draws share."""
    return stats.every_question(bound, cells, confidence=confidence, side="both", independent=False)


def _cell_rows(names: Sequence[str], scorer: str, joint: stats.Estimate) -> Iterator[EstimateRow]:
    for i, name in enumerate(names):
        yield from rows_of(name, scorer, ALL, at(joint, i), family="grid")


def _effects(arms: Sequence[Arm], joint: stats.Estimate) -> Sequence[stats.Estimate]:
    """How far each knob moves the mean, where the cells are a grid with two knobs."""
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
    """Return the temperatures and the top-p of which these are every pair, else alike; None otherwise."""
    if len({replace(decoding, temperature=1.0, top_p=1.0) for decoding in decodings}) != 1:
        return None
    settings = sorted(map(setting_of, decodings))
    temperatures, top_ps = (tuple(sorted(set(axis))) for axis in zip(*settings, strict=True))
    return (temperatures, top_ps) if settings == list(product(temperatures, top_ps)) else None


def setting_of(decoding: Decoding) -> Setting:
    return decoding.temperature, decoding.top_p
