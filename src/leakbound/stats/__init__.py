"""Statistics of leakage: bounds that hold with a stated confidence, from scores with counts.

An auditor reads this package and nothing else: it needs NumPy and SciPy only. Conventions: a
bound with one side holds at `confidence`, one with both sides spends half of alpha on each;
every estimate holds by itself, and a claim that joins several splits alpha between them.
"""

from leakbound.stats.about import About
from leakbound.stats.clean import (
    CleanQuestions,
    clean_questions,
    mean_p_value,
    proportion_p_value,
)
from leakbound.stats.dataset import (
    mean_leak_at_k_over_questions,
    mean_over_questions,
    proportion_over_questions,
)
from leakbound.stats.deviation import std_bound
from leakbound.stats.differences import FEWEST_PAIRS, excess_bound, excess_over_questions
from leakbound.stats.estimate import Estimate, Side, percent
from leakbound.stats.expectation_deviation import (
    expectation_deviation,
    expectation_deviation_bound,
)
from leakbound.stats.gaps import Gaps, excess_of, gaps_over_questions
from leakbound.stats.independence import (
    Independence,
    check_independence,
    require_independent,
)
from leakbound.stats.joint import Joint, excess, joint
from leakbound.stats.judged import corrected_bound, judged_bound
from leakbound.stats.leak_at_k import leak_at_k, leak_at_k_bound, worst_of_k
from leakbound.stats.mass import (
    Mass,
    mass_mean_bound,
    mass_proportion_bound,
    mass_survival_bound,
)
from leakbound.stats.mass_dataset import mass_mean_over_questions
from leakbound.stats.mass_leak_at_k import (
    LeakProof,
    mass_leak_at_k_bound,
    mass_leak_at_k_proportion_bound,
    proof_of_leak,
)
from leakbound.stats.mass_std import mass_std_bound
from leakbound.stats.mean import mean_bound
from leakbound.stats.order import Seed, one_seed, order_key
from leakbound.stats.planning import DrawsNeeded, clean_samples_for, plan, samples_for
from leakbound.stats.pool import (
    Design,
    Pool,
    Target,
    pool_expectation_deviation_bound,
    pool_leak_at_k_bound,
    pool_mean_bound,
    pool_proportion_bound,
    pool_std_bound,
    pool_survival_bound,
)
from leakbound.stats.proportion import (
    leak_at_k_proportion,
    leak_at_k_proportion_bound,
    proportion_bound,
)
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
    Claim,
    Looks,
    parse_claim,
    stopped_leak_at_k_bound,
    stopped_mean_bound,
    stopped_proportion_bound,
)
from leakbound.stats.survival import survival_bound
from leakbound.stats.table import BOUNDS, ListedBound
from leakbound.stats.two_way import TwoWay, two_way

__all__ = [
    "BOUNDS",
    "FEWEST_PAIRS",
    "About",
    "Claim",
    "CleanQuestions",
    "Design",
    "DrawsNeeded",
    "Estimate",
    "Gaps",
    "Independence",
    "Joint",
    "LeakProof",
    "ListedBound",
    "Looks",
    "Mass",
    "Pool",
    "Seed",
    "Side",
    "Target",
    "TwoWay",
    "check_independence",
    "clean_questions",
    "clean_samples_for",
    "corrected_bound",
    "each_query",
    "every_question",
    "excess",
    "excess_bound",
    "excess_of",
    "excess_over_questions",
    "expectation_deviation",
    "expectation_deviation_bound",
    "expectation_deviation_proportion_bound",
    "gaps_over_questions",
    "joint",
    "judged_bound",
    "leak_at_k",
    "leak_at_k_bound",
    "leak_at_k_proportion",
    "leak_at_k_proportion_bound",
    "leaking_questions",
    "mass_leak_at_k_bound",
    "mass_leak_at_k_proportion_bound",
    "mass_mean_bound",
    "mass_mean_over_questions",
    "mass_proportion_bound",
    "mass_std_bound",
    "mass_survival_bound",
    "mean_bound",
    "mean_leak_at_k_over_questions",
    "mean_over_questions",
    "mean_over_stopped_questions",
    "mean_p_value",
    "one_seed",
    "order_key",
    "parse_claim",
    "percent",
    "plan",
    "pool_expectation_deviation_bound",
    "pool_leak_at_k_bound",
    "pool_mean_bound",
    "pool_proportion_bound",
    "pool_std_bound",
    "pool_survival_bound",
    "proof_of_leak",
    "proportion_bound",
    "proportion_over_questions",
    "proportion_p_value",
    "require_independent",
    "samples_for",
    "std_bound",
    "std_proportion_bound",
    "stopped_leak_at_k_bound",
    "stopped_mean_bound",
    "stopped_proportion_bound",
    "survival_bound",
    "two_way",
    "worst_of_k",
    "worst_query",
    "worst_question",
]
