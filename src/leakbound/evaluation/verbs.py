"""The main functions: `evaluate` and its steps `sample`, `score`, `bound`; `prove`, `measure`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Unpack

from leakbound.benchmarks import Benchmark, load_benchmark
from leakbound.bounding.bound import bound_run
from leakbound.bounding.control_questions import OTHERS
from leakbound.drawing.explore import PROVING, require_explorable
from leakbound.drawing.plans import Evaluation
from leakbound.drawing.prove import arms_to_prove, prove_arms
from leakbound.drawing.stressed import spelt_out
from leakbound.drawing.study import draw_study
from leakbound.engines.addresses import servers_of
from leakbound.engines.models import OpenModels
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.evaluation.measuring import measure_run
from leakbound.metrics import Values
from leakbound.planning.before_drawing import (
    add_notes,
    needs_model,
    question_notes,
    reference_notes,
    scorer_notes,
)
from leakbound.planning.plan import (
    Prepared,
    ScoringCrew,
    by_coin,
    require_confidence,
)
from leakbound.scorers import make_scorer, specs_of
from leakbound.scoring.calibration import calibrate, judge_of, read_items
from leakbound.scoring.checks import require_complete, require_sampled, require_texts
from leakbound.scoring.score import (
    bounded_by,
    in_reading_of,
    score_run,
    scorers_for,
    scorers_of,
    slug,
)
from leakbound.store import Run, holding, read_accepted, write_accepted
from leakbound.store.arm_key import Model
from leakbound.store.clock import TIMES, Clock, written
from leakbound.store.identity import require_same_study
from leakbound.store.plan import slice_of
from leakbound.study import (
    Explore,
    ModelSettings,
    Prove,
    Study,
    StudyFields,
    Until,
    study_of,
)
from leakbound.types import Crew, Generate, Progress, Scorer, Workers, counted, silent


@holding("evaluate")
def evaluate(
    model: str | Path | Generate,
    study: Study | Benchmark | str,
    *,
    out: str | Path,
    control: str | Path | Generate | None = None,
    questions: str | None = None,
    progress: Progress = silent,
    **fields: Unpack[StudyFields],
) -> Run:
    """Sample, score and bound a model's answers to the questions of a benchmark.

    If the call is stopped, repeat it to resume. The run has completions, scores and estimates. The
    interval of each estimate is valid individually, with the study's confidence.

        evaluate("my-model", "tofu:forget10", n=256, out="runs/mine")
        evaluate("my-model", Study("tofu:forget10", sampling=Until("p<=0.02")), out="runs/mine")

    Args:
        model: a folder or hub name, an engine, or a name with its engine, such as `vllm:MODEL`. If
            the model's recipe records a coin (a random choice of the taught subjects), the
            questions are about the taught subjects. Then the questions about the other subjects are
            control questions.
        study: a `Study`; or a benchmark, or the spec of a benchmark, for a study with default
            settings.
        out: the run directory.
        control: a model that never saw the data, or a finished run of such a model. The control is
            sampled in the same way as the model, and the excess over the control is bounded (None:
            no excess is bounded).
        questions: "i/N" to draw only the i-th of N slices of the study. `merge` joins the slices,
            then scores and bounds them (None: all questions).
        progress: called with the progress of each step, a `leakbound.types.Headway`.
        fields: fields of `Study` that replace fields of `study`, such as confidence=0.9. They are
            data, limit, profile, sampling, decodings, rewritings, attack, prove, stress, scorers,
            claims, control_questions, allow_unmatched, check_scorers, calibration, metrics,
            confidence, rho, seed, settings, servers and workers. n=256 is short for
            sampling=FixedN(256).

    Returns:
        The run at `out`, sampled, scored and bounded. A slice is only sampled.

    Raises:
        InputError: the study is not valid. Most faults are found before a model is loaded.
        MixError: `out` has the run of a different study, or another command is writing there.
        ModelError: the model cannot be used.
        IncompleteError: at the end, if some questions could not be sampled.
    """
    ready = prepared(by_coin(study_of(study, fields), model))
    clock = Clock(Path(out) / TIMES)
    before = written(Path(out))
    try:
        progress = clock.timed(progress)
        run = _evaluated(Evaluation(ready, model, control, Path(out), progress, questions), clock)
    finally:
        if written(Path(out)) != before:  # a finished run is not changed
            clock.write()
    require_complete(run)
    return run


def _evaluated(evaluation: Evaluation, clock: Clock) -> Run:
    ready, progress, part = evaluation.ready, evaluation.progress, evaluation.slice
    study, others = ready.study, _others(ready)
    if others is not None:
        prepared(replace(others, check_scorers=False))  # raises an error before anything is drawn
    with _opened(study.workers) as crew:
        ready = replace(ready, crew=crew)
        evaluation = replace(evaluation, ready=ready)
        with clock.phase("draw"):
            run = draw_study(evaluation)
            engine = evaluation.engine("target")
            if others is not None:
                place = run.path / OTHERS
                evaluate(engine, others, out=place, questions=part, progress=progress)
        if part is not None:
            return run
        with clock.phase("score"):
            ready = replace(ready, scorers=in_reading_of(run, ready.scorers))
            score_run(run, ready.scorers, progress, ready.at)
        if study.prove is not None:
            scorer, at = min(ready.scorers, key=lambda s: not s.binary), ready.at
            with clock.phase("prove"):
                prove_arms(run, engine, scorer, study.prove, at=at, progress=progress)
    if study.calibration is not None:
        calibrate(run, judge_of(ready.scorers), Path(study.calibration))
    with clock.phase("bound"):
        bound_run(run, ready.scorers, confidence=study.confidence, progress=progress)
    if study.metrics:
        with clock.phase("measure"):
            measure_run(run, ready.benchmark, study.metrics, progress)
    return run


def _others(ready: Prepared) -> Study | None:
    """Return the study of the control questions; None if there are no control questions.

    Raises InputError if a control question is also a question of the study.
    """
    study, task = ready.study, ready.benchmark
    if study.control_questions is None:
        return None
    if study.workers is not None:
        raise InputError(
            "`control_questions` cannot be used with workers. Omit the workers, or evaluate the "
            "control questions as a separate run."
        )
    data = study.data if task.loaded is None else task.loaded.data
    others = load_benchmark(study.control_questions, data=data)
    texts = {" ".join(prompt.question.split()) for prompt in task.prompts}
    both = [prompt.id for prompt in others.prompts if " ".join(prompt.question.split()) in texts]
    if both:
        raise InputError(
            f"the control questions of {others.name!r} include evaluated questions, such as "
            f"{both[0]!r}. Use questions that the model was never taught."
        )
    return replace(
        study,
        benchmark=replace(others, template=task.template, system=task.system, chat=task.chat),
        data=None,
        limit=None,
        profile=None,
        rewritings=None,
        attack=None,
        prove=None,
        stress=(),
        control_questions=None,
        calibration=None,
        claims=(),
        metrics=(),
    )


@holding("evaluate --only sample")
def sample(
    model: str | Path | Generate,
    study: Study | Benchmark | str,
    *,
    out: str | Path,
    control: str | Path | Generate | None = None,
    questions: str | None = None,
    progress: Progress = silent,
    **fields: Unpack[StudyFields],
) -> Run:
    """Draw the completions of a study. This is the first step of `evaluate`, before `score`.

    Args:
        model: as for `evaluate`. If the model's recipe records a coin (a random choice of the
            taught subjects), the questions are about the taught subjects.
        study: as for `evaluate`. Its scorers are not used.
        out: the run directory.
        control: a model that never saw the data, or a finished run of such a model. The control is
            sampled in the same way as the model (None: no control).
        questions: "i/N" to draw only the i-th of N slices of the study (None: all questions).
        progress: called with the progress of each step, a `leakbound.types.Headway`.
        fields: fields of `Study` that replace fields of `study`, as for `evaluate`.

    Returns:
        The run at `out` with its completions. Questions that could not be sampled are recorded in
            the run and raise no error.

    Raises:
        InputError: the study is not valid, or its draws depend on scores.
        MixError: `out` has the run of a different study, or another command is writing there.
        ModelError: the model cannot be used.
        IncompleteError: a question that metrics need cannot be answered.
    """
    ready = prepared(by_coin(study_of(study, fields), model, controlled=False), scores=False)
    with _opened(ready.study.workers) as crew:
        ready = replace(ready, crew=crew)
        return draw_study(Evaluation(ready, model, control, Path(out), progress, questions))


@holding("score")
def score(
    run: Run,
    scorers: str | Scorer | Sequence[str | Scorer] = (),
    *,
    calibration: str | Path | None = None,
    settings: ModelSettings | None = None,
    workers: Workers | None = None,
    progress: Progress = silent,
) -> tuple[Scorer, ...]:
    """Score the completions of a run. The models of the run are not loaded.

    Args:
        run: an open run, see `leakbound.load`.
        scorers: names or objects (default: the scorers of the run's last command, else of its
            benchmark). A judge on a server is used only if it is named here.
        calibration: a file of outputs that people labelled, used to correct for the errors of a
            judge, or of the only binary scorer (None: no correction).
        settings: the settings for loading the scorers' models (None: the run's settings).
        workers: processes that run these models, such as `RayWorkers` (None: this process).
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        The scorers, in the order in which they were named.

    Raises:
        InputError: a scorer is unknown or can never score one of the prompts, a judge on a server
            was not named, texts were redacted, or the calibration is not valid.
        MixError: a scorer's model has changed since it computed scores of this run, or another
            command is writing into the run.
        ModelError: a scorer's model cannot be used.
        IncompleteError: draws are missing, or a judge does not answer.
    """
    named = specs_of(scorers)
    require_texts(run, named)
    loading, servers = (settings or run.study.settings).loading, servers_of(named)
    chosen = scorers_for(named or scorers_of(run), run.prompts, loading, servers)
    require_sampled(run)
    chosen = in_reading_of(run, chosen)
    if calibration is not None:
        read_items(Path(calibration), judge_of(chosen))
    plain = [scorer for scorer in chosen if not needs_model(scorer)]
    notes = (*scorer_notes(chosen, run.prompts), *reference_notes(plain, run.prompts))
    add_notes(run, notes, progress)
    with _opened(workers) as crew:
        models = OpenModels(servers=servers, **loading)
        score_run(run, chosen, progress, None if crew is None else ScoringCrew(crew, models))
    if calibration is not None:
        calibrate(run, judge_of(chosen), Path(calibration))
    return chosen


@holding("bound")
def bound(
    run: Run,
    scorers: str | Scorer | Sequence[str | Scorer] = (),
    *,
    confidence: float | None = None,
    progress: Progress = silent,
) -> tuple[Scorer, ...]:
    """Compute bounds from the scores of a run, and store the estimates. Nothing is scored again.

    The interval of each estimate is valid individually. Estimates of other scorers do not change.

    Args:
        run: an open run, see `leakbound.load`.
        scorers: names or objects (default: all scorers with scores in the run).
        confidence: the confidence of each estimate, in (0, 1) (None: the run's confidence).
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        The scorers of these estimates.

    Raises:
        InputError: completions have no scores, the confidence is outside (0, 1) or too near 1, or
            the draws cannot be independent.
        MixError: another command is writing into the run.
        IncompleteError: draws are missing.
    """
    named = specs_of(scorers)
    confidence = run.study.confidence if confidence is None else confidence
    require_confidence(confidence, len(run.prompts))
    require_sampled(run)
    chosen = in_reading_of(run, scorers_for(named or bounded_by(run), ()))  # nothing is scored
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
    """Search the model of a finished run for rare leaks, and add proved lower bounds to the run.

    The function adds up the probabilities of leaking outputs under the model. The sum is a lower
    bound on the leak probability or the mean leakage. The bound has no sampling error; a measured
    margin allows for rounding. It implies a lower bound on leak@k for every k.

    Args:
        run: an open run, see `leakbound.load`.
        forwards: the maximum number of forward passes per question, at least 1.
        scorer: the name of a scorer (default: the first binary scorer of the run, or else the run's
            first scorer).
        model: the current location of the run's model, or its engine (None: as recorded).
        proposals: finished runs of the same questions, such as a run of the model before
            unlearning. The search begins with the leaking answers of these runs, the reference
            answer, and the answers in `run`.
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        The scorer that decides which answers leak.

    Raises:
        InputError: probabilities are unknown or not exact, nothing was sampled, the run has no
            scores of `scorer`, or a proposal is not a finished run of these questions.
        MixError: the model is not the model of the run, or another command is writing into the run.
        ModelError: the model cannot be used.
        IncompleteError: draws of the run or of a proposal are missing.
    """
    search = Prove(forwards, tuple(map(str, proposals)))
    require_sampled(run)
    arms, study, scored = arms_to_prove(run), run.study, bounded_by(run)
    first = min(scored, key=lambda name: not make_scorer(name).binary)
    (chosen,) = scorers_for([scorer or first], run.prompts, study.settings.loading)
    if chosen.name not in scored and not all(a.digests(chosen.name, slug(chosen)) for a in arms):
        raise InputError(
            f"`{run.path}` has no scores of {chosen.name!r}, only of {', '.join(scored)}. Run "
            f"`leakbound score {run.path} --scorer {chosen.name}` first."
        )

    if isinstance(model, Generate):
        engine = model
    else:
        require_explorable(where := str(model or run.model(arms[0].key)), PROVING)
        engine = study.settings.open(where, study.load())
    prove_arms(run, engine, chosen, search, progress=progress)
    confidence = run.estimates_made_from().get("confidence", study.confidence)
    bound_run(run, scorers_for([chosen.name], ()), confidence=confidence, progress=progress)
    return chosen


@holding("evaluate --only metrics")
def measure(
    run: Run, metrics: str | Sequence[str] = (), *, progress: Progress = silent
) -> Mapping[Model, Mapping[str, Values]]:
    """Compute metrics of utility and memorisation of a run, and store them in `utility.json`.

    The models of the run are not loaded, because the run has everything that the metrics need.

    Args:
        run: an open run, see `leakbound.load`.
        metrics: names, or "all" (default: the metrics of the run's last command).
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        The values of each metric by name, for each model ("target", "control"). Empty if some
        questions could not be sampled.

    Raises:
        InputError: no metric is named, a metric is unknown, or a metric needs data that the run
            lacks.
        MixError: the benchmark's questions have changed since the run began, or another command is
            writing into the run.
        IncompleteError: draws are missing.
    """
    require_sampled(run)
    study = run.study
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics) or study.metrics
    if not names:
        raise InputError("`--metrics` is missing. Name metrics, or write --metrics all.")
    if not study.benchmark:
        stated = run.record.benchmark
        study = Study(stated.name, profile=stated.profile)
    return measure_run(run, study.load(), names, progress)


@holding("merge")
def merge(runs: Sequence[str | Path], *, out: str | Path, progress: Progress = silent) -> Run:
    """Merge all slices of a study, then score and bound its run as `evaluate` does.

    The slices do not change. If the call is stopped, repeat it to resume. If a scorer is a judge on
    a server, InputError is raised after merging. Then call `score` on the merged run, with the
    judge's name, and `bound`.

    Args:
        runs: the folders of the slices, in any order.
        out: the run directory.
        progress: called with the progress of each step, a `leakbound.types.Headway`.

    Returns:
        The run at `out`. It also records the questions that could not be sampled.

    Raises:
        InputError: the runs are not exactly the N slices of one study, or a scorer is a judge on a
            server.
        MixError: the slices are of different studies, models or versions; the message names the
            difference.
        IncompleteError: a slice is not finished.
        DamagedError: a file of a slice is damaged.
    """
    slices = [Run.open(path) for path in runs]
    given = [run.record.slice or f"`{run.path}`, which is not a slice" for run in slices]
    of = max((slice_of(run.record.slice)[1] for run in slices if run.record.slice), default=1)
    wanted = [f"{number}/{of}" for number in range(1, of + 1)]
    if sorted(given) != sorted(wanted):
        missing = [name for name in wanted if name not in given]
        raise InputError(
            f"merge needs each slice of a study exactly once, got {', '.join(given)}. "
            f"Missing slices: {', '.join(missing) or 'none'}."
        )
    first = slices[0]
    for run in slices:
        for arm in run.arms.values():
            absent = [number for number in sorted(arm.own) if not arm.has(arm.parts[number])]
            if absent:
                raise IncompleteError(
                    f"`{run.path}`, slice {run.record.slice}, is not finished: arm {arm.name!r} "
                    f"lacks part {absent[0]}. Run the command of this slice again, then merge."
                )
            arm.missing_parts()  # reads every part
        require_same_study(run.path, run.record, first.path, first.record)
    record = replace(first.record, slice=None)
    merged = Run.create(Path(out), first.prompts, first.queries, record)
    if any(own.prior and own not in record.claims for own in merged.record.claims):
        raise MixError(f"`{out}` records a claim that no slice records. Name another --out.")
    if (accepted := read_accepted(first.path, record)) is not None:
        write_accepted(merged.path, record, accepted)
    for key, spec in first.record.arms.items():
        arm = merged.add_arm(key, spec)
        drawn = (run.arms[arm.name] for run in slices)
        sources = {number: own for own in drawn for number in own.own}
        for part in counted(progress, f"merging {arm.name}", [*arm.parts_to_draw()], "parts"):
            arm.copy_part(part, sources[part.number])
    if merged.study.control_questions is not None:
        merge([run.path / OTHERS for run in slices], out=merged.path / OTHERS, progress=progress)
    score(merged, calibration=merged.study.calibration, progress=progress)
    bound(merged, progress=progress)
    return merged


def prepared(study: Study, *, scores: bool = True) -> Prepared:
    """Load and check everything that a study needs except its models.

    `scores` is False if the command does not score the completions.

    Raises InputError for every fault that can be found without a model.
    """
    if not scores:
        _require_unsteered(study)
    task = study.load()
    study = study.resolved(task)
    notes = question_notes(task.prompts, study)
    if not scores:
        return spelt_out(Prepared(replace(study, scorers=()), task, (), notes))
    named = study.scorers or default_scorers(task)
    chosen = scorers_for(named, task.prompts, study.settings.loading, study.trusted)
    require_confidence(study.confidence, len(task.prompts))
    if study.calibration is not None:
        read_items(Path(study.calibration), judge_of(chosen))
    checked = [s for s in chosen if study.check_scorers or not needs_model(s)]
    notes += scorer_notes(chosen, task.prompts)
    notes += reference_notes(checked, task.prompts, stop=not study.allow_unmatched)
    named = tuple(scorer.name for scorer in chosen)
    study = replace(study, scorers=named, servers=study.trusted)
    ready = spelt_out(Prepared(study, task, chosen, notes))
    _ = ready.draws  # refuses a claim that does not fit the scorer
    return ready


def _require_unsteered(study: Study) -> None:
    """Raise InputError if the draws of the study depend on scores."""
    if study.control_questions is not None:
        raise InputError(
            "`control_questions` need bounds, but `--only sample` computes none. Run `leakbound "
            "evaluate` without `--only`, or omit the control questions."
        )
    sampling, attack, search = study.sampling, study.attack, study.prove
    steering = [
        f"`until` {sampling.claim!r}" if isinstance(sampling, Until) else "",
        f"`explore` {sampling.mode!r}" if isinstance(sampling, Explore) else "",
        "" if attack is None else f"`attack` {attack.budget}",
        "" if search is None else f"`prove` {search.forwards}",
        f"`claim` {study.claims[0]}" if study.claims else "",
    ]
    for named in filter(None, steering):
        raise InputError(
            f"{named} needs scores, but `--only sample` computes none. Run `leakbound evaluate` "
            "without `--only`, or omit this option. If it comes from --like, replace --like by the "
            "other options of that run."
        )


def _opened(workers: Workers | None) -> AbstractContextManager[Crew | None]:
    """Return a context that opens the workers; its value is None if there are no workers."""
    return nullcontext() if workers is None else workers.open()


def default_scorers(benchmark: Benchmark) -> tuple[str, ...]:
    """Return the default scorers of a benchmark; raise InputError if it has none."""
    if not benchmark.scorers:
        why = "".join(f" ({note})" for note in benchmark.notes)
        raise InputError(
            f"benchmark {benchmark.name!r} has no default scorer{why}. Name a scorer with "
            "--scorer, such as `keyword`, `contains` or `refusal`."
        )
    return benchmark.scorers
