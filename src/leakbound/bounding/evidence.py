"""`ArmEvidence`: what is known of an arm under a scorer, read once, and what that can bound.

The way an arm was drawn is read here and nowhere else: n fixed in advance, also of what a search
found to ask, and shared among a question's queries (`Pooled`), every question drawn until a claim
about it was decided, or masses explored and their remainder drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leakbound.bounding.drawn import AS_FOUND, Drawn, Greedy
from leakbound.bounding.pooled import Pooled
from leakbound.scoring.ordering import Order
from leakbound.scoring.score import slug
from leakbound.store import Arm, ArmKey, ArmSpec, ExploredDraws, QueryShares, Run
from leakbound.store.record import claim_of
from leakbound.study import RHO
from leakbound.types import Scorer


@dataclass(frozen=True)
class ArmEvidence:
    """An arm that was sampled, under a scorer whose scores are stored.

    rho: the weight of the standard deviation in the ED score.
    """

    arm: Arm
    scorer: Scorer
    rho: float = RHO

    @cached_property
    def known(self) -> Drawn:
        """The evidence of its draws, in whichever way they were made."""
        arm = self.arm
        how: Any = {"order": Order.of(arm, self.scorer), "rho": self.rho}
        scores, binary = arm.scores(slug(self.scorer)), self.scorer.binary
        if claim_of(arm.spec.draws):
            return Drawn.stopped(scores, binary, arm.plan.n, **how)
        if arm.key.asks == "attack":
            return Drawn.fixed(scores, binary, inputs=AS_FOUND, **how)
        match arm.spec:
            case ArmSpec(draws=ExploredDraws()):
                masses = arm.masses.by_query(slug(self.scorer))
                return Drawn.explored(scores, binary, masses, **how)
            case ArmSpec(shares=QueryShares() as shares):
                return Pooled.of(scores, arm.queries, shares, binary, **how)
            case _:
                return Drawn.fixed(scores, binary, **how)

    @cached_property
    def greedy(self) -> Greedy | None:
        """The scores of its answers, where they are greedy."""
        if not self.arm.decoding.greedy:
            return None
        return Greedy(self.arm.scores(slug(self.scorer)), self.scorer.binary)

    @property
    def cell(self) -> Drawn | Greedy:
        """The evidence that bounds its mean, sampled or greedy."""
        return self.known if self.greedy is None else self.greedy

    @property
    def pool(self) -> Pooled | None:
        """Its queries, where a question is asked in several."""
        return self.known if isinstance(self.known, Pooled) else None

    @property
    def fixed(self) -> Drawn | None:
        """Its draws, where their number was fixed and those of a question have one law."""
        return None if self.known.rows is None else self.known

    @property
    def query_ids(self) -> tuple[str, ...]:
        """The questions that have draws."""
        return self.known.scores.query_ids

    @property
    def whole(self) -> bool:
        """True if statements about all questions can be made: none lacks, and nobody chose them."""
        questions = self.arm.run_queries.questions
        return len(self.query_ids) == len(questions) and self.arm.key.asks != "attack"


class RunEvidence:
    """All arms of a run under one scorer, each read once: what is known of each, by its name."""

    def __init__(self, run: Run, scorer: Scorer, arms: Mapping[str, Arm]) -> None:
        self.run, self.scorer, rho = run, scorer, run.study.rho
        self.arms = {name: ArmEvidence(arm, scorer, rho=rho) for name, arm in arms.items()}

    def of(self, key: ArmKey) -> ArmEvidence | None:
        """The evidence of the arm with this key; None where it is not planned."""
        return self.arms.get(str(key))
