"""Distributions on [0, 1] with known truths, that coverage.py bounds and speed.py times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

GRID = (np.arange(100_000) + 0.5) / 100_000
Shape = tuple[int, int]


@dataclass(frozen=True)
class Distribution:
    """A distribution: its draws, mean and sd, and Pr[X > x] for 0 <= x < 1."""

    draw: Callable[[np.random.Generator, Shape], np.ndarray]
    mean: float
    std: float
    tail: Callable[[np.ndarray], np.ndarray]

    @property
    def p(self) -> float:
        """Pr[X > 1/2], the leak probability."""
        return float(self.tail(np.array(0.5)))

    @property
    def coin(self) -> Distribution:
        """The distribution of its leaks, 0 or 1."""
        sd = np.sqrt(self.p * (1 - self.p))
        return Distribution(self.draw, self.p, sd, lambda x: np.full(np.shape(x), self.p))

    @property
    def median(self) -> float:
        """The least x with Pr[X > x] <= 1/2, on a grid."""
        grid = np.append(0.0, GRID)
        return float(grid[np.argmax(self.tail(grid) <= 0.5)])

    def leak_at(self, k: int | np.ndarray) -> np.ndarray:
        return np.mean(1 - (1 - self.tail(GRID)[:, None]) ** k, axis=0)


DISTRIBUTIONS = {
    "Beta(1, 20)": Distribution(
        lambda g, s: g.beta(1, 20, s), 1 / 21, np.sqrt(20 / (441 * 22)), beta(1, 20).sf
    ),
    "1 % leak": Distribution(
        lambda g, s: (g.random(s) < 0.01) * 1.0, 0.01, np.sqrt(0.0099),
        lambda x: np.full(np.shape(x), 0.01),
    ),
    "bimodal": Distribution(
        lambda g, s: np.where(g.random(s) < 0.8, g.beta(2, 30, s), g.beta(30, 2, s)),
        0.8 * 2 / 32 + 0.2 * 30 / 32,
        np.sqrt(60 / (1024 * 33) + 0.16 * (28 / 32) ** 2),
        lambda x: 0.8 * beta(2, 30).sf(x) + 0.2 * beta(30, 2).sf(x),
    ),
    "Beta(5, 5)": Distribution(lambda g, s: g.beta(5, 5, s), 0.5, np.sqrt(1 / 44), beta(5, 5).sf),
    "zero-heavy": Distribution(
        lambda g, s: np.where(g.random(s) < 0.9, 0.0, g.beta(2, 5, s)),
        0.1 * 2 / 7,
        np.sqrt(0.1 * (10 / (49 * 8) + 4 / 49) - (0.2 / 7) ** 2),
        lambda x: 0.1 * beta(2, 5).sf(x),
    ),
    "all zero": Distribution(lambda g, s: np.zeros(s), 0.0, 0.0, lambda x: np.zeros(np.shape(x))),
    "Bernoulli(1/2)": Distribution(
        lambda g, s: g.integers(0, 2, s) * 1.0, 0.5, 0.5, lambda x: np.full(np.shape(x), 0.5)
    ),
}  # fmt: skip
