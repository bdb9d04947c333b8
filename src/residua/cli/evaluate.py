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
@opt.scorers
@opt.confidence
@opt.as_json
def evaluate(scorers: tuple[str, ...], confidence: float, as_json: bool, **given: Any) -> None:
    """Sample, score and bound MODEL on a benchmark; write estimates and a report into --out.

    MODEL is a folder or hub name of a causal language model. Its whole output distribution is
    drawn from (nothing is truncated unless asked for), and the greedy answer beside it. With
    --control, a model that never saw the forget set or a finished run of one, the excess over it
    is bounded too. With --inputs, rewritings of each question are asked as well. Stopped, the same
    command goes on.
    """
    from residua import evaluation as verbs

    given |= {"as_json": as_json, "scorers": scorers}
    task = _task(given)
    chosen = verbs.scorers_for(given["scorers"] or verbs.default_scorers(task), task.prompts)
    verbs.require_confidence(confidence)
    how = {name: given[name] for name in ("n", "until", "certify", "budget")}
    drawing = verbs.Drawing.read(chosen, confidence=confidence, **how)
    run = _sample(task, given | {"scorers": [s.name for s in chosen]}, drawing)
    if run is None:
        return
    with progress_bar(not as_json) as progress:
        verbs.score_run(run, chosen, progress)
        verbs.bound_run(run, chosen, confidence=confidence, progress=progress)
    show(run, as_json)
    verbs.require_complete(run)


@click.command()
@opt.sampling
@opt.inputs
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
    return load_benchmark(given["benchmark"], data=given["data"], limit=given["limit"])


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
    decodings = opt.decodings(given, task.max_new_tokens)
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
            control=given["control"],
            seed=given["seed"],
            settings=settings,
            told=told,
            progress=progress,
        )
