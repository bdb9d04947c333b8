"""The main verb: how much does a model leak? Sample, score, bound; each step resumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from residua.benchmarks import Benchmark, load_benchmark
from residua.engines import Prompting, open_engine
from residua.errors import IncompleteError, InputError
from residua.evaluation.asking import Asking, selecting
from residua.evaluation.attack import Attack
from residua.evaluation.attack_found import Found, attack_questions, read_found
from residua.evaluation.attack_hunt import Hunt, retained_pairs
from residua.evaluation.bound import bound_run
from residua.evaluation.calibration import calibrate, judge_of, read_items
from residua.evaluation.clean import clean_questions, clean_table
from residua.evaluation.drawing import BUDGET, Drawing
from residua.evaluation.explore import require_explores
from residua.evaluation.inputs import Inputs
from residua.evaluation.metrics import Wanted, choose
from residua.evaluation.metrics_reading import (
    copy_readings,
    read_models,
    require_able,
    require_known,
)
from residua.evaluation.metrics_values import measure_run, metrics_table, stored_metrics
from residua.evaluation.probe import Cost, probe
from residua.evaluation.rows import Row, Table
from residua.evaluation.sample import (
    CONTROL,
    CONTROL_GREEDY,
    GREEDY,
    Job,
    arm_names,
    begin,
    control_of,
    draw_arm,
    finished_control,
    finished_run,
    import_control,
    plan_arm,
    with_inputs,
)
from residua.evaluation.score import score_run, scorers_for, scorers_of
from residua.evaluation.sharing import INPUTS
from residua.evaluation.summary import summary
from residua.evaluation.until import Until, require_fixed_n, require_same_looks
from residua.store import Plan, Run, Sharing
from residua.types import Decoding, Generate, Progress, silent

__all__ = [
    "BUDGET",
    "Attack",
    "Cost",
    "Drawing",
    "Found",
    "Inputs",
    "ModelSettings",
    "Row",
    "Table",
    "Until",
    "bound_run",
    "calibrate",
    "choose",
    "clean_questions",
    "clean_table",
    "evaluate",
    "judge_of",
    "measure_run",
    "metrics_table",
    "probe",
    "read_found",
    "read_items",
    "require_fixed_n",
    "require_same_looks",
    "sample",
    "score_run",
    "scorers_for",
    "scorers_of",
    "stored_metrics",
    "summary",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are loaded and prompted; None leaves the benchmark's or the model's own way."""

    dtype: str = "float32"
    device: str = "cpu"
    trust_remote_code: bool = False
    template: str | None = None
    system: str | None = None

    def open(self, model: str, benchmark: Benchmark) -> Generate:
        """The engine for `model`, prompting as the benchmark says where the user did not."""
        prompting = Prompting(
            template=self.template or benchmark.template,
            system=self.system,
            default_system=benchmark.system,
            chat=False if self.template else benchmark.chat,
        )
        return open_engine(model, prompting, **self.loading)

    @property
    def loading(self) -> dict[str, Any]:
        """How the weights of a model are loaded, whatever its job."""
        return {
            "dtype": self.dtype,
            "device": self.device,
            "trust_remote_code": self.trust_remote_code,
        }

    def jobs(
        self, model: str | Path | Generate, arms: Mapping[str, Decoding], benchmark: Benchmark
    ) -> list[Job]:
        """A job for each of the model's arms, the model opened once where it is only named."""
        if isinstance(model, str | Path):
            name, engine = str(model), self.open(str(model), benchmark)
        else:
            name, engine = type(model).__name__, model
        return [Job(arm, decoding, name, engine) for arm, decoding in arms.items()]


def evaluate(
    model: str | Generate,
    benchmark: str | Benchmark,
    *,
    out: str | Path,
    n: int = 1024,
    until: str | None = None,
    certify: str | None = None,
    budget: int = BUDGET,
    decoding: Decoding | Sequence[Decoding] | None = None,
    scorers: Sequence[str] = (),
    calibration: str | Path | None = None,
    inputs: Inputs | None = None,
    attack: Attack | None = None,
    metrics: Sequence[str] = (),
    control: str | Path | Generate | None = None,
    seed: int = 0,
    confidence: float = 0.99,
    settings: ModelSettings | None = None,
    progress: Progress = silent,
) -> Run:
    """Sample, score and bound `model` on the evaluated questions of `benchmark`.

    n draws of every question under each decoding (default: T = 1, nothing truncated, the
    benchmark's length), and the greedy answer beside them. `control`, a model that never saw the
    forget set or a finished run of one, is drawn alike, and the excess over it bounded. Scores
    and estimates go into the run directory `out`; the same call goes on where it was stopped.

    With `until`, such as "p<=0.02" or "mean<=0.1", a question of `model` is drawn only until the
    first scorer's draws decide that claim at `confidence`, n times at most; its bounds are then
    those that hold at any look. With `certify` ("exact", "hybrid" or "auto") the likeliest outputs
    are explored instead, `budget` forwards a question in all, and `n` plays no part: masses are
    certain, and what they leave is drawn, unless "exact".

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
    settings = settings or ModelSettings()
    chosen = scorers_for(scorers or default_scorers(task), task.prompts, settings.loading)
    require_confidence(confidence)
    if calibration is not None:
        read_items(Path(calibration))
        judge_of(chosen)
    drawing = Drawing.read(
        chosen,
        n=n,
        until=until,
        certify=certify,
        budget=budget,
        attack=attack,
        confidence=confidence,
    )
    run = sample(
        model,
        task,
        out=out,
        n=drawing,
        decoding=decoding,
        inputs=inputs,
        metrics=metrics,
        control=control,
        seed=seed,
        settings=settings,
        progress=progress,
    )
    score_run(run, chosen, progress)
    if calibration is not None:
        calibrate(run, judge_of(chosen), Path(calibration))
    bound_run(run, chosen, confidence=confidence, progress=progress)
    measure_run(run, task, metrics, progress)
    require_complete(run)
    return run


def sample(
    model: str | Generate,
    benchmark: str | Benchmark,
    *,
    out: str | Path,
    n: int | Drawing = 1024,
    decoding: Decoding | Sequence[Decoding] | None = None,
    inputs: Inputs | None = None,
    metrics: Sequence[str] = (),
    control: str | Path | Generate | None = None,
    seed: int = 0,
    settings: ModelSettings | None = None,
    told: Mapping[str, Any] | None = None,
    progress: Progress = silent,
) -> Run:
    """The first step of `evaluate`: the completions of every arm, scored only to steer a `Drawing`.

    Model and control are both loaded, and every arm planned, before anything is sampled: what
    cannot be done is said at once. Where they do not fit into memory together, evaluate the
    control first and name its run. Only the draws that select `inputs`, where they are asked
    for, come before that; what `metrics` need is read right after it. `told` is recorded as the
    settings of the command, for `--like`.
    """
    task = load_benchmark(benchmark) if isinstance(benchmark, str) else benchmark
    settings = settings or ModelSettings()
    drawing = Drawing(n) if isinstance(n, int) else n
    Plan.of(drawing.n)  # refuses an n below 1
    arms = _arms(decoding, task)
    source = finished_run(control)
    sampled = drawing.exploring is None and not all(how.greedy for how in arms.values())
    wanted = choose(metrics, task, control=control is not None, draws=sampled)
    if inputs is not None:
        _require_inputs_fit(inputs, drawing, arms, source)
    if drawing.search is not None:
        _require_attack_fits(drawing.search.attack, task, arms, source)
    opened = cache(partial(settings.jobs, model, arms, task))
    asking = None
    if inputs is not None:
        asking = Asking(
            inputs=inputs,
            n=drawing.n,
            seed=seed,
            target=lambda: selecting(opened()[0]),
            loading=settings.loading,
            progress=progress,
        )
    run = begin(Path(out), task, told, asking)
    sharing = None if asking is None else asking.sharing(run.queries)
    finished = {} if source is None else finished_control(run, source, _beside(arms, sharing))
    if finished and wanted.metrics:
        require_known(finished[CONTROL_GREEDY], wanted)
    jobs = with_inputs(opened(), sharing)
    if control is not None and source is None:
        beside = {control_of(name): how for name, how in arms.items()}
        jobs += with_inputs(settings.jobs(control, beside, task), sharing)
    _require_possible(jobs, run, drawing, wanted)
    planned = [plan_arm(run, job, drawing, seed) for job in jobs]
    import_control(run, finished)
    if finished and wanted.metrics:
        copy_readings(finished[CONTROL_GREEDY], run.arms[CONTROL_GREEDY])
    read_models(zip(planned, jobs, strict=True), wanted, progress)
    hunt = None
    if drawing.search is not None:
        hunt = Hunt(
            search=drawing.search,
            benchmark=task,
            job=opened()[0],
            decodings=drawing.search.attack.decodings(list(arms.values())),
            template=settings.template or task.template,
            seed=seed,
            progress=progress,
        )
        run.settle("attack", hunt.to_dict(run))
    for arm, job in zip(planned, jobs, strict=True):
        draw_arm(arm, job, drawing, progress)
    if hunt is not None:
        asked_too = next((job for job in jobs if job.arm.startswith(CONTROL)), None)
        attack_questions(run, hunt, asked_too, drawing)
    return run


def default_scorers(benchmark: Benchmark) -> tuple[str, ...]:
    """The benchmark's own scorers; InputError where it has none."""
    if not benchmark.scorers:
        raise InputError(
            f"benchmark {benchmark.name!r} has no scorer of its own. Name one with --scorer, "
            "for example `keyword`, `contains` or `refusal`."
        )
    return benchmark.scorers


def require_complete(run: Run) -> None:
    """Raise IncompleteError, naming them, where questions have no completions."""
    failed = [(name, *item) for name, arm in run.arms.items() for item in arm.failures.items()]
    if failed:
        arm, query_id, reason = failed[0]
        raise IncompleteError(
            f"{len(failed)} of the questions could not be sampled; first: {query_id!r} in arm "
            f"{arm!r}: {reason}. The others are done and stand in `{run.path}`; statements about "
            "all questions are left out. Check the model; then run the same command again."
        )


def require_sampled(run: Run) -> None:
    """Raise IncompleteError where an arm's parts are not all there yet."""
    for name, arm in run.arms.items():
        missing = [part for part in arm.missing_parts() if not arm.has(part)]
        if missing:
            raise IncompleteError(
                f"arm {name!r} of `{run.path}` lacks {len(missing)} of {len(arm.parts)} parts. "
                "Run the command that sampled it again."
            )
        if waiting := arm.unlooked():
            raise IncompleteError(
                f"arm {name!r} of `{run.path}` has {len(waiting)} questions yet to be decided. "
                "Run the command that sampled it again."
            )
    if "attack" in run.record and not any(arm.found for arm in run.arms.values()):
        raise IncompleteError(
            f"the search for worst-case inputs of `{run.path}` is not finished. Run the command "
            "that began it again."
        )


def require_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1) before anything is sampled for it."""
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence}. Use 0.99."
        )


def _arms(decoding: Decoding | Sequence[Decoding] | None, task: Benchmark) -> dict[str, Decoding]:
    """The decodings asked for by the names of their arms, the greedy one first."""
    asked = decoding or Decoding(max_new_tokens=task.max_new_tokens, stop=task.stop)
    decodings = [asked] if isinstance(asked, Decoding) else list(asked)
    greedy = replace(decodings[0], temperature=0.0, top_k=0, top_p=1.0, adaptive_temperature=None)
    return {GREEDY: greedy, **arm_names(decodings)}


def _beside(arms: Mapping[str, Decoding], sharing: Sharing | None) -> dict[str, Decoding]:
    """Those arms, and the ones that ask rewritings too."""
    also = {name + INPUTS: how for name, how in arms.items() if sharing and not how.greedy}
    return {**arms, **also}


def _require_possible(jobs: Sequence[Job], run: Run, drawing: Drawing, wanted: Wanted) -> None:
    """Refuse what a model cannot be asked, once it is loaded and before anything is drawn."""
    for job in jobs:
        job.engine.check(run.queries, job.decoding)
        require_able(job.engine, wanted)
        if drawing.exploring is not None and not job.decoding.greedy:
            require_explores(job.engine, job.arm, job.decoding)


def _require_inputs_fit(
    inputs: Inputs, drawing: Drawing, arms: Mapping[str, Decoding], control: Path | None
) -> None:
    """Refuse what rewritings cannot be combined with."""
    if drawing.until is not None or drawing.exploring is not None:
        raise InputError(
            "`inputs` share a fixed number of outputs among the queries of a question, and "
            "`until` and `certify` fix none. Leave one of them out."
        )
    if all(how.greedy for how in arms.values()):
        raise InputError(
            "`inputs` share the draws of a question among its queries, and greedy decoding draws "
            "none. Add a temperature above 0."
        )
    if inputs.ids and control is not None:
        raise InputError(
            "`ids` selects inputs by the model under evaluation, so a finished control run was "
            "asked others. Name the control model itself, and it is asked the same."
        )


def _require_attack_fits(
    attack: Attack, task: Benchmark, arms: Mapping[str, Decoding], control: Path | None
) -> None:
    """Refuse what a search for worst-case inputs cannot be combined with, or do without."""
    arm_names(attack.decodings(list(arms.values())))
    retained_pairs(task)
    if control is not None:
        raise InputError(
            "`attack` asks the control what it finds for the model under evaluation, and a "
            "finished control run was asked others. Name the control model itself."
        )
