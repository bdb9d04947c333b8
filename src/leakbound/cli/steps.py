"""`leakbound score`, `bound`, `report` and `plan`: the commands that need no model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose
from leakbound.cli.help import Command
from leakbound.cli.said import Said
from leakbound.cli.saying import bold, on_terminal, say, write


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@opt.scorers
@opt.calibration
@opt.precision
@opt.ray
@opt.as_json
def score(
    run: Path, scorers: tuple[str, ...], calibration: Path | None, as_json: bool, **given: Any
) -> None:
    """Score the completions of RUN; no model of the run is loaded.

    --dtype and --device are those of the models that scorers ask; by default the run's. A judge
    behind a server is asked only where --scorer names it. Other models can be asked by workers.
    """
    from leakbound.evaluation import score as verb

    said = Said(given)
    workers = opt.workers_of(said)
    opened = opt.held_run(run, "score")
    with progress_bar(not as_json) as progress:
        chosen = verb(
            opened,
            scorers,
            calibration=calibration,
            settings=said.into(opened.study.settings, "dtype", "device"),
            workers=workers,
            progress=progress,
        )
    if as_json:
        print_json({"run": str(run), "scorers": [s.name for s in chosen]})


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@opt.scorers
@click.option("--confidence", type=float, help="Of each estimate.  [default: the run's]")
@click.option("--limit", type=float, metavar="X", help="Name the questions proved to leak <= X.")
@opt.as_json
def bound(
    run: Path,
    scorers: tuple[str, ...],
    confidence: float | None,
    limit: float | None,
    as_json: bool,
) -> None:
    """Bound the scores of RUN at another confidence, without scoring again.

    By default every scorer that RUN has scores of. Naming some keeps what is known of the others.
    With --limit, also say at which questions leakage is at most X, all of them at once (Holm).
    """
    from leakbound.evaluation import bound as verb
    from leakbound.evaluation import clean_table, require_complete

    opened = opt.held_run(run, "bound")
    with progress_bar(not as_json) as progress:
        chosen = verb(opened, scorers, confidence=confidence, progress=progress)
    confidence = opened.study.confidence if confidence is None else confidence
    clean = []
    if limit is not None:
        clean = [clean_table(opened, scorer, limit, confidence) for scorer in chosen]
    report_on(opened, as_json, clean)
    require_complete(opened)


@click.command(cls=Command)
@click.argument("runs", type=opt.RUN, nargs=-1, required=True)
@click.option("--out", type=opt.FILE, help="[default: report[-redacted].html in the run]")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="Leave out answers, keywords and completions, from now on.  [default: as last said]",
)
@opt.as_json
def report(runs: tuple[Path, ...], out: Path | None, redact: bool | None, as_json: bool) -> None:
    """Write one self-contained HTML page about RUNS, and print their table.

    --redact is kept with the runs: later commands write report-redacted.html, and exports hold no
    text, until --no-redact is said.
    """
    from leakbound.reporting import report as verb
    from leakbound.store import Run

    opened = [Run.open(run) for run in runs]
    before = [len(run.notes) for run in opened]
    path = verb(opened, out, redact=redact)
    if as_json:
        for run, known in zip(opened, before, strict=True):
            for note in run.notes[known:]:
                say(f"note: {note}", err=True)
        each = [{"run": str(run.path), "estimates": _plain(run)} for run in opened]
        print_json({"report": str(path), "runs": each})
        return
    for run in opened:
        print_tables(run)
    say(f"report: {path}")


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@click.option(
    "--texts/--no-texts",
    default=None,
    help="Show a leaking answer beside the greedy one.  [default: on a terminal]",
)
@opt.as_json
def show(run: Path, texts: bool | None, as_json: bool) -> None:
    """Print the verdict on RUN, and nothing else.

    A run that is redacted shows no answer, whatever is asked.
    """
    from leakbound.store import Run

    opened = Run.open(run)
    _ = opened.estimates  # else it is said what lacks
    if as_json:
        print_json({"run": str(run), "verdicts": _verdicts(opened, texts=bool(texts))})
    else:
        print_verdicts(opened, texts)


@click.command(cls=Command)
@click.option("--epsilon", type=float, help="How far Pr[X > x], at any x, may be overestimated.")
@click.option("--clean", type=float, metavar="P", help="Certify P(leak) <= P if no draw leaks.")
@opt.confidence
@click.option(
    "--side",
    type=click.Choice(["upper", "both"]),
    default="upper",
    show_default=True,
    help="With --epsilon: overestimated, or either way.",
)
@opt.as_json
def plan(
    epsilon: float | None, clean: float | None, confidence: float, side: Any, as_json: bool
) -> None:
    """How many draws per question a guarantee needs."""
    from leakbound.stats import percent
    from leakbound.stats import plan as verb

    needed = verb(epsilon=epsilon, clean=clean, confidence=confidence, side=side)
    if as_json:
        print_json({name: value for name, value in asdict(needed).items() if value is not None})
        return
    said = []
    if epsilon is not None:
        said.append(
            f"{needed.epsilon:,} draws a question: Pr[X > x] is then known within {epsilon:g} "
            f"at every x (DKW, {percent(confidence)}, {side})."
        )
    if clean is not None:
        said.append(
            f"{needed.clean:,} draws a question, none of which leaks, certify P(leak) <= "
            f"{clean:g} at {percent(confidence)}."
        )
    say(prose("\n".join(said)))


def report_on(run: Any, as_json: bool, more: Sequence[Any] = ()) -> None:
    """Write the report of a run, and print its tables and `more`, or its estimates as JSON.

    A run in which no question could be sampled has nothing to report.
    """
    from leakbound.reporting import older_page, page_of, write_report

    path = None
    if run.redacted:
        run.notes.extend(older_page(run))
    if run.estimates:
        path = str(write_report({run.path.name: run}, page_of(run)))
    if as_json:
        _print_notes(run)
        found = {"run": str(run.path), "verdicts": _verdicts(run), "report": path}
        found["estimates"] = _plain(run)
        tables = [asdict(table) | {"rows": table.texts} for table in more]
        print_json(found | ({"tables": tables} if more else {}))
        return
    print_tables(run, more)
    if path:
        say(f"report: {path}")


def print_verdicts(run: Any, texts: bool | None = None) -> None:
    """What the run shows of its model.

    `texts`: with a leaking answer; by default on a terminal alone, where a person reads it.
    """
    from leakbound.evaluation import run_verdicts

    if not run.estimates:
        return
    asked = on_terminal() if texts is None else texts
    for found in run_verdicts(run, texts=asked):
        write(bold(prose(f"{found.model}: {found.headline}")))
        for line in (*found.lines[1:], *found.quoted):
            say(prose(line))
        say("")


def _verdicts(run: Any, *, texts: bool = False) -> list[dict[str, Any]]:
    """What the run shows of its model, as JSON holds it."""
    from leakbound.evaluation import run_verdicts

    return [found.to_dict() for found in run_verdicts(run, texts=texts)] if run.estimates else []


def _plain(run: Any) -> list[dict[str, Any]]:
    """The estimates of a run as JSON holds them."""
    return [row.to_dict() for row in run.estimates]


def _print_notes(run: Any) -> None:
    for note in dict.fromkeys([*run.notes, *(n for a in run.arms.values() for n in a.usage.notes)]):
        say(f"note: {note}", err=True)


def print_tables(run: Any, more: Sequence[Any] = ()) -> None:
    """The notes of a run on standard error; its verdict, tables and `more` on standard output."""
    from leakbound.evaluation import summary

    _print_notes(run)
    print_verdicts(run)
    for table in [*summary(run), *more]:
        print_table(table)
