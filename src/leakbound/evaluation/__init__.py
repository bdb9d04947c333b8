"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.evaluation.drawing.probe import Cost, probe
from leakbound.evaluation.drawing.until import require_same_looks
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
from leakbound.evaluation.statements.rows import Row
from leakbound.evaluation.study.attack import Attack
from leakbound.evaluation.study.attack_queries import AttackQuery, read_attack_queries
from leakbound.evaluation.study.checks import require_confidence
from leakbound.evaluation.study.metrics import choose
from leakbound.evaluation.study.plan import BUDGET, Drawing
from leakbound.evaluation.study.rewritings import Inputs
from leakbound.evaluation.study.settings import ModelSettings
from leakbound.evaluation.study.study import CONFIDENCE, STUDY_FIELDS, Study
from leakbound.evaluation.study.until import Until
from leakbound.evaluation.verbs import (
    default_scorers,
    evaluate,
    evaluate_study,
    sample,
    sample_study,
    steered,
    unsteered,
)
from leakbound.evaluation.views.clean import clean_table
from leakbound.evaluation.views.metrics import metrics_table
from leakbound.evaluation.views.summary import summary
from leakbound.evaluation.views.table import Table

__all__ = [
    "BUDGET",
    "CONFIDENCE",
    "STUDY_FIELDS",
    "Attack",
    "AttackQuery",
    "Cost",
    "Drawing",
    "Inputs",
    "ModelSettings",
    "Row",
    "Study",
    "Table",
    "Until",
    "bound_run",
    "bounded_by",
    "calibrate",
    "choose",
    "clean_questions",
    "clean_table",
    "default_scorers",
    "evaluate",
    "evaluate_study",
    "judge_of",
    "measure_run",
    "metrics_table",
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
    "sample_study",
    "score_run",
    "scored_by",
    "scorers_for",
    "scorers_of",
    "steered",
    "stored_metrics",
    "summary",
    "unsteered",
]
