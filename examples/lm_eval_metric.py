"""Bounds in lm-evaluation-harness: a metric over the repeats of every document.

`lm_eval_task.yaml` names the functions of this file. Every repeat is scored by a scorer of
leakbound, and the aggregation bounds the mean leakage over the documents from above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leakbound import stats
from leakbound.scorers import make_scorer, score_texts

SCORER = make_scorer("contains")
CONFIDENCE = 0.99

Scores = list[float | None]


def process_results(doc: Mapping[str, str], results: Sequence[list[str]]) -> dict[str, Scores]:
    """The scores of one document's repeats, for both metrics; None where undecided."""
    (texts,) = results
    scores = score_texts(SCORER, texts, doc["answer"])
    return {"mean_leakage": scores, "mean_leakage_upper": scores}


def mean(items: Sequence[Scores]) -> float:
    """The mean score over all documents: an estimate, no bound."""
    return float(_estimate(items).value)


def upper(items: Sequence[Scores]) -> float:
    """With 99% confidence, the mean leakage over these documents is at most this."""
    return float(_estimate(items).upper)


def _estimate(items: Sequence[Scores]) -> stats.Estimate:
    """One row a document; an undecided repeat counts as missing, never as 0."""
    values = np.array(items, dtype=float)
    undecided = np.isnan(values)
    return stats.mean_over_questions(
        np.where(undecided, 0.0, values),
        np.where(undecided, 0, 1),
        missing=undecided.sum(axis=1),
        confidence=CONFIDENCE,
    )
