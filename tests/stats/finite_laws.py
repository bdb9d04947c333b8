"""Finite laws with parts explored, whose truth is a sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from leakbound.stats import Estimate, Mass

K = np.array([1, 3, 200])


def interval(bound: Estimate) -> list[Any]:
    return [bound.lower, bound.upper]


def settled(pairs: list[Any], remainder: float = 0.0) -> Mass:
    """A Mass from (p, score) pairs."""
    p, score = np.array(pairs, float).reshape(-1, 2).T
    return Mass(p, score, score, remainder)


class Law:
    """A finite law, its outputs parted into events and a remainder at random."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        outputs, events = int(rng.integers(2, 12)), int(rng.integers(1, 6))
        self.p = rng.dirichlet(np.full(outputs, 0.5))
        self.scores = rng.choice([0, 1, *rng.random(3)], outputs)
        self.event = rng.integers(-1, events, outputs)  # -1: the remainder
        self.shrink = rng.choice([1.0, np.exp(-0.1), 0.5])
        kept = [e for e in range(events) if (self.event == e).any()]
        of = [self.event == e for e in kept]
        self.mass = Mass(
            np.array([self.shrink * self.p[o].sum() for o in of]),
            np.array([self.scores[o].min() for o in of]),
            np.array([self.scores[o].max() for o in of]),
        )

    def tail(self, x: np.ndarray) -> np.ndarray:
        return np.asarray((self.p[:, None] * (self.scores[:, None] > x)).sum(axis=0))

    @property
    def mean(self) -> float:
        return float(self.p @ self.scores)

    @property
    def std(self) -> float:
        return float(np.sqrt(self.p @ (self.scores - self.mean) ** 2))

    def leak_at(self, k: np.ndarray) -> np.ndarray:
        order = np.argsort(self.scores)
        cdf = np.minimum(np.cumsum(self.p[order]), 1)
        powers = np.diff(cdf ** k[:, None], prepend=0, axis=1)
        return np.asarray(powers @ self.scores[order])


def contains(bound: Estimate, truth: np.ndarray | float) -> bool:
    return bool(np.all((bound.lower <= truth + 1e-12) & (truth - 1e-12 <= bound.upper)))
