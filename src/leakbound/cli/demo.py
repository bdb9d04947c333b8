"""`leakbound demo`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose
from leakbound.cli.help import Command
from leakbound.cli.saying import say
from leakbound.errors import needing


@click.command(cls=Command)
@click.option("--out", type=opt.RUN, default=Path("demo-run"), show_default=True)
@click.option("-n", "n", type=int, default=1024, show_default=True, help="Draws per question.")
@opt.as_json
def demo(out: Path, n: int, as_json: bool) -> None:
    """Train a small model, unlearn, and show what the greedy answer hides.

    Built-in data, a one-million-parameter Llama, four models, all forget questions: a few minutes
    on two cores, nothing downloaded. Stopped, the same command goes on.
    """
    with needing("the demo", "models"):
        from leakbound.demo import run_demo
        from leakbound.demo.finding import SCORER
    with progress_bar(not as_json) as progress:
        made = run_demo(out, n=n, progress=progress)
    if as_json:
        finding = {**dataclasses.asdict(made.finding), "shown": made.finding.shown}
        print_json({"report": str(made.report), "finding": finding})
        return
    for table in made.tables:
        print_table(table)
    for sentence in made.finding.sentences():
        say(prose(f"• {sentence}"))
    say(f"report: {made.report}")
    last = made.runs["NPO + entropy"].path
    say(f"try: leakbound certify {last} --scorer {SCORER} --max-leak 0.005")
