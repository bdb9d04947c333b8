"""What is known of a model's readings of given texts, and what is not yet."""

from __future__ import annotations

from leakbound.errors import InputError
from leakbound.evaluation.planning.metrics import ANSWER, Wanted
from leakbound.store import CONTROL_GREEDY, GREEDY, Arm, ArmKey, Place, Readings
from leakbound.store.arm_key import Model
from leakbound.types import Query

MODELS: dict[Model, ArmKey] = {"target": GREEDY, "control": CONTROL_GREEDY}
"""The models of a run, and the arm of each one's greedy answers: it keeps what is read."""


def require_known(arm: Arm, wanted: Wanted) -> Readings:
    """What is known of the model of `arm`; InputError where something that is wanted is not."""
    known = Readings(arm)
    lacking = [asked.place for asked in wanted.texts() if asked.place not in known.texts]
    lacking += [place for place, _, _ in undifferentiated(known, wanted)]
    lacking += [place for place, _ in wanted.questions() if place not in known.answers]
    if lacking:
        raise InputError(
            f"{arm.place} lacks {len(lacking)} texts that these metrics need, first the "
            f"{lacking[0].kind} text of {lacking[0].prompt_id!r}. Run its command with the same "
            "--metrics: only what is missing is read."
        )
    return known


def undifferentiated(known: Readings, wanted: Wanted) -> list[tuple[Place, Query, str]]:
    """The answers whose gradients are wanted, without those whose norms are known."""
    return [
        (asked.place, asked.query, asked.text)
        for asked in wanted.texts()
        if asked.place.kind == ANSWER
        and wanted.needs[asked.place.part].gradient_norm
        and (asked.place not in known.texts or known.texts[asked.place].gradient_norm is None)
    ]
