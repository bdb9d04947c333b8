"""`leakbound export`: what a run holds, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json
from leakbound.cli.help import Command
from leakbound.cli.saying import say
from leakbound.errors import InputError


@click.command(cls=Command)
@click.argument("runs", type=opt.RUN, nargs=-1, required=True)
@click.argument("out", type=opt.FILE)
@click.option(
    "--openunlearning",
    "form",
    flag_value="openunlearning",
    help="Metrics, as an evaluation log of theirs.",
)
@click.option("--jsonl", "form", flag_value="jsonl", help="Completions and how often each came.")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="With --jsonl: scores in place of all texts.  [default: as `leakbound report` was told]",
)
@click.option("--arm", default="target", show_default=True, help="Of which model or decoding.")
@click.option(
    "--retrained",
    type=opt.FILE,
    help="A log of the retrained model, to compare with where RUN has no control.",
)
@opt.as_json
def export(
    runs: tuple[Path, ...],
    out: Path,
    form: Literal["openunlearning", "jsonl"] | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Write the metrics or the completions of RUNS, of one as a rule, to OUT.

    With --openunlearning, OUT ends in _EVAL.json; the _SUMMARY.json beside it is written too. The
    log holds no text of the run. Runs of one model on the parts of MUSE (muse:news-knowmem,
    -verbmem, -privleak) make one log together. With --jsonl, OUT has the columns id, question,
    answer, completion, count, and those of the decoding, which `leakbound import` reads; with
    --redact also, or of a run that `leakbound report` was told to redact, it has the scores in
    place of all texts: imported, they give the same bounds, though no proof of a leak, which
    needs the probabilities of the texts.
    """
    from leakbound.evaluation.exporting import export as verb
    from leakbound.store import Run

    if form is None:
        raise InputError("say what to write: --openunlearning or --jsonl.")
    opened = [Run.open(run) for run in runs]
    made = verb(opened, out, form=form, **how)
    for note in made.notes:
        say(f"note: {note}", err=True)
    if as_json:
        print_json({"runs": [*map(str, runs)], "written": [*map(str, made.files)]})
        return
    for file in made.files:
        say(f"written: {file}")
