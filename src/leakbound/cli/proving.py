"""`leakbound prove`: leaks of a finished run that are too rare to be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from leakbound.cli import options as opt
from leakbound.cli.console import progress_bar
from leakbound.cli.help import Command
from leakbound.cli.steps import report_on
from leakbound.errors import InputError

if TYPE_CHECKING:
    from leakbound.study import Weighing


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
    metavar="MODEL|RUN",
    multiple=True,
    help=opt.PROPOSAL,
)
@click.option(
    "--draws",
    type=click.IntRange(min=1),
    help="Weighted draws of each question, beyond what is proved.  [default: none]",
)
@click.option(
    "--mix",
    type=float,
    metavar="SHARE",
    help="Which share of them the first --proposal makes.  [default: 0.5]",
)
@click.option("--model", metavar="MODEL", help="Where the run's model is now.  [default: as then]")
@opt.as_json
def prove(
    run: Path,
    budget: int,
    scorer: str,
    proposals: tuple[str, ...],
    draws: int | None,
    mix: float | None,
    model: str | None,
    as_json: bool,
) -> None:
    """Look for leaks of RUN's model that are too rare to be drawn, and add what they prove.

    None of RUN's draws is drawn again. The model's own probabilities of leaking answers are added
    up: from the benchmark's answers, from what RUN's models and --proposal said, and from a search
    around these. A --proposal that is a model is drawn from, in the questions' own words, and kept
    in RUN; without any, RUN's model is, right after it was shown question and answer. The sum is a
    lower bound without chance, given the measured margin for rounding, and so is leak@k for every
    k. Table, report and certificate have it from then on.

    With --draws, what is proved is the beginning of an estimate with both ends, by importance
    sampling: each draw comes from --proposal (or the model shown the answer) with probability
    --mix, else from RUN's model, and counts with the ratio of their probabilities. What no draw
    shows keeps the upper end near 5/((1 - SHARE) N), so it is the lower one that gains.
    """
    from leakbound.evaluation import prove as verb

    weighing = _weighing(draws, mix)
    opened = opt.held_run(run, "prove")
    with progress_bar(not as_json) as progress:
        verb(
            opened,
            budget,
            scorer,
            model=model,
            proposals=proposals,
            weighing=weighing,
            progress=progress,
        )
    report_on(opened, as_json)


def _weighing(draws: int | None, mix: float | None) -> Weighing | None:
    from leakbound.study import Weighing

    if draws is None:
        if mix is not None:
            raise InputError(
                f"`--mix` {mix:g} has no meaning without `--draws`. Add that, or leave it out."
            )
        return None
    return Weighing(draws) if mix is None else Weighing(draws, mix)
