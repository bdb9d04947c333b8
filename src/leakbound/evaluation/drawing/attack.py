"""What a search found, the fresh draws that bound it, and what is proved of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from leakbound.evaluation.drawing.prove import (
    RareLeaks,
    prove_arm,
    require_prover,
    why_unproved,
)
from leakbound.evaluation.drawing.rounds import seen, winners
from leakbound.evaluation.drawing.sample import draw_arm, plan_arm
from leakbound.evaluation.drawing.search import AttackSearch, tried
from leakbound.evaluation.planning.attack_queries import (
    AttackQuery,
    read_attack_queries,
    write_attack_queries,
)
from leakbound.evaluation.planning.models import ModelArm
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.inputs.halving import Winner
from leakbound.inputs.variants import Variant
from leakbound.store import Arm, ArmKey, Run
from leakbound.types import Decoding, Measures


def attack_questions(
    run: Run, hunt: AttackSearch, control: ModelArm | None, drawing: SteeredPlan
) -> None:
    """Search, then draw from what was found, and from the control asked the same.

    Where the search may prove, with as many forwards as it had draws it is then proved what each
    leaks at least. Goes on where it was stopped; `run` has the search's settings on record.
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
        _measure(job)
        draw_arm(arm, job, drawing, hunt.progress)
    if hunt.proves:
        _prove(run, hunt, planned, jobs)


def _prove(run: Run, hunt: AttackSearch, arms: Sequence[Arm], jobs: Sequence[ModelArm]) -> None:
    """What is proved of each question as it was found, going out from all that was said to it."""
    trial, _ = tried(run, hunt)
    search = RareLeaks(hunt.scorer, hunt.budget, seen(run, trial), hunt.asked.drawing.at)
    for arm, job in zip(arms, jobs, strict=True):
        _measure(job)
        if why := why_unproved(job.engine, [job.decoding], hunt.scorer):
            run.notes.append(f"nothing is proved in the arm {arm.name!r}: {why}")
            continue
        engine = require_prover(job.engine, arm.name, job.decoding)
        failures = prove_arm(arm, engine, search, hunt.progress)
        run.notes += [f"nothing is proved of {one.query.id!r}: {one.reason}" for one in failures]


def _measure(job: ModelArm) -> None:
    """Have the margin measured after what the arm asks: it may be longer than the questions."""
    if isinstance(job.engine, Measures):
        job.engine.measure(job.attack_queries)


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
