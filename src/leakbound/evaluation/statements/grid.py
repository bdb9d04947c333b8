"""A grid of decodings: how much the target leaks in every cell, and which knob moves it more.

Cells are bounded jointly, each at alpha/D: decodings of one model may share randomness, so their
errors are added up (Bonferroni), and whatever is read off the cells afterwards costs nothing more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product

import numpy as np

from leakbound import stats
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.statements.drawn import ArmEvidence, drawn
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.evaluation.statements.quantities import FEWEST_BLOCKS, LEAKAGE, TOGETHER_K
from leakbound.evaluation.statements.rows import entry, rows_of, stack
from leakbound.stats import questions
from leakbound.stats.about import Quantity
from leakbound.store import ALL, TARGET, Arm, EstimateRow, Run
from leakbound.types import Decoding, Scorer

GRID = f"{TARGET} grid"  # in place of an arm's name: about all cells
KNOBS = ("temperature", "top-p")
TOGETHER = "temperature and top-p together"  # as `stats.two_way` names the effect of both
Setting = tuple[float, float]
"""Temperature and top-p."""


def grid_rows(run: Run, scorer: Scorer, *, confidence: float) -> Iterator[EstimateRow]:
    """What holds of all the target's decodings at once; nothing unless there are several.

    For every cell the mean leakage over the questions, and leak@k where every n was fixed, each
    jointly over the cells; the decoding that leaks most; and, where the cells are every pair of
    several temperatures and several top-p, how far each knob moves the mean. Nothing either
    where a cell lacks questions: no statement is made about fewer.
    """
    cells = _cells(run, scorer)
    if len(cells) < 2:
        return
    means = _stacked([cell.mean for cell in cells])
    joint = _jointly(means, len(cells), confidence)
    yield from _cell_rows(cells, joint)
    largest = stats.worst_question(means, len(cells), confidence=confidence, side="both")
    # Whichever cell is named, its lower end holds: all of them do, at alpha/2D each.
    picked = max(range(len(cells)), key=lambda i: (_at(joint, i).lower, _at(joint, i).value))
    about = replace(largest.about, scope="most-leaking decoding")
    most = replace(largest, about=about, value=_at(joint, picked).value)
    yield from rows_of(cells[picked].arm.name, scorer.name, ALL, most)
    yield from _effect_rows(cells, joint)
    sampled = [cell for cell in cells if not cell.arm.decoding.greedy]
    if sampled and all(isinstance(cell.drawn, Fixed) for cell in sampled):
        k = min(TOGETHER_K, *(int(cell.drawn.scores.n.min()) for cell in sampled))
        if min(int((cell.drawn.scores.n // k).sum()) for cell in sampled) < FEWEST_BLOCKS:
            return
        repeated = _stacked([partial(cell.leak_at, k) for cell in cells])
        yield from _cell_rows(cells, _jointly(repeated, len(cells), confidence))


@dataclass(frozen=True, slots=True)
class _Cell:
    """A decoding of the target: means over its questions, in the way its draws allow."""

    arm: Arm
    scorer: Scorer
    drawn: ArmEvidence

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        if self.arm.decoding.greedy:
            return self._known(LEAKAGE[0 if self.scorer.binary else 1])
        return self.drawn.mean(confidence=confidence, side=side)

    def leak_at(self, k: int, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean leak@k, n fixed."""
        if self.arm.decoding.greedy:
            return self._known("leak@k", k)
        scores = self.drawn.scores
        order = Order.of(self.arm, self.scorer)
        return stats.mean_leak_at_k_over_questions(
            scores.scores,
            k,
            scores.counts,
            confidence=confidence,
            side=side,
            missing=scores.missing,
            seed=order.keys(scores.query_ids),
            binary=self.scorer.binary,
        )

    def _known(self, quantity: Quantity, k: float | None = None) -> stats.Estimate:
        """A greedy arm says one thing: its mean is exact, but for scores that are missing."""
        scores = self.drawn.scores
        asked, missing = len(scores.query_ids), int(scores.missing.sum())
        total, scored = float((scores.scores * scores.counts).sum()), asked - missing
        return stats.Estimate(
            about=stats.About(quantity=quantity, scope="mean", parameter=k, over=asked),
            value=total / scored if scored else float("nan"),
            lower=total / asked,
            upper=(total + missing) / asked,
            confidence=1.0,
            side="both",
            n=asked,
            missing=missing,
            method="exact",
        )


def _cells(run: Run, scorer: Scorer) -> list[_Cell]:
    """The target's decodings; none where one of them lacks questions."""
    arms = [
        a for a in run.arms.values() if a.key.own_words and not (a.key.is_control or a.key.greedy)
    ]
    cells = [_Cell(arm, scorer, drawn(arm, scorer)) for arm in arms]
    whole = all(len(cell.drawn.scores.query_ids) == len(run.questions) for cell in cells)
    return cells if whole else []


def _stacked(bounds: Sequence[questions.BoundFunction]) -> questions.BoundFunction:
    """One bound with an entry for each of these."""

    def bound(*, confidence: float, side: stats.Side) -> stats.Estimate:
        return stack([one(confidence=confidence, side=side) for one in bounds])

    return bound


def _jointly(bound: questions.BoundFunction, cells: int, confidence: float) -> stats.Estimate:
    """All cells at once, whatever randomness their draws share."""
    return stats.every_question(bound, cells, confidence=confidence, side="both", independent=False)


def _cell_rows(cells: Sequence[_Cell], joint: stats.Estimate) -> Iterator[EstimateRow]:
    for i, cell in enumerate(cells):
        yield from rows_of(cell.arm.name, cell.scorer.name, ALL, _at(joint, i))


def _effect_rows(cells: Sequence[_Cell], joint: stats.Estimate) -> Iterator[EstimateRow]:
    """How far each knob moves the mean, where the cells are a grid with two knobs."""
    decodings = [cell.arm.decoding for cell in cells]
    axes = axes_of(decodings)
    if axes is None or min(map(len, axes)) < 2:
        return
    places = [setting_of(decoding) for decoding in decodings]
    order = [places.index(setting) for setting in product(*axes)]
    shape = tuple(map(len, axes))
    lower, upper, values = (
        np.reshape(np.asarray(ends)[order], shape)
        for ends in (joint.lower, joint.upper, joint.value)
    )
    effects = stats.two_way(lower, upper, values, *KNOBS, joint.confidence)
    for effect in (effects.rows, effects.columns, effects.interaction):
        yield from rows_of(GRID, cells[0].scorer.name, ALL, effect)


def axes_of(decodings: Sequence[Decoding]) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """The temperatures and the top-p of which these are every pair, else alike; None otherwise."""
    if len({replace(decoding, temperature=1.0, top_p=1.0) for decoding in decodings}) != 1:
        return None
    settings = sorted(map(setting_of, decodings))
    temperatures, top_ps = (tuple(sorted(set(axis))) for axis in zip(*settings, strict=True))
    return (temperatures, top_ps) if settings == list(product(temperatures, top_ps)) else None


def setting_of(decoding: Decoding) -> Setting:
    return decoding.temperature, decoding.top_p


def _at(joint: stats.Estimate, i: int) -> stats.Estimate:
    return replace(entry(joint, (i,)), about=joint.about.at(i))
