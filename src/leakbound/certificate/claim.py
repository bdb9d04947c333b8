"""`LeakClaim`: what a certificate is about, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from leakbound.errors import InputError
from leakbound.scorers import make_scorer
from leakbound.stats.estimate import error_rate, percent
from leakbound.types import Json, Scorer, from_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LeakClaim:
    """Pr[h > threshold] <= max_leak, averaged over an arm's questions or for every one of them.

    `scorer` names h. A binary one has threshold 0; another one's was fixed before its scores
    were seen. Raises InputError for numbers outside their range.
    """

    max_leak: float
    scorer: str
    threshold: float
    every_question: bool
    arm: str
    confidence: float

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
    def text(self) -> str:
        """The claim as a formula."""
        event = "leak" if make_scorer(self.scorer).binary else f"h > {self.threshold}"
        where = " for every question" if self.every_question else ""
        return f"Pr[{event}] <= {self.max_leak}{where}"

    def to_dict(self) -> dict[str, Json]:
        """Every field, and the text."""
        return {**asdict(self), "text": self.text}

    @classmethod
    def from_dict(cls, values: Json) -> LeakClaim:
        """The inverse of `to_dict`; InputError where a field is missing or of another type."""
        known = values if isinstance(values, Mapping) else {}
        own = {f.name: known[f.name] for f in fields(cls) if f.name in known}
        return from_json(cls, own, "no claim can be read: it")


def threshold_for(scorer: Scorer, asked: float | None) -> float:
    """The x that a claim about this scorer has; InputError where there is no sensible one."""
    if scorer.binary:
        if asked:
            raise InputError(
                f"scorer {scorer.name!r} is binary: a leak is a score of 1. Leave `threshold` out."
            )
        return 0.0
    if asked is None:
        raise InputError(
            f"scorer {scorer.name!r} gives scores between 0 and 1, so a claim needs `threshold`: "
            "the score above which a completion counts as a leak, fixed before looking. Or score "
            f"with '{scorer.name}>=0.5', which is binary."
        )
    return asked
