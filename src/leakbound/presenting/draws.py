"""The scores of the draws of each question, for charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leakbound.scoring.score import slug
from leakbound.stats import Rows
from leakbound.store import Arm
from leakbound.types import Scorer


def drawn_scores(arm: Arm, scorer: Scorer) -> Mapping[str, Rows]:
    """Return the scored draws of each question that has any; empty for an explored arm."""
    if arm.explored:
        return {}
    scores = arm.scores(slug(scorer), binary=scorer.binary)
    scored, places = scores.rows.scored(), np.arange(len(scores.query_ids))
    drawn = np.flatnonzero(scored.n > 0).tolist()
    return {scores.query_ids[place]: scored.only(places == place) for place in drawn}


def quantiles(draws: Rows, at: Sequence[float]) -> list[float]:
    """Return for each f in `at` the least score s with at least a fraction f of draws <= s."""
    wanted = np.ceil(np.asarray(at) * draws.size - 1e-9)
    places = np.searchsorted(np.cumsum(draws.counts[0]), wanted)
    return [float(score) for score in draws.values[0, places]]


def histogram(draws: Rows, edges: Sequence[float]) -> list[float]:
    """Return the fraction of the draws in each bin; the last bin contains its right edge."""
    counts, _ = np.histogram(draws.values[0], edges, weights=draws.counts[0])
    return [float(share) for share in counts / draws.size]
