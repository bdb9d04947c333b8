"""`leakbound evaluate`, `stress` and `merge`: the commands that run a model."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, print_table, progress_bar, prose, say_notes
from leakbound.cli.output import say
from leakbound.cli.parsed import Parsed, hold, locked_run, models_from, study_from
from leakbound.cli.verbs import report_on
from leakbound.errors import InputError, UnansweredError

if TYPE_CHECKING:
    from leakbound.study import Study


@opt.command
def evaluate(options: Parsed) -> None:
    """Sample and score MODEL's answers to a benchmark, and bound their leakage.

    MODEL is a folder or hub name of a causal language model. The command samples the model's output
    distribution, by default without truncation, and also scores the greedy answers. It writes a run
    (completions, scores, estimates) and the report of the run into the folder --out. If the command
    is stopped, run it again to resume.

    Examples:
        leakbound evaluate my-model --benchmark tofu:forget10 --out runs/mine
        leakbound evaluate my-model --benchmark mine.csv --out runs/own
        leakbound evaluate runs/mine --only metrics --metrics model_utility
    """
    (_measure if options.only == "metrics" else _evaluate)(options)


@opt.command
def stress(options: Parsed) -> None:
    """Evaluate MODEL, then evaluate it under each stress, to test whether unlearning is robust.

    A stress changes the model or the prompts. The same stresses are applied to the model of
    --control. The table and the report show the leakage that each stress adds, and the excess over
    the control under the same stress. They also show the worst stress, with bounds that are
    corrected for its selection. The default stresses are round:int4, prune:0.3, openers and
    test-frame. If the command is stopped, run it again to resume.

    Examples:
        leakbound stress unlearned --benchmark tofu:forget10 --out runs/stress
        leakbound stress unlearned --benchmark mine.csv --under round:int4 \\
            --under relearn:retain=8,rate=1e-4 --out runs/stress
    """
    from leakbound.stress import USUAL

    named = options.stress or options.study or options.like
    _evaluate(options if named else options.with_default(stress=USUAL))


def _evaluate(options: Parsed) -> None:
    from leakbound.evaluation import evaluate as verb
    from leakbound.store import Run
    from leakbound.store.clock import TIMES, Clock, written

    scores = options.value("only") is None
    study = _study(options, scores=scores)
    if options.dry_run:
        _print_cost(options, study, scores=scores)
        return
    out = hold(options.out, "evaluate")
    if not scores:
        _sample(options, study)
        return
    model, control = models_from(options)
    part = options.value("questions")
    before = written(out)
    try:
        with progress_bar(not options.as_json) as progress:
            run = verb(model, study, out=out, control=control, questions=part, progress=progress)
    except UnansweredError:
        report_on(Run.open(out), options.as_json)
        raise
    clock = Clock(out / TIMES)
    with clock.phase("report"):
        report_on(run, options.as_json)
    if written(out) != before:
        clock.write()
        if not options.as_json:
            say(prose(clock.line), err=True)


def _sample(options: Parsed, study: Study) -> None:
    """Draw the completions of a study, and print their number for each arm."""
    from leakbound.evaluation import require_complete
    from leakbound.evaluation import sample as verb

    model, control = models_from(options)
    part = options.questions
    with progress_bar(not options.as_json) as progress:
        run = verb(
            model, study, out=options.out, control=control, questions=part, progress=progress
        )
    usage = {name: arm.usage for name, arm in run.arms.items()}
    if options.as_json:
        print_json({name: {"draws": u.draws, "forwards": u.forwards} for name, u in usage.items()})
    else:
        for name, u in usage.items():
            say(f"{name}: {u.draws:,} draws, {u.forwards:,} forward passes, {duration(u.seconds)}")
        if part is None:
            say(f"next: leakbound score {run.path}, then leakbound bound {run.path}")
        else:
            report_on(run, as_json=False)
    require_complete(run)


def _measure(options: Parsed) -> None:
    """Compute the metrics of the finished run at MODEL, without loading its model."""
    from leakbound import evaluation as verbs

    why = "has no effect with `--only metrics`, which uses a finished run. Omit this option."
    options.refuse(options.given - {"model", "only", "metrics", "as_json"}, why)
    run = locked_run(Path(options.model), "evaluate")
    with progress_bar(not options.as_json) as progress:
        verbs.measure(run, options.metrics or (), progress=progress)
    if options.as_json:
        print_json({"run": str(run.path), **verbs.stored_metrics(run)})
        return
    say_notes(run.notes)
    if table := verbs.metrics_table(run):
        print_table(table)


@opt.command
def merge(options: Parsed) -> None:
    """Merge RUNS into one run; then score, bound and report the merged run.

    RUNS are all slices of one study: `leakbound evaluate --questions i/N` draws slice i of N. The
    merged run has the same draws and bounds as a run without slices. RUNS do not change. If the
    command is stopped, run it again to resume.

    Examples:
        leakbound merge runs/slice-* --out runs/mine
    """
    from leakbound.evaluation import require_complete
    from leakbound.evaluation.verbs import merge as verb

    hold(options.out, "merge")
    with progress_bar(not options.as_json) as progress:
        run = verb(options.runs, out=options.out, progress=progress)
    report_on(run, options.as_json)
    require_complete(run)


def _study(options: Parsed, *, scores: bool) -> Study:
    """Return the study of a command with its benchmark loaded; `scores`: the command scores."""
    from leakbound.planning.plan import by_coin

    if not scores:
        own = ("scorers", "calibration", "allow_unmatched", "check_scorers")
        why = "needs scores, but `--only sample` computes none. Omit this option or `--only`."
        options.refuse(own, why)
    study = by_coin(study_from(options), options.model, controlled=scores)
    task = study.load()
    if not (options.out or options.dry_run):
        raise InputError("`--out` is missing. Name a folder for the run, as in --out runs/mine.")
    say_notes(task.notes)  # users see these notes before hours of drawing
    return replace(study, benchmark=task, data=None, limit=None, profile=None)


def _print_cost(options: Parsed, study: Study, *, scores: bool) -> None:
    """Draw the first part, and print the cost of the whole study."""
    from leakbound.evaluation import prepared, probe
    from leakbound.planning.before_drawing import token_notes
    from leakbound.store.plan import slice_of
    from leakbound.study import Until

    model, _ = models_from(options)
    ready = prepared(study, scores=scores)
    say_notes(ready.notes)
    engine = study.settings.open(model, ready.benchmark)
    say_notes(token_notes(engine, ready.benchmark, ready.study.decodings))
    cost = probe(ready, engine)
    _, slices = slice_of(options.value("questions") or "1/1")
    if options.as_json:
        print_json({**asdict(cost), "slices": slices})
        return
    say(cost.text())
    if slices > 1:
        say(f"this is the cost of the whole study; a slice costs about 1/{slices:,} of it")
    if study.metrics:
        say("not included: the probabilities and answers that --metrics needs")
    if study.prove is not None:
        say("not included: the search of --prove, which runs after the draws")
    if ready.study.stress:
        say("not included: making the stressed models, and texts added to prompts")
    if study.control_questions:
        say("not included: the control questions, which cost as much per question")
    if isinstance(study.sampling, Until):
        say("this cost is a maximum: --until stops sampling a question once its claim is decided")
