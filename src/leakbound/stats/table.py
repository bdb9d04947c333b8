"""`BOUNDS`: every bound of this package by name, with what it takes and what it is about.

A bound joins by one row here: the conformance suite and `bench/coverage.py` go through this table,
and a test fails for a bound that is exported and has no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from leakbound.stats import dataset, differences, gaps, judged, mass_dataset, pool
from leakbound.stats.about import About
from leakbound.stats.bands import BANDS
from leakbound.stats.deviation import STD, std_bound
from leakbound.stats.expectation_deviation import expectation_deviation_bound
from leakbound.stats.joint import excess
from leakbound.stats.leak_at_k import leak_at_k_bound
from leakbound.stats.mass import mass_mean_bound, mass_proportion_bound, mass_survival_bound
from leakbound.stats.mass_leak_at_k import (
    mass_leak_at_k_bound,
    mass_leak_at_k_proportion_bound,
    proof_of_leak,
)
from leakbound.stats.mass_std import mass_std_bound
from leakbound.stats.mean import MEAN, mean_bound
from leakbound.stats.proportion import LEAK, METHODS, leak_at_k_proportion_bound, proportion_bound
from leakbound.stats.proportion_spread import (
    expectation_deviation_proportion_bound,
    std_proportion_bound,
)
from leakbound.stats.queries import each_query, worst_query
from leakbound.stats.questions import (
    every_question,
    leaking_questions,
    mean_over_stopped_questions,
    worst_question,
)
from leakbound.stats.stopping import (
    stopped_leak_at_k_bound,
    stopped_mean_bound,
    stopped_proportion_bound,
)
from leakbound.stats.survival import survival_bound
from leakbound.stats.two_way import two_way

Evidence = Literal[
    "hits",
    "scores",
    "hits of questions",
    "scores of questions",
    "scores of two models",
    "masses",
    "masses of questions",
    "pool",
    "bound",
    "bound of questions",
    "bound of queries",
    "two bounds",
    "two estimates",
    "cells",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBound:
    """One bound of the package.

    `bound`: the function.
    `evidence`: what it takes first: leaks among n draws ("hits") or scores with counts, of one
        question or of each, for their mean, of several; of a model and its control; exact masses
        with draws of the rest; a pool; other bounds, which have their scores filled in.
    `about`: what its estimates are about, at these settings.
    `settings`: what has to be fixed beforehand, as a simulation or a test may set it.
    `methods`: by name, the default first; empty where there is no choice.
    """

    bound: Callable[..., Any]
    evidence: Evidence
    about: About
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    methods: tuple[str, ...] = ()


def _row(
    bound: Callable[..., Any],
    evidence: Evidence,
    about: About,
    methods: tuple[str, ...] = (),
    **settings: object,
) -> ListedBound:
    return ListedBound(
        bound=bound, evidence=evidence, about=about, methods=methods,
        settings=MappingProxyType(settings),
    )  # fmt: skip


_CAP = 56  # draws
_JUDGE: dict[str, Any] = {"positives": (190, 200), "negatives": (6, 300)}
_CORRECTED = About(quantity="corrected leak probability")
_TAIL, _AT_K = About(quantity="tail", parameter=0.3), About(quantity="leak@k", parameter=3.0)
_ED = About(quantity="expectation deviation", constant=2.0)
_EXCESS = About(quantity="mean leakage", beyond="control")


def _over(about: About, scope: Literal["mean", "worst question", "count"]) -> About:
    return About(quantity=about.quantity, parameter=about.parameter, scope=scope)


BOUNDS: Mapping[str, ListedBound] = MappingProxyType(
    {
        "proportion": _row(proportion_bound, "hits", LEAK, tuple(METHODS)),
        "leak@k proportion": _row(
            leak_at_k_proportion_bound, "hits", _AT_K, tuple(METHODS), k=3
        ),
        "std proportion": _row(std_proportion_bound, "hits", STD.about),
        "mean + sd proportion": _row(expectation_deviation_proportion_bound, "hits", _ED),
        "judged proportion": _row(
            judged.judged_bound, "hits", _CORRECTED, (), **_JUDGE
        ),
        "stopped proportion": _row(stopped_proportion_bound, "hits", LEAK, cap=_CAP),
        "stopped leak@k proportion": _row(stopped_leak_at_k_bound, "hits", _AT_K, cap=_CAP, k=3),
        "mean": _row(mean_bound, "scores", MEAN.about, tuple(MEAN.methods)),
        "std": _row(std_bound, "scores", STD.about, tuple(STD.methods)),
        "tail": _row(survival_bound, "scores", _TAIL, tuple(BANDS), x=0.3),
        "leak@k": _row(leak_at_k_bound, "scores", _AT_K, tuple(BANDS), k=3),
        "mean + sd": _row(expectation_deviation_bound, "scores", _ED, ("betting", "paper")),
        "stopped mean, betting": _row(stopped_mean_bound, "scores", MEAN.about, cap=_CAP),
        "excess": _row(differences.excess_bound, "scores of two models", _EXCESS),
        "excess over questions": _row(
            differences.excess_over_questions, "scores of two models", _EXCESS
        ),
        "mean over questions": _row(
            dataset.mean_over_questions, "scores of questions", _over(MEAN.about, "mean")
        ),
        "proportion over questions": _row(
            dataset.proportion_over_questions, "hits of questions", _over(LEAK, "mean")
        ),
        "leak@k over questions": _row(
            dataset.mean_leak_at_k_over_questions, "scores of questions", _over(_AT_K, "mean"), k=3
        ),
        "mass proportion": _row(mass_proportion_bound, "masses", LEAK),
        "mass mean": _row(mass_mean_bound, "masses", MEAN.about),
        "mass tail": _row(mass_survival_bound, "masses", _TAIL, x=0.3),
        "mass std": _row(mass_std_bound, "masses", STD.about),
        "mass leak@k": _row(mass_leak_at_k_bound, "masses", _AT_K, k=3),
        "mass leak@k proportion": _row(mass_leak_at_k_proportion_bound, "masses", _AT_K, k=3),
        "proof of leak": _row(proof_of_leak, "masses", About(quantity="mean leakage", proved=True)),
        "mass mean over questions": _row(
            mass_dataset.mass_mean_over_questions, "masses of questions", _over(MEAN.about, "mean")
        ),
        "pool mean": _row(pool.pool_mean_bound, "pool", MEAN.about),
        "pool proportion": _row(pool.pool_proportion_bound, "pool", LEAK),
        "pool tail": _row(pool.pool_survival_bound, "pool", _TAIL, x=0.3),
        "pool leak@k": _row(pool.pool_leak_at_k_bound, "pool", _AT_K, k=3),
        "pool std": _row(pool.pool_std_bound, "pool", STD.about),
        "pool mean + sd": _row(pool.pool_expectation_deviation_bound, "pool", _ED),
        "corrected": _row(
            judged.corrected_bound, "bound", _CORRECTED, (), **_JUDGE
        ),
        "worst question": _row(
            worst_question, "bound of questions", _over(MEAN.about, "worst question")
        ),
        "every question": _row(
            every_question, "bound of questions", About(quantity="mean leakage", jointly=True)
        ),
        "leaking questions": _row(
            leaking_questions, "bound of questions", _over(MEAN.about, "count"), x=0.25
        ),
        "mean over stopped questions": _row(
            mean_over_stopped_questions, "bound of questions", _over(MEAN.about, "mean"),
            each_confidence=0.99,
        ),
        "each query": _row(each_query, "bound of queries", LEAK),
        "worst query": _row(
            worst_query, "bound of queries",
            About(quantity="leak probability", scope="question", inputs="worst query"),
        ),
        "excess of bounds": _row(gaps.excess_of, "two bounds", _EXCESS),
        "gaps over questions": _row(
            gaps.gaps_over_questions, "two bounds",
            About(quantity="mean leakage", scope="worst question", beyond="own words"),
        ),
        "excess of estimates": _row(excess, "two estimates", _EXCESS),
        "effects of two knobs": _row(two_way, "cells", About(quantity="effect", scope="grid")),
    }
)  # fmt: skip
