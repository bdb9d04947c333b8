"""How much does a model leak? Sample, score, bound; each step resumes."""

from residua.evaluation.attack.found import Found, read_found
from residua.evaluation.attack.settings import Attack
from residua.evaluation.bounds.bound import bound_run
from residua.evaluation.bounds.drawn import require_scores
from residua.evaluation.calibration import calibrate, judge_of, read_items
from residua.evaluation.checks import (
    require_complete,
    require_confidence,
    require_sampled,
    require_texts,
)
from residua.evaluation.draws.drawing import BUDGET, Drawing
from residua.evaluation.draws.inputs import Inputs
from residua.evaluation.draws.probe import Cost, probe
from residua.evaluation.draws.until import Until, require_fixed_n, require_same_looks
from residua.evaluation.metrics.values import measure_run, metrics_table, stored_metrics
from residua.evaluation.metrics.wanted import choose
from residua.evaluation.score import bounded_by, score_run, scored_by, scorers_for, scorers_of
from residua.evaluation.settings import ModelSettings
from residua.evaluation.study import CONFIDENCE, STUDY_FIELDS, Study
from residua.evaluation.tables.clean import clean_questions, clean_table
from residua.evaluation.tables.rows import Row, Table
from residua.evaluation.tables.summary import summary
from residua.evaluation.verbs import (
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
