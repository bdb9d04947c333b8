"""`leakbound prove`: leaks of a finished run that are too rare to be drawn."""

from __future__ import annotations

from pathlib import Path

import click

from leakbound.cli import options as opt
from leakbound.cli.console import progress_bar
from leakbound.cli.help import Command
from leakbound.cli.steps import report_on

_TAKEN_OUT = (
    "weighted draws were taken out: their lower end gained .003 to .02 over proofs (of the leak "
    "probability, at the median question), and their upper end was worse than that of plain draws. "
    "Draw more with `leakbound evaluate -n`, or search longer with a larger `--budget`."
)


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@click.option(
    "--budget",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="Prefixes of each question that the model may forward.",
)
@click.option("--scorer", default="", metavar="NAME", help="[default: the first binary one]")
@click.option(
    "--proposal",
    "proposals",
    metavar="RUN",
    multiple=True,
    help=opt.PROPOSAL,
)
@opt.removed("--draws", _TAKEN_OUT)
@opt.removed("--mix", _TAKEN_OUT)
@click.option("--model", metavar="MODEL", help="Where the run's model is now.  [default: as then]")
@opt.as_json
def prove(
    run: Path,
    budget: int,
    scorer: str,
    proposals: tuple[str, ...],
    model: str | None,
    as_json: bool,
) -> None:
    """Look for leaks of RUN's model that are too rare to be drawn, and add what they prove.

    None of RUN's draws is drawn again. The model's own probabilities of leaking answers are added
    up: from the benchmark's answers, from what RUN's models and those of --proposal said, and from
    a search around these. The sum is a lower bound without chance, given the measured margin for
    rounding, and so is leak@k for every k. Table, report and certificate have it from then on.
    """
    from leakbound.evaluation import prove as verb

    opened = opt.held_run(run, "prove")
    with progress_bar(not as_json) as progress:
        verb(
            opened,
            budget,
            scorer,
            model=model,
            proposals=proposals,
            progress=progress,
        )
    report_on(opened, as_json)
