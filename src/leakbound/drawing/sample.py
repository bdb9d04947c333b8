"""Draw the arms of a run.

With the sampling plan `Until`, questions are drawn in rounds. After each round,
an interim look checks for each question whether its draws decide the claim. The
bounds of a look are valid at all looks simultaneously. A decided question gets
no further draws. The other questions get more draws, up to the maximum. Looks
are recorded, and can be repeated from the stored scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakbound.drawing.parts import Job, Meter, draw_part, run_jobs
from leakbound.drawing.plans import ArmPlan
from leakbound.errors import InputError, MixError
from leakbound.planning.plan import Prepared, looks_of, opener_at
from leakbound.scoring.checks import require_fixed_n
from leakbound.scoring.ordering import order_of
from leakbound.scoring.score import prompts_by_query, score_arm, slug
from leakbound.store import (
    Arm,
    ArmKey,
    ArmSpec,
    ExploredDraws,
    FixedDraws,
    Look,
    Part,
    Plan,
    QueryShares,
    Run,
    StoppedDraws,
)
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Generate,
    Keeps,
    Progress,
    Scorer,
    Unkept,
    silent,
)


def add_arms(run: Run, plans: Sequence[ArmPlan]) -> list[Arm]:
    """Record the plans of these arms in the run; raise MixError if it has a different plan."""
    return [run.add_arm(plan.key, plan.spec) for plan in plans]


def draw_plans(
    run: Run, plans: Sequence[ArmPlan], ready: Prepared, progress: Progress = silent
) -> None:
    """Record the plans of these arms, then draw their missing parts.

    Draws of finished runs are copied first, before a model draws.
    """
    planned = zip(add_arms(run, plans), plans, strict=True)
    for arm, plan in sorted(planned, key=lambda pair: not isinstance(pair[1].by, Arm)):
        if isinstance(plan.by, Arm):
            for part in arm.parts_to_draw():
                arm.copy_part(part, plan.by)
        else:
            draw_arm(arm, plan.by, ready, progress)


def draw_arm(
    arm: Arm,
    engine: Generate,
    ready: Prepared | None = None,
    progress: Progress = silent,
    *,
    purpose: str | None = None,
) -> None:
    """Draw the missing parts of an arm, and store each part when it is finished.

    With the sampling plan `Until`, the function draws in rounds (see the module). It stops when
    every question is decided or has the maximum number of draws. Before it draws a new round, it
    repeats the recorded looks.

    Args:
        arm: the planned arm.
        engine: the model.
        ready: the study with the scorer that decides the claim or guides the exploration; None for
            an arm with a fixed number of draws.
        progress: called with the progress.
        purpose: a part of the keys of the draws, together with seed, query and chunk. None: the
            arm's own purpose for scored draws, so that no two arms of a run and no two models share
            random numbers.

    Raises:
        MixError: a repeated look differs from its record.
    """
    total = sum(part.amount for part in arm.parts if part.number in arm.own)
    done = total - sum(part.amount for part in arm.parts_to_draw())
    doing, unit = ("exploring", "questions") if arm.explored else ("sampling", "draws")
    meter = Meter(progress, f"{doing} {arm.name}", unit, done, total)
    _draw_parts(arm, engine, meter, _jobs(arm, engine, ready=ready, purpose=purpose))
    if not isinstance(arm.spec.draws, StoppedDraws):
        return
    assert ready is not None
    score_arm(arm, ready.steering, at=ready.at)
    require_same_looks(arm, ready.steering)
    while looks := look(arm, ready.steering):
        first = arm.add_look(looks)
        meter.total = sum(part.amount for part in arm.parts)
        _draw_parts(arm, engine, meter, _jobs(arm, engine, first))
        score_arm(arm, ready.steering, at=ready.at)


def _draw_parts(arm: Arm, engine: Generate, meter: Meter, jobs: Iterator[Job]) -> None:
    """Draw every part, store it, then delete its journal."""
    try:
        for job, drawn in run_jobs(engine, draw_part, jobs, meter):
            part = arm.parts[job.number]
            arm.write_part(part, drawn)
            if not drawn.record.failures:
                arm.journal(part).remove()
    finally:
        if isinstance(engine, Keeps):
            engine.kept = Unkept()


def _jobs(
    arm: Arm,
    engine: Generate,
    first: int = 0,
    *,
    ready: Prepared | None = None,
    purpose: str | None = None,
) -> Iterator[Job]:
    """Yield the jobs of an arm's missing parts, starting at part number `first`.

    An engine that cannot repeat its draws stores the draws of a part in the arm's journal.
    """
    queries, prompts = {query.id: query for query in arm.queries}, prompts_by_query(arm)
    scorer = None
    if arm.explored:
        assert ready is not None
        scorer = opener_at(ready.at, ready.steering)
    for part in arm.parts_to_draw(first):
        if isinstance(engine, Keeps):
            engine.kept = arm.journal(part)
        forces = part.first_chunk == 0 and purpose is None
        yield Job(
            number=part.number,
            queries=tuple(queries[query_id] for query_id in part.query_ids),
            decoding=arm.decoding,
            work=work_of(arm.spec, part, purpose or arm.purpose),
            prompts={q: prompts[q] for q in part.query_ids} if forces else {},
            scorer=scorer,
        )


def work_of(spec: ArmSpec, part: Part, purpose: str) -> Draws | Effort:
    """Return the keys of a part's draws, or the effort of exploring; for `purpose` see `Draws`."""
    how, seed = spec.draws, spec.seed or 0
    if isinstance(how, ExploredDraws):
        return Effort(mode=how.mode, forwards=how.forwards, seed=seed, purpose=purpose)
    own = zip(part.query_ids, part.draws_per_query, strict=bool(part.draws_per_query))
    return Draws(
        sizes=part.sizes,
        first_chunk=part.first_chunk,
        seed=seed,
        purpose=purpose,
        draws_per_query=dict(own),
    )


def look(arm: Arm, scorer: Scorer) -> dict[str, Look]:
    """Return an interim look at every question that has new draws since its last look."""
    planned = arm.unlooked()
    looks = _look(arm, scorer, planned) if planned else {}
    for query_id, n in planned.items():
        if query_id not in looks or looks[query_id].n != n:
            raise _unlike_record(arm, f"the draws of question {query_id!r} are not as planned")
    return looks


def require_same_looks(arm: Arm, scorer: Scorer) -> None:
    """Repeat every recorded look from the stored scores; raise MixError if one differs."""
    for number, recorded in enumerate(arm.looks, start=1):
        again = _look(arm, scorer, recorded, rounds=number)
        for query_id, look in recorded.items():
            if again.get(query_id, look) != look:
                raise _unlike_record(arm, f"interim look {number} at {query_id!r} differs")


def _look(
    arm: Arm, scorer: Scorer, query_ids: Mapping[str, Any], rounds: int | None = None
) -> dict[str, Look]:
    """Return an interim look at each of these questions that has scores.

    Only the draws of the first `rounds` rounds are used (None: of all rounds).
    """
    every = arm.scores(slug(scorer), binary=scorer.binary, rounds=rounds)
    rule, drawn = arm.spec.draws, every.among(query_ids)
    if not (isinstance(rule, StoppedDraws) and drawn.ids):
        return {}
    keys, looks = order_of(arm, scorer)(drawn.ids), looks_of(rule, arm.plan.n)
    decided = looks.decide(drawn, seed=keys).tolist()
    goals = looks.next_look(drawn).tolist()
    rows = zip(drawn.ids, drawn.n.tolist(), decided, goals, strict=True)
    return {
        query_id: Look(n, decision, goal if decision == "open" else n)
        for query_id, n, decision, goal in rows
    }


def _unlike_record(arm: Arm, how: str) -> MixError:
    return MixError(
        f"{arm.place} does not match its record: {how}. Someone changed its scores, draws or "
        "recorded looks, or another version of leakbound made them. Name another --out."
    )


def require_same_plan(run: Run, arms: Mapping[ArmKey, Decoding], ready: Prepared) -> None:
    """Raise MixError if an arm's recorded plan differs. No model is loaded."""
    for key, decoding in arms.items():
        if spec := run.record.arms.get(key):
            plan, draws = ready.arm_draws(key, decoding)
            seed = ready.study.seed
            run.add_arm(key, replace(spec, decoding=decoding, plan=plan, draws=draws, seed=seed))


def add_unscored(run: Run, plan: ArmPlan, draws: Mapping[str, int]) -> Arm:
    """Plan an arm whose draws only select queries; `draws` has the number of draws per query."""
    spec = replace(
        plan.spec,
        plan=Plan.of(max(1, *draws.values())),
        draws=FixedDraws(),
        shares=QueryShares("fixed", draws),
    )
    return run.add_arm(plan.key, spec)


def finished_plans(run: Run, source: Path, decodings: Mapping[ArmKey, Decoding]) -> list[ArmPlan]:
    """Plan the control's arms; they copy the draws of the finished run at `source`.

    `decodings` are the decodings of the target's arms. Raises MixError if questions or decodings
    differ, InputError if the run is not finished.
    """
    other = Run.open(source)
    theirs, ours = other.record.benchmark, run.record.benchmark
    if theirs.sha256 != ours.sha256:
        raise MixError(
            f"the control run `{source}` and `{run.path}` have different questions: "
            f"{theirs.prompts} questions of {theirs.name}, and {ours.prompts} questions of "
            f"{ours.name}. Evaluate the control on the same benchmark."
        )
    if run.record.inputs is not None and other.queries != run.queries:
        raise MixError(
            f"the control run `{source}` has other rewritings than `{run.path}`. Name the "
            "control's model instead of its run."
        )
    plans = []
    for key, decoding in decodings.items():
        arm = other.arm(key)
        if arm is not None:
            require_fixed_n(arm)
        if arm is None or arm.missing_parts():
            raise InputError(
                f"the control run `{source}` is not finished: its arm '{key}' is incomplete. "
                "Run its command again, then this command."
            )
        if arm.decoding != decoding:
            raise MixError(
                f"arm '{key}' of the control run `{source}` was drawn with {arm.decoding}, but "
                f"this run uses {decoding}. Evaluate the control with the options of this run."
            )
        plans.append(ArmPlan.copied(key.control, arm))
    return plans
