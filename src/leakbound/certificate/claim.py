"""`LeakClaim`: what a certificate is about, in numbers, and which way it is decided.

By two one-sided bounds, each at alpha, as one alone can be wrong. And how many draws would have
decided: a forecast from the rates seen, not a guarantee.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Literal, TypedDict

import numpy as np

from leakbound import stats
from leakbound.bounding.claims import Tail
from leakbound.bounding.drawn import Drawn
from leakbound.errors import InputError
from leakbound.scorers import Of, make_scorer, reading_of, with_reading
from leakbound.stats.estimate import Array, error_rate, percent
from leakbound.stats.mean_over_questions import POOLED, hoeffding_upper
from leakbound.store import ArmScores
from leakbound.types import Json, Scorer, from_json

PART: Mapping[Of, str] = {
    "answer": "the answer",
    "thought": "the thought",
    "either": "the answer or the thought",
}
"""The parts of an output, in words."""


class ClaimFields(TypedDict, total=False):
    """The fields of a `LeakClaim` that have a default, as keywords."""

    every_question: bool
    confidence: float
    accept_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakClaim:
    """Pr[h > threshold] <= max_leak, averaged over an arm's questions or for every one of them.

    Attributes:
        max_leak: the claimed limit of that probability, in (0, 1).
        scorer: the name of the scorer that gives h.
        threshold: in [0, 1): 0 for a binary scorer; another one's was fixed before its scores
            were seen.
        every_question: whether it is claimed of each question, or of their mean.
        arm: which model and decoding, by its name in the run.
        confidence: of the verdict, in (0.5, 1).
        accept_cut: accept a limit on tokens that is shorter than the longest reference answer, or
            that cut most draws of a question: the claim is then about the first tokens. Otherwise
            it is inconclusive at best, unless a published protocol sets the limit.

    Raises:
        InputError: for a number outside its range, and for a scorer that is none.
    """

    max_leak: float
    scorer: str
    threshold: float
    arm: str
    every_question: bool = False
    confidence: float = 0.99
    accept_cut: bool = False

    def __post_init__(self) -> None:
        make_scorer(self.scorer)  # refuses one that is not known
        if not 0 < self.max_leak < 1:
            raise InputError(
                f"`max_leak` must lie strictly between 0 and 1, got {self.max_leak}. No number of "
                "draws proves 0; use the largest probability you can accept, such as 0.01."
            )
        if not 0 <= self.threshold < 1:
            raise InputError(
                f"`threshold` must lie in [0, 1), got {self.threshold}. No score exceeds 1."
            )
        error_rate(self.confidence)  # refuses one outside (0, 1)
        if self.confidence <= 0.5:
            raise InputError(
                f"`confidence` of a claim must lie above 50 %, got {percent(self.confidence)}. Or "
                "either verdict would be no better than a coin; 0.99 is usual."
            )

    @property
    def part(self) -> Of | None:
        """The part of an output that the claim names; None where it names none."""
        scorer = make_scorer(self.scorer)
        return reading_of(scorer) if scorer != with_reading(scorer, None) else None

    @property
    def text(self) -> str:
        """The claim as a formula."""
        event = "leak" if make_scorer(self.scorer).binary else f"h > {self.threshold}"
        event += f" in {PART[self.part]}" if self.part else ""
        where = " for every question" if self.every_question else ""
        return f"Pr[{event}] <= {self.max_leak}{where}"

    def to_dict(self) -> dict[str, Json]:
        """Every field, and the text."""
        return {**asdict(self), "text": self.text}

    @classmethod
    def from_dict(cls, values: Json) -> LeakClaim:
        """The inverse of `to_dict`; InputError where a field is missing or of another type."""
        members = values if isinstance(values, Mapping) else {}
        own = {f.name: members[f.name] for f in fields(cls) if f.name in members}
        return from_json(cls, own, "no claim can be read: it")


def threshold_for(scorer: Scorer, threshold: float | None) -> float:
    """The x that a claim about this scorer has; InputError where there is no sensible one."""
    if scorer.binary:
        if threshold:
            raise InputError(
                f"scorer {scorer.name!r} is binary: a leak is a score of 1. Leave `threshold` out."
            )
        return 0.0
    if threshold is None:
        raise InputError(
            f"scorer {scorer.name!r} gives scores between 0 and 1, so a claim needs `threshold`: "
            "the score above which a completion counts as a leak, fixed before looking. Or score "
            f"with '{scorer.name}>=0.5', which is binary."
        )
    return threshold


Verdict = Literal["pass", "refuted", "inconclusive"]
FORMAT = "leakbound certificate 7"
"""The format in a certificate's file: who decides by another rule has another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The error rate of a verdict, shared among the bounds that it rests on.

    Attributes:
        decides: the verdict.
        statement: that it is made of.
        bounds: how many bounds there are, any of which may fail.
        each: the error rate of each.
        alpha: that of all together.
    """

    decides: Verdict
    statement: str
    bounds: int
    each: float
    alpha: float


def bounded(tail: Tail, claim: LeakClaim) -> stats.Estimate:
    """Both ends of what the claim is about, the mean or the worst question, at alpha each.

    A claim is true or false before anything is drawn. If it is false only a pass is wrong, and
    that needs the upper end below the truth; if it is true only a refutation is, and that needs
    the lower end above it. So each end has all of alpha, and whatever the truth a wrong verdict
    has probability at most alpha. As an interval the two hold together at 1 - 2 alpha, which is
    the confidence of the estimate.

    Every question. If the claim is false, some question i has p_i > X. A pass needs
    max_j U_j <= X, hence U_i < p_i: the one bound U_i fails, which at alpha happens with
    probability at most alpha, however many questions there are. If the claim is true, a
    refutation needs some lower bound above X >= p_i: any of N may fail, so each has alpha/N.
    """
    both = 1 - 2 * (1 - claim.confidence)
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


def allocation(claim: LeakClaim, questions: int) -> tuple[Share, Share]:
    """The error rates of either verdict; only one of them can be wrong."""
    alpha = 1 - claim.confidence
    bounds = questions if claim.every_question else 1
    which = "the largest of the {} bounds" if claim.every_question else "the {} bound of the mean"
    met, not_met = (f"{which.format(side)} is" for side in ("upper", "lower"))
    share = partial(Share, bounds=bounds, alpha=alpha)
    return (
        share(decides="pass", statement=f"{met} <= {claim.max_leak}", each=alpha),
        share(decides="refuted", statement=f"{not_met} > {claim.max_leak}", each=alpha / bounds),
    )


MOST_DRAWS = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """How many draws a new run would need, from the rates that were seen: no guarantee.

    Attributes:
        draws: of every question; None where none would do.
        text: a sentence for people.
    """

    draws: int | None
    text: str


def forecast(seen: stats.Estimate, claim: LeakClaim) -> Forecast:
    """Forecast what a new run of fixed n would need, had every question the rates that were `seen`.

    `seen` has one entry a question. The same bounds are computed at growing n, with the counts
    scaled. Of a mean it is the pooled one alone, as rounds meet every draw: where questions differ
    much, fewer suffice.
    """
    missing = np.asarray(seen.missing) / np.maximum(seen.n, 1)
    rate = np.nan_to_num(np.asarray(seen.value))
    most = max(1, int(np.max(seen.n)))
    draws = _deciding(rate * (1 - missing), missing, claim, start=most)
    if draws is not None:
        return Forecast(
            draws=draws,
            text=f"A forecast from the rates seen, not a guarantee: about {draws:,} draws of every "
            "question would decide. They need a new run; to add draws to this one because of what "
            "it showed would void its bounds.",
        )
    complete = _deciding(rate, 0 * missing, claim, start=1)
    why = "the rate lies too near the limit"
    if missing.any() and complete is not None:
        why = "draws without a score count against the claim both ways, and there are too many"
    return Forecast(
        draws=None,
        text="A forecast from the rates seen, not a guarantee: not even "
        f"{MOST_DRAWS:,} draws of every question would decide, because {why}.",
    )


def _deciding(hits: Array, missing: Array, claim: LeakClaim, *, start: int) -> int | None:
    """A number of draws, within 1 %, from which these rates decide the claim."""

    def decides(n: int) -> bool:
        scores = _scores_at(hits, missing, n)
        if claim.every_question:
            tail = Tail(Drawn.fixed(scores, binary=True))
            return verdict(bounded(tail, claim), claim) != "inconclusive"
        rows = scores.rows(binary=True)
        alpha = POOLED * (1 - claim.confidence)
        high, low = hoeffding_upper(rows, alpha), 1 - hoeffding_upper(rows.mirrored(), alpha)
        return bool(high <= claim.max_leak or low > claim.max_leak)

    few, many = start, start
    while not decides(many):
        if many >= MOST_DRAWS:
            return None
        few, many = many, min(2 * many, MOST_DRAWS)
    while many - few > max(1, few // 100):
        middle = (few + many) // 2
        few, many = (few, middle) if decides(middle) else (middle, many)
    step = int(10 ** max(0, len(str(many)) - 3))
    return -(-many // step) * step


def _scores_at(hits: Array, missing: Array, n: int) -> ArmScores:
    """The scores of a run of fixed n with these rates."""
    lost = np.rint(missing * n).astype(np.int64)
    leaks = np.minimum(np.rint(hits * n).astype(np.int64), n - lost)
    ids = tuple(map(str, range(len(leaks))))
    scores = np.tile([0.0, 1.0], (len(ids), 1))
    return ArmScores(ids, scores, np.stack([n - lost - leaks, leaks], 1), lost)
