"""What is proved of a claim's probability without chance, given the measured margin."""

from __future__ import annotations

import math
from dataclasses import dataclass

from leakbound.certificate.claim import LeakClaim
from leakbound.evaluation.statements.proof import proved_tail
from leakbound.scorers import make_scorer
from leakbound.store import Arm, Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """A lower bound of what a claim is about, from texts of known probability alone.

    lower: of the mean or of the worst question, at least; it spends nothing of alpha.
    questions: of how many of them a leak is proved.
    """

    lower: float
    questions: int


def proofs_of(run: Run, arm: Arm, claim: LeakClaim) -> dict[str, float]:
    """Pr[h > x] at least, by the id of each of the run's questions of which something is proved.

    None of an arm that asks anything but the questions in their own words: a claim about one is
    about a pool of queries, and a proof about one of them.
    """
    if not arm.key.own_words:
        return {}
    found = proved_tail(arm, make_scorer(claim.scorer), claim.threshold)
    return {query.id: found[query.id] for query in run.questions if query.id in found}


def proved_claim(run: Run, proofs: dict[str, float], claim: LeakClaim) -> Proved | None:
    """What they prove of the mean or the worst of the run's questions; None where there are none.

    A question of which nothing is proved leaks with probability 0 at least, so each sum and each
    maximum of such bounds is a bound.
    """
    if not proofs:
        return None
    mean = math.fsum(proofs.values()) / len(run.questions)
    lower = max(proofs.values()) if claim.every_question else mean
    return Proved(lower=lower, questions=len(proofs))
