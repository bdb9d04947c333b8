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
from leakbound.stats.estimate import Counts, Estimate, Side, plain
from leakbound.stats.leak_at_k import (
    carried,
    leak_at_k_proportion_bound,
    leak_of,
    supported,
    whole_sizes,
)
from leakbound.stats.leakage import Leakage, require_binary
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
    """The scored outputs of several queries of one question; made by `Pool.read`.

    Attributes:
        rows: the scores and their counts, one row for each query that got an output.
        queries: how many queries there are, those without outputs among them.
        design: how the outputs were shared among the queries: "allocated", "fixed" or "fresh".
        target: what statements are about: "queries" (these) or "inputs" (their distribution).
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
        """Check scores, one row a query, and how they were drawn.

        Args:
            scores: scores in [0, 1], [C, m] of C queries.
            counts: how often each score was drawn, of the shape of `scores`; None: once each.
            missing: draws without a score, [C] or one number: 1 above and 0 below.
            design: "allocated" (the query of each output drawn uniformly; a query may have none),
                "fixed" (for every query a number of outputs that was fixed) or "fresh" (one each).
            target: "queries" (default: a completion of these queries, one of them at random) or
                "inputs" (one over the distribution that these are a random sample of).

        Returns:
            The pool.

        Raises:
            InputError: scores or counts that cannot be or are 1-D, no draw at all, a design or
                target that is none, a query without an output unless the design is "allocated", or
                with several where it is "fresh".
        """
        for name, value, choices in (("design", design, Design), ("target", target, Target)):
            if value not in get_args(choices):
                raise InputError(f"`{name}` must be one of {get_args(choices)}, got {value!r}.")
        every = Leakage.read(scores, counts, missing, empty=True)
        if every.single:
            raise InputError("`scores` of a pool must be 2-D with one row a query, got 1-D.")
        _check_outputs(every.n, design)
        return cls(every.only(every.n > 0), len(every.n), design, target)

    @property
    def law(self) -> Law:
        """The law of the draws, for the target: see the module."""
        return LAWS[self.target, self.design]

    @cached_property
    def row(self) -> Leakage:
        """All outputs as the draws of one question: distinct scores, and how many have each."""
        drawn = self.rows.counts > 0
        values, place = np.unique(self.rows.values[drawn], return_inverse=True)
        counts = np.zeros(len(values), np.int64)
        np.add.at(counts, place, self.rows.counts[drawn])
        return Leakage.read(values, counts, self.rows.missing.sum())

    def about(self, bound: Estimate) -> Estimate:
        """Say in the estimate which of the two it is about.

        Args:
            bound: an estimate made from this pool.

        Returns:
            The same but for `about`.
        """
        inputs: Inputs = "these queries" if self.target == "queries" else "input distribution"
        about = replace(bound.about, scope="question", inputs=inputs, over=self.queries)
        return replace(bound, about=about)

    def hits(self) -> Counts:
        """Leaks of each query in `rows`.

        Returns:
            Whole numbers, one for each query that got an output.

        Raises:
            InputError: scores that are not 0 or 1.
        """
        require_binary(self.row.values)
        return self.rows.hits

    def unavailable(self, quantity: str) -> InputError:
        """Say that there is no bound of a quantity for such a pool, and what there is instead.

        Args:
            quantity: in words.

        Returns:
            The error to raise.
        """
        return InputError(
            f"the {quantity} has no bound for design {self.design!r} and target {self.target!r}: "
            "outputs of one query are more alike than those of two. Bound the mean, or the leak "
            "probability (with `NAME>=t` that is Pr[X >= t] for a t fixed beforehand), or draw "
            f"with design {REMEDY[self.target]!r}."
        )


def pool_mean_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "both", seed: Seed = None
) -> Estimate:
    """Bound the mean leakage of the pool's target, scores in [0, 1].

    By betting where the draws are i.i.d.; as a mean over questions where they are unlike; by
    betting on each query's mean for clusters.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The mean leakage's estimate, in [0, 1], about the pool's target.

    Raises:
        InputError: a confidence, side or seed that is none.
    """
    return _expectation(pool, MEAN, pool.rows, confidence=confidence, side=side, seed=seed)


def pool_proportion_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "both", seed: Seed = None
) -> Estimate:
    """Bound the leak probability of the pool's target, scores 0 or 1.

    By Clopper-Pearson where the draws are i.i.d.; where they are unlike by Hoeffding's form of it,
    and by betting in rounds, as `proportion_over_questions`; by betting on each query's share of
    leaks for clusters.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The leak probability's estimate, in [0, 1], about the pool's target.

    Raises:
        InputError: scores that are not 0 or 1, or a confidence, side or seed that is none.
    """
    rows = tally(pool.hits(), pool.rows.n, pool.rows.missing)
    return _expectation(pool, PROPORTION, rows, confidence=confidence, side=side, seed=seed)


def pool_survival_bound(
    pool: Pool,
    x: npt.ArrayLike,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: str | None = None,
) -> Estimate:
    """Bound Pr[X > x] of the pool's target simultaneously for every x.

    Clusters have either band in their own form.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        x: a finite number, or [K] of them, the last axis of the result then.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        method: "berk-jones" (default) or "paper" (DKW).

    Returns:
        The tail's estimate, in [0, 1] and of the shape of x, about the pool's target.

    Raises:
        InputError: draws that are unlike, which have no band; an x that cannot be; a confidence,
            side or method that is none; or a confidence too near 1 for "berk-jones".
    """
    if pool.law == "iid":
        tail = tail_of(read_points(x))
        bound = tail.estimate(pool.row, confidence=confidence, side=side, method=method)
    elif pool.law == "unlike":
        raise pool.unavailable("tail Pr[X > x] for every x")
    else:
        bound = cluster_tail(
            pool.rows, read_points(x), confidence=confidence, side=side, method=method
        )
    return pool.about(bound)


def pool_leak_at_k_bound(
    pool: Pool,
    k: npt.ArrayLike,
    *,
    binary: bool = False,
    confidence: float = 0.99,
    side: Side = "both",
    seed: Seed = None,
) -> Estimate:
    """Bound leak@k of the pool's target, for every entry of `k` at once; any k >= 1.

    The expected largest leakage of k outputs, **each to a query drawn anew**: one of these, or one
    of the input distribution. For k outputs to one query, averaged over the queries, use
    `mean_leak_at_k_over_questions`. Of a `binary` scorer leak@k is 1 - (1 - p)^k, and
    `pool_proportion_bound` bounds p. Otherwise it is bounded by the band of `pool_survival_bound`;
    but of i.i.d. draws, for one number `k` that was fixed beforehand, as by `leak_at_k_bound`.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        k: of how many draws the largest is meant, a whole number >= 1; or [K], the last axis then.
        binary: the scorer's declared range; True: the scores must be 0 or 1.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The estimate of leak@k, in [0, 1] and of the shape of k, about the pool's target. Where the
        draws are not i.i.d., `value` puts the point value of p or F into the formula, and is on
        average too small.

    Raises:
        InputError: draws that are unlike, of a scorer that is not `binary`; other scores than 0 and
            1 of one that is; a k, confidence, side or seed that is none; or a confidence too near 1
            for a band.
    """
    sizes = whole_sizes(k)
    if binary and pool.law == "iid":
        hits, n, missing = (int(row.sum()) for row in (pool.hits(), pool.row.n, pool.row.missing))
        bound = leak_at_k_proportion_bound(
            hits, n, k, missing=missing, confidence=confidence, side=side
        )
    elif binary:
        leak = pool_proportion_bound(pool, confidence=confidence, side=side, seed=seed)
        bound = carried(leak, sizes)
        if pool.law != "unlike":  # of clusters each is one draw
            bound = replace(bound, value=plain(supported(bound.value, sizes, len(pool.rows.n))))
    elif pool.law == "iid":
        bound = leak_of(pool.row, sizes, confidence=confidence, side=side, seed=seed)
    elif pool.law == "unlike":
        raise pool.unavailable("leak@k of a scorer that is not binary")
    else:
        bound = cluster_leak_at_k(pool.rows, sizes, confidence=confidence, side=side)
    return pool.about(bound)


def pool_std_bound(
    pool: Pool, *, confidence: float = 0.99, side: Side = "both", seed: Seed = None
) -> Estimate:
    """Bound the standard deviation of the pool's target, whose draws are i.i.d.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The standard deviation's estimate, in [0, 1/2], about the pool's target.

    Raises:
        InputError: draws that are not i.i.d., or a confidence, side or seed that is none.
    """
    return _iid_only(pool, STD, confidence=confidence, side=side, seed=seed)


def pool_expectation_deviation_bound(
    pool: Pool,
    *,
    rho: float = 2.0,
    confidence: float = 0.99,
    side: Side = "both",
    seed: Seed = None,
) -> Estimate:
    """Bound mean + rho * sd of the pool's target, whose draws are i.i.d.

    Args:
        pool: the scored outputs of several queries, as `Pool.read` gives them.
        rho: the weight of the standard deviation, a number >= 0.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        seed: of the order in which bets meet the draws, one number; None: a random one.

    Returns:
        The estimate of mean + rho * sd, about the pool's target.

    Raises:
        InputError: draws that are not i.i.d., or a rho, confidence, side or seed that is none.
    """
    return _iid_only(pool, score_of(rho), confidence=confidence, side=side, seed=seed)


def _expectation(
    pool: Pool, estimand: Estimand, rows: Leakage, *, confidence: float, side: Side, seed: Seed
) -> Estimate:
    """Bound the mean score, where it is `estimand`; `rows` are the queries, if they are unlike."""
    if pool.law == "iid":
        bound = estimand.estimate(pool.row, confidence=confidence, side=side, seed=seed)
    elif pool.law == "unlike":
        binary = estimand is PROPORTION
        bound = over_questions(rows, binary=binary, confidence=confidence, side=side, seed=seed)
    else:
        bound = cluster_mean(pool.rows, estimand.about, confidence=confidence, side=side, seed=seed)
    return pool.about(bound)


def _iid_only(
    pool: Pool, estimand: Estimand, *, confidence: float, side: Side, seed: Seed
) -> Estimate:
    if pool.law != "iid":
        raise pool.unavailable(estimand.about.name)
    bound = estimand.estimate(pool.row, confidence=confidence, side=side, seed=seed)
    return pool.about(bound)


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
