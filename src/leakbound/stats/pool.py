"""Pools of outputs to several queries per question, and the two targets of statements on pools.

A statement has one of two targets. *Given these queries* (`target` "queries"): X is the score of an
output to one of these queries, which is drawn uniformly. So E[X] is the mean over the queries.
*Over the input distribution* (`target` "inputs"): X is the score of an output to a new query, drawn
each time from the distribution that these queries come from. For the second target the queries must
be a random sample of that distribution. The queries are drawn independently, repeats are kept, the
original question is left out, and the number of queries is fixed in advance. Rewritings from a
list, or several rewritings from one request to a rewriter, are not such a sample. For such
rewritings only statements given these queries are valid.

The assignment of outputs to queries (`design`) and the target decide how the draws are treated:

    design      number of outputs                          given these queries   over the inputs
    allocated   fixed; the query of each drawn uniformly   i.i.d.                clusters
    fixed       fixed for every query                      unlike                clusters
    fresh       one for each query                         unlike                i.i.d.

*i.i.d.*: a draw consists of a random query and an output to this query. So the scores are
independent, and each has the mixture of the queries' distributions. Every bound for one query is
valid for such a pool. *unlike*: the scores are independent, each with the distribution of its own
query. Bounds for i.i.d. draws are not valid, but the bounds of `mean_over_questions` are valid.
*clusters*: see the module `clusters`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import Inputs
from leakbound.stats.arrays import whole_numbers
from leakbound.stats.clusters import cluster_mean
from leakbound.stats.estimand import Terms
from leakbound.stats.estimate import Counts, Estimate
from leakbound.stats.evidence import OfRows, Rows
from leakbound.stats.leak_at_k import carried
from leakbound.stats.mean_over_questions import mean_over_questions
from leakbound.stats.order import one_a_row
from leakbound.stats.quantity import LEAKAGE, Quantity
from leakbound.stats.questions import stack

Design = Literal["allocated", "fixed", "fresh"]
Target = Literal["queries", "inputs"]
PoolKind = Literal["iid pool", "unlike pool", "clusters"]

KINDS: dict[tuple[Target, Design], PoolKind] = {
    ("queries", "allocated"): "iid pool",
    ("queries", "fixed"): "unlike pool",
    ("queries", "fresh"): "unlike pool",
    ("inputs", "allocated"): "clusters",
    ("inputs", "fixed"): "clusters",
    ("inputs", "fresh"): "iid pool",
}


@dataclass(frozen=True)
class Pool(OfRows):
    """The scored outputs of several queries of each question; made by `Pool.of`.

    Attributes:
        rows: the scores and their counts, one row for each query that got an output.
        owners: the index of the question that each row belongs to, [C].
        queries: the number of queries of each question, including queries without outputs.
        design: how the outputs were assigned to the queries: "allocated", "fixed" or "fresh".
        target: the target of statements: "queries" (these queries) or "inputs" (the distribution
            that the queries come from).
        single: whether there is one question, so that results lose their first axis.
        ids: the ids of the questions; empty if they have none.
    """

    rows: Rows
    owners: Counts
    queries: tuple[int, ...]
    design: Design
    target: Target
    single: bool
    ids: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rows: Rows,
        *,
        design: Design,
        target: Target = "queries",
        owners: npt.ArrayLike | None = None,
        queries: Sequence[int] | None = None,
        ids: tuple[str, ...] = (),
    ) -> Pool:
        """Make a pool from the scores of the outputs to several queries.

        Args:
            rows: the scores, one row per query; made with `empty=True` if a query may have no
                output.
            design: the assignment of outputs to queries. "allocated": the query of each output was
                drawn uniformly, and a query may have no output. "fixed": the number of outputs of
                every query was fixed in advance. "fresh": one output per query.
            target: the target of statements. "queries" (default): an output to one of these
                queries, chosen at random. "inputs": an output to a new query from the distribution
                of which these queries are a random sample.
            owners: the index of the question of each row, from 0 on; None: all rows are of one
                question.
            queries: the number of queries of each question; None: the rows of each question.
            ids: the ids of the questions, in the order of `queries`.

        Returns:
            The pool.

        Raises:
            InputError: `rows` made from 1-D scores; no draw at all; an invalid design or target; a
                query without an output, unless the design is "allocated"; or a query with several
                outputs in the design "fresh".
        """
        for name, value, choices in (("design", design, Design), ("target", target, Target)):
            if value not in get_args(choices):
                raise InputError(f"`{name}` must be one of {get_args(choices)}, got {value!r}.")
        if rows.single:
            raise InputError(
                "the scores of a pool must be a 2-D array with one row per query, got a 1-D array."
            )
        _check_outputs(rows.n, design)
        places = (
            np.zeros(rows.questions, np.int64)
            if owners is None
            else whole_numbers("owners", owners)
        )
        numbers, drawn = np.bincount(places).tolist() if queries is None else queries, rows.n > 0
        single = owners is None
        return cls(rows.only(drawn), places[drawn], tuple(numbers), design, target, single, ids)

    @property
    def kind(self) -> PoolKind:
        """Return the treatment of the draws, by the table in the module docstring."""
        return KINDS[self.target, self.design]

    @property
    def questions(self) -> int:
        """Return the number of questions."""
        return len(self.queries)

    @cached_property
    def draws(self) -> Rows:
        """Join all outputs of each question into one row of distinct scores and their counts."""
        place, column = np.nonzero(self.rows.counts)
        values, counts = self.rows.values[place, column], self.rows.counts[place, column]
        levels, level = np.unique(values, return_inverse=True)
        tally = np.zeros((self.questions, len(levels)), np.int64)
        np.add.at(tally, (self.owners[place], level), counts)
        missing = np.zeros(self.questions, np.int64)
        np.add.at(missing, self.owners, self.rows.missing)
        scores = np.broadcast_to(levels, tally.shape)
        made = Rows.of(scores, tally, missing, binary=self.binary, empty=True)
        return replace(made, single=self.single, ids=self.ids)

    def each(
        self, prove: Callable[[Rows, Quantity, Terms], Estimate], quantity: Quantity, terms: Terms
    ) -> Estimate:
        """Bound every question from the rows of its queries."""
        seeds = one_a_row(terms.seed, self.questions)
        bounds = [
            prove(self.rows.only(self.owners == place), quantity, replace(terms, seed=seed))
            for place, seed in enumerate(seeds.tolist())
        ]
        if self.single:
            return self.about(bounds[0])
        keyed = any(bound.seed is not None for bound in bounds)
        return self.about(replace(stack(bounds), seed=seeds if keyed else None))

    def about(self, bound: Estimate) -> Estimate:
        """Return an estimate from this pool with the pool's target in its `about`.

        Args:
            bound: an estimate made from this pool.

        Returns:
            The estimate with this `about`.
        """
        inputs: Inputs = "these queries" if self.target == "queries" else "input distribution"
        about = replace(bound.about, inputs=inputs)
        if about.scope in ("query", "question"):
            number = self.queries[0] if self.single else self.queries
            about = replace(about, scope="question", over=number)
        return replace(bound, about=about)


def unlike_leakage(pool: Pool, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound each question's leakage, the mean over its queries, from outputs of all its queries."""

    def prove(rows: Rows, _: Quantity, terms: Terms) -> Estimate:
        made = mean_over_questions(rows, LEAKAGE.mean(), terms)
        return replace(made, about=LEAKAGE.about(binary=rows.binary))

    return pool.each(prove, quantity, terms)


def unlike_mean(pool: Pool, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean over N questions of the mean over each question's C_i queries.

    The outputs are independent, each with the distribution of its query. Let mu_ij be the expected
    score of query j of question i. The bounded quantity, sum_ij mu_ij / (N C_i), is a mean over all
    queries with weights 1/C_i, which are fixed in advance. The seed has one key per query.
    """
    weights = np.reciprocal(np.array(pool.queries, np.float64))[pool.owners]
    made = mean_over_questions(pool.rows, quantity.mean(weights), terms)
    return replace(made, about=replace(made.about, scope="mean", over=pool.questions))


def cluster_leak_among_k(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound 1 - (1 - p)^k for a binary scorer from the bound of p over clusters.

    `value` is computed from the point estimate of p, and is on average too small. It is NaN if k
    exceeds a quarter of the queries, because each cluster counts as one draw.
    """
    leak = cluster_mean(rows, LEAKAGE, terms)
    return carried(leak, quantity.sizes, min(int(rows.scored().n.sum()), rows.questions))


def _check_outputs(outputs: Counts, design: Design) -> None:
    if outputs.size and not outputs.sum():
        raise InputError("`scores` has no draw. A bound needs at least one draw.")
    if design != "allocated" and not outputs.all():
        raise InputError(
            f"every query of a {design!r} pool must have an output, got none for query "
            f"{int(outputs.argmin())}. Leave the query out, or pass design 'allocated'."
        )
    if design == "fresh" and outputs.max(initial=0) > 1:
        raise InputError(
            f"every query of a 'fresh' pool must have one output, got {outputs.max()} for query "
            f"{int(outputs.argmax())}. Pass design 'fixed', or give repeated queries one row each."
        )
