"""Write the sentence of a certificate, with bounds rounded so that they stay valid."""

from __future__ import annotations

from decimal import Decimal

from leakbound import stats
from leakbound.certificate.claim import Verdict
from leakbound.presenting.templates import COMPUTED
from leakbound.store import ArmSpec
from leakbound.store.claims import PART, LeakClaim
from leakbound.text.shown import number, rounded

MOST_WORDS = 60
PROVED = f"As proved ({COMPUTED})"
_REWORDED = {"allocated": " with rewritings", "fixed": " with rewritings", "fresh": " as rewritten"}


def upward(value: float, limit: float) -> str:
    """Return an upper bound rounded up, with enough digits to stay on its side of the limit."""
    return _rounded(value, limit, 1)


def downward(value: float, limit: float) -> str:
    """Return a lower bound rounded down, with enough digits to stay on its side of the limit."""
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
    arm: ArmSpec,
    *,
    questions: int,
    limits: tuple[str, str] = ("", ""),
    proved: float = 0.0,
    cut_short: bool = False,
) -> str:
    """Return a sentence with the verdict and the deciding bound, in at most `MOST_WORDS` words.

    If a bound decides the claim, the sentence has the confidence of this bound. If the verdict is
    inconclusive, it has the confidence of the interval. If a proof refutes the claim, it has no
    confidence, because a proof has no sampling error. If the sentence would be too long, references
    to the specification replace the longest names.

    Args:
        claim: the claim.
        verdict: the verdict on the claim.
        estimate: the statement that decides the claim.
        arm: the specification of the model, the decoding and the wording of the questions.
        questions: the number of questions.
        limits: the limit on tokens to which the numbers refer, and the stop strings that cut a
            reference answer or a keyword, as texts ("" if there is none). A sentence that is too
            long omits stop strings only if a proof refutes the claim or if `cut_short` is True.
        proved: a lower bound without sampling error.
        cut_short: whether the claim does not pass only because of a limit on tokens or a stop
            string.

    Returns:
        One sentence.
    """
    by_proof = proved > claim.max_leak
    lower = proved if by_proof else float(estimate.lower)
    low, high = downward(lower, claim.max_leak), upward(float(estimate.upper), claim.max_leak)
    open_ = verdict == "inconclusive"
    confidence = estimate.confidence if open_ else claim.confidence
    evidence = PROVED if by_proof else f"With {stats.percent(confidence)} confidence"
    chance, outcome, every = {
        "pass": (f"at most {high}", "met", "for every one of"),
        "refuted": (f"at least {low}", "refuted", "for the worst of"),
        "inconclusive": (f"between {low} and {high}", "undecided", "for the worst of"),
    }[verdict]
    where = every if claim.every_question else "on average over"
    these = "this one question" if questions == 1 else f"these {questions:,} questions"
    reworded = _REWORDED[arm.shares.design] if arm.shares else ""
    reason = " because outputs were cut short" if cut_short else ""
    subject = PART[claim.part] if claim.part else "an output"
    names = [f"of {arm.model}", f"at {arm.decoding.name}", f"by {claim.scorer}"]
    shorter = ["of the specified model", "as specified", "as specified"]
    within, before = limits
    if before:
        names.append(before)
        shorter.append("" if cut_short or by_proof else " before a stop string")

    def text() -> str:
        model, decoding, scorer, *cut = names
        return (
            f"{evidence}, {subject} {model} drawn {decoding} leaks{within}{''.join(cut)}, scored "
            f"{scorer}, with probability {chance} {where} {these}{reworded}, so the claimed limit "
            f"of {claim.max_leak} is {outcome}{reason}, under the listed assumptions."
        )

    for i in sorted(range(len(names)), key=lambda i: -len(names[i].split())):
        if len(text().split()) > MOST_WORDS:
            names[i] = shorter[i]
    return text()
