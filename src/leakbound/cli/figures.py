"""`leakbound figures`: the papers' figures of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table
from leakbound.cli.help import Command
from leakbound.cli.saying import say
from leakbound.errors import InputError


@click.command(cls=Command)
@click.argument("runs", type=opt.RUN, nargs=-1)
@click.option("--out", type=opt.RUN, help="The folder to write into.")
@click.option("--only", multiple=True, metavar="NAME", help="This figure; repeatable.")
@click.option("--list", "listing", is_flag=True, help="Which there are, and which RUNS can give.")
@click.option(
    "--format",
    "formats",
    type=opt.names,
    default="pdf,svg,png",
    show_default=True,
    help="With commas.",
)
@click.option("--width", default="one", show_default=True, help="one, two (columns), or inches.")
@click.option("--scorer", metavar="NAME", help="By whose scores.  [default: the runs' first]")
@click.option("--question", metavar="ID", help="In figures of one.  [default: that leaks most]")
@opt.as_json
def figures(
    runs: tuple[Path, ...],
    out: Path | None,
    listing: bool,
    as_json: bool,
    scorer: str | None,
    question: str | None,
    **how: Any,
) -> None:
    """Draw the papers' figures of RUNS into --out, as PDF, SVG and PNG.

    RUNS are run directories with the same questions, and folders of trained models for the logs of
    their training. Each figure has its data as CSV beside it; what RUNS cannot give is left out,
    with the reason.
    """
    from leakbound.plotting import figures as verb
    from leakbound.plotting import figures_table

    if listing:
        table = figures_table(runs, scorer=scorer, question=question)
        if as_json:
            columns = ("figure", "shows", "paper", "given" if runs else "needs")
            print_json([dict(zip(columns, row, strict=True)) for row in table.texts])
        else:
            print_table(table)
        return
    if out is None:
        raise InputError("`--out` is needed: the folder to write figures into.")
    made = verb(runs, out, scorer=scorer, question=question, **how)
    if as_json:
        written = [*map(str, made.files)]
        print_json({"runs": [*map(str, runs)], "written": written, "left_out": made.left_out})
        return
    for name, why in made.left_out.items():
        say(f"left out: {name}, since {why}", err=True)
    for file in made.files:
        say(f"written: {file}")
