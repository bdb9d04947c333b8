"""`leakbound evaluate` and `leakbound sample`: the commands that run a model."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar
from leakbound.cli.saying import say
from leakbound.cli.steps import show

if TYPE_CHECKING:
    from leakbound.benchmarks import Benchmark
    from leakbound.evaluation import Drawing, Study


@click.command()
@opt.sampling
@opt.drawing
@opt.inputs
@opt.attack
@opt.metrics
@opt.scorers
@opt.calibration
@opt.own_confidence
@opt.as_json
def evaluate(**given: Any) -> None:
    """Sample, score and bound MODEL on a benchmark; write estimates and a report into --out.

    MODEL is a folder or hub name of a causal language model. Its whole output distribution is
    drawn from (nothing is truncated unless asked for), and the greedy answer beside it. With
    --control, a model that never saw the forget set or a finished run of one, the excess over it
    is bounded too. With --inputs, rewritings of each question are asked as well; with --attack, the
    input that leaks most is searched for. With --metrics, utility and memorisation are measured,
    of the control too, which then is the retrained model. Stopped, the same command goes on.
    """
    from leakbound import evaluation as verbs

    task, study = _asked(given)
    if given["dry_run"]:
        _, study, drawing = verbs.steered(task, study)
        _print_cost(given, task, study, drawing)
        return
    opt.hold(Path(given["out"]), "evaluate")
    with progress_bar(not given["as_json"]) as progress:
        run = verbs.evaluate_study(given["model"], task, study, out=given["out"], progress=progress)
    show(run, given["as_json"])
    verbs.require_complete(run)


@click.command()
@opt.sampling
@opt.inputs
@opt.no_attack
@opt.as_json
def sample(**given: Any) -> None:
    """Only draw completions of MODEL; `leakbound score` and `leakbound bound` do the rest."""
    from leakbound import evaluation as verbs

    task, study = _asked(given)
    if given["dry_run"]:
        _print_cost(given, task, *verbs.unsteered(task, study))
        return
    with progress_bar(not given["as_json"]) as progress:
        run = verbs.sample_study(given["model"], task, study, out=given["out"], progress=progress)
    usage = {name: arm.usage for name, arm in run.arms.items()}
    if given["as_json"]:
        print_json({name: {"draws": u.draws, "forwards": u.forwards} for name, u in usage.items()})
    else:
        for name, u in usage.items():
            say(f"{name}: {u.draws:,} draws, {u.forwards:,} forwards, {duration(u.seconds)}")
    verbs.require_complete(run)


def _asked(given: dict[str, Any]) -> tuple[Benchmark, Study]:
    if given["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    task, study = opt.asked(given)
    for note in task.notes:  # before hours of drawing, not only after
        say(f"note: {note}", err=True)
    return task, study


def _print_cost(given: dict[str, Any], task: Benchmark, study: Study, drawing: Drawing) -> None:
    """Draw a little, and say what the whole study would cost."""
    from leakbound.evaluation import probe

    cost = probe(
        given["model"],
        task,
        n=drawing,
        decoding=study.decoding,
        inputs=study.inputs,
        settings=study.settings,
    )
    if given["as_json"]:
        print_json(asdict(cost))
        return
    say(cost.text())
    if study.metrics:
        say("not counted: what --metrics reads and answers before anything is drawn")
    if study.until:
        say("this is the most: --until stops a question once its claim is decided")
