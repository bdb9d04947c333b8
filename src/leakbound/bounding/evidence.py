"""Load the draws of arms as evidence under a scorer.

Only this module depends on how an arm was drawn. An arm was drawn in one of three ways:

1. The number of draws n was fixed in advance, also for inputs that a search
   found. The draws may be divided among a question's queries (`Pooled`).
2. Every question was drawn until a claim about the question was decided.
3. The exact probabilities of the likeliest outputs were computed, and draws
   came from all other outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from leakbound import stats
from leakbound.bounding.drawn import SEARCHED, Drawn
from leakbound.bounding.pooled import Pooled
from leakbound.scoring.ordering import order_of
from leakbound.scoring.score import slug
from leakbound.store import Arm, ArmKey, Run
from leakbound.store.record import claim_of
from leakbound.study import RHO
from leakbound.types import Scorer


def drawn_of(arm: Arm, scorer: Scorer, rho: float = RHO) -> Drawn:
    """Return the draws of an arm as evidence under a scorer, from stored scores.

    `rho`: the weight of the standard deviation in the ED score.
    """
    how: Any = {"order": order_of(arm, scorer), "rho": rho, "arms": (arm,)}
    rows = arm.scores(slug(scorer), binary=scorer.binary)
    if claim_of(arm.spec.draws):
        return Drawn(stats.Stopped(rows, arm.plan.n), **how)
    if arm.key.kind == "attack":
        return Drawn(rows, inputs=SEARCHED, **how)
    if arm.explored:
        masses = arm.masses.by_query(slug(scorer))
        return Drawn(stats.Masses.of([masses[query_id] for query_id in rows.ids], rows), **how)
    if arm.spec.shares is not None:
        return Pooled.of(rows, arm.queries, arm.spec.shares, **how)
    return Drawn(rows, **how)


class RunEvidence:
    """The evidence of all arms of a run under one scorer; each arm is loaded only once."""

    def __init__(self, run: Run, scorer: Scorer, arms: Mapping[str, Arm]) -> None:
        self.run, self.scorer, self._arms = run, scorer, arms

    @cached_property
    def arms(self) -> Mapping[str, Drawn]:
        """Return the evidence of every arm, by the arm's name."""
        rho = self.run.study.rho
        return {name: drawn_of(arm, self.scorer, rho) for name, arm in self._arms.items()}

    def of(self, key: ArmKey) -> Drawn | None:
        """Return the evidence of the arm with this key, or None if the run has no such arm."""
        return self.arms.get(str(key))
