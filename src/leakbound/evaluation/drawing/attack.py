"""What a search found, and the fresh draws that bound it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbound.evaluation.drawing.sample import draw_arm, plan_arm
from leakbound.evaluation.drawing.search import AttackSearch, winners
from leakbound.evaluation.planning.attack_queries import (
    AttackQuery,
    read_attack_queries,
    write_attack_queries,
)
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.inputs.halving import Winner
from leakbound.inputs.variants import Variant
from leakbound.store import ArmKey, Run
from leakbound.types import Decoding


def attack_questions(
    run: Run, hunt: AttackSearch, control: ModelArm | None, drawing: SteeredPlan
) -> None:
    """Search, then draw from what was found, and from the control asked the same.

    Goes on where it was stopped; `run` has the search's settings on record.
    """
    found = read_attack_queries(run)
    if found is None:
        keys = {decoding: key for key, decoding in hunt.arms.items()}
        found = tuple(_of_winner(*item, keys) for item in winners(run, hunt).items())
        write_attack_queries(run, found)
    jobs = list(_jobs(found, hunt.job, control))
    for job in jobs:
        job.engine.check(job.attack_queries, job.decoding)
    planned = [plan_arm(run, job, drawing, hunt.seed) for job in jobs]
    for arm, job in zip(planned, jobs, strict=True):
        draw_arm(arm, job, drawing, hunt.progress)


def _of_winner(
    prompt_id: str, winner: Winner[Variant], keys: Mapping[Decoding, ArmKey]
) -> AttackQuery:
    variant = winner.candidate
    return AttackQuery(
        query=replace(variant.query, id=prompt_id),
        decoding=variant.decoding,
        shots=variant.shots,
        rounds=winner.standings,
        arm=keys[variant.decoding],
    )


def _jobs(
    found: Sequence[AttackQuery], target: ModelArm, control: ModelArm | None
) -> Iterator[ModelArm]:
    """An arm for each decoding that was found, and the control's beside it."""
    for arm in dict.fromkeys(one.arm for one in found):
        mine = [one for one in found if one.arm == arm]
        decoding, queries = mine[0].decoding, tuple(one.query for one in mine)
        for job, key in ((target, arm), (control, arm.control)):
            if job is not None:
                yield replace(job, key=key, decoding=decoding, shares=None, attack_queries=queries)
