"""Statements about several questions and about pools of queries, with their truths.

`coverage.py bounds` counts the misses of each. A data set has questions of the seven distributions
in turn. A pool has 16 queries; each leaks with its own probability from Beta(.1, .9): most never,
some nearly always. A leak scores Beta(2, 5), anything else 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.stats import beta

from distributions import DISTRIBUTIONS
from leakbound.stats import (
    LEAKAGE,
    SD,
    THEOREMS,
    Estimate,
    Mass,
    Masses,
    Pair,
    Pool,
    Quantity,
    Rows,
    Stopped,
    bound,
    carried,
    difference_over_questions,
    ed,
    every_question,
    excess_of,
    excess_of_mean_and_worst,
    leak_at,
    leaking_questions,
    mean_leak_at_k_of_counts,
    tail,
    worst_question,
    worst_watched,
)
from leakbound.stats.pool import KINDS as KINDS_OF_POOLS

X = np.array([0.0, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9])
K = np.array([1, 2, 8, 32, 128])
Statement = tuple[Callable[..., Estimate], Any]
"""((data, side=, confidence=) -> estimate, the truth or data -> the truth)"""

CONTROL = DISTRIBUTIONS["1 % leak"]  # control of every question
MANY = 10  # questions per distribution if hits are enough
EACH = list(DISTRIBUTIONS.values())
P = np.repeat([one.p for one in EACH], MANY)
MEANS = np.array([one.mean for one in EACH])
SDS = np.array([one.std for one in EACH])
UNEVEN = np.array([0.5, 0.4, 0.8, 1.0, 0.6, 0.9, 0.3])  # fractions of n, per distribution
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 1.0, 1.0, 1.5])
LEVELS = np.array([0.0, 0.005, 0.01, 0.1, 0.3, 0.499])
BLOCK, BLOCKS = 8, np.array([1, 8, 16])
FAR = np.array([1, 1_000, 10**9])
ENDS = ("lower", "upper")


@dataclass(frozen=True)
class DataSet:
    """Draws of one data set; `stopped`: hits and draws of questions that stop early."""

    scores: np.ndarray
    hits: np.ndarray
    stopped: tuple[np.ndarray, np.ndarray]
    seed: int
    control: np.ndarray

    @property
    def n(self) -> int:
        return self.scores.shape[1]


def data_set(n: int, trial: int) -> DataSet:
    rng = np.random.default_rng([4, n, trial])
    scores = np.concatenate([one.draw(rng, (1, n)) for one in EACH])
    hits, stopped = rng.binomial(n, P), stop_early(rng, n)
    return DataSet(scores, hits, stopped, trial, CONTROL.draw(rng, (len(EACH), n)))


def stop_early(rng: np.random.Generator, cap: int) -> tuple[np.ndarray, np.ndarray]:
    """Stop each question at one of doubling looks, once its P is separated from .05."""
    hits, n = np.zeros(len(P), np.int64), np.zeros(len(P), np.int64)
    active, size = np.ones(len(P), bool), 8
    while active.any():
        size = min(size, cap)
        hits += active * rng.binomial(size - n.max(), P)
        n[active] = size
        made = bound(Stopped(Rows.of_hits(hits, n), cap), confidence=0.98)
        active &= (size < cap) & (made.upper > 0.05) & (made.lower < 0.05)
        size *= 2
    return hits, n


def tally(data: DataSet) -> Callable[..., Estimate]:
    return partial(bound, Rows.of_hits(data.hits, data.n))


def uneven(data: DataSet, **how: Any) -> Estimate:
    """Bound the weighted mean, from numbers of draws that differ."""
    counted = np.arange(data.n) < np.ceil(UNEVEN * data.n)[:, None]
    return bound(Rows.of(data.scores, counted), LEAKAGE.mean(WEIGHTS), seed=data.seed, **how)


def two_models(data: DataSet) -> tuple[Callable[..., Estimate], Callable[..., Estimate]]:
    """The leak probability of each question of a model, and of its control."""
    return tally(data), partial(bound, Rows.of_hits(data.hits[::-1], data.n))


def worst_excess(data: DataSet, *, confidence: float, **how: Any) -> Estimate:
    """Bound both sides, of which the driver reads one; they share alpha."""
    each = partial(excess_of, *two_models(data))
    means = [
        partial(bound, Rows.of_hits(hits, data.n), LEAKAGE.mean(), seed=data.seed)
        for hits in (data.hits, data.hits[::-1])
    ]
    both = 1 - 2 * (1 - confidence)
    mean = partial(excess_of, *means)
    return excess_of_mean_and_worst(mean, each, len(P), confidence=both).estimates[1]


def differences(data: DataSet, *, confidence: float, **how: Any) -> Estimate:
    """Bound two models against one baseline: a miss of any bound of a side is one miss."""
    base = data.hits[::-1]
    got = []
    for hits in (data.hits, np.roll(data.hits, MANY)):
        each = partial(excess_of, *(partial(bound, Rows.of_hits(x, data.n)) for x in (hits, base)))
        means = (
            partial(bound, Rows.of_hits(x, data.n), LEAKAGE.mean(), seed=1) for x in (hits, base)
        )
        both = 1 - 2 * (1 - confidence)
        mean = partial(excess_of, *means)
        made = difference_over_questions(mean, each, len(P), models=2, confidence=both)
        got += made.estimates
    lower, upper = (np.concatenate([np.atleast_1d(getattr(x, end)) for x in got]) for end in ENDS)
    return replace(got[-1], lower=lower, upper=upper)


def looked_at(data: DataSet, worst: bool, **how: Any) -> Estimate:
    """Bound questions, or the worst one, at doubling looks; a miss at any look is one miss."""
    leaks, got, size = data.scores > 0.5, [], 8
    while size < 2 * data.n:
        size = min(size, data.n)
        hits = leaks[:, :size].sum(axis=1)
        made = partial(bound, Stopped(Rows.of_hits(hits, size), data.n))
        each = every_question(made, len(EACH), independent=False, **how)
        got.append(worst_watched(each) if worst else each)
        size *= 2
    lower, upper = (np.array([getattr(x, end) for x in got]) for end in ENDS)
    return replace(got[-1], lower=lower.max(axis=0), upper=upper.min(axis=0))


def far_mean(data: DataSet, **how: Any) -> Estimate:
    return mean_leak_at_k_of_counts(leaking_questions(tally(data), len(P), LEVELS, **how), FAR)


def of_scores(quantity: Quantity) -> Callable[..., Estimate]:
    """Bound the scores of all questions."""
    return lambda d, **how: bound(Rows.of(d.scores), quantity, seed=d.seed, **how)


def of_pair(quantity: Quantity) -> Callable[..., Estimate]:
    """Bound the model's scores minus its control's."""
    return lambda d, **how: bound(
        Pair(Rows.of(d.scores), Rows.of(d.control)), quantity, seed=d.seed, **how
    )


SINGLY = ("pair: leakage", "excess_of")  # not valid at all questions simultaneously
HALF_KNOWN = Mass(np.array([0.5, 0.1]), np.array([0.2, 0.0]), np.array([0.2, 0.0]), 0.4)
OF_QUESTIONS: dict[str, Statement] = {  # by the theorem, or by the function of other bounds
    "worst_question": (lambda d, **how: worst_question(tally(d), len(P), **how), P.max()),
    "every_question": (lambda d, **how: every_question(tally(d), len(P), **how), P),
    "leaking_questions": (
        lambda d, **how: leaking_questions(tally(d), len(P), LEVELS, **how),
        (P[:, None] > LEVELS).sum(axis=0),
    ),
    "draws: mean of leakage, binary": (
        lambda d, **how: tally(d)(LEAKAGE.mean(), **how),
        P.mean(),
    ),
    "stopped: mean of leakage": (
        lambda d, **how: bound(Stopped(Rows.of_hits(*d.stopped), d.n), LEAKAGE.mean(), **how),
        P.mean(),
    ),
    "draws: mean of leakage": (of_scores(LEAKAGE.mean()), MEANS.mean()),
    "pair: leakage": (of_pair(LEAKAGE), MEANS - CONTROL.mean),
    "pair: mean of leakage": (of_pair(LEAKAGE.mean()), MEANS.mean() - CONTROL.mean),
    "excess_of": (lambda d, **how: excess_of(*two_models(d), **how), P - P[::-1]),
    "excess_of_mean_and_worst": (worst_excess, (P - P[::-1]).max()),
    "masses: mean of leakage": (
        lambda d, **how: bound(
            Masses.of([HALF_KNOWN] * len(EACH), Rows.of(d.scores)),
            LEAKAGE.mean(),
            seed=d.seed,
            **how,
        ),
        0.2 * 0.5 + 0.4 * MEANS.mean(),
    ),
    "difference_over_questions": (
        differences,
        np.concatenate(
            [each for p in (P, np.roll(P, MANY)) for each in ([(p - P[::-1]).mean()], p - P[::-1])]
        ),
    ),
    "every_question, at looks": (partial(looked_at, worst=False), P[::MANY]),
    "worst_watched": (partial(looked_at, worst=True), P.max()),
    "carried": (
        lambda d, **how: carried(worst_question(tally(d), len(P), **how), FAR),
        1 - (1 - P.max()) ** FAR,
    ),
    "mean_leak_at_k_of_counts": (far_mean, (1 - (1 - P[:, None]) ** FAR).mean(axis=0)),
    "draws: mean of standard deviation": (of_scores(SD.mean()), SDS.mean()),
    "draws: mean of expectation deviation": (of_scores(ed().mean()), (MEANS + 2 * SDS).mean()),
    "draws: mean of leakage, uneven": (uneven, MEANS @ WEIGHTS / WEIGHTS.sum()),
    "draws: mean of leak@k": (
        of_scores(leak_at(BLOCK).mean()),
        np.mean([one.leak_at(BLOCK) for one in EACH]),
    ),
    "draws: mean of leak@k, several k": (
        of_scores(leak_at(BLOCKS).mean()),
        np.mean([one.leak_at(BLOCKS) for one in EACH], axis=0),
    ),
}

QUERIES = 16
LEAKING, LEAK = (0.1, 0.9), (2, 5)
AS_IF = "as if i.i.d."
COARSE = (np.arange(10_000) + 0.5) / 10_000
Drawn = tuple[np.ndarray, np.ndarray]
"""Scores and counts, one row per query."""


@dataclass(frozen=True)
class Queries:
    """About n outputs under each design; `p`: the leak probability of each query."""

    p: np.ndarray
    designs: dict[str, Drawn]

    def pool(self, design: str, target: str, *, binary: bool = False) -> Pool:
        scores, counts = self.designs[design]
        if target == AS_IF:
            design, target = "allocated", "queries"
        rows = Rows.of((scores > 0) if binary else scores, counts, binary=binary, empty=True)
        return Pool.of(rows, design=design, target=target)


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
    rows = Rows.of(scores > 0, counts, binary=True, empty=True)
    return bound(rows, LEAKAGE.worst(), **how)


TAIL = beta(*LEAK).sf
OF_A_POOL: dict[str, tuple[Quantity, Callable[[float], Any]]] = {
    # name: (quantity, the truth if a leak has probability p)
    "leakage, binary": (LEAKAGE, lambda p: p),
    "leakage": (LEAKAGE, lambda p: p * beta(*LEAK).mean()),
    "tail": (tail(X), lambda p: p * TAIL(X)),
    "leak@k": (
        leak_at(K),
        lambda p: np.mean(1 - (1 - p * TAIL(COARSE)[:, None]) ** K, axis=0),
    ),
}
SIMULATED: dict[tuple[str, str], tuple[str, ...]] = {
    ("allocated", "queries"): ("leakage, binary", "tail", "leak@k"),
    ("fixed", "queries"): ("leakage, binary", "leakage"),
    ("fixed", "inputs"): tuple(OF_A_POOL),
    ("allocated", "inputs"): ("leakage, binary", "leakage"),
    ("fresh", "inputs"): ("leakage, binary", "tail", "leak@k"),
    ("fixed", AS_IF): ("leakage, binary", "tail", "leak@k"),
}


def of_pool(name: str, design: str, target: str) -> Statement:
    quantity, truth = OF_A_POOL[name]
    over_inputs, binary = truth(LEAKING[0] / sum(LEAKING)), "binary" in name

    def call(data: Queries, **how: Any) -> Estimate:
        return bound(data.pool(design, target, binary=binary), quantity, **how)

    if target == "queries":
        return call, lambda data: truth(data.p.mean())
    return call, over_inputs


OF_POOLS: dict[str, Statement] = {
    "worst query": (worst, lambda data: data.p.max()),
    **{
        f"{KINDS_OF_POOLS.get((target, design), AS_IF)}: {name}, {design}, {target}": of_pool(
            name, design, target
        )
        for (design, target), names in SIMULATED.items()
        for name in names
    },
}
ELSEWHERE = {  # the tests that show the coverage of the other theorems and statements
    "median_over_seeds": "tests/stats/test_seeds.py",
    "mean_over_stopped_questions": "the theorem about stopped draws calls it",
    "corrected_bound": "tests/stats/test_proportion_spread.py",
    "gaps_over_questions": "tests/stats/test_compared_models.py: lower bounds of each excess",
    "excess": "tests/stats/test_excess.py: arithmetic of two estimates",
    "two_way": "tests/stats/test_two_way.py: interval arithmetic",
    "proof_of_leak": "tests/stats/test_mass.py: without draws",
    "masses: standard deviation": "tests/stats/test_mass.py: without draws",
    **{
        f"masses: {name}": "tests/stats/test_mass.py: of draws and known masses"
        for name in ("leakage", "tail", "leak@k")
    },
    **{
        row.name.partition(",")[0]: "tests/stats/test_pool.py: as of draws"
        for row in THEOREMS
        if row.kind == "iid pool"
    },
    "unlike pool: leak@k": "tests/stats/test_pool.py: carried over from the leak probability",
    "unlike pool: mean of leakage": "tests/stats/test_pool.py: a weighted mean over queries",
}
