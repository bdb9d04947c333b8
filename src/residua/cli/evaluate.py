"""`residua evaluate` and `residua sample`: the commands that run a model."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from residua.cli import options as opt
from residua.cli.console import duration, print_json, progress_bar
from residua.cli.steps import show
from residua.errors import InputError


@click.command()
@opt.sampling
@opt.drawing
@opt.inputs
@opt.attack
@opt.metrics
@opt.scorers
@opt.calibration
@opt.confidence
@opt.as_json
def evaluate(scorers: tuple[str, ...], confidence: float, as_json: bool, **given: Any) -> None:
    """Sample, score and bound MODEL on a benchmark; write estimates and a report into --out.

    MODEL is a folder or hub name of a causal language model. Its whole output distribution is
    drawn from (nothing is truncated unless asked for), and the greedy answer beside it. With
    --control, a model that never saw the forget set or a finished run of one, the excess over it
    is bounded too. With --inputs, rewritings of each question are asked as well; with --attack, the
    input that leaks most is searched for. With --metrics, utility and memorisation are measured,
    of the control too, which then is the retrained model. Stopped, the same command goes on.
    """
    from residua import evaluation as verbs

    given |= {"as_json": as_json, "scorers": scorers}
    task = _task(given)
    named = given["scorers"] or verbs.default_scorers(task)
    loading = {name: given[name] for name in ("dtype", "device", "trust_remote_code")}
    chosen = verbs.scorers_for(named, task.prompts, loading)
    verbs.require_confidence(confidence)
    labelled = opt.labelled(given["calibration"], chosen)
    how = {name: given[name] for name in ("n", "until", "certify", "budget")}
    attack = opt.asked_attack(given)
    drawing = verbs.Drawing.read(chosen, confidence=confidence, attack=attack, **how)
    run = _sample(task, given | {"scorers": [s.name for s in chosen]}, drawing)
    if run is None:
        return
    with progress_bar(not as_json) as progress:
        verbs.score_run(run, chosen, progress)
        if labelled is not None:
            verbs.calibrate(run, verbs.judge_of(chosen), labelled)
        verbs.bound_run(run, chosen, confidence=confidence, progress=progress)
        verbs.measure_run(run, task, opt.asked_metrics(given), progress)
    show(run, as_json)
    verbs.require_complete(run)


@click.command()
@opt.sampling
@opt.inputs
@opt.no_attack
@opt.as_json
def sample(as_json: bool, **given: Any) -> None:
    """Only draw completions of MODEL; `residua score` and `residua bound` do the rest."""
    from residua import evaluation as verbs

    given["as_json"] = as_json
    task = _task(given)
    if steered := given["until"] or (opt.explores(given) and given["certify"]):
        raise InputError(
            f"the run that --like names was steered by {steered!r}, which needs scores. "
            "Use `residua evaluate`, or say all options but --like."
        )
    if given["attack"] is not None:
        raise InputError(
            f"`attack` {given['attack']} is steered by scores, and `residua sample` makes none. "
            "Use `residua evaluate`, or leave it out."
        )
    run = _sample(task, given)
    if run is None:
        return
    usage = {name: arm.usage for name, arm in run.arms.items()}
    if as_json:
        print_json({name: {"draws": u.draws, "forwards": u.forwards} for name, u in usage.items()})
    else:
        for name, u in usage.items():
            click.echo(f"{name}: {u.draws:,} draws, {u.forwards:,} forwards, {duration(u.seconds)}")
    verbs.require_complete(run)


def _task(given: dict[str, Any]) -> Any:
    """The benchmark; also writes the resolved settings over `given`."""
    from residua.benchmarks import load_benchmark

    if given["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    given |= opt.resolve(given)
    return load_benchmark(
        given["benchmark"], data=given["data"], limit=given["limit"], profile=given["profile"]
    )


def _sample(task: Any, given: dict[str, Any], drawing: Any = None) -> Any:
    """Sample every arm; None after a dry run."""
    from residua import evaluation as verbs

    settings = verbs.ModelSettings(
        dtype=given["dtype"],
        device=given["device"],
        trust_remote_code=given["trust_remote_code"],
        template=given["prompt_template"],
        system=given["system"],
    )
    decodings = opt.decodings(given, task)
    inputs = opt.asked_inputs(given)
    if given["dry_run"]:
        cost = verbs.probe(
            given["model"],
            task,
            n=drawing or given["n"],
            decoding=decodings,
            inputs=inputs,
            settings=settings,
        )
        if given["as_json"]:
            print_json(asdict(cost))
        else:
            click.echo(cost.text())
            if given["metrics"]:
                click.echo("not counted: what --metrics reads and answers before anything is drawn")
            if given["until"]:
                click.echo("this is the most: --until stops a question once its claim is decided")
        return None
    told = {name: given[name] for name in opt.SETTINGS}
    with progress_bar(not given["as_json"]) as progress:
        return verbs.sample(
            given["model"],
            task,
            out=Path(given["out"]),
            n=drawing or given["n"],
            decoding=decodings,
            inputs=inputs,
            metrics=opt.asked_metrics(given),
            control=given["control"],
            seed=given["seed"],
            settings=settings,
            told=told,
            progress=progress,
        )
