"""The rule by which questions are drawn until a claim about them is decided."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound import stats
from leakbound.errors import InputError
from leakbound.store import ScorerRecord, StoppedDraws
from leakbound.types import Scorer


@dataclass(frozen=True, slots=True)
class StopRule:
    """Draw a question until `looks` decide its claim from the scores that `scorer` gives."""

    looks: stats.Looks
    scorer: Scorer

    @classmethod
    def read(cls, claim: str, scorer: Scorer, *, cap: int, confidence: float) -> StopRule:
        """The rule as a command states it; InputError where claim and scorer do not fit."""
        parsed = stats.parse_claim(claim)
        quantity = "p" if scorer.binary else "mean"
        if parsed.quantity != quantity:
            gives = "0 or 1" if scorer.binary else "any score in [0, 1]"
            other = "" if scorer.binary else f", or name the scorer '{scorer.name}>=0.5'"
            raise InputError(
                f"the first scorer decides the claim {parsed.text!r}, and {scorer.name!r} gives "
                f"{gives}. Say '{quantity}<={parsed.limit:g}'{other}."
            )
        return cls(stats.Looks(parsed, cap, confidence), scorer)

    @property
    def draws(self) -> StoppedDraws:
        """As the spec of an arm holds it."""
        return StoppedDraws(
            claim=self.looks.claim.text,
            scorer=ScorerRecord.of(self.scorer),
            confidence=self.looks.confidence,
            first=self.looks.first,
        )
