"""The main verb: how much does a model leak? Sample, score, bound; each step resumes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.engines.servers import require_named, servers_of
from leakbound.errors import InputError
from leakbound.evaluation.drawing.attack import attack_questions
from leakbound.evaluation.drawing.begin import begin
from leakbound.evaluation.drawing.checks import (
    require_attack_fits,
    require_inputs_fit,
    require_possible,
)
from leakbound.evaluation.drawing.queries import QueryPlan, selecting
from leakbound.evaluation.drawing.readings import copy_readings, read_models
from leakbound.evaluation.drawing.sample import (
    draw_arm,
    finished_control,
    finished_run,
    import_control,
    plan_arm,
    with_inputs,
)
from leakbound.evaluation.drawing.search import AttackSearch
from leakbound.evaluation.scoring.calibration import calibrate, judge_of, read_items
from leakbound.evaluation.scoring.checks import require_complete
from leakbound.evaluation.scoring.readings import require_known
from leakbound.evaluation.scoring.score import score_run, scorers_for
from leakbound.evaluation.statements.bound import bound_run
from leakbound.evaluation.statements.fluency import Fluency
from leakbound.evaluation.statements.metrics import measure_run
from leakbound.evaluation.study.attack import Attack
from leakbound.evaluation.study.checks import require_confidence
from leakbound.evaluation.study.metrics import choose
from leakbound.evaluation.study.names import arm_keys
from leakbound.evaluation.study.plan import Drawing
from leakbound.evaluation.study.rewritings import Inputs
from leakbound.evaluation.study.settings import ModelArm, ModelSettings
from leakbound.evaluation.study.study import CONFIDENCE, Study, words
from leakbound.store import CONTROL_GREEDY, GREEDY, ArmKey, Plan, QueryShares, Run, holding
from leakbound.types import Decoding, Generate, Progress, Scorer, silent


def evaluate(
    model: str | Path | Generate,
    benchmark: str | Benchmark,
    *,
    out: str | Path,
    n: int | None = None,
    until: str | None = None,
    explore: str | None = None,
    budget: int | None = None,
    decoding: Decoding | Sequence[Decoding] | None = None,
    scorers: str | Sequence[str] = (),
    calibration: str | Path | None = None,
    inputs: Inputs | None = None,
    attack: Attack | None = None,
    metrics: str | Sequence[str] = (),
    control: str | Path | Generate | None = None,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    settings: ModelSettings | None = None,
    progress: Progress = silent,
) -> Run:
    """Sample, score and bound `model` on the evaluated questions of `benchmark`.

    n draws of every question under each decoding (default: 1,024 at T = 1, nothing truncated, to
    the benchmark's length, or what the benchmark's profile says), and the greedy answer beside
    them. `control`, a model that never saw the forget set or a finished run of one, is drawn
    alike, and the excess over it bounded. Scores and estimates go into the run directory `out`;
    the same call goes on where it was stopped, and run.json says all that was asked for.

    With `until`, such as "p<=0.02" or "mean<=0.1", a question of `model` is drawn only until the
    first scorer's draws decide that claim at `confidence`, n times at most; its bounds are then
    those that hold at any look. With `explore` ("exact", "hybrid" or "auto") the likeliest outputs
    are explored instead, `budget` forwards a question in all (default: 2,000), and no `n` may be
    given: masses are known, given the measured margin, and what they leave is drawn, unless
    "exact".

    With `inputs`, rewritings of every question are asked too: beside each sampled arm stands one
    that shares n outputs a question among all its queries. With `attack`, the input that leaks
    most by the first scorer is searched for each question, and n fresh draws bound what it leaks.
    With `metrics`, names of `METRICS` or "all" that the benchmark can have, what they need is read
    and answered first, in one pass a model, and their values go into `utility.json`.

    With `calibration`, a file of items that people labelled (see `read_items`), the leak
    probability that a judge sees is also bounded with the judge's own errors allowed for.

    Raises InputError before a model is loaded where it can, MixError where `out` holds another
    run, IncompleteError at the end where some questions could not be sampled.
    """
    task = load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    study = Study(
        n=n,
        until=until,
        explore=explore,
        budget=budget,
        decoding=_decodings(decoding),
        scorers=words(scorers),
        calibration=calibration,
        inputs=inputs,
        attack=attack,
        metrics=words(metrics),
        control=control,
        seed=seed,
        confidence=confidence,
        settings=settings or ModelSettings(),
        servers=servers_of(words(scorers), () if inputs is None else inputs.models),
    )
    run = evaluate_study(model, task, study, out=out, progress=progress)
    require_complete(run)
    return run


@holding("evaluate")
def evaluate_study(
    model: str | Path | Generate,
    task: Benchmark,
    study: Study,
    *,
    out: str | Path,
    progress: Progress = silent,
) -> Run:
    """`evaluate` for a study, also where some questions could not be sampled: see its `failures`.

    Raises what `evaluate` does but for that.
    """
    chosen, study, drawing = steered(task, study)
    run = draw_study(model, task, study, drawing, Path(out), progress)
    score_run(run, chosen, progress)
    if study.calibration is not None:
        calibrate(run, judge_of(chosen), Path(study.calibration))
    bound_run(run, chosen, confidence=study.confidence, progress=progress)
    measure_run(run, task, study.metrics, progress)
    return run


def steered(task: Benchmark, study: Study) -> tuple[tuple[Scorer, ...], Study, Drawing]:
    """The scorers of a study, the study with all of it said, and how it is drawn.

    Raises InputError for what needs no model to be refused.
    """
    study = study.resolved(task)
    named = study.scorers or default_scorers(task)
    chosen = scorers_for(named, task.prompts, study.settings.loading, study.servers)
    require_confidence(study.confidence, len(task.prompts))
    if study.calibration is not None:
        read_items(Path(study.calibration))
        judge_of(chosen)
    study = replace(study, scorers=tuple(scorer.name for scorer in chosen))
    return chosen, study, study.drawing(chosen)


def sample(
    model: str | Path | Generate,
    benchmark: str | Benchmark,
    *,
    out: str | Path,
    n: int | None = None,
    decoding: Decoding | Sequence[Decoding] | None = None,
    inputs: Inputs | None = None,
    metrics: str | Sequence[str] = (),
    control: str | Path | Generate | None = None,
    seed: int = 0,
    settings: ModelSettings | None = None,
    progress: Progress = silent,
) -> Run:
    """The first step of `evaluate`: the completions of every arm, with no score of them.

    Raises what `evaluate` does before it scores.
    """
    task = load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    study = Study(
        n=n,
        decoding=_decodings(decoding),
        inputs=inputs,
        metrics=words(metrics),
        control=control,
        seed=seed,
        settings=settings or ModelSettings(),
        servers=servers_of((), () if inputs is None else inputs.models),
    )
    return sample_study(model, task, study, out=out, progress=progress)


@holding("sample")
def sample_study(
    model: str | Path | Generate,
    task: Benchmark,
    study: Study,
    *,
    out: str | Path,
    progress: Progress = silent,
) -> Run:
    """`sample` for a study; InputError where scores would steer what is drawn."""
    study, drawing = unsteered(task, study)
    return draw_study(model, task, study, drawing, Path(out), progress)


def unsteered(task: Benchmark, study: Study) -> tuple[Study, Drawing]:
    """A study without scorers, with all of it said, and how it is drawn.

    Raises InputError where draws would follow from their scores.
    """
    for name in ("until", "explore", "attack"):
        value = getattr(study, name)
        if value is not None:
            raise InputError(
                f"`{name}` {value!r} is steered by scores, and `leakbound sample` makes none. Use "
                "`leakbound evaluate`, or leave it out; where it comes from --like, say all "
                "options but that."
            )
    study = study.resolved(task)
    return study, study.drawing(())


def draw_study(
    model: str | Path | Generate,
    task: Benchmark,
    study: Study,
    drawing: Drawing,
    out: Path,
    progress: Progress,
) -> Run:
    """Draw every arm of a resolved study.

    Model and control are both loaded, and every arm planned, before anything is sampled: what
    cannot be done is said at once. Where they do not fit into memory together, evaluate the
    control first and name its run. Only the draws that select `inputs`, where they are asked
    for, come before that; what `metrics` need is read right after it.
    """
    settings, seed, control = study.settings, study.seed, study.control
    Plan.of(drawing.n)  # refuses an n below 1
    arms = _arms(study.decoding)
    source = finished_run(control)
    sampled = drawing.exploring is None and not all(how.greedy for how in arms.values())
    wanted = choose(study.metrics, task, control=control is not None, draws=sampled)
    Fluency.open(wanted, task, settings.loading)  # refuses a classifier before anything is read
    _require_fit(task, study, drawing, arms, source)
    opened = cache(partial(settings.jobs, model, arms, task, progress))
    asking = _asking(study, drawing.n, opened, progress)
    run = begin(out, task, study.to_dict(), asking, notes=study.departures(task))
    sharing = None if asking is None else asking.sharing(run.queries)
    finished = {} if source is None else finished_control(run, source, _beside(arms, sharing))
    if finished and wanted.metrics:
        require_known(finished[CONTROL_GREEDY], wanted)
    jobs = with_inputs(opened(), sharing)
    if control is not None and source is None:
        beside = {key.control: how for key, how in arms.items()}
        jobs += with_inputs(settings.jobs(control, beside, task, progress), sharing)
    require_possible(jobs, run, drawing, wanted)
    planned = [plan_arm(run, job, drawing, seed) for job in jobs]
    run.remember("study", study.to_dict())
    import_control(run, finished)
    if finished and wanted.metrics:
        copy_readings(finished[CONTROL_GREEDY], run.arms[str(CONTROL_GREEDY)])
    read_models(zip(planned, jobs, strict=True), wanted, progress)
    hunt = _hunt(run, task, study, drawing, opened, progress)
    for arm, job in zip(planned, jobs, strict=True):
        draw_arm(arm, job, drawing, progress)
    if hunt is not None:
        asked_too = next((job for job in jobs if job.key.is_control), None)
        attack_questions(run, hunt, asked_too, drawing)
    return run


def _require_fit(
    task: Benchmark,
    study: Study,
    drawing: Drawing,
    arms: Mapping[ArmKey, Decoding],
    source: Path | None,
) -> None:
    """Refuse inputs and an attack that do not fit the rest of the study."""
    if study.inputs is not None:
        require_inputs_fit(study.inputs, drawing, arms, source)
        for rewriter in study.inputs.models:
            require_named(rewriter, study.servers)
    if drawing.search is not None:
        require_attack_fits(drawing.search.attack, task, arms, source)


def _asking(
    study: Study, n: int, opened: Callable[[], list[ModelArm]], progress: Progress
) -> QueryPlan | None:
    """What makes the queries beside the questions; None where there are none."""
    if study.inputs is None:
        return None
    return QueryPlan(
        inputs=study.inputs,
        n=n,
        seed=study.seed,
        target=lambda: selecting(opened()[0]),
        loading=study.settings.loading,
        servers=study.servers,
        progress=progress,
    )


def _hunt(
    run: Run,
    task: Benchmark,
    study: Study,
    drawing: Drawing,
    opened: Callable[[], list[ModelArm]],
    progress: Progress,
) -> AttackSearch | None:
    """The search for the worst input, recorded with the run; None where there is none."""
    if drawing.search is None:
        return None
    hunt = AttackSearch(
        search=drawing.search,
        benchmark=task,
        job=opened()[0],
        decodings=drawing.search.attack.decodings([*_arms(study.decoding).values()]),
        template=study.settings.template or task.template,
        seed=study.seed,
        progress=progress,
    )
    run.settle("attack", hunt.to_dict(run))
    return hunt


def default_scorers(benchmark: Benchmark) -> tuple[str, ...]:
    """The benchmark's own scorers; InputError where it has none."""
    if not benchmark.scorers:
        why = "".join(f" ({note})" for note in benchmark.notes)
        raise InputError(
            f"benchmark {benchmark.name!r} has no scorer of its own{why}. Name one with --scorer, "
            "for example `keyword`, `contains` or `refusal`."
        )
    return benchmark.scorers


def _decodings(decoding: Decoding | Sequence[Decoding] | None) -> tuple[Decoding, ...]:
    if decoding is None:
        return ()
    return (decoding,) if isinstance(decoding, Decoding) else tuple(decoding)


def _arms(decodings: Sequence[Decoding]) -> dict[ArmKey, Decoding]:
    """The decodings asked for by their arms, the greedy one first."""
    greedy = replace(decodings[0], temperature=0.0, top_k=0, top_p=1.0, adaptive_temperature=None)
    return {GREEDY: greedy, **arm_keys(decodings)}


def _beside(arms: Mapping[ArmKey, Decoding], sharing: QueryShares | None) -> dict[ArmKey, Decoding]:
    """Those arms, and the ones that ask rewritings too."""
    also = {key.with_rewritings: how for key, how in arms.items() if sharing and not how.greedy}
    return {**arms, **also}
