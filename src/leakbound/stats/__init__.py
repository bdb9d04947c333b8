"""Statistics of leakage: bounds that are valid with a stated confidence, from counts of scores.

This package needs only NumPy and SciPy, so an auditor can read it without the rest of leakbound.
`bound(evidence, quantity)` returns an `Estimate`. The evidence describes the draws: `Rows`,
`Stopped`, `Masses`, `Pool` or `Pair`. The quantity to bound is `LEAKAGE`, `SD`, `tail(x)`,
`leak_at(k)` or `ed(rho)`. `THEOREMS` lists the theorem that `bound` uses for each kind of evidence
and each quantity. A one-sided bound is valid with probability at least `confidence` = 1 - alpha. If
both sides are requested, the error rate of each bound is alpha/2. The confidence of an estimate is
about this estimate only. `joint` combines several estimates into one claim whose confidence
accounts for all of their error rates.

The conformance suite and `bench/coverage.py` iterate over `THEOREMS`.
"""

from types import ModuleType

from leakbound.stats.about import About as About
from leakbound.stats.clean import CleanQuestions as CleanQuestions
from leakbound.stats.clean import clean_questions as clean_questions
from leakbound.stats.clean import p_value as p_value
from leakbound.stats.comparing import difference_over_questions as difference_over_questions
from leakbound.stats.comparing import excess_of_mean_and_worst as excess_of_mean_and_worst
from leakbound.stats.comparing import gaps_over_questions as gaps_over_questions
from leakbound.stats.deviation import expectation_deviation as expectation_deviation
from leakbound.stats.estimate import BoundFunction as BoundFunction
from leakbound.stats.estimate import Estimate as Estimate
from leakbound.stats.estimate import Side as Side
from leakbound.stats.estimate import percent as percent
from leakbound.stats.evidence import Pair as Pair
from leakbound.stats.evidence import Rows as Rows
from leakbound.stats.evidence import Stopped as Stopped
from leakbound.stats.excess import FEWEST_PAIRS as FEWEST_PAIRS
from leakbound.stats.excess import excess as excess
from leakbound.stats.excess import excess_of as excess_of
from leakbound.stats.excess import excess_over_sets as excess_over_sets
from leakbound.stats.far import mean_leak_at_k_of_counts as mean_leak_at_k_of_counts
from leakbound.stats.fisher import leaks_somewhere as leaks_somewhere
from leakbound.stats.independence import Independence as Independence
from leakbound.stats.independence import check_independence as check_independence
from leakbound.stats.independence import require_independent as require_independent
from leakbound.stats.joint import Joint as Joint
from leakbound.stats.joint import every_question as every_question
from leakbound.stats.joint import joint as joint
from leakbound.stats.judged import corrected_bound as corrected_bound
from leakbound.stats.leak_at_k import carried as carried
from leakbound.stats.leak_at_k import leak_at_k as leak_at_k
from leakbound.stats.leak_at_k import worst_of_k as worst_of_k
from leakbound.stats.mass import Mass as Mass
from leakbound.stats.mass import Masses as Masses
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
from leakbound.stats.proof import proof_of_leak as proof_of_leak
from leakbound.stats.quantity import LEAKAGE as LEAKAGE
from leakbound.stats.quantity import SD as SD
from leakbound.stats.quantity import Quantity as Quantity
from leakbound.stats.quantity import ed as ed
from leakbound.stats.quantity import leak_at as leak_at
from leakbound.stats.quantity import tail as tail
from leakbound.stats.questions import leaking_questions as leaking_questions
from leakbound.stats.questions import stack as stack
from leakbound.stats.questions import worst_question as worst_question
from leakbound.stats.questions import worst_watched as worst_watched
from leakbound.stats.randomisation import randomisation_test as randomisation_test
from leakbound.stats.seeds import median_over_seeds as median_over_seeds
from leakbound.stats.stopping import Claim as Claim
from leakbound.stats.stopping import Looks as Looks
from leakbound.stats.stopping import mean_over_stopped_questions as mean_over_stopped_questions
from leakbound.stats.stopping import parse_claim as parse_claim
from leakbound.stats.theorems import THEOREMS as THEOREMS
from leakbound.stats.theorems import Evidence as Evidence
from leakbound.stats.theorems import Theorem as Theorem
from leakbound.stats.theorems import bound as bound
from leakbound.stats.theorems import has_bound as has_bound
from leakbound.stats.two_way import two_way as two_way


def __dir__() -> list[str]:
    """List the public names, without submodules."""
    names = (name for name, value in globals().items() if not isinstance(value, ModuleType))
    return sorted(name for name in names if not name.startswith("_") and name != "ModuleType")
