"""Utility of a model, and its distance from a model that never saw the forget set.

Maini et al. (2024), "TOFU". The mean recall is from Cheng et al.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from leakbound.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

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
    """Return the harmonic mean of the nine `UTILITY_TERMS`, each in [0, 1]; 0 if any is 0."""
    values = _terms(terms, UTILITY_TERMS)
    return len(values) / sum(1 / value for value in values) if all(values) else 0.0


def r_avg(terms: Mapping[str, float]) -> float:
    """Return the mean ROUGE-L recall of the greedy answers over the three `RECALL_TERMS`."""
    return float(np.mean(_terms(terms, RECALL_TERMS)))


def forget_quality(ratios: ArrayLike, retrained: ArrayLike) -> float:
    """Return the p-value of the two-sided Kolmogorov-Smirnov test on truth ratios: in [0, 1].

    Near 1 the two models' truth ratios may have the same distribution. The test is exact up to
    10,000 questions per model, and asymptotic beyond (SciPy's "auto").
    """
    from scipy.stats import ks_2samp  # takes most of a second

    left, right = (np.ravel(np.asarray(side, np.float64)) for side in (ratios, retrained))
    damaged = int((~np.isfinite(np.concatenate([left, right]))).sum())
    if damaged or not (len(left) and len(right)):
        raise InputError(
            f"forget quality needs truth ratios of both models, got {len(left)} and {len(right)}, "
            f"{damaged} of them not finite. Evaluate both on the forget set."
        )
    return float(ks_2samp(left, right, alternative="two-sided", method="auto").pvalue)


def _terms(terms: Mapping[str, float], names: tuple[str, ...]) -> list[float]:
    if missing := [name for name in names if name not in terms]:
        raise InputError(f"the mean lacks {', '.join(missing)}. Measure all of {', '.join(names)}.")
    for name in names:
        if not 0 <= terms[name] <= 1:
            raise InputError(f"{name} must be in [0, 1], got {terms[name]!r}. Measure it again.")
    return [terms[name] for name in names]
