"""`leakbound evaluate` and `leakbound sample`: the commands that run a model."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar, prose, say_notes
from leakbound.cli.parsed import Parsed, hold, models_from, study_from
from leakbound.cli.saying import say
from leakbound.cli.verbs import report_on
from leakbound.errors import InputError, UnansweredError
from leakbound.text.shown import many

if TYPE_CHECKING:
    from leakbound.study import Study


@opt.command
def evaluate(**values: Any) -> None:
    """Sample, score and bound MODEL on a benchmark; write estimates and a report into --out.

    MODEL is a folder or hub name of a causal language model. Its whole output distribution is
    drawn from (nothing is truncated unless asked for), and the greedy answer beside it. Stopped,
    the same command goes on.

    Examples:
        leakbound evaluate my-model --benchmark tofu:forget10 --out runs/mine
        leakbound evaluate my-model --benchmark mine.csv --control my-retrained \\
            --out runs/own
    """
    _evaluate(Parsed(values))


@opt.command
def stress(**values: Any) -> None:
    """Evaluate MODEL as it is, then under stress: does the forgetting last?

    Its control is put through the same. What a stress adds, what lies beyond the equally stressed
    control, and the worst stress of all, the choice counted, stand in table and report. Without
    --under: rounded to 4 bits, pruned, behind openers, in the look of a test. Stopped, the same
    command goes on.

    Examples:
        leakbound stress unlearned --benchmark tofu:forget10 --out runs/stress
        leakbound stress unlearned --benchmark mine.csv --under round:int4 \\
            --under relearn:retain=8,rate=1e-4 --out runs/stress
    """
    from leakbound.stress import USUAL

    named = values["stress"] or values["study"] or values["like"]
    _evaluate(Parsed(values if named else values | {"stress": USUAL}))


def _evaluate(options: Parsed) -> None:
    from leakbound.evaluation import evaluate as verb
    from leakbound.store import Run
    from leakbound.store.clock import TIMES, Clock, written

    study = _study(options)
    if options.dry_run:
        _print_cost(options, study)
        return
    out = hold(options.out, "evaluate")
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


@opt.command
def merge(runs: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Merge RUNS, all slices of a study, into one run; then score, bound and report it.

    `leakbound evaluate --questions i/N` draws the slices. The merged run has the draws and bounds
    of one command with parts of one size. RUNS stay as they are. Stopped, the same command resumes.

    Examples:
        leakbound merge runs/slice-* --out runs/mine
    """
    from leakbound.evaluation import require_complete
    from leakbound.evaluation.verbs import merge as verb

    hold(out, "merge")
    with progress_bar(not as_json) as progress:
        run = verb(runs, out=out, progress=progress)
    report_on(run, as_json)
    require_complete(run)


@opt.command
def sample(**values: Any) -> None:
    """Only draw completions of MODEL; `leakbound score` and `leakbound bound` do the rest.

    Examples:
        leakbound sample my-model --benchmark tofu:forget10 --out runs/mine
    """
    from leakbound.evaluation import require_complete
    from leakbound.evaluation import sample as verb

    options = Parsed(values)
    study = _study(options, scores=False)
    if options.dry_run:
        _print_cost(options, study, scores=False)
        return
    model, control = models_from(options)
    with progress_bar(not options.as_json) as progress:
        run = verb(model, study, out=options.out, control=control, progress=progress)
    usage = {name: arm.usage for name, arm in run.arms.items()}
    if options.as_json:
        print_json({name: {"draws": u.draws, "forwards": u.forwards} for name, u in usage.items()})
    else:
        for name, u in usage.items():
            say(f"{name}: {u.draws:,} draws, {u.forwards:,} forwards, {duration(u.seconds)}")
    require_complete(run)


def _study(options: Parsed, *, scores: bool = True) -> Study:
    """The study that a command asks, its benchmark loaded; `scores`: whether answers are scored."""
    from leakbound.planning.plan import by_coin

    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    study = by_coin(study_from(options), options.model, controlled=scores)
    task = study.load()
    if not (options.out or options.dry_run):
        raise InputError("`--out` is missing. Add it, see `leakbound evaluate --help`.")
    say_notes(task.notes)  # before hours of drawing, not only after
    return replace(study, benchmark=task, data=None, limit=None, profile=None)


def _print_cost(options: Parsed, study: Study, *, scores: bool = True) -> None:
    """Draw the first part, and print what the whole study would cost."""
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
        say(f"of the whole study: this slice takes about one of {slices:,} parts of it")
    if study.metrics:
        say("not counted: what --metrics reads and answers before anything is drawn")
    if study.prove is not None:
        say("not counted: what --prove searches once all is drawn")
    if number := len(ready.study.stress):
        say(f"not counted: {many(number, 'stressed arm')}, each about as much again, and making it")
    if study.control_questions:
        say("not counted: the control questions, which take what as many others take")
    if isinstance(study.sampling, Until):
        say("this is the most: --until stops a question once its claim is decided")
