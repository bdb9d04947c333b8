"""Completions: the only step in which a model runs.

*Until a claim is decided* every question is drawn in rounds. After each round the claim is judged
from the question's own draws, by bounds that hold at any look; what is decided stops, the others
are drawn on, at most until the cap. Looks are recorded, and can be made again from the stored
scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from leakbound.drawing.explore import require_explores
from leakbound.drawing.parts import DrawJob, Meter, draw_parts, machine
from leakbound.engines import absolute
from leakbound.errors import InputError, MixError
from leakbound.planning.models import ModelArm
from leakbound.planning.plan import SteeredPlan, looks_of, opener_at
from leakbound.scoring.checks import require_fixed_n
from leakbound.scoring.ordering import Order
from leakbound.scoring.score import prompts_by_query, score_arm, slug
from leakbound.store import (
    Arm,
    ArmDraws,
    ArmKey,
    ArmSpec,
    CopiedFrom,
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
    Opener,
    Probes,
    Progress,
    Scorer,
    Usage,
    silent,
)


def look(arm: Arm, scorer: Scorer) -> dict[str, Look]:
    """A look at every question that was drawn since its last one; empty where none was."""
    planned = arm.unlooked()
    looks = _look(arm, scorer, planned) if planned else {}
    for query_id, n in planned.items():
        if query_id not in looks or looks[query_id].n != n:
            raise _unlike_record(
                arm, f"question {query_id!r} has other draws than its looks asked for"
            )
    return looks


def require_same_looks(arm: Arm, scorer: Scorer) -> None:
    """Make every recorded look again from the stored scores; MixError where one differs."""
    for number, recorded in enumerate(arm.looks, start=1):
        again = _look(arm, scorer, recorded, rounds=number)
        for query_id, look in recorded.items():
            if again.get(query_id, look) != look:
                raise _unlike_record(
                    arm, f"look {number} at question {query_id!r} comes out otherwise"
                )


def _look(
    arm: Arm, scorer: Scorer, query_ids: Mapping[str, Any], rounds: int | None = None
) -> dict[str, Look]:
    """A look at these questions after the first `rounds`, at those that have scores."""
    rule, scores = arm.spec.draws, arm.scores(slug(scorer), rounds).of(query_ids)
    if not (isinstance(rule, StoppedDraws) and scores.query_ids):
        return {}
    keys = Order.of(arm, scorer).keys(scores.query_ids)
    looks, drawn = looks_of(rule, arm.plan.n), scores.rows(binary=scorer.binary)
    decided = looks.decide(drawn, seed=keys).tolist()
    goals = looks.next_look(drawn).tolist()
    rows = zip(scores.query_ids, scores.n.tolist(), decided, goals, strict=True)
    return {
        query_id: Look(n, decision, goal if decision == "open" else n)
        for query_id, n, decision, goal in rows
    }


def _unlike_record(arm: Arm, how: str) -> MixError:
    return MixError(
        f"{arm.place} does not fit its record: {how}. Its scores, draws "
        "or looks were changed, or another version of leakbound made them. Name another --out."
    )


def with_inputs(jobs: Sequence[ModelArm], shares: QueryShares | None) -> list[ModelArm]:
    """The jobs, and after them one that asks rewritings too for each of those that sample."""
    if shares is None:
        return list(jobs)
    sampled = [job for job in jobs if not job.decoding.greedy]
    return [*jobs, *(replace(job, key=job.key.with_rewritings, shares=shares) for job in sampled)]


def plan_arm(run: Run, job: ModelArm, drawing: SteeredPlan, seed: int) -> Arm:
    """Write into the run what this arm will be; MixError where it was planned otherwise.

    A greedy decoding has one completion, so one draw of it is drawn. Only the target's arms stop
    early: a control is drawn at n = the rule's cap.
    """
    plan, draws = _plan(job.key, job.decoding, drawing)
    return run.add_arm(job.key, _spec(job, plan, draws, seed))


def require_same_plan(
    run: Run, arms: Mapping[ArmKey, Decoding], drawing: SteeredPlan, seed: int
) -> None:
    """Raise MixError, before a model is loaded, for an arm that was planned otherwise."""
    for key, decoding in arms.items():
        if spec := run.record.arms.get(key):
            plan, draws = _plan(key, decoding, drawing)
            run.add_arm(key, replace(spec, decoding=decoding, plan=plan, draws=draws, seed=seed))


def plan_unscored(run: Run, job: ModelArm, draws: Mapping[str, int], seed: int) -> Arm:
    """Plan an arm whose draws only decide what is asked: so many of each query, by id, or none."""
    unscored = replace(job, shares=QueryShares("fixed", draws))
    plan = Plan.of(max(1, *draws.values()))
    return run.add_arm(job.key, _spec(unscored, plan, FixedDraws(), seed))


def _spec(job: ModelArm, plan: Plan, draws: ArmDraws, seed: int) -> ArmSpec:
    return ArmSpec(
        fingerprint=job.engine.fingerprint,
        decoding=job.decoding,
        plan=plan,
        draws=draws,
        seed=seed,
        shares=job.shares,
        attack_queries=job.attack_queries,
        model=job.model,
        place=absolute(job.model),
        machine=machine(job.engine),
        probe=job.engine.probe if isinstance(job.engine, Probes) else None,
        longest_answer=job.longest_answer,
    )


def _plan(key: ArmKey, decoding: Decoding, drawing: SteeredPlan) -> tuple[Plan, ArmDraws]:
    """How many draws an arm gets, and what decides that."""
    if decoding.greedy:
        return Plan.of(1), FixedDraws()
    if drawing.explores:
        return Plan.exploring(), drawing.draws
    stops = isinstance(drawing.draws, StoppedDraws)
    return Plan.of(drawing.n), FixedDraws() if stops and key.is_control else drawing.draws


def draw_arm(arm: Arm, job: ModelArm, drawing: SteeredPlan, progress: Progress = silent) -> Usage:
    """Draw what is missing of an arm, in the way it was planned."""
    match arm.spec.draws:
        case ExploredDraws():
            require_explores(job.engine, arm.name, arm.decoding)
            jobs = _jobs(arm, scorer=opener_at(drawing.at, drawing.steering))
            return draw_parts(arm, jobs, job.engine, _meter(arm, progress))
        case StoppedDraws():
            return sample_until(arm, job.engine, drawing, progress)
        case _:
            return sample_arm(arm, job.engine, progress)


def sample_arm(
    arm: Arm, engine: Generate, progress: Progress = silent, *, purpose: str | None = None
) -> Usage:
    """Draw what is missing of an arm, part by part; each is stored as it is finished.

    The draws are keyed by (seed, purpose, query, chunk). Without a purpose they are drawn to be
    scored, which each arm is for itself: no two arms of a run share any, nor do two models.
    """
    return draw_parts(arm, _jobs(arm, purpose=purpose), engine, _meter(arm, progress))


def sample_until(
    arm: Arm, engine: Generate, drawing: SteeredPlan, progress: Progress = silent
) -> Usage:
    """Draw rounds of an arm until every question is decided or has as many draws as it may.

    Goes on where it was stopped, after its recorded looks were found again in the stored scores;
    MixError where they are not.
    """
    scorer, at = drawing.steering, drawing.at
    meter = _meter(arm, progress)
    spent = draw_parts(arm, _jobs(arm), engine, meter)
    score_arm(arm, scorer, at=at)
    require_same_looks(arm, scorer)
    while looks := look(arm, scorer):
        first = arm.add_look(looks)
        meter.total = sum(part.amount for part in arm.parts)
        spent.add(draw_parts(arm, _jobs(arm, first), engine, meter))
        score_arm(arm, scorer, at=at)
    return spent


def _meter(arm: Arm, progress: Progress) -> Meter:
    """A meter of how much of an arm is sampled, or explored."""
    total = sum(part.amount for part in arm.parts if part.number in arm.own)
    done = total - sum(part.amount for part in arm.missing_parts() if part.number in arm.own)
    if isinstance(arm.spec.draws, ExploredDraws):
        worth = 1 / arm.spec.draws.forwards
        return Meter(progress, f"exploring {arm.name}", "questions", done, total, worth)
    return Meter(progress, f"sampling {arm.name}", "draws", done, total)


def _jobs(
    arm: Arm, first: int = 0, *, purpose: str | None = None, scorer: Opener[Scorer] | None = None
) -> Iterator[DrawJob]:
    """The missing parts of an arm from this number on, each as it is planned."""
    queries, prompts = {query.id: query for query in arm.queries}, prompts_by_query(arm)
    for part in arm.parts_to_draw(first):
        forces = part.first_chunk == 0 and purpose is None
        yield DrawJob(
            part=part,
            queries=tuple(queries[query_id] for query_id in part.query_ids),
            decoding=arm.decoding,
            how=_effort(arm) or draws_of(arm, part, purpose),
            prompts={q: prompts[q] for q in part.query_ids} if forces else {},
            scorer=scorer,
        )


def _effort(arm: Arm) -> Effort | None:
    """How far each question is explored; None where none is."""
    planned, seed = arm.spec.draws, arm.spec.seed or 0
    if not isinstance(planned, ExploredDraws):
        return None
    return Effort(mode=planned.mode, forwards=planned.forwards, seed=seed, purpose=arm.purpose)


def draws_of(arm: Arm, part: Part, purpose: str | None = None) -> Draws:
    """The keys of the draws of a part; see `sample_arm` for the purpose."""
    own = zip(part.query_ids, part.draws_per_query, strict=bool(part.draws_per_query))
    return Draws(
        sizes=part.sizes,
        first_chunk=part.first_chunk,
        seed=arm.spec.seed or 0,
        purpose=arm.purpose if purpose is None else purpose,
        draws_per_query=dict(own),
    )


def finished_run(control: object) -> Path | None:
    """The folder of the run that a control is, where it is one rather than a model."""
    if isinstance(control, str | Path) and (Path(control) / "run.json").is_file():
        return Path(control)
    return None


def finished_control(
    run: Run, source: Path, decodings: Mapping[ArmKey, Decoding]
) -> dict[ArmKey, Arm]:
    """The arms of the finished run at `source` that can stand beside this run's as its control.

    `decodings` are those of this run's arms. Raises MixError where the questions or the
    decodings are others, InputError where the run is not finished.
    """
    other = Run.open(source)
    theirs, ours = other.record.benchmark, run.record.benchmark
    if theirs.sha256 != ours.sha256:
        raise MixError(
            f"the control run `{source}` is about other questions ({theirs.name}, "
            f"{theirs.prompts}) than `{run.path}` ({ours.name}, {ours.prompts}). "
            "Evaluate the control on the same benchmark."
        )
    if run.record.inputs is not None and other.queries != run.queries:
        raise MixError(
            f"the control run `{source}` was asked other rewritings than `{run.path}`. Name the "
            "control model itself, and it is asked the same."
        )
    arms: dict[ArmKey, Arm] = {}
    for key, decoding in decodings.items():
        arm = other.arm(key)
        if arm is not None:
            require_fixed_n(arm)
        if arm is None or arm.missing_parts():
            raise InputError(
                f"the control run `{source}` is not finished: its arm '{key}' is incomplete. "
                "Run its command again, then this one."
            )
        if arm.decoding != decoding:
            raise MixError(
                f"arm '{key}' of the control run `{source}` was drawn under {arm.decoding}, this "
                f"run's under {decoding}. Evaluate the control with the same options."
            )
        arms[key.control] = arm
    return arms


def import_control(run: Run, control: Mapping[ArmKey, Arm]) -> None:
    """Copy another run's arms into this one, so that it stays complete in itself."""
    for key, arm in control.items():
        drawn_as = arm.key if arm.spec.copied is None else arm.spec.copied.drawn_as
        copied = CopiedFrom(arm.identity, drawn_as)
        copy = run.add_arm(key, replace(arm.spec, copied=copied))
        for part in copy.parts_to_draw():
            copy.copy_part(part, arm)
