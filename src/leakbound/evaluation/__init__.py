"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.evaluation.attack.found import Found, read_found
from leakbound.evaluation.attack.settings import Attack
from leakbound.evaluation.bounds.bound import bound_run
from leakbound.evaluation.bounds.drawn import require_scores
from leakbound.evaluation.calibration import calibrate, judge_of, read_items
from leakbound.evaluation.checks import (
    require_complete,
    require_confidence,
    require_sampled,
    require_texts,
)
from leakbound.evaluation.draws.drawing import BUDGET, Drawing
from leakbound.evaluation.draws.inputs import Inputs
from leakbound.evaluation.draws.probe import Cost, probe
from leakbound.evaluation.draws.until import Until, require_fixed_n, require_same_looks
from leakbound.evaluation.metrics.values import measure_run, metrics_table, stored_metrics
from leakbound.evaluation.metrics.wanted import choose
from leakbound.evaluation.score import bounded_by, score_run, scored_by, scorers_for, scorers_of
from leakbound.evaluation.settings import ModelSettings
from leakbound.evaluation.study import CONFIDENCE, STUDY_FIELDS, Study
from leakbound.evaluation.tables.clean import clean_questions, clean_table
from leakbound.evaluation.tables.rows import Row, Table
from leakbound.evaluation.tables.summary import summary
from leakbound.evaluation.verbs import (
    default_scorers,
    evaluate,
    evaluate_study,
    sample,
    sample_study,
    steered,
    unsteered,
)

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
