"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.evaluation.drawing.attack import Found, read_found
from leakbound.evaluation.drawing.checks import (
    require_complete,
    require_confidence,
    require_sampled,
    require_texts,
)
from leakbound.evaluation.drawing.probe import Cost, probe
from leakbound.evaluation.drawing.until import Until, require_fixed_n, require_same_looks
from leakbound.evaluation.scoring.calibration import calibrate, judge_of, read_items
from leakbound.evaluation.scoring.score import (
    bounded_by,
    score_run,
    scored_by,
    scorers_for,
    scorers_of,
)
from leakbound.evaluation.statements.bound import bound_run
from leakbound.evaluation.statements.drawn import require_scores
from leakbound.evaluation.statements.metrics import measure_run, metrics_table, stored_metrics
from leakbound.evaluation.statements.rows import Row, Table
from leakbound.evaluation.study.attack import Attack
from leakbound.evaluation.study.metrics import choose
from leakbound.evaluation.study.plan import BUDGET, Drawing
from leakbound.evaluation.study.rewritings import Inputs
from leakbound.evaluation.study.settings import ModelSettings
from leakbound.evaluation.study.study import CONFIDENCE, STUDY_FIELDS, Study
from leakbound.evaluation.verbs import (
    default_scorers,
    evaluate,
    evaluate_study,
    sample,
    sample_study,
    steered,
    unsteered,
)
from leakbound.evaluation.views.clean import clean_questions, clean_table
from leakbound.evaluation.views.summary import summary

__all__ = [
    "BUDGET",
    "CONFIDENCE",
    "STUDY_FIELDS",
    "Attack",
    "Cost",
    "Drawing",
    "Found",
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
    "read_found",
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
