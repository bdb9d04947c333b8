"""The small commands of the core: one call each, of what is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose, say_notes
from leakbound.cli.help import Command
from leakbound.cli.said import Said, held_run, workers_from
from leakbound.cli.saying import bold, on_terminal, say, write
from leakbound.errors import IncompleteError, InputError, LeakboundError


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@opt.scorers
@opt.calibration
@opt.precision
@opt.ray
@opt.as_json
def score(
    run: Path, scorers: tuple[str, ...], calibration: Path | None, as_json: bool, **values: Any
) -> None:
    """Score the completions of RUN; no model of the run is loaded.

    --dtype and --device are those of the models that scorers ask; by default the run's. A judge
    behind a server is asked only where --scorer names it. Other models can be asked by workers.
    """
    from leakbound.evaluation import score as verb

    options = Said(values)
    workers = workers_from(options)
    opened = held_run(run, "score")
    with progress_bar(not as_json) as progress:
        chosen = verb(
            opened,
            scorers,
            calibration=calibration,
            settings=options.into(opened.study.settings, "dtype", "device"),
            workers=workers,
            progress=progress,
        )
    if as_json:
        print_json({"run": str(run), "scorers": [s.name for s in chosen]})


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@opt.scorers
@click.option("--confidence", type=opt.number, help="Of each estimate.  [default: the run's]")
@click.option("--limit", type=opt.number, metavar="X", help="Name questions proved to leak <= X.")
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

    opened = held_run(run, "bound")
    with progress_bar(not as_json) as progress:
        chosen = verb(opened, scorers, confidence=confidence, progress=progress)
    confidence = opened.study.confidence if confidence is None else confidence
    clean = []
    if limit is not None:
        clean = [clean_table(opened, scorer, limit, confidence) for scorer in chosen]
    report_on(opened, as_json, clean)
    require_complete(opened)


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

    opened = held_run(run, "measure")
    with progress_bar(not as_json) as progress:
        verbs.measure(opened, metrics or (), progress=progress)
    if as_json:
        print_json({"run": str(run), **verbs.stored_metrics(opened)})
        return
    say_notes(opened.notes)
    if table := verbs.metrics_table(opened):
        print_table(table)


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
@opt.proposals
@opt.removed("prove --draws")
@opt.removed("prove --mix")
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

    opened = held_run(run, "prove")
    with progress_bar(not as_json) as progress:
        verb(opened, budget, scorer, model=model, proposals=proposals, progress=progress)
    report_on(opened, as_json)


@click.command(cls=Command)
@click.argument("runs", type=opt.RUN, nargs=-1, required=True)
@click.option("--out", type=opt.FILE, help="[default: report[-redacted].html in the run]")
@opt.redact("Leave out answers, keywords and completions, from now on.  [default: as before]")
@opt.as_json
def report(runs: tuple[Path, ...], out: Path | None, redact: Any, as_json: bool) -> None:
    """Write one self-contained HTML page about RUNS, and print their table.

    If RUNS is one folder that holds runs, write an index of all runs below it instead: index.html,
    in that folder. The index links to the page of each complete run, which is written if it is
    missing or older than the run, and to a comparison of the runs that share their questions.

    --redact is kept with the runs: later commands write report-redacted.html, and exports hold no
    text, until --no-redact is given.
    """
    from leakbound.reporting.page import report as verb
    from leakbound.store import Run
    from leakbound.store.record import FILE

    if len(runs) == 1 and runs[0].is_dir() and not (runs[0] / FILE).exists():
        _report_folder(runs[0], out, redact, as_json)
        return
    opened = [Run.open(run) for run in runs]
    before = [len(run.notes) for run in opened]
    path = verb(opened, out, redact=redact)
    if as_json:
        for run, count in zip(opened, before, strict=True):
            say_notes(run.notes[count:])
        entries = [
            {"run": str(run.path), "ledger": _ledgers(run), "estimates": _plain(run)}
            for run in opened
        ]
        print_json({"report": str(path), "runs": entries})
        return
    for run in opened:
        print_tables(run)
    say(f"report: {path}")


def _report_folder(folder: Path, out: Path | None, redact: Any, as_json: bool) -> None:
    """Write the index of a folder of runs, and print a row for each of them."""
    from leakbound.reporting.index import write_index

    if out is not None:
        raise InputError(
            f"`--out` is for a page about runs, and `{folder}` is a folder of runs, whose index is "
            "written into it. Leave out `--out`, or name runs."
        )
    with progress_bar(not as_json) as progress:
        index = write_index(folder, redact=redact, progress=progress)
    say_notes(index.notes)
    if as_json:
        print_json(index.to_dict())
        return
    print_table(index.table)
    for comparison in index.comparisons:
        say(f"comparison: {comparison.page}")
    say(f"index: {index.path}")


@click.command(cls=Command)
@click.argument("run", type=opt.RUN)
@click.option(
    "--texts/--no-texts",
    default=None,
    help="Show a leaking answer beside the greedy one.  [default: on a terminal]",
)
@opt.as_json
def show(run: Path, texts: bool | None, as_json: bool) -> int | None:
    """Print the verdict on RUN, and nothing else.

    Of a run in progress, print how far it is, which command is at work on it, and bounds that are
    valid however often you look; the exit status is then 3. A redacted run shows no answer.
    """
    from leakbound.store import Run

    opened = Run.open(run)
    try:
        _ = opened.estimates
    except LeakboundError as error:
        return _show_progress(opened, error, as_json)
    if as_json:
        print_json({"run": str(run), "verdicts": _verdicts(opened, texts=bool(texts))})
    else:
        print_verdicts(opened, texts)
    return None


def _show_progress(run: Any, why: LeakboundError, as_json: bool) -> int:
    """Print how far a run in progress is; raise `why` if no command is at work on it."""
    from leakbound.evaluation.following import follow

    look = follow(run)
    if look.holder is None and not isinstance(why, IncompleteError):
        raise why
    if as_json:
        print_json({"run": str(run.path), "progress": look.to_dict()})
    else:
        say(prose(look.state))
        print_table(look.table)
        if look.so_far:
            say(prose(look.lead))
        for bounds in look.so_far:
            say(prose(bounds.sentence))
    if look.holder is None:
        raise why
    return IncompleteError.exit_status


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
    type=opt.number,
    help="Of all differences jointly.  [default: 0.99, method 0.95]",
)
@click.option(
    "--by",
    type=click.Choice(["run", "method"]),
    default="run",
    show_default=True,
    help="method: the median over training seeds, of runs called npo-0, npo-1 …",
)
@click.option("--under", default="", metavar="STRESS", help="Each put through it; see `stress`.")
@opt.as_json
def compare(
    runs: tuple[Path, ...],
    form: Literal["table", "markdown", "latex", "csv"],
    out: Path | None,
    utility: str | None,
    confidence: float | None,
    by: str,
    under: str,
    as_json: bool,
) -> None:
    """Compare RUNS, question by question, with the first of them.

    How much more or less each model leaks than the baseline, which is the first run's model: on
    average, at which questions, and at most. All differences of a scorer hold at once. A verdict on
    each model is said first, then what was made otherwise, and a leaderboard last: certified
    leakage, beyond the control where all have one, and utility where it was measured with
    --metrics. Runs of other questions are refused. Of a run with several decodings each stands by
    itself. By method, what is said is about a method over the seeds that it trained from, not
    about these models.
    """
    from leakbound.presenting import comparing as verbs
    from leakbound.presenting.compared import SHOWN, Comparison
    from leakbound.store.files import write_text

    how: Any = {"under": under} | ({} if confidence is None else {"confidence": confidence})
    comparison = (
        verbs.compare_methods(runs, **how)
        if by == "method"
        else verbs.compare(runs, utility=utility, **how)
    )
    if as_json:
        print_json(comparison.to_dict())
        return
    if form == "table" and out is None:
        if isinstance(comparison, Comparison):
            say(f"{prose(comparison.opening)}\n")
            tables = comparison.tables(questions=SHOWN)
        else:
            tables = list(comparison.tables())
        for table in tables:
            print_table(table)
        return
    text = comparison.written("markdown" if form == "table" else form)
    if out is None:
        say(text.rstrip("\n"))
        return
    write_text(out, text)
    say(f"written: {out}")


@click.command(cls=Command)
@click.option("--epsilon", type=opt.number, help="How far Pr[X > x], at any x, may be off.")
@click.option("--clean", type=opt.number, metavar="P", help="Certify P(leak) <= P if none leaks.")
@opt.confidence
@click.option(
    "--side",
    type=click.Choice(["upper", "both"]),
    default="both",
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
    lines = []
    if epsilon is not None:
        lines.append(
            f"{needed.epsilon:,} draws a question: Pr[X > x] is then known within {epsilon:g} "
            f"at every x (DKW, {percent(confidence)}, {side})."
        )
    if clean is not None:
        lines.append(
            f"{needed.clean:,} draws a question, none of which leaks, certify P(leak) <= "
            f"{clean:g} at {percent(confidence)}."
        )
    say(prose("\n".join(lines)))


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print click's script, with which SHELL completes commands, options, choices and files."""
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    complete = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}[shell]
    root = click.get_current_context().find_root().command
    click.echo(complete(root, {}, "leakbound", "_LEAKBOUND_COMPLETE").source())


def report_on(run: Any, as_json: bool, more: Sequence[Any] = ()) -> None:
    """Write the report of a run, and print its tables and `more`, or its estimates as JSON.

    A run in which no question could be sampled has nothing to report, nor has a slice of a study.
    """
    from leakbound.reporting.page import older_page, page_of, write_report

    if part := run.record.slice:
        if as_json:
            print_json({"run": str(run.path), "questions": part})
        else:
            say(f"slice {part}: {run.path}; when all are drawn: leakbound merge RUN... --out RUN")
        return
    path = None
    if run.redacted:
        run.notes.extend(older_page(run))
    if run.estimates:
        path = str(write_report({run.path.name: run}, page_of(run)))
    if as_json:
        _print_notes(run)
        result: dict[str, Any] = {"run": str(run.path), "verdicts": _verdicts(run), "report": path}
        result |= {"ledger": _ledgers(run), "estimates": _plain(run)}
        tables = [asdict(table) | {"rows": table.texts} for table in more]
        print_json(result | ({"tables": tables} if more else {}))
        return
    print_tables(run, more)
    if path:
        say(f"report: {path}")


def print_verdicts(run: Any, texts: bool | None = None) -> None:
    """Print what the run shows of its model.

    `texts`: with a leaking answer; by default on a terminal alone, where a person reads it.
    """
    from leakbound.evaluation import run_verdicts

    for verdict in run_verdicts(run, texts=on_terminal() if texts is None else texts):
        write(bold(prose(f"{verdict.model}: {verdict.headline}")))
        for line in (*verdict.lines[1:], *verdict.quoted):
            say(prose(line))
        say("")


def _verdicts(run: Any, *, texts: bool = False) -> list[dict[str, Any]]:
    """The verdicts on the run's model as JSON holds them."""
    from leakbound.evaluation import run_verdicts

    return [v.to_dict() for v in run_verdicts(run, texts=texts)]


def _ledgers(run: Any) -> dict[str, dict[str, int]]:
    """How the draws of each arm are counted, as JSON holds it."""
    return {name: ledger.to_dict() for name, ledger in run.ledger.items()}


def _plain(run: Any) -> list[dict[str, Any]]:
    """The estimates of a run as JSON holds them."""
    return [row.to_dict() for row in run.estimates]


def _print_notes(run: Any) -> None:
    say_notes([*run.notes, *(note for arm in run.arms.values() for note in arm.usage.notes)])


def print_tables(run: Any, more: Sequence[Any] = ()) -> None:
    """The notes of a run on standard error; its verdict, tables and `more` on standard output."""
    from leakbound.evaluation import summary

    _print_notes(run)
    print_verdicts(run)
    for table in [*summary(run), *more]:
        print_table(table)
