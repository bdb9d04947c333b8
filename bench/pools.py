"""The pools of queries whose bounds bench/coverage.py counts the misses of: run that.

16 queries. Each leaks with a probability of its own from Beta(.1, .9): most never do, some nearly
always. A leak scores Beta(2, 5), whatever else 0. Where draws are i.i.d., betting is left out: on
such a pool it is what it is on one query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import beta

from leakbound.stats import (
    Estimate,
    Pool,
    pool_leak_at_k_bound,
    pool_mean_bound,
    pool_proportion_bound,
    pool_survival_bound,
    proportion_bound,
    worst_query,
)

QUERIES = 16
LEAKING, LEAK = (0.1, 0.9), (2, 5)
AS_IF = "as if i.i.d."
X = np.array([0.0, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9])
K = np.array([1, 2, 8, 32, 128])
GRID = (np.arange(10_000) + 0.5) / 10_000

Drawn = tuple[np.ndarray, np.ndarray]
"""Scores and counts, one row a query."""


@dataclass(frozen=True)
class Queries:
    """About n outputs under each design; `p`: how likely each of the 16 queries leaks."""

    p: np.ndarray
    designs: dict[str, Drawn]

    def pool(self, design: str, target: str, *, binary: bool = False) -> Pool:
        scores, counts = self.designs[design]
        design = "allocated" if target == AS_IF else design
        target = "queries" if target == AS_IF else target
        return Pool.read((scores > 0) if binary else scores, counts, design=design, target=target)


def queries(n: int, trial: int) -> Queries:
    rng = np.random.default_rng([5, n, trial])
    p = rng.beta(*LEAKING, QUERIES)

    def outputs(chance: np.ndarray, each: np.ndarray) -> Drawn:
        shape = len(chance), each.max()
        scores = rng.beta(*LEAK, shape) * (rng.random(shape) < chance[:, None])
        return scores, np.arange(shape[1]) < each[:, None]

    designs = {
        "allocated": outputs(p, rng.multinomial(n, np.full(QUERIES, 1 / QUERIES))),
        "fixed": outputs(p, np.full(QUERIES, n // QUERIES)),
        "fresh": outputs(rng.beta(*LEAKING, n), np.full(n, 1)),
    }
    return Queries(p, designs)


def worst(data: Queries, **how: Any) -> Estimate:
    """The query that leaks most; under `allocated` some may have no output."""
    scores, counts = data.designs["allocated"]
    outputs = counts.sum(axis=1)
    hits = ((scores > 0) & counts).sum(axis=1)
    bound = partial(proportion_bound, hits[outputs > 0], outputs[outputs > 0])
    return worst_query(bound, outputs, **how)


TAIL = beta(*LEAK).sf
BOUNDS: dict[str, tuple[Callable[..., Estimate], bool, Callable[[float], Any]]] = {
    # name: (bound, on binary scores?, the truth where a leak has probability p)
    "leak probability": (pool_proportion_bound, True, lambda p: p),
    "mean": (pool_mean_bound, False, lambda p: p * beta(*LEAK).mean()),
    "tail at 7 x": (partial(pool_survival_bound, x=X), False, lambda p: p * TAIL(X)),
    "tail at 7 x, DKW": (
        partial(pool_survival_bound, x=X, method="paper"),
        False,
        lambda p: p * TAIL(X),
    ),
    "leak@k at 5 k": (
        partial(pool_leak_at_k_bound, k=K),
        False,
        lambda p: np.mean(1 - (1 - p * TAIL(GRID)[:, None]) ** K, axis=0),
    ),
}
HELD: dict[tuple[str, str], tuple[str, ...]] = {
    ("allocated", "queries"): ("leak probability", "tail at 7 x", "leak@k at 5 k"),
    ("fixed", "queries"): ("leak probability", "mean"),
    ("fixed", "inputs"): tuple(BOUNDS),
    ("allocated", "inputs"): ("leak probability", "mean"),
    ("fresh", "inputs"): ("leak probability", "tail at 7 x", "leak@k at 5 k"),
    ("fixed", AS_IF): ("leak probability", "tail at 7 x", "leak@k at 5 k"),
}


def statement(
    name: str, design: str, target: str
) -> tuple[Callable[..., Estimate], Callable[[Queries], Any]]:
    """((data, side=, confidence=) -> estimate, data -> the truth)."""
    bound, binary, truth = BOUNDS[name]
    over_inputs = truth(LEAKING[0] / sum(LEAKING))

    def call(data: Queries, **how: Any) -> Estimate:
        return bound(data.pool(design, target, binary=binary), **how)

    if target == "queries":
        return call, lambda data: truth(data.p.mean())
    return call, lambda data: over_inputs


STATEMENTS = {
    "worst query, allocated": (worst, lambda data: data.p.max()),
    **{
        f"{name}, {design}, {target}": statement(name, design, target)
        for (design, target), names in HELD.items()
        for name in names
    },
}
