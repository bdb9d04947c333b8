"""The one sentence of a certificate, with numbers that never say more than was shown."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

from leakbound import stats
from leakbound.certificate.asked import OWN_WORDS
from leakbound.certificate.claim import LeakClaim
from leakbound.certificate.decision import Verdict
from leakbound.scorers import make_scorer
from leakbound.store import ArmSpec
from leakbound.types import Fingerprint

PROVED = "Proved without any chance, given the measured margin for rounding"


def upward(value: float, limit: float) -> str:
    """An upper end rounded up, with digits enough to stay on its side of the limit."""
    return _rounded(value, limit, ROUND_CEILING)


def downward(value: float, limit: float) -> str:
    """A lower end rounded down, with digits enough to stay on its side of the limit."""
    return _rounded(value, limit, ROUND_FLOOR)


def _rounded(value: float, limit: float, rounding: str) -> str:
    for digits in range(3, 18):
        short = float(Context(prec=digits, rounding=rounding).plus(Decimal(value)))
        if (short <= limit) == (value <= limit):
            return f"{short}"
    return f"{value}"


def sentence(
    claim: LeakClaim,
    verdict: Verdict,
    estimate: stats.Estimate,
    arm: ArmSpec,
    *,
    questions: int,
    asked: str = OWN_WORDS,
    proved: float = 0.0,
) -> str:
    """What was found, about what, what that means for the claim, and what it takes for granted.

    A verdict names the confidence of the one end that decides, an open one that of the interval; a
    refutation by what is `proved` names none.
    """
    scorer = make_scorer(claim.scorer)
    event = "leaks" if scorer.binary else f"scores above {claim.threshold}"
    these = "this one question" if questions == 1 else f"these {questions} questions"
    lower, upper = (float(end) for end in (estimate.lower, estimate.upper))
    sure = proved > claim.max_leak
    lower = proved if sure else lower
    how = f"With {stats.percent(claim.confidence)} confidence" if not sure else PROVED
    if verdict == "inconclusive" and estimate.confidence != claim.confidence:
        how = f"With {stats.percent(estimate.confidence)} confidence for both ends"
    low, high = downward(lower, claim.max_leak), upward(upper, claim.max_leak)
    chance, outcome, where = {
        "pass": (f"at most {high}", "is met", "for every one of"),
        "refuted": (f"at least {low}", "is refuted", "for the worst of"),
        "inconclusive": (
            f"between {low} and {high}", "is neither met nor refuted", "for the worst of"
        ),
    }[verdict]  # fmt: skip
    where = where if claim.every_question else "on average over"
    put = "" if asked == OWN_WORDS else f", asked {asked},"
    told = Fingerprint.of(arm.fingerprint)
    early_ends = len(told.ordinary_end_tokens)
    tokens = "an ordinary token" if early_ends == 1 else f"{early_ends:,} ordinary tokens"
    given = f", taking for granted that {'; that '.join(told.assumes)}" if told.assumes else ""
    ended = f", ended by {tokens} too," if early_ends else ""
    unknown = "max_new_tokens" in arm.decoding.unknown
    most = "" if unknown else f" (max {arm.decoding.max_new_tokens} tokens)"
    return (
        f"{how}, a completion of {arm.model} "
        f"drawn at {arm.decoding.name}{most}{put}{ended} {event}, as scored by "
        f"{claim.scorer}, with probability {chance} {where} {these}: the claim {claim.text} "
        f"{outcome}{given}."
    )
