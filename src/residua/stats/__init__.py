"""Statistics of leakage: bounds that hold with a stated confidence, from scores with counts.

An auditor reads this package and nothing else: it needs NumPy and SciPy only. Conventions: a
bound with one side holds at `confidence`, one with both sides spends half of alpha on each;
every estimate holds by itself, and a claim that joins several splits alpha between them.
"""

from residua.stats.dataset import (
    excess,
    mean_over_questions,
    proportion_over_questions,
    worst_question,
)
from residua.stats.deviation import std_bound
from residua.stats.estimate import Estimate, Side
from residua.stats.expectation_deviation import (
    expectation_deviation,
    expectation_deviation_bound,
)
from residua.stats.leak_at_k import leak_at_k, leak_at_k_bound, worst_of_k
from residua.stats.mean import mean_bound
from residua.stats.planning import clean_samples_for, samples_for
from residua.stats.proportion import (
    leak_at_k_proportion,
    leak_at_k_proportion_bound,
    proportion_bound,
)
from residua.stats.survival import survival_bound

__all__ = [
    "Estimate",
    "Side",
    "clean_samples_for",
    "excess",
    "expectation_deviation",
    "expectation_deviation_bound",
    "leak_at_k",
    "leak_at_k_bound",
    "leak_at_k_proportion",
    "leak_at_k_proportion_bound",
    "mean_bound",
    "mean_over_questions",
    "proportion_bound",
    "proportion_over_questions",
    "samples_for",
    "std_bound",
    "survival_bound",
    "worst_of_k",
    "worst_question",
]
