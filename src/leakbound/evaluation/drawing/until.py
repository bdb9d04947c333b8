"""Sampling until a claim is decided: the rule, its looks, and what they found.

Every question is drawn in rounds. After each round the claim is judged from the question's own
draws, by bounds that hold at any look; what is decided stops, the others are drawn on, at most
until the cap. Looks are recorded, and can be made again from the stored scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leakbound.errors import MixError
from leakbound.evaluation.planning.plan import looks_of
from leakbound.evaluation.scoring.ordering import Order
from leakbound.evaluation.scoring.score import slug
from leakbound.store import Arm, Look, StoppedDraws
from leakbound.types import Scorer


def look(arm: Arm, scorer: Scorer) -> dict[str, Look]:
    """A look at every question that was drawn since its last one; empty where none was."""
    planned = arm.unlooked()
    found = _seen(arm, scorer, planned) if planned else {}
    for query_id, n in planned.items():
        if query_id not in found or found[query_id].n != n:
            raise _changed(arm, f"question {query_id!r} has other draws than its looks asked for")
    return found


def require_same_looks(arm: Arm, scorer: Scorer) -> None:
    """Make every recorded look again from the stored scores; MixError where one differs."""
    for number, recorded in enumerate(arm.looks, start=1):
        again = _seen(arm, scorer, recorded, rounds=number)
        for query_id, look in recorded.items():
            if again.get(query_id, look) != look:
                raise _changed(arm, f"look {number} at question {query_id!r} comes out otherwise")


def _seen(
    arm: Arm, scorer: Scorer, query_ids: Mapping[str, Any], rounds: int | None = None
) -> dict[str, Look]:
    """What a look after the first `rounds` finds of these questions, where they have scores."""
    rule, scores = arm.spec.draws, arm.scores(slug(scorer), rounds).of(query_ids)
    if not (isinstance(rule, StoppedDraws) and scores.query_ids):
        return {}
    drawn: dict[str, Any] = {"counts": scores.counts, "missing": scores.missing}
    keys = Order.of(arm, scorer).keys(scores.query_ids)
    looks = looks_of(rule, arm.plan.n)
    decided = looks.decide(scores.scores, **drawn, seed=keys).tolist()
    goals = looks.next_look(scores.scores, **drawn).tolist()
    rows = zip(scores.query_ids, scores.n.tolist(), decided, goals, strict=True)
    return {
        query_id: Look(n, decision, goal if decision == "open" else n)
        for query_id, n, decision, goal in rows
    }


def _changed(arm: Arm, how: str) -> MixError:
    return MixError(
        f"{arm.place} does not fit its record: {how}. Its scores, draws "
        "or looks were changed, or another version of leakbound made them. Name another --out."
    )
