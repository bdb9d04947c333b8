"""How often each bound misses, and by how much it is too wide.

    python bench/coverage.py [--trials N] [--n 100 1024] [--only WORD ...] [--json FILE]
    python bench/coverage.py --shipped [--runs N]    what users run: see bench/shipped.py

Every bound, side and law at alpha = .01, statements about data sets of unlike questions, and about
pools of unlike queries (see bench/pools.py), there also with the pool taken as if it were i.i.d.;
beside conbo 0.1.1 where that is installed and has the bound (see bench/bounds.py). A cell is
"misses of the trials / mean distance of the end from the truth". An exact binomial test judges
each cell of ours, so that correct bounds raise a false alarm once in 1,000 whole runs, however
many cells these have (see bench/runner.py); at an alarm the exit status is 1.
One process, one core, about 30 CPU minutes: 7 of them for `--n 100`.
"""

from __future__ import annotations

import inspect
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.stats import beta

import shipped
from bounds import LAWS as DRAWN
from bounds import conbo
from leakbound.stats import BOUNDS as LISTED
from leakbound.stats import (
    Estimate,
    Mass,
    carried,
    difference_over_questions,
    every_question,
    excess_bound,
    excess_of,
    excess_of_mean_and_worst,
    excess_over_questions,
    expectation_deviation_over_questions,
    judged_bound,
    leak_at_k_bound,
    leaking_questions,
    mass_mean_over_questions,
    mean_leak_at_k_of_counts,
    mean_leak_at_k_over_questions,
    mean_over_questions,
    mean_over_stopped_questions,
    proportion_bound,
    proportion_over_questions,
    std_over_questions,
    stopped_proportion_bound,
    watched_questions,
    worst_question,
    worst_watched,
)
from pools import AS_IF, QUERIES, Queries, queries
from pools import STATEMENTS as OF_POOLS
from runner import FALSE_ALARM, keep, markdown, most_misses, options, too_often

ALPHA, CONFIDENCE = 0.01, 0.99
X = np.array([0.0, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9])
K = np.array([1, 2, 8, 32, 128])
GRID = (np.arange(100_000) + 0.5) / 100_000
BATCH = 100  # trials bounded at once, each in an order of its own
SIDES = ("upper", "lower")

Tail = Callable[[np.ndarray], np.ndarray]
TAILS: dict[str, Tail] = {  # Pr[X > x] for 0 <= x < 1, under the laws of bench/bounds.py
    "Beta(1, 20)": beta(1, 20).sf,
    "1 % leak": lambda x: np.full(np.shape(x), 0.01),
    "bimodal": lambda x: 0.8 * beta(2, 30).sf(x) + 0.2 * beta(30, 2).sf(x),
    "Beta(5, 5)": beta(5, 5).sf,
    "zero-heavy": lambda x: 0.1 * beta(2, 5).sf(x),
    "all zero": lambda x: np.zeros(np.shape(x)),
    "Bernoulli(1/2)": lambda x: np.full(np.shape(x), 0.5),
}


@dataclass(frozen=True)
class Law:
    """A law on [0, 1]: how to draw from it, and the truth about it."""

    draw: Callable[[np.random.Generator, tuple[int, int]], np.ndarray]
    mean: float
    std: float
    tail: Tail

    def leak_at(self, k: int | np.ndarray) -> np.ndarray:
        return np.mean(1 - (1 - self.tail(GRID)[:, None]) ** k, axis=0)


LAWS = {name: Law(*DRAWN[name], TAILS[name]) for name in DRAWN}
End = np.ndarray
Call = Callable[[np.ndarray, str, int], End]
"""(scores, side, seed) -> the end on that side: (trials,), or (trials, points)."""


def of_scores(bound: Callable[..., Estimate], **settings: Any) -> Call:
    def call(scores: np.ndarray, side: str, seed: int) -> End:
        given = _settled(bound, settings, scores)
        return getattr(bound(scores, confidence=CONFIDENCE, side=side, seed=seed, **given), side)

    return call


def of_hits(bound: Callable[..., Estimate], **settings: Any) -> Call:
    def call(scores: np.ndarray, side: str, seed: int) -> End:
        hits, n = (scores > 0.5).sum(axis=1), scores.shape[1]
        given = _settled(bound, settings, scores)
        return getattr(bound(hits, n, confidence=CONFIDENCE, side=side, **given), side)

    return call


def _settled(
    bound: Callable[..., Estimate], settings: dict[str, Any], scores: np.ndarray
) -> dict[str, Any]:
    """The settings, and the points of this bench where a bound takes some; a cap is n."""
    here = {"x": X, "k": K, "cap": scores.shape[1]}
    taken = inspect.signature(bound).parameters
    return {name: here[name] for name in here if name in taken} | settings


def judged(true: float, false: float) -> Call:
    """Behind a judge that errs, each trial with 60 labelled items of either kind of its own."""

    def call(scores: np.ndarray, side: str, seed: int) -> End:
        rng = np.random.default_rng([5, seed])
        leaks, n = (scores > 0.5).sum(axis=1), scores.shape[1]
        hits = rng.binomial(leaks, true) + rng.binomial(n - leaks, false)
        items = rng.binomial(60, [true, false], (len(hits), 2)).tolist()
        made = [
            judged_bound(
                said, n, positives=(t, 60), negatives=(f, 60), confidence=CONFIDENCE, side=side
            )
            for said, (t, f) in zip(hits, items, strict=True)
        ]
        return np.array([getattr(one, side) for one in made])

    return call


def theirs(name: str, alpha: float, *points: np.ndarray) -> Call:
    """A bound of conbo; where it cannot be defined it is NaN, and misses."""

    def call(scores: np.ndarray, side: str, seed: int) -> End:
        sample = scores > 0.5 if name == "binomial_bounds" else scores
        return getattr(conbo, name)(sample, *points, alpha=alpha)[-1 if side == "upper" else -2]

    return call


def leaks_at(k: int, law: Law) -> np.ndarray:
    return law.leak_at(np.array([k]))


def p_of(law: Law) -> float:
    return float(law.tail(np.array(0.5)))


TRUTHS: dict[tuple[str, str], Callable[[Law], Any]] = {  # by quantity and evidence
    ("leak probability", "hits"): p_of,
    ("leak@k", "hits"): lambda law: 1 - (1 - p_of(law)) ** K,
    ("standard deviation", "hits"): lambda law: math.sqrt(p_of(law) * (1 - p_of(law))),
    ("expectation deviation", "hits"): lambda law: (
        p_of(law) + 2 * math.sqrt(p_of(law) * (1 - p_of(law)))
    ),
    ("mean leakage", "scores"): lambda law: law.mean,
    ("standard deviation", "scores"): lambda law: law.std,
    ("expectation deviation", "scores"): lambda law: law.mean + 2 * law.std,
    ("tail", "scores"): lambda law: law.tail(X),
    ("leak@k", "scores"): lambda law: law.leak_at(K),
}
JUDGES = {"judged .9/.05": (0.9, 0.05), "judged .3/.4": (0.3, 0.4)}


def of_one_question() -> Iterator[tuple[str, tuple[Call, Callable[[Law], Any]]]]:
    """Every bound of one question that `stats` lists, by each of its methods."""
    for name, one in LISTED.items():
        if one.evidence not in ("hits", "scores"):
            continue
        if one.about.quantity == "corrected leak probability":  # its items are drawn, too
            for judge, rates in JUDGES.items():
                yield judge, (judged(*rates), p_of)
            continue
        call = of_hits if one.evidence == "hits" else of_scores
        for method in one.methods or (None,):
            given = {"method": method} if method else {}
            title = ", ".join(filter(None, (name, method)))
            yield title, (call(one.bound, **given), TRUTHS[one.about.quantity, one.evidence])


def at_one_k(k: int) -> Call:
    """leak@k for one k, which has bounds of its own."""

    def call(scores: np.ndarray, side: str, seed: int) -> End:
        return getattr(
            leak_at_k_bound(scores, k, confidence=CONFIDENCE, side=side, seed=seed), side
        )

    return call


BOUNDS: dict[str, tuple[Call, Callable[[Law], Any]]] = {
    **dict(of_one_question()),
    **{f"leak@{k}, that k": (at_one_k(k), partial(leaks_at, k)) for k in (2, 8, 32)},
}
CONBO: dict[str, tuple[Call, Callable[[Law], Any]]] = {
    "proportion, conbo": (theirs("binomial_bounds", 2 * ALPHA), p_of),
    "tail at 7 x, conbo": (theirs("survival_bounds", 2 * ALPHA, X), lambda law: law.tail(X)),
    "mean, conbo": (theirs("expectation_bounds", 2 * ALPHA), lambda law: law.mean),
    "deviation, conbo": (theirs("std_bounds", ALPHA), lambda law: law.std),
}
UPPER_ONLY = {"std, grid"}


@dataclass
class Cell:
    """The ends of one bound, on one side, under one law, against the truth."""

    bound: str
    side: str
    law: str
    n: int
    trials: int = 0
    misses: int = 0
    distance: float = 0.0

    def add(self, end: np.ndarray, truth: Any) -> None:
        """Count trials, one a row; one that misses at any point misses."""
        beyond = (end - truth if self.side == "upper" else truth - end).reshape(len(end), -1)
        self.trials += len(end)
        self.misses += int((~(beyond >= -1e-9)).any(axis=1).sum())  # NaN misses
        self.distance += float(np.nan_to_num(beyond).mean(axis=1).sum())

    def row(self) -> dict[str, Any]:
        return vars(self) | {"distance": self.distance / self.trials}


def of_laws(bounds: dict[str, Any], n: int, trials: int) -> Iterator[Cell]:
    """Every bound and side under each law: the same draws for all of them."""
    for index, (name, law) in enumerate(LAWS.items()):
        scores = law.draw(np.random.default_rng([3, index, n]), (trials, n))
        for bound, (call, truth) in bounds.items():
            for side in SIDES[: 1 if bound in UPPER_ONLY else 2]:
                cell = Cell(bound, side, name, n)
                target = np.asarray(truth(law))
                for seed, start in enumerate(range(0, trials, BATCH)):
                    rows = scores[start : start + BATCH]
                    cell.add(np.asarray(call(rows, side, seed)), target)
                yield cell


@dataclass(frozen=True)
class DataSet:
    """Draws of one data set whose questions follow the seven laws, in turn."""

    scores: np.ndarray
    hits: np.ndarray
    stopped: tuple[np.ndarray, np.ndarray]
    seed: int
    control: np.ndarray

    @property
    def n(self) -> int:
        return self.scores.shape[1]


CONTROL = LAWS["1 % leak"]  # of every question
MANY = 10  # questions a law where hits are enough
EACH = list(LAWS.values())
P = np.repeat([float(law.tail(np.array(0.5))) for law in EACH], MANY)
MEANS = np.array([law.mean for law in EACH])
SDS = np.array([law.std for law in EACH])
UNEVEN = np.array([0.5, 0.4, 0.8, 1.0, 0.6, 0.9, 0.3])  # shares of n that each law is given
WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 1.0, 1.0, 1.5])
LEVELS = np.array([0.0, 0.005, 0.01, 0.1, 0.3, 0.499])
BLOCK, BLOCKS = 8, np.array([1, 8, 16])
FAR = np.array([1, 1_000, 10**9])
ENDS = ("lower", "upper")
UNLIKE, POOLED = "unlike questions", "unlike queries"
Statement = tuple[Callable[..., Estimate], Any]
"""((data, side=, confidence=) -> estimate, the truth or data -> the truth)"""


def data_set(n: int, trial: int) -> DataSet:
    rng = np.random.default_rng([4, n, trial])
    scores = np.concatenate([law.draw(rng, (1, n)) for law in EACH])
    hits, stopped = rng.binomial(n, P), stop_early(rng, n)
    return DataSet(scores, hits, stopped, trial, CONTROL.draw(rng, (len(EACH), n)))


def stop_early(rng: np.random.Generator, cap: int) -> tuple[np.ndarray, np.ndarray]:
    """Hits and draws of questions that stop, at one of doubling looks, once P is told from .05."""
    hits, n = np.zeros(len(P), np.int64), np.zeros(len(P), np.int64)
    active, size = np.ones(len(P), bool), 8
    while active.any():
        size = min(size, cap)
        hits += active * rng.binomial(size - n.max(), P)
        n[active] = size
        made = proportion_bound(hits, n, method="any-time", confidence=0.98, side="both")
        active &= (size < cap) & (made.upper > 0.05) & (made.lower < 0.05)
        size *= 2
    return hits, n


def tally(data: DataSet) -> Callable[..., Estimate]:
    return partial(proportion_bound, data.hits, data.n)


def uneven(data: DataSet, **how: Any) -> Estimate:
    """The weighted mean, from numbers of draws that differ."""
    counted = np.arange(data.n) < np.ceil(UNEVEN * data.n)[:, None]
    return mean_over_questions(data.scores, counted, weights=WEIGHTS, seed=data.seed, **how)


def stopped_mean(data: DataSet, **how: Any) -> Estimate:
    bound = partial(proportion_bound, *data.stopped, method="any-time")
    return mean_over_stopped_questions(bound, len(P), **how)


def two_models(data: DataSet) -> tuple[Callable[..., Estimate], Callable[..., Estimate]]:
    """The leak probability of each question of a model, and of its control."""
    return tally(data), partial(proportion_bound, data.hits[::-1], data.n)


def worst_excess(data: DataSet, *, confidence: float, **how: Any) -> Estimate:
    """Both its ends at once: the share of either is that of the side that is looked at."""
    each = partial(excess_of, *two_models(data))
    means = [
        partial(proportion_over_questions, hits, data.n, seed=data.seed)
        for hits in (data.hits, data.hits[::-1])
    ]
    mean = partial(excess_of, *means)
    both = 1 - 2 * (1 - confidence)
    return excess_of_mean_and_worst(mean, each, len(P), confidence=both).worst


def differences(data: DataSet, *, confidence: float, **how: Any) -> Estimate:
    """Two models beside one baseline: a miss of any end of a side, of the means too, is one."""
    base = data.hits[::-1]
    found = []
    for hits in (data.hits, np.roll(data.hits, MANY)):
        each = partial(excess_of, *(partial(proportion_bound, x, data.n) for x in (hits, base)))
        means = (partial(proportion_over_questions, x, data.n, seed=1) for x in (hits, base))
        both = 1 - 2 * (1 - confidence)
        mean = partial(excess_of, *means)
        one = difference_over_questions(mean, each, len(P), models=2, confidence=both)
        found += [one.mean, one.each]
    lower, upper = (np.concatenate([np.atleast_1d(getattr(x, end)) for x in found]) for end in ENDS)
    return replace(found[-1], lower=lower, upper=upper)


def looked_at(data: DataSet, worst: bool, **how: Any) -> Estimate:
    """Questions watched at doubling looks, a miss at any of which is one; or the worst of them."""
    leaks, found, size = data.scores > 0.5, [], 8
    while size < 2 * data.n:
        size = min(size, data.n)
        hits = leaks[:, :size].sum(axis=1)
        bound = partial(stopped_proportion_bound, hits, size, data.n)
        each = watched_questions(bound, len(EACH), **how)
        found.append(worst_watched(each) if worst else each)
        size *= 2
    lower, upper = (np.array([getattr(x, end) for x in found]) for end in ENDS)
    return replace(found[-1], lower=lower.max(axis=0), upper=upper.min(axis=0))


def far_mean(data: DataSet, **how: Any) -> Estimate:
    return mean_leak_at_k_of_counts(leaking_questions(tally(data), len(P), LEVELS, **how), FAR)


HALF_KNOWN = Mass(np.array([0.5, 0.1]), np.array([0.2, 0.0]), np.array([0.2, 0.0]), 0.4)
STATEMENTS: dict[str, Statement] = {
    "worst question": (lambda d, **how: worst_question(tally(d), len(P), **how), P.max()),
    "every question": (lambda d, **how: every_question(tally(d), len(P), **how), P),
    "leaking questions at 6 x": (
        lambda d, **how: leaking_questions(tally(d), len(P), LEVELS, **how),
        (P[:, None] > LEVELS).sum(axis=0),
    ),
    "mean leak probability": (
        lambda d, **how: proportion_over_questions(d.hits, d.n, **how),
        P.mean(),
    ),
    "mean leak probability, stopped": (stopped_mean, P.mean()),
    "mean of means": (
        lambda d, **how: mean_over_questions(d.scores, seed=d.seed, **how),
        MEANS.mean(),
    ),
    "excess of each question": (
        lambda d, **how: excess_bound(d.scores, d.control, seed=d.seed, **how),
        MEANS - CONTROL.mean,
    ),
    "mean excess": (
        lambda d, **how: excess_over_questions(d.scores, d.control, seed=d.seed, **how),
        MEANS.mean() - CONTROL.mean,
    ),
    "excess of bounds": (
        lambda d, **how: excess_of(*two_models(d), **how),
        P - P[::-1],
    ),
    "worst excess, with the mean's": (worst_excess, (P - P[::-1]).max()),
    "mean of masses": (
        lambda d, **how: mass_mean_over_questions(
            [HALF_KNOWN] * len(EACH), d.scores, seed=d.seed, **how
        ),
        0.2 * 0.5 + 0.4 * MEANS.mean(),
    ),
    "differences from a baseline, two models": (
        differences,
        np.concatenate(
            [each for p in (P, np.roll(P, MANY)) for each in ([(p - P[::-1]).mean()], p - P[::-1])]
        ),
    ),
    "watched at every look": (partial(looked_at, worst=False), P[::MANY]),
    "worst watched": (partial(looked_at, worst=True), P.max()),
    "leak@k of a bound": (
        lambda d, **how: carried(worst_question(tally(d), len(P), **how), FAR),
        1 - (1 - P.max()) ** FAR,
    ),
    "leak@k of counts": (far_mean, (1 - (1 - P[:, None]) ** FAR).mean(axis=0)),
    "mean of sds": (
        lambda d, **how: std_over_questions(d.scores, seed=d.seed, **how),
        SDS.mean(),
    ),
    "mean of means + 2 sds": (
        lambda d, **how: expectation_deviation_over_questions(d.scores, seed=d.seed, **how),
        (MEANS + 2 * SDS).mean(),
    ),
    "mean of means, uneven": (uneven, MEANS @ WEIGHTS / WEIGHTS.sum()),
    f"mean leak@{BLOCK}": (
        lambda d, **how: mean_leak_at_k_over_questions(d.scores, BLOCK, seed=d.seed, **how),
        np.mean([law.leak_at(BLOCK) for law in EACH]),
    ),
    "mean leak@k, several k": (
        lambda d, **how: mean_leak_at_k_over_questions(d.scores, BLOCKS, seed=d.seed, **how),
        np.mean([law.leak_at(BLOCKS) for law in EACH], axis=0),
    ),
}


def of_trials(
    law: str,
    draw: Callable[[int, int], DataSet | Queries],
    statements: dict[str, Statement],
    n: int,
    trials: int,
) -> Iterator[Cell]:
    """Every statement and side, about what `draw` gives for n and each trial."""
    cells = {(s, side): Cell(s, side, law, n) for s in statements for side in SIDES}
    for trial in range(trials if statements else 0):
        data = draw(n, trial)
        for (name, side), cell in cells.items():
            call, truth = statements[name]
            end = getattr(call(data, side=side, confidence=CONFIDENCE), side)
            cell.add(np.reshape(end, (1, -1)), truth(data) if callable(truth) else truth)
    yield from cells.values()


SIMULATED = {  # of what stats lists: by which statement here, or where else it is shown to hold
    "excess": "excess of each question",
    "excess over questions": "mean excess",
    "mean over questions": "mean of means",
    "proportion over questions": "mean leak probability",
    "leak@k over questions": f"mean leak@{BLOCK}",
    "std over questions": "mean of sds",
    "mean + sd over questions": "mean of means + 2 sds",
    "mass mean over questions": "mean of masses",
    "median over seeds": "tests/stats/test_seeds.py",
    "worst question": "worst question",
    "every question": "every question",
    "leaking questions": "leaking questions at 6 x",
    "mean over stopped questions": "mean leak probability, stopped",
    "excess of bounds": "excess of bounds",
    "excess of mean and worst": "worst excess, with the mean's",
    "worst query": "worst query, allocated",
    "difference over questions": "differences from a baseline, two models",
    "watched questions": "watched at every look",
    "worst watched": "worst watched",
    "leak@k of a bound": "leak@k of a bound",
    "leak@k of counts": "leak@k of counts",
    "corrected": "tests/stats/test_proportion_spread.py",
    "each query": "tests/stats/test_pool.py: every query's own bound, and [0, 1]",
    "gaps over questions": "tests/stats/test_compared_models.py: lower ends of each excess",
    "excess of estimates": "tests/stats/test_excess.py: arithmetic of two estimates",
    "effects of two knobs": "tests/stats/test_two_way.py: interval arithmetic",
    "proof of leak": "tests/stats/test_mass.py: without draws",
    "mass std": "tests/stats/test_mass.py: without draws",
    **{
        f"mass {name}": "tests/stats/test_mass.py: of draws and known masses"
        for name in ("proportion", "mean", "tail", "leak@k", "leak@k proportion")
    },
    **{
        f"pool {name}": "bench/pools.py"
        for name in ("mean", "proportion", "tail", "leak@k", "std", "mean + sd")
    },
}


def not_simulated() -> set[str]:
    """Bounds that `stats` lists and that neither this bench nor a test counts the misses of."""
    one = {name for name, row in LISTED.items() if row.evidence in ("hits", "scores")}
    here = {name for name in SIMULATED if SIMULATED[name] in STATEMENTS | OF_POOLS}
    there = {name for name in SIMULATED if SIMULATED[name].startswith(("tests/", "bench/"))}
    return LISTED.keys() - one - here - there


KINDS = {"of a law": tuple(LAWS), "of a data set": (UNLIKE,), "of a pool": (POOLED,)}


def chosen(table: dict[str, Any], words: list[str]) -> dict[str, Any]:
    return {k: v for k, v in table.items() if not words or any(word in k for word in words)}


def tables(cells: list[Cell]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A table for each n and kind of data: a row a bound and side, a column a law."""
    for n in sorted({cell.n for cell in cells}):
        for kind, laws in KINDS.items():
            rows: dict[tuple[str, str], dict[str, Any]] = {}
            for cell in cells:
                if cell.n == n and cell.law in laws:
                    key = cell.bound, cell.side
                    row = rows.setdefault(key, {"bound": cell.bound, "side": cell.side})
                    row[cell.law] = f"{cell.misses} / {cell.row()['distance']:.3g}"
            if rows:
                yield f"Bounds {kind}, n = {n}", list(rows.values())


def main() -> int:
    if "--shipped" in sys.argv:
        sys.argv.remove("--shipped")
        return shipped.main()
    args = options(__doc__, trials=2_000, n=[100, 1_024], only=([], "words in names"))
    if missing := not_simulated():
        raise SystemExit(f"no misses are counted of {', '.join(sorted(missing))}: add a row.")
    if min(args.n) < QUERIES:
        raise SystemExit(f"--n must be at least {QUERIES}: so many queries has a pool.")
    bounds = chosen(BOUNDS | (CONBO if conbo is not None else {}), args.only)
    statements, pools = chosen(STATEMENTS, args.only), chosen(OF_POOLS, args.only)
    cells: list[Cell] = []
    start = time.process_time()
    for n in args.n:
        for part in (
            of_laws(bounds, n, args.trials),
            of_trials(UNLIKE, data_set, statements, n, args.trials),
            of_trials(POOLED, queries, pools, n, args.trials),
        ):
            for cell in part:
                cells.append(cell)
                spent = time.process_time() - start
                print(f"{spent:7.0f} s  {cell.row()}", file=sys.stderr)
    ours = [cell for cell in cells if cell.bound not in CONBO and AS_IF not in cell.bound]
    failed = too_often(ours, [(cell.misses, cell.trials) for cell in ours], ALPHA)
    limit = most_misses(args.trials, len(ours), ALPHA)
    if conbo is None:
        print("conbo is not installed: pip install conbo==0.1.1 'scipy<1.16'")
    print(f"alpha = {ALPHA}: misses of {args.trials} trials / distance")
    print(f"at most {limit} misses; {len(ours)} cells of ours, false alarm {FALSE_ALARM:g} in all")
    for title, rows in tables(cells):
        print(f"\n## {title}\n\n{markdown(rows)}")
    for cell in failed:
        print(f"MISSES TOO OFTEN: {cell.row()}")
    keep(args.json, {"limit": limit, "cells": [cell.row() for cell in cells]})
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
