"""`leakbound evaluate` and `leakbound sample`: the commands that run a model."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar, prose
from leakbound.cli.help import Command
from leakbound.cli.said import Said, hold, models_from, study_from
from leakbound.cli.saying import say
from leakbound.cli.verbs import report_on
from leakbound.errors import InputError, UnansweredError
from leakbound.text.shown import many

if TYPE_CHECKING:
    from leakbound.study import Study


@click.command(cls=Command)
@click.argument("model")
@opt.asking
@opt.drawing
@opt.steering
@opt.inputs
@opt.attack
@opt.scoring
@opt.proving
@opt.removed("evaluate --report-to")
@opt.models
@opt.ray
@opt.writing
def evaluate(**given: Any) -> None:
    """Sample, score and bound MODEL on a benchmark; write estimates and a report into --out.

    MODEL is a folder or hub name of a causal language model. Its whole output distribution is
    drawn from (nothing is truncated unless asked for), and the greedy answer beside it. Stopped,
    the same command goes on.
    """
    _evaluate(Said(given))


@click.command(cls=Command)
@click.argument("model")
@opt.under_stress
@opt.asking
@opt.drawing
@opt.steering
@opt.scoring
@opt.models
@opt.writing
def stress(**given: Any) -> None:
    """Evaluate MODEL as it is, then under stress: does the forgetting last?

    Its control is put through the same. What a stress adds, what lies beyond the equally stressed
    control, and the worst stress of all, the choice counted, stand in table and report. Without
    --under: rounded to 4 bits, pruned, behind openers, in the look of a test. Stopped, the same
    command goes on.
    """
    from leakbound.stress import USUAL

    named = given["stress"] or given["study"] or given["like"]
    _evaluate(Said(given if named else given | {"stress": USUAL}))


def _evaluate(said: Said) -> None:
    from leakbound.evaluation import evaluate as verb
    from leakbound.store import Run
    from leakbound.store.clock import TIMES, Clock, written

    study = _asked(said)
    if said.dry_run:
        _print_cost(said, study)
        return
    out = hold(said.out, "evaluate")
    model, control = models_from(said)
    before = written(out)
    try:
        with progress_bar(not said.as_json) as progress:
            run = verb(model, study, out=out, control=control, progress=progress)
    except UnansweredError:
        report_on(Run.open(out), said.as_json)
        raise
    clock = Clock(out / TIMES)
    with clock.phase("report"):
        report_on(run, said.as_json)
    if written(out) != before:
        clock.write()
        if not said.as_json:
            say(prose(clock.line), err=True)


@click.command(cls=Command)
@click.argument("model")
@opt.asking
@opt.drawing
@opt.inputs
@opt.no_attack
@opt.models
@opt.ray
@opt.writing
def sample(**given: Any) -> None:
    """Only draw completions of MODEL; `leakbound score` and `leakbound bound` do the rest."""
    from leakbound.evaluation import require_complete
    from leakbound.evaluation import sample as verb

    said = Said(given)
    study = _asked(said, scores=False)
    if said.dry_run:
        _print_cost(said, study, scores=False)
        return
    model, control = models_from(said)
    with progress_bar(not said.as_json) as progress:
        run = verb(model, study, out=said.out, control=control, progress=progress)
    usage = {name: arm.usage for name, arm in run.arms.items()}
    if said.as_json:
        print_json({name: {"draws": u.draws, "forwards": u.forwards} for name, u in usage.items()})
    else:
        for name, u in usage.items():
            say(f"{name}: {u.draws:,} draws, {u.forwards:,} forwards, {duration(u.seconds)}")
    require_complete(run)


def _asked(said: Said, *, scores: bool = True) -> Study:
    """The study that a command asks, its benchmark loaded; `scores`: whether answers are scored."""
    from leakbound.evaluation.planning.plan import by_coin

    if said.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    study = by_coin(study_from(said), said.model, controlled=scores)
    task = study.load()
    if not (said.out or said.dry_run):
        raise InputError("`--out` is missing. Add it, see `leakbound evaluate --help`.")
    for note in task.notes:  # before hours of drawing, not only after
        say(f"note: {note}", err=True)
    return replace(study, benchmark=task, data=None, limit=None, profile=None)


def _print_cost(said: Said, study: Study, *, scores: bool = True) -> None:
    """Draw a little, and say what the whole study would cost."""
    from leakbound.evaluation import prepared, probe
    from leakbound.evaluation.rehearsal import bounding_seconds
    from leakbound.study import Until

    model, control = models_from(said)
    asked = prepared(study, scores=scores)
    engine = study.settings.open(model, asked.benchmark)
    cost = probe(
        engine,
        asked.benchmark,
        n=asked.drawing,
        decoding=study.decodings or (asked.benchmark.decoding,),
        rewritings=study.rewritings,
        settings=study.settings,
    )
    bounding = bounding_seconds(asked, engine, control is not None) if scores else None
    if said.as_json:
        print_json({**asdict(cost), "bounding": bounding})
        return
    say(cost.text())
    if bounding is not None:
        say(f"scoring and bounding: about {duration(bounding)}, by a rehearsal on few draws")
    if study.metrics:
        say("not counted: what --metrics reads and answers before anything is drawn")
    if study.prove is not None:
        say("not counted: what --prove searches once all is drawn")
    if number := len(asked.study.stress):
        say(f"not counted: {many(number, 'stressed arm')}, each about as much again, and making it")
    if study.control_questions:
        say("not counted: the control questions, which take what as many others take")
    if isinstance(study.sampling, Until):
        say("this is the most: --until stops a question once its claim is decided")
