"""A study, drawn: what it asks is checked, its models are opened, its arms planned, then drawn.

What cannot be done is said at once: whatever needs no model before one is loaded, and the rest
before anything is sampled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.drawing.explore import PROVING, require_explorable, require_explores
from leakbound.drawing.prove import is_proved, named_runs, require_prover, why_unproved
from leakbound.drawing.queries import QueryPlan, begin, selecting
from leakbound.drawing.readings import copy_readings, read_models, require_able
from leakbound.drawing.sample import (
    draw_arm,
    finished_control,
    finished_run,
    import_control,
    plan_arm,
    require_same_plan,
    with_inputs,
)
from leakbound.drawing.search import AttackSearch, attack_questions, retained_pairs
from leakbound.drawing.stressed import StressedDrawing, require_stresses
from leakbound.engines import absolute
from leakbound.engines.addresses import require_named
from leakbound.errors import InputError
from leakbound.planning.before_drawing import show_notes, token_notes
from leakbound.planning.metrics import Wanted, choose, require_known
from leakbound.planning.models import (
    Fluency,
    ModelArm,
    model_arms,
    require_openable,
    require_there,
)
from leakbound.planning.plan import Prepared, SteeredPlan, arm_keys
from leakbound.scorers import digest, reading_of
from leakbound.scoring.score import require_same_model, require_visible
from leakbound.stats import parse_claim
from leakbound.store import CONTROL_GREEDY, GREEDY, Arm, ArmKey, QueryShares, Run
from leakbound.store.arm_key import Model
from leakbound.store.claims import Headline, LeakClaim, RecordedClaim
from leakbound.store.plan import slice_of
from leakbound.study import Attack, Rewritings, Study, Until
from leakbound.study.sampling import limit_of
from leakbound.types import Decoding, Generate, JsonObject, Measures, Progress, silent

Named = str | Path | Generate
"""A model: a folder or hub name, or an engine; of a control, a finished run too."""


@dataclass(frozen=True)
class AskedStudy:
    """A study, whom it is put to, and where its run goes: all that drawing it depends on.

    `slice`: the one that is drawn, i/N; None: all of it.
    """

    asked: Prepared
    model: Named
    control: Named | None
    out: Path
    progress: Progress = silent
    slice: str | None = None

    @cached_property
    def arms(self) -> dict[ArmKey, Decoding]:
        """The decodings asked for by the target's arms, the greedy one first."""
        decodings = self.asked.study.decodings
        return {GREEDY: decodings[0].greediest, **arm_keys(decodings)}

    @cached_property
    def finished(self) -> Path | None:
        """The folder of the run that the control is, where it is one rather than a model."""
        return finished_run(self.control)

    @cached_property
    def models(self) -> dict[Model, Named]:
        """The model, and the control where there is one: of a finished run, what that names."""
        control = self.control
        if self.finished is not None:
            control = Run.open(self.finished).model(GREEDY)
        return {"target": self.model, **({} if control is None else {"control": control})}

    @cached_property
    def target(self) -> list[ModelArm]:
        """The arms of the model under evaluation, which is opened when it is first needed."""
        return self._opened(self.model, self.arms)

    @property
    def beside(self) -> list[ModelArm]:
        """The control's arms, its model opened; none without one, or where its run is finished."""
        if self.control is None or self.finished is not None:
            return []
        return self._opened(self.control, {key.control: how for key, how in self.arms.items()})

    @property
    def queries(self) -> QueryPlan | None:
        """The plan of the queries beside the questions; None where there are none."""
        if (rewritings := self.asked.study.rewritings) is None:
            return None
        return QueryPlan(rewritings, self.asked, lambda: selecting(self.target[0]), self.progress)

    @property
    def record(self) -> JsonObject:
        """All that was asked for, as run.json holds it: models by name, found from any folder."""
        control: object = self.control
        if isinstance(self.control, str | Path):
            control = absolute(str(self.control))
        elif self.control is not None:
            control = {"python": type(self.control).__name__}
        return {**self.asked.study.to_dict(), "control": control}

    @cached_property
    def sampled(self) -> str:
        """The name of the first arm that is sampled; empty where none is."""
        return next((str(key) for key, how in self.arms.items() if not how.greedy), "")

    @property
    def headline(self) -> Headline | None:
        """The statements that form the verdict; None where nothing is scored or sampled."""
        if not (self.sampled and self.asked.scorers):
            return None
        return Headline.of(self.asked.scorers[0].name, self.sampled, self.control is not None)

    @property
    def claims(self) -> tuple[RecordedClaim, ...]:
        """The claims of the study, and that of every question whose decision ends its draws.

        Raises InputError for claims that the first scorer or decoding cannot decide.
        """
        study, scorers = self.asked.study, self.asked.scorers
        limits = [*map(limit_of, study.claims)]
        if isinstance(study.sampling, Until) and scorers[0].binary:
            limits.append((parse_claim(study.sampling.claim).limit, True))
        if study.claims and not (self.sampled and scorers and scorers[0].binary):
            raise InputError(
                f"`claim` {study.claims[0]} is about draws that leak or not, by the first scorer. "
                "Name a binary one first, such as 'rouge-l-recall>=0.5', and a temperature above 0."
            )
        return tuple(
            RecordedClaim(
                claim=LeakClaim(
                    max_leak=limit,
                    every_question=every,
                    scorer=scorers[0].name,
                    arm=self.sampled,
                    confidence=study.confidence,
                ),
                digest=digest(scorers[0]),
            )
            for limit, every in limits
        )

    def _opened(self, model: Named, arms: Mapping[ArmKey, Decoding]) -> list[ModelArm]:
        study = self.asked.study
        return model_arms(
            model, arms, self.asked.benchmark, study.settings, self.asked.crew, self.progress
        )


@dataclass(frozen=True, slots=True)
class OpenedStudy:
    """A study whose run is begun, or as it was left, and whose models are open.

    jobs: the arms to be drawn, the target's first. finished: those of a finished control's run.
    notes: on questions and limits, by the tokens of the model under evaluation.
    """

    study: AskedStudy
    wanted: Wanted
    run: Run
    jobs: Sequence[ModelArm]
    finished: Mapping[ArmKey, Arm]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PlannedStudy:
    """A study whose arms are planned, one for each job; `search`: that for the worst input."""

    opened: OpenedStudy
    arms: Sequence[Arm]
    search: AttackSearch | None


def draw_study(study: AskedStudy) -> tuple[Run, Generate]:
    """Draw every arm of a study. Returns its run, and the model under evaluation, open.

    Model and control are both loaded, and every arm planned, before anything is sampled: what
    cannot be done is said at once. Where they do not fit into memory together, evaluate the
    control first and name its run. Only the draws that select rewritings, where they are asked
    for, come before that; what metrics need is read right after it.
    """
    opened = open_study(study, check_study(study))
    draw_arms(plan_study(opened))
    return opened.run, opened.jobs[0].engine


def check_study(study: AskedStudy) -> Wanted:
    """Refuse what needs no model to be refused. Returns the metrics that are asked for."""
    request, task, drawing = study.asked.study, study.asked.benchmark, study.asked.drawing
    _ = study.claims  # refuses those that nothing decides
    require_openable(study.model, study.asked.crew)
    if study.control is not None and study.finished is None:
        require_openable(study.control, study.asked.crew)
        require_there(study.control)
    sampled = not drawing.explores and not all(how.greedy for how in study.arms.values())
    draws, control = drawing.n if sampled else 0, study.control is not None
    if study.slice is not None:
        slice_of(study.slice)  # refuses a name of none
        _require_divisible(request)
    wanted = choose(request.metrics, task, control=control, draws=draws)
    Fluency.open(wanted, task, request.settings.loading)  # refuses a classifier before reading
    if request.rewritings is not None:
        _require_inputs_fit(request.rewritings, study.arms, study.finished)
        for rewriter in request.rewritings.models:
            require_named(rewriter, request.trusted)
    if drawing.attack is not None:
        _require_attack_fits(drawing.attack, task, study.arms, study.finished)
    if drawing.prove is not None and not any(is_proved(*arm) for arm in study.arms.items()):
        raise InputError(
            "`prove` looks for rare leaks among what is drawn, and greedy decoding draws nothing. "
            "Add a temperature above 0."
        )
    for model in (study.model, study.control) if drawing.explores else ():
        require_explorable(model)
    if drawing.prove is not None:
        require_explorable(study.model, PROVING)
    require_stresses(study.asked, [*study.models.values()], study.progress)
    return wanted


def open_study(study: AskedStudy, wanted: Wanted) -> OpenedStudy:
    """Begin or find the run, then open the models; refuse what they cannot be asked.

    MixError where another study made what lies there, before a model is loaded.
    """
    request, task, queries = study.asked.study, study.asked.benchmark, study.queries
    show_notes(study.asked.notes, study.progress)
    notes = request.departures(task)
    run = begin(study.out, task, study.record, queries, notes=notes, slice=study.slice)
    for scorer in study.asked.scorers:  # no night of draws for scores that would be refused
        require_same_model(run.arms.values(), scorer)
    drawing = study.asked.drawing
    ours = study.arms | ({} if study.finished else {k.control: d for k, d in study.arms.items()})
    require_same_plan(run, ours, drawing, request.seed)
    if drawing.prove is not None:
        named_runs(run, drawing.prove.proposals)
    shares = None if queries is None else queries.shares(run.queries)
    finished: Mapping[ArmKey, Arm] = {}
    if study.finished is not None:
        finished = finished_control(run, study.finished, _with_rewritings(study.arms, shares))
        if wanted.metrics:
            require_known(finished[CONTROL_GREEDY], wanted)
    jobs = with_inputs(study.target, shares)
    jobs += with_inputs(study.beside, shares)
    require_possible(jobs, run, drawing, wanted)
    for scorer in (s for s in study.asked.scorers if reading_of(s) == "either"):
        for job in jobs:
            if getattr(job.engine, "hides_thoughts", False):
                require_visible(scorer, f"{job.model!r} hides thoughts, as a trial showed")
    notes = token_notes(jobs[0].engine, task, [*study.arms.values()])
    show_notes(notes, study.progress)
    return OpenedStudy(study, wanted, run, jobs, finished, notes)


def plan_study(opened: OpenedStudy) -> PlannedStudy:
    """Write into the run what its arms and its search will be, and what a finished control has."""
    run, study = opened.run, opened.study
    drawing, seed = study.asked.drawing, study.asked.study.seed
    arms = [plan_arm(run, job, drawing, seed) for job in opened.jobs]
    run.remember_study(study.record, study.headline, study.claims)
    run.remember_notes([*study.asked.notes, *opened.notes])
    import_control(run, opened.finished)
    if opened.finished and opened.wanted.metrics:
        copy_readings(opened.finished[CONTROL_GREEDY], run.arms[str(CONTROL_GREEDY)])
    return PlannedStudy(opened, arms, _attack_search(run, study))


def draw_arms(planned: PlannedStudy) -> None:
    """Read what metrics need, draw every arm, then search for the worst input."""
    opened, study = planned.opened, planned.opened.study
    pairs = list(zip(planned.arms, opened.jobs, strict=True))
    stressed = StressedDrawing(
        opened.run,
        study.asked,
        arms={key: how for key, how in study.arms.items() if not how.greedy},
        models=study.models,
        opened={job.key.model: job for job in opened.jobs},
        finished=study.finished,
        progress=study.progress,
    )
    stressed.check()
    read_models(pairs, opened.wanted, study.progress)
    for arm, job in pairs:
        draw_arm(arm, job, study.asked.drawing, study.progress)
    stressed.draw()
    if planned.search is not None:
        control = next((job for job in opened.jobs if job.key.is_control), None)
        attack_questions(opened.run, planned.search, control, study.asked.drawing)


def _attack_search(run: Run, study: AskedStudy) -> AttackSearch | None:
    """The search for the worst input, recorded with the run; None where there is none."""
    if (attack := study.asked.drawing.attack) is None:
        return None
    decodings, job = attack.decodings([*study.arms.values()]), study.target[0]
    why = why_unproved(job.engine, decodings, study.asked.drawing.steering)
    if why:
        run.notes.append(f"the attack searches by draws alone, which tell no rare leaks: {why}")
    search = AttackSearch(attack.budget, study.asked, job, decodings, not why, study.progress)
    run.settle_attack(search.record(run.record.inputs))
    return search


def _with_rewritings(
    arms: Mapping[ArmKey, Decoding], shares: QueryShares | None
) -> dict[ArmKey, Decoding]:
    """These arms, and the ones that ask rewritings too."""
    also = {key.with_rewritings: how for key, how in arms.items() if shares and not how.greedy}
    return {**arms, **also}


def require_possible(
    jobs: Sequence[ModelArm], run: Run, drawing: SteeredPlan, wanted: Wanted
) -> None:
    """Refuse what a model cannot be asked, once it is loaded and before anything is drawn."""
    for job in jobs:
        job.engine.check(run.queries, job.decoding)
        if isinstance(job.engine, Measures):
            job.engine.measure(run.queries)
        require_able(job.engine, wanted)
        if drawing.explores and not job.decoding.greedy:
            require_explores(job.engine, str(job.key), job.decoding)
    if drawing.prove is not None:
        for job in jobs:
            if is_proved(job.key, job.decoding):
                require_prover(job.engine, str(job.key), job.decoding)


def _require_divisible(study: Study) -> None:
    """Refuse what depends on more questions than a slice draws, or on a model that rewrites."""
    inputs = study.rewritings
    named = {
        "--attack": study.attack,
        "--prove": study.prove,
        "--metrics": study.metrics,
        "--under": study.stress,
        "--until": isinstance(study.sampling, Until),
        "--inputs by a model": inputs and (inputs.models or inputs.ids or inputs.embedder),
    }
    for option in (option for option, value in named.items() if value):
        raise InputError(
            f"`{option}` is for all questions at a time, and --questions draws a slice. Leave one "
            "of them out. --attack, --prove, --metrics and --under can follow on the merged run: "
            "run the command without --questions, and with that run as --out."
        )


def _require_inputs_fit(
    rewritings: Rewritings, arms: Mapping[ArmKey, Decoding], control: Path | None
) -> None:
    """Refuse what rewritings cannot be combined with."""
    if all(how.greedy for how in arms.values()):
        raise InputError(
            "`inputs` share the draws of a question among its queries, and greedy decoding draws "
            "none. Add a temperature above 0."
        )
    if rewritings.ids and control is not None:
        raise InputError(
            "`ids` selects inputs by the model under evaluation, so a finished control run was "
            "asked others. Name the control model itself, and it is asked the same."
        )


def _require_attack_fits(
    attack: Attack, task: Benchmark, arms: Mapping[ArmKey, Decoding], control: Path | None
) -> None:
    """Refuse what a search for worst-case inputs cannot be combined with, or do without."""
    arm_keys(attack.decodings(list(arms.values())))
    retained_pairs(task)
    if control is not None:
        raise InputError(
            "`attack` asks the control what it finds for the model under evaluation, and a "
            "finished control run was asked others. Name the control model itself."
        )
