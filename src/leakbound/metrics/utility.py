"""Compute a model's utility, and compare its truth ratios with a retrained model's ratios.

The metrics are from Maini et al. (2024), "TOFU". The mean recall (`r_avg`) is from Cheng et al.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

RECALL_TERMS = (
    "retain_rouge_l_recall",
    "real_authors_rouge_l_recall",
    "world_facts_rouge_l_recall",
)
UTILITY_TERMS = (
    "retain_probability",
    "real_authors_normalised_probability",
    "world_facts_normalised_probability",
    *RECALL_TERMS,
    "retain_truth_ratio",
    "real_authors_truth_ratio",
    "world_facts_truth_ratio",
)
"""The names in `METRICS` of the nine metrics of model utility."""


def model_utility(terms: Mapping[str, float]) -> float:
    """Return the harmonic mean of the nine `UTILITY_TERMS`, each in [0, 1]; 0 if any term is 0."""
    values = [terms[name] for name in UTILITY_TERMS]
    return len(values) / sum(1 / value for value in values) if all(values) else 0.0


def r_avg(terms: Mapping[str, float]) -> float:
    """Return the mean ROUGE-L recall of the greedy answers over the three `RECALL_TERMS`."""
    return float(np.mean([terms[name] for name in RECALL_TERMS]))


def forget_quality(ratios: Sequence[float], retrained: Sequence[float]) -> float:
    """Return the p-value of the two-sided Kolmogorov-Smirnov test on truth ratios, in [0, 1].

    A value near 1 means that the truth ratios of both models may have the same distribution. The
    test is exact up to 10,000 questions per model, and asymptotic for more (SciPy's "auto").
    """
    from scipy.stats import ks_2samp  # takes most of a second

    return float(ks_2samp(ratios, retrained, alternative="two-sided", method="auto").pvalue)
