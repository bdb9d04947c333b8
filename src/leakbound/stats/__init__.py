"""Statistics of leakage: bounds that hold with a stated confidence, from scores with counts.

An auditor reads this package and nothing else: it needs NumPy and SciPy only. Conventions: a
bound with one side holds at `confidence`, one with both sides spends half of alpha on each;
every estimate holds by itself, and a claim that joins several splits alpha between them.

Every public name is imported here under its own name, and every bound has a row of `BOUNDS`, which
the conformance suite and `bench/coverage.py` go through; a test fails for a bound without one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any, Literal

from leakbound.stats.about import About as About
from leakbound.stats.clean import CleanQuestions as CleanQuestions
from leakbound.stats.clean import clean_questions as clean_questions
from leakbound.stats.clean import mean_p_value as mean_p_value
from leakbound.stats.clean import proportion_p_value as proportion_p_value
from leakbound.stats.comparing import ExcessOverQuestions as ExcessOverQuestions
from leakbound.stats.comparing import Gaps as Gaps
from leakbound.stats.comparing import ModelDifference as ModelDifference
from leakbound.stats.comparing import difference_over_questions as difference_over_questions
from leakbound.stats.comparing import excess_of_mean_and_worst as excess_of_mean_and_worst
from leakbound.stats.comparing import gaps_over_questions as gaps_over_questions
from leakbound.stats.deviation import STD
from leakbound.stats.deviation import expectation_deviation as expectation_deviation
from leakbound.stats.deviation import expectation_deviation_bound as expectation_deviation_bound
from leakbound.stats.deviation import (
    expectation_deviation_proportion_bound as expectation_deviation_proportion_bound,
)
from leakbound.stats.deviation import std_bound as std_bound
from leakbound.stats.deviation import std_proportion_bound as std_proportion_bound
from leakbound.stats.deviation_over_questions import (
    expectation_deviation_over_questions as expectation_deviation_over_questions,
)
from leakbound.stats.deviation_over_questions import std_over_questions as std_over_questions
from leakbound.stats.estimate import BoundFunction as BoundFunction
from leakbound.stats.estimate import Estimate as Estimate
from leakbound.stats.estimate import Side as Side
from leakbound.stats.estimate import percent as percent
from leakbound.stats.excess import EXCESS
from leakbound.stats.excess import FEWEST_PAIRS as FEWEST_PAIRS
from leakbound.stats.excess import excess as excess
from leakbound.stats.excess import excess_bound as excess_bound
from leakbound.stats.excess import excess_of as excess_of
from leakbound.stats.excess import excess_over_questions as excess_over_questions
from leakbound.stats.far import mean_leak_at_k_of_counts as mean_leak_at_k_of_counts
from leakbound.stats.independence import Independence as Independence
from leakbound.stats.independence import check_independence as check_independence
from leakbound.stats.independence import require_independent as require_independent
from leakbound.stats.joint import Joint as Joint
from leakbound.stats.joint import every_question as every_question
from leakbound.stats.joint import joint as joint
from leakbound.stats.judged import corrected_bound as corrected_bound
from leakbound.stats.judged import judged_bound as judged_bound
from leakbound.stats.leak_at_k import carried as carried
from leakbound.stats.leak_at_k import leak_at_k as leak_at_k
from leakbound.stats.leak_at_k import leak_at_k_bound as leak_at_k_bound
from leakbound.stats.leak_at_k import leak_at_k_proportion as leak_at_k_proportion
from leakbound.stats.leak_at_k import leak_at_k_proportion_bound as leak_at_k_proportion_bound
from leakbound.stats.leak_at_k import worst_of_k as worst_of_k
from leakbound.stats.mass import Mass as Mass
from leakbound.stats.mass import mass_leak_at_k_bound as mass_leak_at_k_bound
from leakbound.stats.mass import mass_leak_at_k_proportion_bound as mass_leak_at_k_proportion_bound
from leakbound.stats.mass import mass_mean_bound as mass_mean_bound
from leakbound.stats.mass import mass_mean_over_questions as mass_mean_over_questions
from leakbound.stats.mass import mass_proportion_bound as mass_proportion_bound
from leakbound.stats.mass import mass_std_bound as mass_std_bound
from leakbound.stats.mass import mass_survival_bound as mass_survival_bound
from leakbound.stats.mean import MEAN
from leakbound.stats.mean import mean_bound as mean_bound
from leakbound.stats.mean_over_questions import (
    mean_leak_at_k_over_questions as mean_leak_at_k_over_questions,
)
from leakbound.stats.mean_over_questions import mean_over_questions as mean_over_questions
from leakbound.stats.mean_over_questions import (
    proportion_over_questions as proportion_over_questions,
)
from leakbound.stats.order import Seed as Seed
from leakbound.stats.order import one_seed as one_seed
from leakbound.stats.order import order_key as order_key
from leakbound.stats.planning import DrawsNeeded as DrawsNeeded
from leakbound.stats.planning import clean_samples_for as clean_samples_for
from leakbound.stats.planning import extraction_draws as extraction_draws
from leakbound.stats.planning import plan as plan
from leakbound.stats.planning import samples_for as samples_for
from leakbound.stats.pool import Design as Design
from leakbound.stats.pool import Pool as Pool
from leakbound.stats.pool import Target as Target
from leakbound.stats.pool import (
    pool_expectation_deviation_bound as pool_expectation_deviation_bound,
)
from leakbound.stats.pool import pool_leak_at_k_bound as pool_leak_at_k_bound
from leakbound.stats.pool import pool_mean_bound as pool_mean_bound
from leakbound.stats.pool import pool_proportion_bound as pool_proportion_bound
from leakbound.stats.pool import pool_std_bound as pool_std_bound
from leakbound.stats.pool import pool_survival_bound as pool_survival_bound
from leakbound.stats.proof import LeakProof as LeakProof
from leakbound.stats.proof import proof_of_leak as proof_of_leak
from leakbound.stats.proportion import LEAK, PROPORTION
from leakbound.stats.proportion import proportion_bound as proportion_bound
from leakbound.stats.questions import each_query as each_query
from leakbound.stats.questions import leaking_questions as leaking_questions
from leakbound.stats.questions import worst_query as worst_query
from leakbound.stats.questions import worst_question as worst_question
from leakbound.stats.randomisation import randomisation_test as randomisation_test
from leakbound.stats.seeds import median_over_seeds as median_over_seeds
from leakbound.stats.stopping import Claim as Claim
from leakbound.stats.stopping import Looks as Looks
from leakbound.stats.stopping import mean_over_stopped_questions as mean_over_stopped_questions
from leakbound.stats.stopping import parse_claim as parse_claim
from leakbound.stats.stopping import stopped_leak_at_k_bound as stopped_leak_at_k_bound
from leakbound.stats.stopping import stopped_mean_bound as stopped_mean_bound
from leakbound.stats.stopping import stopped_proportion_bound as stopped_proportion_bound
from leakbound.stats.tail import BANDS
from leakbound.stats.tail import survival_bound as survival_bound
from leakbound.stats.two_way import TwoWay as TwoWay
from leakbound.stats.two_way import two_way as two_way
from leakbound.stats.watching import watched_questions as watched_questions
from leakbound.stats.watching import worst_watched as worst_watched

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
    "bound of seeds",
    "two bounds",
    "two estimates",
    "bound of p",
    "counts of questions",
    "joint bounds of questions",
    "cells",
]


@dataclass(frozen=True, slots=True)
class ListedBound:
    """One bound of the package.

    Attributes:
        bound: the function.
        evidence: what it takes first: leaks among n draws ("hits") or scores with counts, of one
            question or of each, for their mean, of several; of a model and its control; exact
            masses with draws of the rest; a pool; other bounds, which have their scores filled in,
            or what these gave.
        about: what its estimates are about, but for the x or k that a call fixes.
        methods: by name, the default first; empty where there is no choice.
    """

    bound: Callable[..., Any]
    evidence: Evidence
    about: About
    methods: tuple[str, ...] = ()


_TAIL, _AT_K = About(quantity="tail"), About(quantity="leak@k")
_ED = About(quantity="expectation deviation", constant=2.0)
_CORRECTED = About(quantity="corrected leak probability")
_OVER_QUESTIONS = replace(MEAN.about, scope="mean")
_WORST = replace(MEAN.about, scope="worst question")

BOUNDS: Mapping[str, ListedBound] = MappingProxyType(
    {
        "proportion": ListedBound(proportion_bound, "hits", LEAK, tuple(PROPORTION.methods)),
        "leak@k proportion": ListedBound(
            leak_at_k_proportion_bound, "hits", _AT_K, tuple(PROPORTION.methods)
        ),
        "std proportion": ListedBound(std_proportion_bound, "hits", STD.about),
        "mean + sd proportion": ListedBound(expectation_deviation_proportion_bound, "hits", _ED),
        "judged proportion": ListedBound(judged_bound, "hits", _CORRECTED),
        "stopped proportion": ListedBound(stopped_proportion_bound, "hits", LEAK),
        "stopped leak@k proportion": ListedBound(stopped_leak_at_k_bound, "hits", _AT_K),
        "mean": ListedBound(mean_bound, "scores", MEAN.about, tuple(MEAN.methods)),
        "std": ListedBound(std_bound, "scores", STD.about, tuple(STD.methods)),
        "tail": ListedBound(survival_bound, "scores", _TAIL, tuple(BANDS)),
        "leak@k": ListedBound(leak_at_k_bound, "scores", _AT_K, tuple(BANDS)),
        "mean + sd": ListedBound(expectation_deviation_bound, "scores", _ED, ("betting", "paper")),
        "stopped mean, betting": ListedBound(stopped_mean_bound, "scores", MEAN.about),
        "excess": ListedBound(excess_bound, "scores of two models", EXCESS),
        "excess over questions": ListedBound(excess_over_questions, "scores of two models", EXCESS),
        "mean over questions": ListedBound(
            mean_over_questions, "scores of questions", _OVER_QUESTIONS
        ),
        "proportion over questions": ListedBound(
            proportion_over_questions, "hits of questions", replace(LEAK, scope="mean")
        ),
        "leak@k over questions": ListedBound(
            mean_leak_at_k_over_questions, "scores of questions", replace(_AT_K, scope="mean")
        ),
        "std over questions": ListedBound(
            std_over_questions, "scores of questions", replace(STD.about, scope="mean")
        ),
        "mean + sd over questions": ListedBound(
            expectation_deviation_over_questions,
            "scores of questions",
            replace(_ED, scope="mean"),
        ),
        "mass proportion": ListedBound(mass_proportion_bound, "masses", LEAK),
        "mass mean": ListedBound(mass_mean_bound, "masses", MEAN.about),
        "mass tail": ListedBound(mass_survival_bound, "masses", _TAIL),
        "mass std": ListedBound(mass_std_bound, "masses", STD.about),
        "mass leak@k": ListedBound(mass_leak_at_k_bound, "masses", _AT_K),
        "mass leak@k proportion": ListedBound(mass_leak_at_k_proportion_bound, "masses", _AT_K),
        "proof of leak": ListedBound(proof_of_leak, "masses", replace(MEAN.about, proved=True)),
        "mass mean over questions": ListedBound(
            mass_mean_over_questions, "masses of questions", _OVER_QUESTIONS
        ),
        "pool mean": ListedBound(pool_mean_bound, "pool", MEAN.about),
        "pool proportion": ListedBound(pool_proportion_bound, "pool", LEAK),
        "pool tail": ListedBound(pool_survival_bound, "pool", _TAIL),
        "pool leak@k": ListedBound(pool_leak_at_k_bound, "pool", _AT_K),
        "pool std": ListedBound(pool_std_bound, "pool", STD.about),
        "pool mean + sd": ListedBound(pool_expectation_deviation_bound, "pool", _ED),
        "corrected": ListedBound(corrected_bound, "bound", _CORRECTED),
        "worst question": ListedBound(worst_question, "bound of questions", _WORST),
        "every question": ListedBound(
            every_question, "bound of questions", replace(MEAN.about, jointly=True)
        ),
        "leaking questions": ListedBound(
            leaking_questions, "bound of questions", replace(MEAN.about, scope="count")
        ),
        "mean over stopped questions": ListedBound(
            mean_over_stopped_questions, "bound of questions", _OVER_QUESTIONS
        ),
        "each query": ListedBound(each_query, "bound of queries", LEAK),
        "worst query": ListedBound(
            worst_query,
            "bound of queries",
            replace(LEAK, scope="question", inputs="worst query"),
        ),
        "median over seeds": ListedBound(
            median_over_seeds, "bound of seeds", replace(MEAN.about, seeds=5)
        ),
        "excess of bounds": ListedBound(excess_of, "two bounds", EXCESS),
        "excess of mean and worst": ListedBound(
            excess_of_mean_and_worst, "two bounds", replace(_WORST, beyond="control")
        ),
        "gaps over questions": ListedBound(
            gaps_over_questions, "two bounds", replace(_WORST, beyond="own words")
        ),
        "difference over questions": ListedBound(
            difference_over_questions,
            "two bounds",
            replace(MEAN.about, beyond="baseline", jointly=True),
        ),
        "watched questions": ListedBound(
            watched_questions, "bound of questions", replace(MEAN.about, jointly=True)
        ),
        "worst watched": ListedBound(worst_watched, "joint bounds of questions", _WORST),
        "leak@k of a bound": ListedBound(carried, "bound of p", _AT_K),
        "leak@k of counts": ListedBound(
            mean_leak_at_k_of_counts, "counts of questions", replace(_AT_K, scope="mean")
        ),
        "excess of estimates": ListedBound(excess, "two estimates", EXCESS),
        "effects of two knobs": ListedBound(
            two_way, "cells", About(quantity="effect", scope="grid")
        ),
    }
)

_BUILT_WITH = {
    *("Any", "Callable", "Literal", "Mapping", "MappingProxyType", "ModuleType"),
    *("dataclass", "replace", "BANDS", "EXCESS", "LEAK", "MEAN", "PROPORTION", "STD"),
}


def __dir__() -> list[str]:
    """List the public names, without submodules and what the table above is built with."""
    names = {name for name, value in globals().items() if not isinstance(value, ModuleType)}
    return sorted(name for name in names - _BUILT_WITH if not name.startswith("_"))
