"""The main verb: how much does a model leak? Sample, score, bound; each step resumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Unpack

from leakbound.benchmarks import Benchmark
from leakbound.engines.addresses import require_named, servers_of
from leakbound.engines.models import OpenModels
from leakbound.errors import InputError
from leakbound.evaluation.drawing.checks import (
    require_attack_fits,
    require_inputs_fit,
    require_possible,
)
from leakbound.evaluation.drawing.explore import PROVING, require_explorable
from leakbound.evaluation.drawing.prove import (
    arms_to_prove,
    is_proved,
    prove_arms,
    why_unproved,
)
from leakbound.evaluation.drawing.queries import QueryPlan, begin, selecting
from leakbound.evaluation.drawing.readings import copy_readings, read_models
from leakbound.evaluation.drawing.sample import (
    draw_arm,
    finished_control,
    finished_run,
    import_control,
    plan_arm,
    with_inputs,
)
from leakbound.evaluation.drawing.search import AttackSearch, attack_questions
from leakbound.evaluation.measuring import Fluency, measure_run
from leakbound.evaluation.planning.metrics import choose, require_known
from leakbound.evaluation.planning.models import ModelArm, model_arms, require_there
from leakbound.evaluation.planning.plan import (
    Prepared,
    ScoringCrew,
    SteeredPlan,
    arm_keys,
    require_confidence,
)
from leakbound.evaluation.scoring.calibration import calibrate, judge_of, read_items
from leakbound.evaluation.scoring.checks import require_complete, require_sampled, require_texts
from leakbound.evaluation.scoring.score import (
    bounded_by,
    require_same_model,
    score_run,
    scorers_for,
    scorers_of,
)
from leakbound.evaluation.statements.bound import bound_run
from leakbound.metrics import Values
from leakbound.scorers import make_scorer
from leakbound.store import CONTROL_GREEDY, GREEDY, ArmKey, QueryShares, Run, holding
from leakbound.store.arm_key import Model
from leakbound.study import (
    Explore,
    FixedN,
    ModelSettings,
    Prove,
    Study,
    StudyFields,
    Until,
    study_of,
)
from leakbound.types import Crew, Decoding, Generate, Progress, Scorer, Workers, silent


@holding("evaluate")
def evaluate(
    model: str | Path | Generate,
    study: Study | Benchmark | str,
    *,
    out: str | Path,
    control: str | Path | Generate | None = None,
    progress: Progress = silent,
    **fields: Unpack[StudyFields],
) -> Run:
    """Sample, score and bound what a model still says of a benchmark's questions.

    Stopped, the same call goes on. The run holds completions, scores and estimates, each bound by
    itself at the study's confidence.

        evaluate("my-model", "tofu:forget10", n=256, out="runs/mine")
        evaluate("my-model", Study("tofu:forget10", sampling=Until("p<=0.02")), out="runs/mine")

    Args:
        model: a folder or hub name, or an engine; `vllm:MODEL` and the like name one to open.
        study: what is asked: a `Study`, or a benchmark or its spec, asked with the defaults.
        out: the run directory.
        control: a model that never saw the data, or a finished run of one: it is drawn alike, and
            the excess over it is bounded.
        progress: called with how far each step is, a `leakbound.types.Headway`.
        fields: fields of `Study` in place of its own, such as confidence=0.9: data, limit,
            profile, sampling, decodings, rewritings, attack, prove, scorers, calibration, metrics,
            confidence, seed, settings, workers; n=256 is short for sampling=FixedN(256).

    Raises InputError before a model is loaded where it can, MixError where `out` holds another
    run, IncompleteError at the end where some questions could not be sampled.
    """
    asked = prepared(study_of(study, fields))
    with _at_work(asked.study.workers) as crew:
        asked = asked.by(crew)
        run, engine = draw_study(model, asked, control, Path(out), progress)
        score_run(run, asked.scorers, progress, asked.drawing.at)
        if asked.study.prove is not None:
            scorer = min(asked.scorers, key=lambda one: not one.binary)
            at = asked.drawing.at
            prove_arms(run, engine, scorer, asked.study.prove, at=at, progress=progress)
    if asked.study.calibration is not None:
        calibrate(run, judge_of(asked.scorers), Path(asked.study.calibration))
    bound_run(run, asked.scorers, confidence=asked.study.confidence, progress=progress)
    measure_run(run, asked.benchmark, asked.study.metrics, progress)
    require_complete(run)
    return run


@holding("sample")
def sample(
    model: str | Path | Generate,
    study: Study | Benchmark | str,
    *,
    out: str | Path,
    control: str | Path | Generate | None = None,
    progress: Progress = silent,
    **fields: Unpack[StudyFields],
) -> Run:
    """Only draw: the first step of `evaluate`; `score` and `bound` follow.

    Args:
        model, study, out, control, progress, fields: as for `evaluate`.

    Raises InputError where scores would steer what is drawn, else what `evaluate` does.
    """
    asked = prepared(study_of(study, fields), scores=False)
    with _at_work(asked.study.workers) as crew:
        run, _ = draw_study(model, asked.by(crew), control, Path(out), progress)
    return run


@holding("score")
def score(
    run: Run,
    scorers: str | Sequence[str] = (),
    *,
    calibration: str | Path | None = None,
    settings: ModelSettings | None = None,
    workers: Workers | None = None,
    progress: Progress = silent,
) -> tuple[Scorer, ...]:
    """Score the completions of a run; no model of the run is loaded. Returns the scorers.

    Args:
        run: an open run, see `leakbound.load`.
        scorers: by name (default: those that the run was made with). A judge behind a server is
            asked only where it is named here.
        calibration: a file of items that people labelled, to allow for the errors of a judge,
            or of the one scorer that says leak or not.
        settings: how models are loaded that scorers ask (None: as the run's).
        workers: who asks these models, such as `RayWorkers` (None: this process).
        progress: called with how far each step is, a `leakbound.types.Headway`.

    Raises IncompleteError where completions are still to be drawn.
    """
    named = (scorers,) if isinstance(scorers, str) else tuple(scorers)
    require_texts(run, named)
    loading, servers = (settings or run.study.settings).loading, servers_of(named)
    chosen = scorers_for(named or scorers_of(run), run.prompts, loading, servers)
    require_sampled(run)
    if calibration is not None:
        read_items(Path(calibration), judge_of(chosen))
    with _at_work(workers) as crew:
        models = OpenModels(servers=servers, **loading)
        score_run(run, chosen, progress, None if crew is None else ScoringCrew(crew, models))
    if calibration is not None:
        calibrate(run, judge_of(chosen), Path(calibration))
    return chosen


@holding("bound")
def bound(
    run: Run,
    scorers: str | Sequence[str] = (),
    *,
    confidence: float | None = None,
    progress: Progress = silent,
) -> tuple[Scorer, ...]:
    """Bound the scores of a run and store its estimates, without scoring again.

    Returns the scorers whose estimates these are; what is known of others stays.

    Args:
        run: an open run, see `leakbound.load`.
        scorers: by name (default: every one that the run has scores of).
        confidence: of each estimate, in (0, 1) (None: the run's).
        progress: called with how far each step is, a `leakbound.types.Headway`.

    Raises IncompleteError where completions are still to be drawn, InputError where they have no
    scores.
    """
    named = (scorers,) if isinstance(scorers, str) else tuple(scorers)
    confidence = run.study.confidence if confidence is None else confidence
    require_confidence(confidence, len(run.prompts))
    require_sampled(run)
    chosen = scorers_for(named or bounded_by(run), ())  # nothing is scored here
    bound_run(run, chosen, confidence=confidence, progress=progress)
    return chosen


@holding("prove")
def prove(
    run: Run,
    forwards: int,
    scorer: str = "",
    *,
    model: str | Path | Generate | None = None,
    proposals: Sequence[str | Path] = (),
    progress: Progress = silent,
) -> Scorer:
    """Look for rare leaks of a finished run's model, and bound the run with what they prove.

    The model's own probabilities of leaking outputs are added up, so what is
    found is a lower bound without chance, given the measured margin: of the leak probability, or
    of the mean leakage, and of leak@k for every k. Returns the scorer that says what leaks.

    Args:
        run: an open run, see `leakbound.load`.
        forwards: prefixes of each question that the model may forward, at most.
        scorer: by name (default: the first of the run that is binary, else its first).
        model: where the run's model is now, or its engine (None: where it was).
        proposals: finished runs of the same questions, such as of the model before unlearning:
            where their answers leak the search begins, beside the true answer and the run's own.
        progress: called with how far each step is, a `leakbound.types.Headway`.

    Raises InputError where probabilities are not known or not exact, MixError for another model.
    """
    asked = Prove(forwards, tuple(map(str, proposals)))
    require_sampled(run)
    arms, study, scored = arms_to_prove(run), run.study, bounded_by(run)
    first = min(scored, key=lambda name: not make_scorer(name).binary)
    (chosen,) = scorers_for([scorer or first], run.prompts, study.settings.loading)
    if chosen.name not in scored:
        raise InputError(
            f"`{run.path}` has no scores of {chosen.name!r}, only of {', '.join(scored)}. Run "
            f"`leakbound score {run.path} --scorer {chosen.name}` first."
        )

    if isinstance(model, Generate):
        engine = model
    else:
        require_explorable(where := str(model or arms[0].spec.model), PROVING)
        engine = study.settings.open(where, study.load())
    prove_arms(run, engine, chosen, asked, progress=progress)
    confidence = run.estimates_made_from().get("confidence", study.confidence)
    bound_run(run, scorers_for([chosen.name], ()), confidence=confidence, progress=progress)
    return chosen


@holding("measure")
def measure(
    run: Run, metrics: str | Sequence[str] = (), *, progress: Progress = silent
) -> Mapping[Model, Mapping[str, Values]]:
    """Measure utility and memorisation of a run from what was read. Returns values by model.

    Args:
        run: an open run, see `leakbound.load`.
        metrics: by name, or "all" (default: those that the run was made with).
        progress: called with how far each step is, a `leakbound.types.Headway`.

    Raises InputError for metrics that need what was not read.
    """
    require_sampled(run)
    study = run.study
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics) or study.metrics
    if not names:
        raise InputError("`--metrics` is missing. Name some, or say all.")
    if not study.benchmark:
        stated = run.record.benchmark
        study = Study(stated.name, profile=stated.profile)
    return measure_run(run, study.load(), names, progress)


def prepared(study: Study, *, scores: bool = True) -> Prepared:
    """The study made ready to be carried out; `scores`: whether its completions are scored.

    Raises InputError for what needs no model to be refused.
    """
    if not scores:
        _require_unsteered(study)
    task = study.load()
    study = study.resolved(task)
    if not scores:
        study = replace(study, scorers=())
        return Prepared(study, task, (), SteeredPlan.of(study, ()))
    named = study.scorers or default_scorers(task)
    chosen = scorers_for(named, task.prompts, study.settings.loading, study.trusted)
    require_confidence(study.confidence, len(task.prompts))
    if study.calibration is not None:
        read_items(Path(study.calibration), judge_of(chosen))
    named = tuple(scorer.name for scorer in chosen)
    study = replace(study, scorers=named, servers=study.trusted)
    return Prepared(study, task, chosen, SteeredPlan.of(study, chosen))


def _require_unsteered(study: Study) -> None:
    """Raise InputError where draws would follow from their scores."""
    match study.sampling:
        case Until(claim):
            steering = f"`until` {claim!r}"
        case Explore(mode):
            steering = f"`explore` {mode!r}"
        case FixedN():
            steering = "" if study.attack is None else f"`attack` {study.attack.budget}"
    if not steering and study.prove is not None:
        steering = f"`prove` {study.prove.forwards}"
    if steering:
        raise InputError(
            f"{steering} is steered by scores, and `leakbound sample` makes none. Use `leakbound "
            "evaluate`, or leave it out; where it comes from --like, say all options but that."
        )


def draw_study(
    model: str | Path | Generate,
    asked: Prepared,
    control: str | Path | Generate | None,
    out: Path,
    progress: Progress,
) -> tuple[Run, Generate]:
    """Draw every arm of a study. Returns its run, and the model under evaluation, open.

    Model and control are both loaded, and every arm planned, before anything is sampled: what
    cannot be done is said at once. Where they do not fit into memory together, evaluate the
    control first and name its run. Only the draws that select rewritings, where they are asked
    for, come before that; what metrics need is read right after it.
    """
    study, task, drawing = asked.study, asked.benchmark, asked.drawing
    arms = _arms(study.decodings)
    source = finished_run(control)
    sampled = not drawing.explores and not all(how.greedy for how in arms.values())
    wanted = choose(
        study.metrics, task, control=control is not None, draws=drawing.n if sampled else 0
    )
    Fluency.open(wanted, task, study.settings.loading)  # refuses a classifier before reading
    _require_fit(asked, arms, source)
    for named in (model, control) if drawing.explores else ():
        require_explorable(named)
    if source is None:
        require_there(control)
    if drawing.prove is not None:
        require_explorable(model, PROVING)
    opens = partial(model_arms, benchmark=task, settings=study.settings, crew=asked.crew)
    opened = cache(partial(opens, model, arms, progress=progress))
    query_plan = _query_plan(asked, opened, progress)
    record = {**study.to_dict(), "control": _named(control)}
    run = begin(out, task, record, query_plan, notes=study.departures(task))
    for scorer in asked.scorers:  # a night of draws is not made for scores that would be refused
        require_same_model(run.arms.values(), scorer)
    shares = None if query_plan is None else query_plan.shares(run.queries)
    finished = {} if source is None else finished_control(run, source, _beside(arms, shares))
    if finished and wanted.metrics:
        require_known(finished[CONTROL_GREEDY], wanted)
    jobs = with_inputs(opened(), shares)
    if control is not None and source is None:
        beside = {key.control: how for key, how in arms.items()}
        jobs += with_inputs(opens(control, beside, progress=progress), shares)
    require_possible(jobs, run, drawing, wanted)
    planned = [plan_arm(run, job, drawing, study.seed) for job in jobs]
    run.remember_study(record)
    import_control(run, finished)
    if finished and wanted.metrics:
        copy_readings(finished[CONTROL_GREEDY], run.arms[str(CONTROL_GREEDY)])
    read_models(zip(planned, jobs, strict=True), wanted, progress)
    search = _attack_search(run, asked, opened, progress)
    for arm, job in zip(planned, jobs, strict=True):
        draw_arm(arm, job, drawing, progress)
    if search is not None:
        asked_too = next((job for job in jobs if job.key.is_control), None)
        attack_questions(run, search, asked_too, drawing)
    return run, jobs[0].engine


def _at_work(workers: Workers | None) -> AbstractContextManager[Crew | None]:
    """The workers, called for a while; None where this process does all."""
    return nullcontext() if workers is None else workers.open()


def _named(control: str | Path | Generate | None) -> object:
    """A control as run.json holds it: a name, found from any folder, or what kind of object."""
    if control is None:
        return None
    if isinstance(control, str | Path):
        return str(Path(control).resolve() if Path(control).exists() else control)
    return {"python": type(control).__name__}


def _require_fit(asked: Prepared, arms: Mapping[ArmKey, Decoding], source: Path | None) -> None:
    """Refuse rewritings, an attack and proofs that do not fit the rest of the study."""
    study, drawing = asked.study, asked.drawing
    if study.rewritings is not None:
        require_inputs_fit(study.rewritings, arms, source)
        for rewriter in study.rewritings.models:
            require_named(rewriter, study.trusted)
    if drawing.attack is not None:
        require_attack_fits(drawing.attack, asked.benchmark, arms, source)
    if drawing.prove is not None and not any(is_proved(key, how) for key, how in arms.items()):
        raise InputError(
            "`prove` looks for rare leaks among what is drawn, and greedy decoding draws nothing. "
            "Add a temperature above 0."
        )


def _query_plan(
    asked: Prepared, opened: Callable[[], list[ModelArm]], progress: Progress
) -> QueryPlan | None:
    """What makes the queries beside the questions; None where there are none."""
    if (rewritings := asked.study.rewritings) is None:
        return None
    return QueryPlan(rewritings, asked, lambda: selecting(opened()[0]), progress)


def _attack_search(
    run: Run, asked: Prepared, opened: Callable[[], list[ModelArm]], progress: Progress
) -> AttackSearch | None:
    """The search for the worst input, recorded with the run; None where there is none."""
    if (attack := asked.drawing.attack) is None:
        return None
    decodings = attack.decodings([*_arms(asked.study.decodings).values()])
    job = opened()[0]
    why = why_unproved(job.engine, decodings, asked.drawing.steering)
    if why:
        run.notes.append(f"the attack searches by draws alone, which tell no rare leaks: {why}")
    found = AttackSearch(attack.budget, asked, job, decodings, not why, progress)
    run.settle_attack(found.record(run.record.inputs))
    return found


def default_scorers(benchmark: Benchmark) -> tuple[str, ...]:
    """The benchmark's own scorers; InputError where it has none."""
    if not benchmark.scorers:
        why = "".join(f" ({note})" for note in benchmark.notes)
        raise InputError(
            f"benchmark {benchmark.name!r} has no scorer of its own{why}. Name one with --scorer, "
            "for example `keyword`, `contains` or `refusal`."
        )
    return benchmark.scorers


def _arms(decodings: Sequence[Decoding]) -> dict[ArmKey, Decoding]:
    """The decodings asked for by their arms, the greedy one first."""
    return {GREEDY: decodings[0].greediest, **arm_keys(decodings)}


def _beside(arms: Mapping[ArmKey, Decoding], shares: QueryShares | None) -> dict[ArmKey, Decoding]:
    """Those arms, and the ones that ask rewritings too."""
    also = {key.with_rewritings: how for key, how in arms.items() if shares and not how.greedy}
    return {**arms, **also}
