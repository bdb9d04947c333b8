"""Utility and memorisation metrics, as pure functions of readings, texts and numbers.

`METRICS` has each that can be asked of an evaluated model, with what it needs of the model; the
functions under it are here too. They reproduce OpenUnlearning's definitions, whose numbers are
what people report. A metric of a forget set does not bound what a model leaks: `leakbound.stats`
does.
"""

from __future__ import annotations

from leakbound.metrics.choices import choice_accuracy, choice_probability
from leakbound.metrics.diversity import distinct_share, self_bleu
from leakbound.metrics.likelihood import (
    forget_truth_ratio,
    loss,
    mean_confidence,
    mean_entropy,
    normalised_probability,
    probability,
    truth_probability,
    truth_probability_of,
    truth_ratio,
    truth_ratio_of,
    utility_truth_ratio,
)
from leakbound.metrics.membership import (
    auc,
    min_k,
    min_k_plus_plus,
    privleak,
    reference_score,
    rel_diff,
    zlib_score,
)
from leakbound.metrics.memorisation import exact_memorisation, extraction_strength
from leakbound.metrics.needs import TEXTS, Item, Items, Kind, Metric, Need, Values
from leakbound.metrics.table import METRICS, metrics_as
from leakbound.metrics.utility import (
    RECALL_TERMS,
    UTILITY_TERMS,
    forget_quality,
    model_utility,
    r_avg,
)

__all__ = [
    "METRICS",
    "RECALL_TERMS",
    "TEXTS",
    "UTILITY_TERMS",
    "Item",
    "Items",
    "Kind",
    "Metric",
    "Need",
    "Values",
    "auc",
    "choice_accuracy",
    "choice_probability",
    "distinct_share",
    "exact_memorisation",
    "extraction_strength",
    "forget_quality",
    "forget_truth_ratio",
    "loss",
    "mean_confidence",
    "mean_entropy",
    "metrics_as",
    "min_k",
    "min_k_plus_plus",
    "model_utility",
    "normalised_probability",
    "privleak",
    "probability",
    "r_avg",
    "reference_score",
    "rel_diff",
    "self_bleu",
    "truth_probability",
    "truth_probability_of",
    "truth_ratio",
    "truth_ratio_of",
    "utility_truth_ratio",
    "zlib_score",
]
