"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.evaluation.drawing.probe import Cost, probe
from leakbound.evaluation.drawing.until import require_same_looks
from leakbound.evaluation.planning.attack_queries import AttackQuery, read_attack_queries
from leakbound.evaluation.planning.checks import require_confidence
from leakbound.evaluation.planning.metrics import choose
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.evaluation.scoring.calibration import calibrate, judge_of, read_items
from leakbound.evaluation.scoring.checks import (
    require_complete,
    require_fixed_n,
    require_sampled,
    require_scores,
    require_texts,
)
from leakbound.evaluation.scoring.score import (
    bounded_by,
    score_run,
    scored_by,
    scorers_for,
    scorers_of,
)
from leakbound.evaluation.statements.bound import bound_run
from leakbound.evaluation.statements.clean import clean_questions
from leakbound.evaluation.statements.metrics import measure_run, stored_metrics
from leakbound.evaluation.verbs import (
    bound,
    default_scorers,
    evaluate,
    measure,
    prepared,
    sample,
    score,
)
from leakbound.evaluation.views.clean import clean_table
from leakbound.evaluation.views.metrics import metrics_table
from leakbound.evaluation.views.summary import summary
from leakbound.evaluation.views.table import Table

__all__ = [
    "AttackQuery",
    "Cost",
    "SteeredPlan",
    "Table",
    "bound",
    "bound_run",
    "bounded_by",
    "calibrate",
    "choose",
    "clean_questions",
    "clean_table",
    "default_scorers",
    "evaluate",
    "judge_of",
    "measure",
    "measure_run",
    "metrics_table",
    "prepared",
    "probe",
    "read_attack_queries",
    "read_items",
    "require_complete",
    "require_confidence",
    "require_fixed_n",
    "require_same_looks",
    "require_sampled",
    "require_scores",
    "require_texts",
    "sample",
    "score",
    "score_run",
    "scored_by",
    "scorers_for",
    "scorers_of",
    "stored_metrics",
    "summary",
]
