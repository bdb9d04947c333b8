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
law of its query; bounds of i.i.d. draws fail, those of `dataset` hold. *clusters*: see `clusters`.
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
from leakbound.stats.dataset import mean_over_questions, proportion_over_questions
from leakbound.stats.deviation import std_bound
from leakbound.stats.estimate import Array, Counts, Estimate, Side
from leakbound.stats.expectation_deviation import expectation_deviation_bound
from leakbound.stats.leak_at_k import leak_at, leak_at_k_bound, whole_sizes
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import MEAN, mean_bound
from leakbound.stats.order import Seed
from leakbound.stats.proportion import (
    LEAK,
    among,
    leak_at_k_proportion_bound,
    proportion_bound,
)
from leakbound.stats.survival import read_points, survival_bound
from leakbound.stats.whole import whole

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
    """The scored outputs of `queries` queries: `rows` are those of the queries that got any.

    `scores`, `counts` (d,) and `missing` are all of them as one row, as bounds take it.
    """

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
        gone = whole("missing", missing)
        filled = Leakage.read(scores, counts, gone + 1)  # one too many: no row counts as empty
        if filled.single:
            raise InputError("`scores` of a pool must be 2-D with one row a query, got 1-D.")
        missed = filled.missing - 1
        outputs = filled.counts.sum(axis=1) + missed
        _check_outputs(outputs, design)
        got = outputs > 0
        rows = Leakage(filled.values[got], filled.counts[got], missed[got], single=False)
        return cls(rows, len(outputs), design, target)

    @property
    def law(self) -> Law:
        """What the draws are, for the target: see the module."""
        return LAWS[self.target, self.design]

    @cached_property
    def _row(self) -> tuple[Array, Counts]:
        drawn = self.rows.counts > 0
        values, place = np.unique(self.rows.values[drawn], return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, place, self.rows.counts[drawn])
        return values, counts

    @property
    def scores(self) -> Array:
        """The distinct scores of all queries, ascending."""
        return self._row[0]

    @property
    def counts(self) -> Counts:
        """How many outputs, of whichever queries, have each score."""
        return self._row[1]

    @property
    def missing(self) -> int:
        """Outputs of all queries without a score."""
        return int(self.rows.missing.sum())

    @property
    def n(self) -> int:
        """Outputs of all queries, the missing ones included."""
        return int(self.rows.n.sum())

    def about(self, made: Estimate) -> Estimate:
        """The estimate, saying which of the two it is about."""
        inputs: Inputs = "these queries" if self.target == "queries" else "input distribution"
        about = replace(made.about, scope="question", inputs=inputs, over=self.queries)
        return replace(made, about=about)

    def hits(self) -> Counts:
        """Leaks of each query in `rows`; InputError for scores that are not 0 or 1."""
        if not np.isin(self.scores, (0, 1)).all():
            raise InputError(
                "`scores` of a leak probability must be 0 or 1. Make the scorer binary "
                "(`NAME>=t`), or bound the mean leakage."
            )
        return np.asarray((self.rows.counts * (self.rows.values == 1)).sum(axis=1))

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
    rows = pool.rows
    if pool.law == "iid":
        made = mean_bound(
            pool.scores, pool.counts, missing=pool.missing,
            confidence=confidence, side=side, seed=seed,
        )  # fmt: skip
    elif pool.law == "unlike":
        made = mean_over_questions(
            rows.values, rows.counts, missing=rows.missing,
            confidence=confidence, side=side, seed=seed,
        )  # fmt: skip
    else:
        made = cluster_mean(rows, MEAN.about, confidence=confidence, side=side, seed=seed)
    return pool.about(made)


def pool_proportion_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "upper", seed: Seed = None
) -> Estimate:
    """Bound the leak probability of the pool's target, scores 0 or 1.

    By Clopper-Pearson where the draws are i.i.d.; by Hoeffding's form of it where they are
    unlike; by betting on each query's share of leaks for clusters.
    """
    hits, rows = pool.hits(), pool.rows
    if pool.law == "iid":
        leaks = int(hits.sum())
        made = proportion_bound(
            leaks, pool.n, missing=pool.missing, confidence=confidence, side=side
        )
    elif pool.law == "unlike":
        made = proportion_over_questions(
            hits, rows.n, missing=rows.missing, confidence=confidence, side=side, seed=seed
        )
    else:
        made = cluster_mean(rows, LEAK, confidence=confidence, side=side, seed=seed)
    return pool.about(made)


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
        made = survival_bound(
            pool.scores, x, pool.counts, missing=pool.missing,
            confidence=confidence, side=side, method=method,
        )  # fmt: skip
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
        hits = int(pool.hits().sum())
        made = leak_at_k_proportion_bound(
            hits, pool.n, k, missing=pool.missing, confidence=confidence, side=side
        )
    elif binary:
        leak = pool_proportion_bound(pool, confidence=confidence, side=side, seed=seed)
        value, lower, upper = (among(p, sizes) for p in (leak.value, leak.lower, leak.upper))
        made = replace(leak, about=leak_at(sizes), value=value, lower=lower, upper=upper)
    elif pool.law == "iid":
        made = leak_at_k_bound(
            pool.scores, k, pool.counts, missing=pool.missing,
            confidence=confidence, side=side, seed=seed,
        )  # fmt: skip
    elif pool.law == "unlike":
        raise pool.unavailable("leak@k of a scorer that is not binary")
    else:
        made = cluster_leak_at_k(pool.rows, sizes, confidence=confidence, side=side)
    return pool.about(made)


def pool_std_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "upper", seed: Seed = None
) -> Estimate:
    """Bound the standard deviation of the pool's target; InputError unless its draws are i.i.d."""
    if pool.law != "iid":
        raise pool.unavailable("standard deviation")
    made = std_bound(
        pool.scores, pool.counts, missing=pool.missing,
        confidence=confidence, side=side, seed=seed,
    )  # fmt: skip
    return pool.about(made)


def pool_expectation_deviation_bound(
    pool: Pool,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "upper",
    seed: Seed = None,
) -> Estimate:
    """Bound mean + rho * sd of the pool's target; InputError unless its draws are i.i.d."""
    if pool.law != "iid":
        raise pool.unavailable(f"mean + {rho:g} standard deviations")
    made = expectation_deviation_bound(
        pool.scores, pool.counts, missing=pool.missing,
        rho=rho, confidence=confidence, side=side, seed=seed,
    )  # fmt: skip
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
