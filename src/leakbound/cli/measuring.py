"""`leakbound measure`: metrics from what `leakbound evaluate --metrics` has read."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar
from leakbound.cli.help import Command
from leakbound.cli.saying import say


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@opt.metrics
@opt.as_json
def measure(run: Path, metrics: tuple[str, ...] | None, as_json: bool) -> None:
    """Measure utility and memorisation of RUN again, or by other metrics.

    What `leakbound evaluate --metrics` has read for some metrics serves all that need no more: no
    model is loaded, but the classifier that forget_fluency asks.
    """
    from leakbound import evaluation as verbs

    opened = opt.held_run(run, "measure")
    with progress_bar(not as_json) as progress:
        verbs.measure(opened, metrics or (), progress=progress)
    if as_json:
        print_json({"run": str(run), **verbs.stored_metrics(opened)})
        return
    for note in opened.notes:
        say(f"note: {note}", err=True)
    if table := verbs.metrics_table(opened):
        print_table(table)
