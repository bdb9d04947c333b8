"""`leakbound compare`: runs beside the first of them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, prose
from leakbound.cli.help import Command
from leakbound.cli.saying import say


@click.command(cls=Command)
@click.argument("runs", type=opt.RUN, nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "latex", "csv"]),
    default="table",
    show_default=True,
    help="csv: every difference, unrounded.",
)
@click.option("--out", type=opt.FILE, help="Write it to a file.  [default: print it]")
@click.option("--utility", metavar="METRIC", help="What utility is.  [default: what all runs have]")
@click.option(
    "--confidence",
    type=float,
    default=0.99,
    show_default=True,
    help="Of all differences at once.",
)
@opt.as_json
def compare(
    runs: tuple[Path, ...],
    form: Literal["table", "markdown", "latex", "csv"],
    out: Path | None,
    utility: str | None,
    confidence: float,
    as_json: bool,
) -> None:
    """Compare RUNS, question by question, with the first of them.

    How much more or less each model leaks than the baseline, which is the first run's model: on
    average, at which questions, and at most. All differences of a scorer hold at once. A verdict on
    each model is said first, then what was made otherwise, and a leaderboard last: certified
    leakage, beyond the control where all have one, and utility where it was measured with
    --metrics. Runs of other questions are refused. Of a run with several decodings each stands by
    itself.
    """
    from leakbound.evaluation.comparing import compare as verb
    from leakbound.evaluation.views.compared import SHOWN
    from leakbound.evaluation.views.table import csv_of, latex, markdown
    from leakbound.store.files import write_text

    found = verb(runs, confidence=confidence, utility=utility)
    if as_json:
        print_json(found.to_dict())
        return
    if form == "table" and out is None:
        say(f"{prose(found.opening)}\n")
        for table in found.tables(questions=SHOWN):
            print_table(table)
        return
    match form:
        case "csv":
            text = csv_of([*found.rows()])
        case "latex":
            text = latex(found.tables(), found.opening)
        case _:
            text = markdown(found.tables(), found.opening)
    if out is None:
        say(text.rstrip("\n"))
        return
    write_text(out, text)
    say(f"written: {out}")
