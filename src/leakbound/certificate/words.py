"""The one sentence of a certificate, with numbers that never say more than was shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from leakbound import stats
from leakbound.certificate.claim import Verdict
from leakbound.presenting.specification import OWN_WORDS
from leakbound.presenting.templates import COMPUTED
from leakbound.store import ArmSpec
from leakbound.store.claims import PART, LeakClaim
from leakbound.text.shown import number, rounded

PROVED = f"Proved, {COMPUTED}, given the measured margin for rounding"


def upward(value: float, limit: float) -> str:
    """An upper end rounded up, with digits enough to stay on its side of the limit."""
    return _rounded(value, limit, 1)


def downward(value: float, limit: float) -> str:
    """A lower end rounded down, with digits enough to stay on its side of the limit."""
    return _rounded(value, limit, -1)


def _rounded(value: float, limit: float, towards: int) -> str:
    for digits in range(2, 18):
        if (rounded(value, towards, digits) <= Decimal(repr(limit))) == (value <= limit):
            break
    return number(value, towards, digits)


def sentence(
    claim: LeakClaim,
    verdict: Verdict,
    estimate: stats.Estimate,
    specification: Mapping[str, str],
    arm: ArmSpec,
    *,
    questions: int,
    proved: float = 0.0,
    reasons: Sequence[str] = (),
) -> str:
    """Say what was found, about what, what that means for the claim, and what it takes for granted.

    A verdict names the confidence of the one end that decides, an open one that of the interval; a
    refutation by what is `proved` names none. After it come the `reasons` why nothing is decided
    whatever the bounds say, a proof that decides nothing, and the rest of the `specification`, by
    heading.
    """
    these = "this one question" if questions == 1 else f"these {questions} questions"
    what = f"{PART[claim.part]} in a completion" if claim.part else "a completion"
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
    wording, within = specification["Asked"], f" {specification.get(CUT, '')}".rstrip()
    put = "" if wording == OWN_WORDS else f" asked {wording},"
    assumes = specification.get(GRANTED)
    later = f", stated {specification[STATED]}," if STATED in specification else ""
    granted = f", taking for granted that {assumes}" if assumes else ""
    first = (
        f"{how}, {what} of {arm.model} drawn at {specification['Decoding']},{put} leaks{within}, "
        f"as scored by {claim.scorer}, with probability {chance} {where} {these}: the claim "
        f"{claim.text}{later} {outcome}{granted}."
    )
    if reasons:
        first += f" Inconclusive, as {'; and as '.join(reasons)}."
    if proved and not sure:
        least = downward(proved, claim.max_leak)
        place = "for the worst of" if claim.every_question else "on average over"
        first += f" Proved: at least {least} {place} {these}, {COMPUTED}."
    details = [f"{name}: {says}." for name, says in specification.items() if name not in _ABOVE]
    return " ".join([first, *details])


CUT, GRANTED, STATED = "Cut", "Taken for granted", "Stated"
_ABOVE = (CUT, GRANTED, STATED, "Asked", "Decoding")
"""Headings of which the first sentence speaks."""
