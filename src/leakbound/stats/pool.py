"""Pools: the outputs of several queries of one prompt, and the two things they can be about.

*Given these queries* (`target` "queries"): the score of an output to one of these queries, drawn
uniformly: E[X] is the mean over the queries. *Over the input distribution* ("inputs"): the score
of an output to a query drawn afresh, each time, from the distribution that these were drawn from.
That takes queries that are a random sample of it: independent, repeats kept, the original question
left out, their number fixed beforehand. Rewritings from a list, or several of one request to a
rewriter, are none, and have statements of the first kind only.

How the outputs were shared among the queries (`design`) then decides what they are:

    design      number of outputs                          given these queries   over the inputs
    allocated   fixed; the query of each drawn uniformly   i.i.d.                clusters
    fixed       fixed for every query                      unlike                clusters
    fresh       one for each query                         unlike                i.i.d.

*i.i.d.*: the query's index is part of the draw, so a score has the law of the mixture whatever the
other scores are; every bound of one query holds for the pool. *unlike*: independent, each with the
law of its query; bounds of i.i.d. draws fail, those of `mean_over_questions` hold. *clusters*: see
`clusters`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import Inputs
from leakbound.stats.clusters import cluster_leak_at_k, cluster_mean, cluster_tail
from leakbound.stats.deviation import STD, score_of
from leakbound.stats.estimand import Estimand
from leakbound.stats.estimate import Counts, Estimate, Side
from leakbound.stats.leak_at_k import (
    carried,
    leak_at_k_proportion_bound,
    leak_of,
    whole_sizes,
)
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import MEAN
from leakbound.stats.mean_over_questions import over_questions
from leakbound.stats.order import Seed
from leakbound.stats.proportion import PROPORTION, tally
from leakbound.stats.tail import read_points, tail_of

Design = Literal["allocated", "fixed", "fresh"]
Target = Literal["queries", "inputs"]
Law = Literal["iid", "unlike", "clusters"]

LAWS: dict[tuple[Target, Design], Law] = {
    ("queries", "allocated"): "iid",
    ("queries", "fixed"): "unlike",
    ("queries", "fresh"): "unlike",
    ("inputs", "allocated"): "clusters",
    ("inputs", "fixed"): "clusters",
    ("inputs", "fresh"): "iid",
}
REMEDY: dict[Target, Design] = {"queries": "allocated", "inputs": "fresh"}


@dataclass(frozen=True)
class Pool:
    """The scored outputs of `queries` queries: `rows` are those of the queries that got any."""

    rows: Leakage
    queries: int
    design: Design
    target: Target

    @classmethod
    def read(
        cls,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        missing: npt.ArrayLike = 0,
        *,
        design: Design,
        target: Target = "queries",
    ) -> Pool:
        """Check scores, (C, d), one row a query, and how they were drawn.

        As every bound reads them; but under `allocated` a query may have no output at all.
        InputError for that under another design, and for a `fresh` query with several.
        """
        for name, given, known in (("design", design, Design), ("target", target, Target)):
            if given not in get_args(known):
                raise InputError(f"`{name}` must be one of {get_args(known)}, got {given!r}.")
        every = Leakage.read(scores, counts, missing, empty=True)
        if every.single:
            raise InputError("`scores` of a pool must be 2-D with one row a query, got 1-D.")
        _check_outputs(every.n, design)
        return cls(every.only(every.n > 0), len(every.n), design, target)

    @property
    def law(self) -> Law:
        """What the draws are, for the target: see the module."""
        return LAWS[self.target, self.design]

    @cached_property
    def row(self) -> Leakage:
        """All outputs as the draws of one question: distinct scores, and how many have each."""
        drawn = self.rows.counts > 0
        values, place = np.unique(self.rows.values[drawn], return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, place, self.rows.counts[drawn])
        return Leakage.read(values, counts, self.rows.missing.sum())

    def about(self, made: Estimate) -> Estimate:
        """The estimate, saying which of the two it is about."""
        inputs: Inputs = "these queries" if self.target == "queries" else "input distribution"
        about = replace(made.about, scope="question", inputs=inputs, over=self.queries)
        return replace(made, about=about)

    def hits(self) -> Counts:
        """Leaks of each query in `rows`; InputError for scores that are not 0 or 1."""
        if not np.isin(self.row.values, (0, 1)).all():
            raise InputError(
                "`scores` of a leak probability must be 0 or 1. Make the scorer binary "
                "(`NAME>=t`), or bound the mean leakage."
            )
        return self.rows.hits

    def unavailable(self, quantity: str) -> InputError:
        """There is no bound of `quantity` for such a pool; what there is instead."""
        return InputError(
            f"the {quantity} has no bound for design {self.design!r} and target {self.target!r}: "
            "outputs of one query are more alike than those of two. Bound the mean, or the leak "
            "probability (with `NAME>=t` that is Pr[X >= t] for a t fixed beforehand), or draw "
            f"with design {REMEDY[self.target]!r}."
        )


def pool_mean_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "upper", seed: Seed = None
) -> Estimate:
    """Bound the mean leakage of the pool's target, scores in [0, 1].

    By betting where the draws are i.i.d.; as a mean over questions where they are unlike; by
    betting on each query's mean for clusters.
    """
    return _expectation(pool, MEAN, pool.rows, confidence=confidence, side=side, seed=seed)


def pool_proportion_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "upper", seed: Seed = None
) -> Estimate:
    """Bound the leak probability of the pool's target, scores 0 or 1.

    By Clopper-Pearson where the draws are i.i.d.; by Hoeffding's form of it where they are
    unlike; by betting on each query's share of leaks for clusters.
    """
    rows = tally(pool.hits(), pool.rows.n, pool.rows.missing)
    return _expectation(pool, PROPORTION, rows, confidence=confidence, side=side, seed=seed)


def pool_survival_bound(
    pool: Pool,
    x: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    method: str | None = None,
) -> Estimate:
    """Bound Pr[X > x] of the pool's target simultaneously for every x.

    `x` and `method` as in `survival_bound`; clusters have either band in their own form. Draws
    that are unlike have none: InputError.
    """
    if pool.law == "iid":
        tail = tail_of(read_points(x))
        made = tail.estimate(pool.row, confidence=confidence, side=side, method=method)
    elif pool.law == "unlike":
        raise pool.unavailable("tail Pr[X > x] for every x")
    else:
        made = cluster_tail(
            pool.rows, read_points(x), confidence=confidence, side=side, method=method
        )
    return pool.about(made)


def pool_leak_at_k_bound(
    pool: Pool,
    k: npt.ArrayLike,
    *,
    binary: bool = False,
    confidence: float = 0.99,
    side: Side = "upper",
    seed: Seed = None,
) -> Estimate:
    """Bound leak@k of the pool's target, for every entry of `k` at once; any k >= 1.

    The expected largest leakage of k outputs, **each to a query drawn anew**: one of these, or one
    of the input distribution. For k outputs to one query, averaged over the queries, use
    `mean_leak_at_k_over_questions`. `binary` is the scorer's declared range: leak@k is then
    1 - (1 - p)^k, and `pool_proportion_bound` bounds p (`seed` keys its shuffle). Otherwise as
    `pool_survival_bound`, from the same band; but of i.i.d. draws, for one number `k` that was
    fixed beforehand, as `leak_at_k_bound` (`seed` again). Where the draws are not i.i.d., `value`
    puts the point value of p or F into the formula, and is on average too small.
    """
    sizes = whole_sizes(k)
    if binary and pool.law == "iid":
        hits, n, missing = (int(each.sum()) for each in (pool.hits(), pool.row.n, pool.row.missing))
        made = leak_at_k_proportion_bound(
            hits, n, k, missing=missing, confidence=confidence, side=side
        )
    elif binary:
        leak = pool_proportion_bound(pool, confidence=confidence, side=side, seed=seed)
        made = carried(leak, sizes)
    elif pool.law == "iid":
        made = leak_of(pool.row, sizes, confidence=confidence, side=side, seed=seed)
    elif pool.law == "unlike":
        raise pool.unavailable("leak@k of a scorer that is not binary")
    else:
        made = cluster_leak_at_k(pool.rows, sizes, confidence=confidence, side=side)
    return pool.about(made)


def pool_std_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "upper", seed: Seed = None
) -> Estimate:
    """Bound the standard deviation of the pool's target; InputError unless its draws are i.i.d."""
    return _iid_only(pool, STD, confidence=confidence, side=side, seed=seed)


def pool_expectation_deviation_bound(
    pool: Pool,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "upper",
    seed: Seed = None,
) -> Estimate:
    """Bound mean + rho * sd of the pool's target; InputError unless its draws are i.i.d."""
    return _iid_only(pool, score_of(rho), confidence=confidence, side=side, seed=seed)


def _expectation(
    pool: Pool, estimand: Estimand, rows: Leakage, *, confidence: float, side: Side, seed: Seed
) -> Estimate:
    """Bound the mean score, where it is `estimand`; `rows` are the queries, if they are unlike."""
    if pool.law == "iid":
        made = estimand.estimate(pool.row, confidence=confidence, side=side, seed=seed)
    elif pool.law == "unlike":
        binary = estimand is PROPORTION
        made = over_questions(rows, binary=binary, confidence=confidence, side=side, seed=seed)
    else:
        made = cluster_mean(pool.rows, estimand.about, confidence=confidence, side=side, seed=seed)
    return pool.about(made)


def _iid_only(
    pool: Pool, estimand: Estimand, *, confidence: float, side: Side, seed: Seed
) -> Estimate:
    if pool.law != "iid":
        raise pool.unavailable(estimand.about.name)
    made = estimand.estimate(pool.row, confidence=confidence, side=side, seed=seed)
    return pool.about(made)


def _check_outputs(outputs: Counts, design: Design) -> None:
    if not outputs.sum():
        raise InputError("`scores` holds no draw (n = 0). A bound needs at least one.")
    if design != "allocated" and not outputs.all():
        raise InputError(
            f"every query of a {design!r} pool must have an output, got none for query "
            f"{int(outputs.argmin())}. Leave it out, or say that outputs were 'allocated'."
        )
    if design == "fresh" and outputs.max() > 1:
        raise InputError(
            f"every query of a 'fresh' pool has one output, got {outputs.max()} for query "
            f"{int(outputs.argmax())}. Say 'fixed', or give equal queries a row each."
        )
