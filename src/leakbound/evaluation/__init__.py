"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.evaluation.drawing.probe import probe
from leakbound.evaluation.planning.metrics import stored_metrics
from leakbound.evaluation.scoring.checks import require_complete
from leakbound.evaluation.scoring.score import score_run, scorers_for
from leakbound.evaluation.statements.bound import bound_run
from leakbound.evaluation.verbs import bound, evaluate, measure, prepared, prove, sample, score
from leakbound.evaluation.views.summary import clean_table, metrics_table, summary
from leakbound.evaluation.views.table import Table
from leakbound.evaluation.views.verdict import run_verdicts

__all__ = [
    "Table",
    "bound",
    "bound_run",
    "clean_table",
    "evaluate",
    "measure",
    "metrics_table",
    "prepared",
    "probe",
    "prove",
    "require_complete",
    "run_verdicts",
    "sample",
    "score",
    "score_run",
    "scorers_for",
    "stored_metrics",
    "summary",
]
