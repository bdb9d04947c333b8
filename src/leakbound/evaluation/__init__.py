"""How much does a model leak? Sample, score, bound; each step resumes."""

from leakbound.bounding.bound import bound_run
from leakbound.drawing.probe import probe
from leakbound.evaluation.verbs import bound, evaluate, measure, prepared, prove, sample, score
from leakbound.planning.metrics import stored_metrics
from leakbound.presenting.summary import clean_table, metrics_table, summary
from leakbound.presenting.table import Table
from leakbound.presenting.verdict import run_verdicts
from leakbound.scoring.checks import require_complete
from leakbound.scoring.score import score_run, scorers_for

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
