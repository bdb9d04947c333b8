"""Which way a claim is decided: two one-sided bounds, each at alpha, as one alone can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from leakbound import stats
from leakbound.certificate.claim import LeakClaim
from leakbound.evaluation.statements.tail import Tail

Verdict = Literal["pass", "refuted", "inconclusive"]
FORMAT = "leakbound certificate 5"
SPENDS: Mapping[str, float] = {
    FORMAT: 1.0,
    "leakbound certificate 4": 1.0,
    "leakbound certificate 3": 0.5,
}
"""What of alpha either verdict may be wrong with, by the format of a certificate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What a verdict may be wrong with: any of `bounds` fails, at `each`; in all `alpha`."""

    decides: Verdict
    statement: str
    bounds: int
    each: float
    alpha: float


def bounded(tail: Tail, claim: LeakClaim, spends: float = 1.0) -> stats.Estimate:
    """Both ends of what the claim is about, the mean or the worst question, at alpha each.

    A claim is true or false before anything is drawn. If it is false only a pass is wrong, and
    that needs the upper end below the truth; if it is true only a refutation is, and that needs
    the lower end above it. So each end has all of alpha, and whatever the truth a wrong verdict
    has probability at most alpha. As an interval the two hold together at 1 - 2 alpha, which is
    the confidence of the estimate. `spends` is the share of alpha that either end has.

    Every question. If the claim is false, some question i has p_i > X. A pass needs
    max_j U_j <= X, hence U_i < p_i: the one bound U_i fails, which at alpha happens with
    probability at most alpha, however many questions there are. If the claim is true, a
    refutation needs some lower bound above X >= p_i: any of N may fail, so each has alpha/N.
    """
    both = 1 - 2 * spends * (1 - claim.confidence)
    if claim.every_question:
        return stats.worst_question(tail.each, tail.questions, confidence=both, side="both")
    return tail.mean(confidence=both, side="both")


def verdict(estimate: stats.Estimate, claim: LeakClaim, proved: float = 0.0) -> Verdict:
    """Pass if the upper end is within the limit, refuted if the lower end is beyond it.

    Refuted as well if `proved`, a lower bound without chance, is beyond it, whatever the ends say.
    Whatever the truth, a wrong verdict has probability at most alpha: what is proved above the
    limit is above it, so by a proof no true claim is refuted, and no false one passes.
    """
    if proved > claim.max_leak:
        return "refuted"
    if estimate.upper <= claim.max_leak:
        return "pass"
    return "refuted" if estimate.lower > claim.max_leak else "inconclusive"


def allocation(claim: LeakClaim, questions: int, spends: float = 1.0) -> tuple[Share, Share]:
    """What either verdict may be wrong with; only one of them can be."""
    alpha = spends * (1 - claim.confidence)
    bounds = questions if claim.every_question else 1
    which = "the largest of the {} bounds" if claim.every_question else "the {} bound of the mean"
    met, not_met = (f"{which.format(side)} is" for side in ("upper", "lower"))
    share = partial(Share, bounds=bounds, alpha=alpha)
    return (
        share(decides="pass", statement=f"{met} <= {claim.max_leak}", each=alpha),
        share(decides="refuted", statement=f"{not_met} > {claim.max_leak}", each=alpha / bounds),
    )
