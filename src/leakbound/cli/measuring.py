"""`leakbound measure`: metrics from what `leakbound evaluate --metrics` has read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar
from leakbound.cli.saying import say
from leakbound.errors import InputError


@click.command()
@click.argument("run", type=opt.RUN)
@opt.metrics
@opt.as_json
def measure(run: Path, metrics: str | None, as_json: bool) -> None:
    """Measure utility and memorisation of RUN again, or by other metrics.

    What `leakbound evaluate --metrics` has read for some metrics serves all that need no more: no
    model is loaded, but the classifier that forget_fluency asks.
    """
    from leakbound import evaluation as verbs
    from leakbound.benchmarks import Loaded, load_benchmark

    opened = opt.held_run(run, "measure")
    verbs.require_sampled(opened)
    study = verbs.Study.of(opened, "benchmark", "metrics")
    names = opt.asked_metrics(metrics) or study.metrics
    if not names:
        raise InputError("`--metrics` is missing. Name some, or say all.")
    stated = opened.record["benchmark"]
    asked = study.benchmark or Loaded(spec=stated["name"], profile=stated.get("profile"))
    task = load_benchmark(**asdict(asked))
    with progress_bar(not as_json) as progress:
        verbs.measure_run(opened, task, names, progress)
    if as_json:
        print_json({"run": str(run), **verbs.stored_metrics(opened)})
        return
    for note in opened.notes:
        say(f"note: {note}", err=True)
    if table := verbs.metrics_table(opened):
        print_table(table.title, table.columns, table.rows)
        say(table.note)
