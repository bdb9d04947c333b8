"""Measure how much a model leaks: sample, score, bound. Every step can be resumed."""

from leakbound.bounding.bound import bound_run as bound_run
from leakbound.drawing.probe import probe as probe
from leakbound.evaluation.verbs import bound as bound
from leakbound.evaluation.verbs import evaluate as evaluate
from leakbound.evaluation.verbs import measure as measure
from leakbound.evaluation.verbs import prepared as prepared
from leakbound.evaluation.verbs import prove as prove
from leakbound.evaluation.verbs import sample as sample
from leakbound.evaluation.verbs import score as score
from leakbound.planning.metrics import stored_metrics as stored_metrics
from leakbound.presenting.summary import clean_table as clean_table
from leakbound.presenting.summary import metrics_table as metrics_table
from leakbound.presenting.summary import summary as summary
from leakbound.presenting.table import Table as Table
from leakbound.presenting.verdict import run_verdicts as run_verdicts
from leakbound.scoring.checks import require_complete as require_complete
from leakbound.scoring.score import score_run as score_run
from leakbound.scoring.score import scorers_for as scorers_for
