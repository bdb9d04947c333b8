"""Does a model leak more in answers it is surer of? The premise of input selection, measured.

For each question the Pearson correlation, over its queries, of cumulative log-probability and the
upper bound on expected leakage (Cheng et al. 2025, Figures 1 and 2: mostly .6 to .8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from leakbound.inputs import evidence
from leakbound.store import Arm, Run, read_values
from leakbound.store.tables import completions_of
from leakbound.types import Completion

LEAST = 3  # queries: two always lie on a line


def sureness(run: Run, arm: Arm) -> Mapping[str, float]:
    """How sure the model is of its answers to every query, natural log, where it is known.

    What input selection found, where it was made; else `drawn_sureness`.
    """
    return read_values(run.path) or drawn_sureness(arm)


def drawn_sureness(arm: Arm) -> Mapping[str, float]:
    """The mean log-probability, at T = 1, of the arm's own draws of every query."""
    drawn: dict[str, list[Completion]] = {}
    for part in arm.parts:
        for query_id, completion in completions_of(arm.completions(part)):
            if completion.count:
                drawn.setdefault(query_id, []).append(completion)
    return {
        query_id: evidence(completions, "mean_logprob")
        for query_id, completions in drawn.items()
        if all(completion.model_logprob is not None for completion in completions)
    }


def pearson(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Pearson's r of these; None below three, or where one of the two does not vary."""
    if len(pairs) < LEAST or not np.ptp(pairs, axis=0).all():
        return None
    return float(np.corrcoef(np.array(pairs).T)[0, 1])
