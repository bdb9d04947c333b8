"""Which way a claim is decided: two one-sided bounds, each at half of alpha."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from leakbound import stats
from leakbound.certificate.claim import LeakClaim
from leakbound.evaluation.statements.tail import Tail

Verdict = Literal["pass", "refuted", "inconclusive"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What of alpha a statement spends: `bounds` of them at `each`, in all `alpha`."""

    decides: Verdict
    statement: str
    bounds: int
    each: float
    alpha: float


def bounded(tail: Tail, claim: LeakClaim) -> stats.Estimate:
    """Both ends of what the claim is about, the mean or the worst question, at alpha/2 each.

    Every question. If the claim is false, some question i has p_i > X. A pass needs
    max_j U_j <= X, hence U_i < p_i: the one bound U_i fails, which at alpha/2 happens with
    probability at most alpha/2, however many questions there are. If the claim is true, a
    refutation needs some lower bound above X >= p_i: any of N may fail, so each has alpha/(2N).
    """
    if claim.every_question:
        return stats.worst_question(
            tail.each, tail.questions, confidence=claim.confidence, side="both"
        )
    return tail.mean(confidence=claim.confidence, side="both")


def verdict(estimate: stats.Estimate, claim: LeakClaim, proved: float = 0.0) -> Verdict:
    """Pass if the upper end is within the limit, refuted if the lower end is beyond it.

    Refuted as well if `proved`, a lower bound without chance, is beyond it, whatever the ends say.
    Whatever the truth, a wrong verdict has probability at most alpha/2: what is proved above the
    limit is above it, so by a proof no true claim is refuted, and no false one passes.
    """
    if proved > claim.max_leak:
        return "refuted"
    if estimate.upper <= claim.max_leak:
        return "pass"
    return "refuted" if estimate.lower > claim.max_leak else "inconclusive"


def allocation(claim: LeakClaim, questions: int) -> tuple[Share, Share]:
    """How alpha was spent on the two verdicts."""
    half = (1 - claim.confidence) / 2
    bounds = questions if claim.every_question else 1
    which = "the largest of the {} bounds" if claim.every_question else "the {} bound of the mean"
    met, not_met = (f"{which.format(side)} is" for side in ("upper", "lower"))
    share = partial(Share, bounds=bounds, alpha=half)
    return (
        share(decides="pass", statement=f"{met} <= {claim.max_leak}", each=half),
        share(decides="refuted", statement=f"{not_met} > {claim.max_leak}", each=half / bounds),
    )
