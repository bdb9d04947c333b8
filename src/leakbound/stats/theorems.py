"""`bound` bounds any quantity from any evidence; `THEOREMS` lists the theorems behind it.

Each entry of `THEOREMS` is for one kind of evidence, one quantity ("reading") and one declared
range of scores (binary or not). The entry contains the function that computes the bound. The
docstring of the function or of its module contains the proof. Statements that follow from the
bounds of single questions (the worst question, every question, a count) are in the modules
`questions` and `joint`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from leakbound.errors import InputError
from leakbound.stats import order
from leakbound.stats.about import OTHERS
from leakbound.stats.clusters import cluster_leak_at_k, cluster_mean, cluster_tail
from leakbound.stats.deviation import STD, over_interval, score
from leakbound.stats.deviation_over_questions import deviation_over_questions
from leakbound.stats.estimand import Terms
from leakbound.stats.estimate import Estimate, Side
from leakbound.stats.evidence import Pair, Rows, Stopped
from leakbound.stats.excess import difference, mean_difference
from leakbound.stats.joint import every_question
from leakbound.stats.leak_at_k import carried, largest_of_k, leak_among_k
from leakbound.stats.mass import (
    Masses,
    mass_leak,
    mass_leak_among_k,
    mass_leak_at_k,
    mass_mean,
    mass_mean_over_questions,
    mass_std,
    mass_tail,
)
from leakbound.stats.mean import MEAN
from leakbound.stats.mean_over_questions import largest_over_questions, mean_over_questions
from leakbound.stats.median import MEDIAN
from leakbound.stats.order import Seed
from leakbound.stats.pool import Pool, cluster_leak_among_k, unlike_leakage, unlike_mean
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.quantity import LEAKAGE, Quantity
from leakbound.stats.questions import confidence_of_each, leaking_questions, worst_question
from leakbound.stats.stopping import mean_of_stopped, stopped_leakage
from leakbound.stats.tail import tail_bound

Evidence = Rows | Stopped | Masses | Pool | Pair
Kind = Literal["draws", "stopped", "masses", "iid pool", "unlike pool", "clusters", "pair"]
Proof = Callable[[Any, Quantity, Terms], Estimate]
"""A function (evidence, quantity, terms) -> the bound; its docstring has conditions and proof."""


@dataclass(frozen=True, slots=True)
class Theorem:
    """An entry of `THEOREMS`.

    Attributes:
        kind: the kind of the evidence: "draws" of a fixed n, "stopped" draws, "masses", or a "pair"
            of models. A pool is an "iid pool", an "unlike pool" or "clusters", by its design and
            target.
        reading: the name of the quantity that is bounded.
        binary: whether the theorem is for binary scorers; None: for all scorers.
        prove: the function that bounds the quantity.
        paper: whether there is also the papers' bound, after correction (`method="paper"`).
        over: "each" question individually, or the "mean" over the questions.
        weighted: whether a mean may be weighted.
    """

    kind: Kind
    reading: str
    binary: bool | None
    prove: Proof
    paper: bool = False
    over: Literal["each", "mean"] = "each"
    weighted: bool = False

    @property
    def name(self) -> str:
        """Return the name of the theorem, such as 'draws: leak@k, binary'."""
        scorer = {None: "", True: ", binary", False: ", graded"}[self.binary]
        return f"{self.kind}: {'mean of ' if self.over == 'mean' else ''}{self.reading}{scorer}"


def _on_joined(prove: Proof) -> Proof:
    """Apply a bound for draws to an i.i.d. pool: all outputs of a question count as its draws."""
    return lambda pool, quantity, terms: prove(pool.draws, quantity, terms)


def _on_clusters(prove: Proof) -> Proof:
    return lambda pool, quantity, terms: pool.each(prove, quantity, terms)


def _carried(prove: Proof) -> Proof:
    """Bound leak@k of a binary scorer, for every k simultaneously, from the bound of p.

    leak@k increases in p. No unbiased estimate exists here, so `value` is computed from the
    fraction of draws that leaked.
    """
    return lambda evidence, quantity, terms: carried(
        prove(evidence, LEAKAGE, terms), quantity.sizes
    )


_ON_MEAN: dict[str, Any] = {"over": "mean"}
_OF_DRAWS = (
    Theorem("draws", "leakage", True, PROPORTION),
    Theorem("draws", "leakage", False, MEAN, paper=True),
    Theorem("draws", "median", False, MEDIAN),
    Theorem("draws", "tail", None, tail_bound, paper=True),
    Theorem("draws", "leak@k", True, leak_among_k),
    Theorem("draws", "leak@k", False, largest_of_k, paper=True),
    Theorem("draws", "standard deviation", True, over_interval),
    Theorem("draws", "standard deviation", False, STD, paper=True),
    Theorem("draws", "expectation deviation", True, over_interval),
    Theorem("draws", "expectation deviation", False, score, paper=True),
    Theorem("draws", "leakage", None, mean_over_questions, **_ON_MEAN, weighted=True),
    Theorem("draws", "leak@k", None, largest_over_questions, **_ON_MEAN),
    Theorem("draws", "standard deviation", None, deviation_over_questions, **_ON_MEAN),
    Theorem("draws", "expectation deviation", None, deviation_over_questions, **_ON_MEAN),
)
THEOREMS: tuple[Theorem, ...] = (
    *_OF_DRAWS,
    Theorem("stopped", "leakage", None, stopped_leakage),
    Theorem("stopped", "leak@k", True, _carried(stopped_leakage)),
    Theorem("stopped", "leakage", None, mean_of_stopped, **_ON_MEAN),
    Theorem("masses", "leakage", True, mass_leak),
    Theorem("masses", "leakage", False, mass_mean),
    Theorem("masses", "tail", None, mass_tail),
    Theorem("masses", "leak@k", True, mass_leak_among_k),
    Theorem("masses", "leak@k", False, mass_leak_at_k),
    Theorem("masses", "standard deviation", None, mass_std),
    Theorem("masses", "leakage", None, mass_mean_over_questions, **_ON_MEAN),
    *(replace(row, kind="iid pool", prove=_on_joined(row.prove)) for row in _OF_DRAWS),
    Theorem("unlike pool", "leakage", None, unlike_leakage),
    Theorem("unlike pool", "leak@k", True, _carried(unlike_leakage)),
    Theorem("unlike pool", "leakage", None, unlike_mean, **_ON_MEAN),
    Theorem("clusters", "leakage", None, _on_clusters(cluster_mean)),
    Theorem("clusters", "tail", None, _on_clusters(cluster_tail)),
    Theorem("clusters", "leak@k", True, _on_clusters(cluster_leak_among_k)),
    Theorem("clusters", "leak@k", False, _on_clusters(cluster_leak_at_k)),
    Theorem("pair", "leakage", None, difference),
    Theorem("pair", "leakage", None, mean_difference, **_ON_MEAN),
)
"""The theorem that `bound` uses, for each kind of evidence and each reading."""
QUANTITIES = tuple(
    dict.fromkeys((*OTHERS, *(row.reading for row in THEOREMS if row.reading != "leakage")))
)
"""The name of every quantity that an estimate may be about."""


def bound(
    evidence: Evidence,
    quantity: Quantity = LEAKAGE,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    method: Literal["paper"] | None = None,
    seed: Seed = None,
) -> Estimate:
    """Bound a quantity by the theorem that `THEOREMS` lists for it.

    Args:
        evidence: `Rows` of draws, `Stopped` draws, exact `Masses` with draws from the remainder, a
            `Pool` of queries, or a `Pair` of models for the excess of one over the other.
        quantity: `LEAKAGE` (default), `SD`, `tail(x)`, `leak_at(k)` or `ed(rho)`, of each question.
            The methods `mean()`, `worst()`, `every()` and `above(x)` of a quantity return
            quantities about all questions.
        confidence: the bound is valid with at least this probability, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.
        method: "paper": the papers' bound, after correction; None: the narrower default bound.
        seed: the seed of the order in which bets use the draws: one number, or one key per
            question, [Q]; None: a random seed. The estimate records the seed if the bound depends
            on the order.

    Returns:
        The estimate: one entry per question and per x or k, or one entry about all questions.

    Raises:
        InputError: a quantity without a theorem for this evidence, or input that the theorem
            refuses.
    """
    theorem = _theorem(evidence, quantity)
    if method is not None and not (method == "paper" and theorem.paper):
        choice = "'paper' or omitted" if theorem.paper else "omitted"
        raise InputError(f"`method` must be {choice} for the {quantity.reading}, got {method!r}.")
    seed = order.entropy() if seed is None else seed
    if quantity.over in ("each", "mean"):
        made = theorem.prove(evidence, quantity, Terms(confidence, side, method == "paper", seed))
        return evidence.about(made) if isinstance(evidence, Pool) else made
    own = partial(bound, evidence, replace(quantity, over="each"), method=method, seed=seed)
    if quantity.over == "worst":
        return worst_question(own, evidence.questions, confidence=confidence, side=side)
    if quantity.over == "every":
        return every_question(own, evidence.questions, confidence=confidence, side=side)
    fixed_n = None if isinstance(evidence, Stopped | Masses) else evidence.draws.n
    own_confidence = confidence_of_each(fixed_n)
    return leaking_questions(
        own, evidence.questions, quantity.level,
        confidence=confidence, each_confidence=own_confidence, side=side,
    )  # fmt: skip


def has_bound(evidence: Evidence, quantity: Quantity) -> bool:
    """Return whether a theorem bounds a quantity from this evidence.

    Args:
        evidence: evidence that `bound` accepts.
        quantity: a quantity that `bound` accepts.

    Returns:
        True if `bound` can bound it.
    """
    return any(row.reading == quantity.reading for row in _applicable(evidence, quantity))


def _applicable(evidence: Evidence, quantity: Quantity) -> list[Theorem]:
    """Return the theorems for this evidence, for every reading."""
    over = "mean" if quantity.over == "mean" else "each"
    rows = (row for row in THEOREMS if row.kind == evidence.kind and row.over == over)
    return [row for row in rows if row.binary in (None, evidence.binary)]


def _theorem(evidence: Evidence, quantity: Quantity) -> Theorem:
    """Return the theorem for this evidence and quantity, or raise InputError."""
    rows = _applicable(evidence, quantity)
    for row in rows:
        if row.reading == quantity.reading:
            if quantity.weights is not None and not row.weighted:
                raise InputError(f"the mean {row.reading} supports no `weights`. Omit them.")
            return row
    scope = "mean of the " if quantity.over == "mean" else ""
    there = ", ".join(row.reading for row in rows) or "a quantity of each question"
    threshold = "" if evidence.binary else " A threshold, `NAME>=t`, makes a scorer binary."
    raise InputError(
        f"the {scope}{quantity.reading} cannot be bounded from {_WORDS[evidence.kind]} with a "
        f"{'binary' if evidence.binary else 'graded'} scorer. Bound one of: {there}."
        f"{_REMEDIES.get(evidence.kind, '')}{threshold}"
    )


_WORDS: Mapping[str, str] = {
    "draws": "a fixed number of draws",
    "stopped": "draws that may have stopped early",
    "masses": "exact masses",
    "iid pool": "a pool of i.i.d. outputs",
    "unlike pool": "a pool (target 'queries') with the design 'fixed' or 'fresh'",
    "clusters": "a pool (target 'inputs') with the design 'fixed' or 'allocated'",
    "pair": "the draws of two models",
}
_REMEDIES: Mapping[str, str] = {
    "unlike pool": " Or use the design 'allocated', whose outputs are i.i.d. for this target.",
    "clusters": " Or use the design 'fresh', whose outputs are i.i.d. for this target.",
}
