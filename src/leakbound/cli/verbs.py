"""Small commands of the core. Each calls one function of the library, most with a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose, say_notes
from leakbound.cli.help import write_commands
from leakbound.cli.output import bold, on_terminal, say, write
from leakbound.cli.parsed import Parsed, locked_run, with_settings, workers_from
from leakbound.errors import IncompleteError, InputError, LeakboundError


@opt.command
def score(options: Parsed) -> None:
    """Score the completions of RUN without loading its model.

    --dtype and --device are for models that scorers use; the defaults are the settings of RUN. The
    command sends requests to a judge on a server only if --scorer names the judge. With --ray,
    workers of Ray run all models that are not on a server.

    Examples:
        leakbound score runs/mine --scorer 'rouge-l-recall>=0.5' --scorer contains
    """
    from leakbound.evaluation import score as verb

    workers = workers_from(options)
    opened = locked_run(options.run, "score")
    with progress_bar(not options.as_json) as progress:
        chosen = verb(
            opened,
            options.scorers,
            calibration=options.calibration,
            settings=options.into(opened.study.settings, "dtype", "device"),
            workers=workers,
            progress=progress,
        )
    if options.as_json:
        print_json({"run": str(options.run), "scorers": [s.name for s in chosen]})


@opt.command
def bound(options: Parsed) -> None:
    """Compute the bounds of RUN from its stored scores, for example at another confidence.

    By default, the command uses all scorers of RUN. With --scorer, the estimates of the other
    scorers do not change. With --limit X, the command also lists the questions whose leakage is
    proved to be at most X. All entries of the list are correct simultaneously, with the given
    confidence (Holm's method).

    Examples:
        leakbound bound runs/mine --confidence 0.999
        leakbound bound runs/mine --limit 0.02
    """
    from leakbound.evaluation import bound as verb
    from leakbound.evaluation import clean_table, require_complete

    run, limit = locked_run(options.run, "bound"), options.limit
    with progress_bar(not options.as_json) as progress:
        chosen = verb(run, options.scorers, confidence=options.confidence, progress=progress)
    confidence = run.study.confidence if options.confidence is None else options.confidence
    clean = []
    if limit is not None:
        clean = [clean_table(run, scorer, limit, confidence) for scorer in chosen]
    report_on(run, options.as_json, clean)
    require_complete(run)


@opt.command
def prove(options: Parsed) -> None:
    """Search RUN's model for leaks that are too rare to be drawn, and add the lower bounds.

    The command draws nothing. It finds leaking answers and adds up their probabilities under the
    model. It tries the benchmark's answers, the answers in RUN and in the runs of `proposals=`, and
    similar answers. The sum is a lower bound on the leak probability. This bound has no sampling
    error; a measured margin allows for rounding. It implies a lower bound on leak@k for every k.
    From then on, tables, report and certificates of RUN include these bounds.

    Examples:
        leakbound prove runs/npo --budget 1000,proposals=runs/full
    """
    from leakbound.evaluation import prove as verb
    from leakbound.study import Prove

    search = with_settings(Prove, "--budget", options.budget)
    run, how = locked_run(options.run, "prove"), options.stated("scorer", "model")
    with progress_bar(not options.as_json) as progress:
        verb(run, search.forwards, proposals=search.proposals, progress=progress, **how)
    report_on(run, options.as_json)


@opt.command
def report(options: Parsed) -> None:
    """Write one self-contained HTML page about RUNS, and print their tables.

    If RUNS is one folder that contains several runs, the command writes an index of these runs,
    index.html, into this folder. The index links to the page of each complete run, and to
    comparisons of runs with the same questions. Missing and outdated pages are written first.

    --redact is stored with the runs. Later commands then write report-redacted.html, and exports
    contain no text, until you pass --no-redact.

    Examples:
        leakbound report runs/mine
        leakbound report runs
        leakbound report runs/npo runs/entropy --out both.html
    """
    from leakbound.reporting.index import write_index
    from leakbound.reporting.page import report as verb
    from leakbound.store import Run
    from leakbound.store.record import FILE

    runs, out, redact = options.runs, options.out, options.redact
    if len(runs) == 1 and runs[0].is_dir() and not (runs[0] / FILE).exists():
        if out is not None:
            raise InputError(
                f"`--out` {out} has no effect: the index is written into `{runs[0]}`, a folder of "
                "runs. Omit `--out`, or name single runs."
            )
        with progress_bar(not options.as_json) as progress:
            index = write_index(runs[0], redact=redact, progress=progress)
        say_notes(index.notes)
        if options.as_json:
            print_json(index.to_dict())
            return
        print_table(index.table)
        for comparison in index.comparisons:
            say(f"comparison: {comparison.page}")
        say(f"index: {index.path}")
        return
    opened = [Run.open(run) for run in runs]
    before = [len(run.notes) for run in opened]
    path = verb(opened, out, redact=redact)
    if options.as_json:
        for run, count in zip(opened, before, strict=True):
            say_notes(run.notes[count:])
        print_json({"report": str(path), "runs": [*map(_as_json, opened)]})
        return
    for run in opened:
        print_tables(run)
    say(f"report: {path}")


@opt.command
def show(options: Parsed) -> int | None:
    """Print only the verdict of RUN.

    If RUN is in progress, the command prints the progress, the running command, and bounds from
    the draws so far. You may look at these bounds repeatedly; they stay valid. The exit status is
    then 3. For a redacted run, no answer is printed.

    Examples:
        leakbound show runs/mine
    """
    from leakbound.evaluation.following import follow
    from leakbound.store import Run

    run = Run.open(options.run)
    try:
        _ = run.estimates
    except LeakboundError as error:
        look = follow(run)
        if look.holder is None and not isinstance(error, IncompleteError):
            raise
        if options.as_json:
            print_json({"run": str(run.path), "progress": look.to_dict()})
        else:
            say(prose(look.state))
            print_table(look.table)
            if look.so_far:
                say(prose(look.lead))
            for bounds in look.so_far:
                say(prose(bounds.sentence))
        if look.holder is None:
            raise
        return IncompleteError.exit_status
    if options.as_json:
        print_json({"run": str(run.path), "verdicts": _verdicts(run, texts=bool(options.texts))})
    else:
        print_verdicts(run, options.texts)
    return None


@opt.command
def compare(options: Parsed) -> None:
    """Compare the models of RUNS with the model of the first run, question by question.

    RUNS must have the same questions. The verdicts come first, with the settings that differ
    between the runs. The tables show the difference in mean leakage and the difference at each
    question. All bounds on differences under one scorer are valid simultaneously.

    A leaderboard comes last. It has upper bounds on the leakage, or on the excess if all runs have
    a control. It also shows the utility if the runs have metrics. Each decoding of a run is
    compared like a separate run. --by method compares methods by their median over training seeds.

    Examples:
        leakbound compare runs/before runs/after
        leakbound compare runs/before runs/after --format latex --out table.tex
    """
    from leakbound.presenting import comparing as verbs
    from leakbound.presenting.compared import SHOWN, Comparison
    from leakbound.store.files import write_text

    settings, form, out = options.stated("under", "confidence"), options.form, options.out
    comparison = (
        verbs.compare_methods(options.runs, **settings)
        if options.by == "method"
        else verbs.compare(options.runs, utility=options.utility, **settings)
    )
    if options.as_json:
        options.refuse(("out", *["form"] * (form != "table")), "has no effect on --json. Omit it.")
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


@opt.command
def plan(options: Parsed) -> None:
    """Print the number of draws per question that a guarantee needs.

    Examples:
        leakbound plan --epsilon 0.05 --clean 0.02
    """
    from leakbound.stats import percent
    from leakbound.stats import plan as verb

    epsilon, clean, confidence = options.epsilon, options.clean, options.confidence
    needed = verb(epsilon=epsilon, clean=clean, confidence=confidence, side=options.side)
    if options.as_json:
        print_json({name: value for name, value in asdict(needed).items() if value is not None})
        return
    lines = []
    if epsilon is not None:
        lines.append(
            f"{needed.epsilon:,} draws per question estimate Pr[X > x] within {epsilon:g} "
            f"at every x (DKW, {percent(confidence)}, {options.side})."
        )
    if clean is not None:
        lines.append(
            f"{needed.clean:,} draws per question, none of which leaks, certify P(leak) <= "
            f"{clean:g} with {percent(confidence)} confidence."
        )
    say(prose("\n".join(lines)))


@opt.command
def more(_: Parsed) -> None:
    """List the commands that `leakbound --help` leaves out.

    Examples:
        leakbound more
    """
    from leakbound.cli import OTHERS

    formatter = click.get_current_context().make_formatter()
    write_commands(OTHERS, formatter)
    click.echo(f"{formatter.getvalue()}\nRun `leakbound COMMAND --help` for examples and options.")


def report_on(run: Any, as_json: bool, more: Sequence[Any] = ()) -> None:
    """Write the report of a run, and print its tables and `more`, or its estimates as JSON.

    No report is written for a slice of a study, or if no question could be sampled.
    """
    from leakbound.reporting.page import older_page, page_of, write_report

    if part := run.record.slice:
        if as_json:
            print_json({"run": str(run.path), "questions": part})
        else:
            say(f"slice {part}: {run.path}; after all slices: leakbound merge RUN... --out RUN")
        return
    path = None
    if run.redacted:
        run.notes.extend(older_page(run))
    if run.estimates:
        path = str(write_report({run.path.name: run}, page_of(run)))
    if as_json:
        _print_notes(run)
        result = {**_as_json(run), "verdicts": _verdicts(run), "report": path}
        tables = [asdict(table) | {"rows": table.texts} for table in more]
        print_json(result | ({"tables": tables} if more else {}))
        return
    print_tables(run, more)
    if path:
        say(f"report: {path}")


def print_verdicts(run: Any, texts: bool | None = None) -> None:
    """Print the verdicts of a run.

    Answers are printed if `texts` is True, or if `texts` is None and standard output is a terminal.
    """
    from leakbound.evaluation import run_verdicts

    verdicts = run_verdicts(run, texts=on_terminal() if texts is None else texts)
    if not verdicts:
        say("no verdict: it needs bounds for sampled answers, drawn at a temperature above 0\n")
    for verdict in verdicts:
        write(bold(prose(f"{verdict.model}: {verdict.headline}")))
        for line in (*verdict.lines[1:], *verdict.quoted):
            say(prose(line))
        say("")


def _verdicts(run: Any, *, texts: bool = False) -> list[dict[str, Any]]:
    """Return the verdicts of the run, for JSON."""
    from leakbound.evaluation import run_verdicts

    return [v.to_dict() for v in run_verdicts(run, texts=texts)]


def _as_json(run: Any) -> dict[str, Any]:
    """Return, for JSON, the estimates and each arm's number of draws per class of outputs."""
    ledger = {name: ledger.to_dict() for name, ledger in run.ledger.items()}
    estimates = [row.to_dict() for row in run.estimates]
    return {"run": str(run.path), "ledger": ledger, "estimates": estimates}


def _print_notes(run: Any) -> None:
    say_notes([*run.notes, *(note for arm in run.arms.values() for note in arm.usage.notes)])


def print_tables(run: Any, more: Sequence[Any] = ()) -> None:
    """Print notes on standard error; print verdicts, tables and `more` on standard output."""
    from leakbound.evaluation import summary

    _print_notes(run)
    print_verdicts(run)
    for table in [*summary(run), *more]:
        print_table(table)
