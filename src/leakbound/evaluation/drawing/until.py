"""Sampling until a claim is decided: the rule, its looks, and what they found.

Every question is drawn in rounds. After each round the claim is judged from the question's own
draws, by bounds that hold at any look; what is decided stops, the others are drawn on, at most
until the cap. Looks are recorded, and can be made again from the stored scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from leakbound import stats
from leakbound.errors import InputError, MixError
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.scorers import digest
from leakbound.store import Arm, ArmScores, Look
from leakbound.types import Scorer

CLAIM = "claim "  # how the estimand of a claim begins
_TRUTH = {"holds": 1.0, "refuted": 0.0}


@dataclass(frozen=True, slots=True)
class Until:
    """Draw a question until `looks` decide its claim from the scores that `scorer` gives."""

    looks: stats.Looks
    scorer: Scorer

    @classmethod
    def read(cls, claim: str, scorer: Scorer, *, cap: int, confidence: float) -> Until:
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
        if cap < 2:
            raise InputError(
                f"`n` is the most draws that `until` may make of a question, got {cap}, and one "
                "draw leaves nothing to stop. Raise it, or leave `until` out."
            )
        return cls(stats.Looks(parsed, cap, confidence), scorer)

    def to_dict(self) -> dict[str, Any]:
        """As the spec of an arm holds it."""
        return {
            "claim": self.looks.claim.text,
            "scorer": _named(self.scorer),
            "confidence": self.looks.confidence,
            "cap": self.looks.cap,
        }


def look(arm: Arm, until: Until) -> dict[str, Look]:
    """A look at every question that was drawn since its last one; empty where none was."""
    planned = arm.unlooked()
    found = _seen(arm, until, planned) if planned else {}
    for query_id, n in planned.items():
        if query_id not in found or found[query_id].n != n:
            raise _changed(arm, f"question {query_id!r} has other draws than its looks asked for")
    return found


def require_same_looks(arm: Arm, until: Until) -> None:
    """Make every recorded look again from the stored scores; MixError where one differs."""
    for number, recorded in enumerate(arm.looks, start=1):
        again = _seen(arm, until, recorded, rounds=number)
        for query_id, look in recorded.items():
            if again.get(query_id, look) != look:
                raise _changed(arm, f"look {number} at question {query_id!r} comes out otherwise")


def require_fixed_n(arm: Arm) -> None:
    """Refuse an arm whose questions stopped early, where a bound needs n fixed beforehand."""
    if arm.stopping is not None:
        raise InputError(
            f"arm {arm.name!r} of `{arm.run.path}` drew each question until "
            f"{arm.stopping['claim']!r} was decided, and this needs a number of draws that was "
            "fixed beforehand. Sample another run without --until."
        )


def claim_estimate(arm: Arm, scorer: Scorer, scores: ArmScores) -> stats.Estimate | None:
    """The claim about every question: 1 where it holds, 0 where it does not, NaN where open.

    With the confidence of the rule a claim is as decided; an open one has the interval [0, 1].
    None where another scorer steered the arm.
    """
    rule = arm.stopping
    if rule is None or rule["scorer"] != _named(scorer):
        return None
    looks = stats.Looks(stats.parse_claim(rule["claim"]), rule["cap"], rule["confidence"])
    drawn: dict[str, Any] = {"counts": scores.counts, "missing": scores.missing}
    keys = Order.of(arm, scorer).keys(scores.query_ids)
    bound = looks.bound(scores.scores, **drawn, seed=keys)
    decided = looks.decide(scores.scores, **drawn, seed=keys).tolist()
    truth = np.array([_TRUTH.get(decision, np.nan) for decision in decided])
    return stats.Estimate(
        estimand=f"{CLAIM}{looks.claim.text}",
        value=truth,
        lower=np.nan_to_num(truth, nan=0.0),
        upper=np.nan_to_num(truth, nan=1.0),
        confidence=looks.confidence,
        side="both",
        n=scores.n,
        missing=scores.missing,
        method=bound.method,
        seed=bound.seed,
        stopping=bound.stopping,
    )


def _seen(
    arm: Arm, until: Until, query_ids: Mapping[str, Any], rounds: int | None = None
) -> dict[str, Look]:
    """What a look after the first `rounds` finds of these questions, where they have scores."""
    scores = arm.scores(slug(until.scorer), rounds).of(query_ids)
    if not scores.query_ids:
        return {}
    drawn: dict[str, Any] = {"counts": scores.counts, "missing": scores.missing}
    keys = Order.of(arm, until.scorer).keys(scores.query_ids)
    decided = until.looks.decide(scores.scores, **drawn, seed=keys).tolist()
    goals = until.looks.next_look(scores.scores, **drawn).tolist()
    rows = zip(scores.query_ids, scores.n.tolist(), decided, goals, strict=True)
    return {
        query_id: Look(n, decision, goal if decision == "open" else n)
        for query_id, n, decision, goal in rows
    }


def _named(scorer: Scorer) -> dict[str, str]:
    return {"name": scorer.name, "digest": digest(scorer)}


def _changed(arm: Arm, how: str) -> MixError:
    return MixError(
        f"arm {arm.name!r} of `{arm.run.path}` does not fit its record: {how}. Its scores, draws "
        "or looks were changed, or another version of leakbound made them. Name another --out."
    )
