"""The small commands of the core: one call each, of what is on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose, say_notes
from leakbound.cli.parsed import Parsed, locked_run, workers_from
from leakbound.cli.saying import bold, on_terminal, say, write
from leakbound.errors import IncompleteError, InputError, LeakboundError


@opt.command
def score(
    run: Path, scorers: tuple[str, ...], calibration: Path | None, as_json: bool, **values: Any
) -> None:
    """Score the completions of RUN; no model of the run is loaded.

    --dtype and --device are those of the models that scorers ask; by default the run's. A judge
    behind a server is asked only where --scorer names it. Other models can be asked by workers.

    Examples:
        leakbound score runs/mine --scorer 'rouge-l-recall>=0.5' --scorer contains
    """
    from leakbound.evaluation import score as verb

    options = Parsed(values)
    workers = workers_from(options)
    opened = locked_run(run, "score")
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


@opt.command
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

    Examples:
        leakbound bound runs/mine --confidence 0.999
        leakbound bound runs/mine --limit 0.02
    """
    from leakbound.evaluation import bound as verb
    from leakbound.evaluation import clean_table, require_complete

    opened = locked_run(run, "bound")
    with progress_bar(not as_json) as progress:
        chosen = verb(opened, scorers, confidence=confidence, progress=progress)
    confidence = opened.study.confidence if confidence is None else confidence
    clean = []
    if limit is not None:
        clean = [clean_table(opened, scorer, limit, confidence) for scorer in chosen]
    report_on(opened, as_json, clean)
    require_complete(opened)


@opt.command
def measure(run: Path, metrics: tuple[str, ...] | None, as_json: bool) -> None:
    """Measure utility and memorisation of RUN again, or by other metrics.

    What `leakbound evaluate --metrics` has read for some metrics serves all that need no more: no
    model is loaded, but the classifier that forget_fluency asks.

    Examples:
        leakbound measure runs/mine --metrics model_utility,forget_quality
    """
    from leakbound import evaluation as verbs

    opened = locked_run(run, "measure")
    with progress_bar(not as_json) as progress:
        verbs.measure(opened, metrics or (), progress=progress)
    if as_json:
        print_json({"run": str(run), **verbs.stored_metrics(opened)})
        return
    say_notes(opened.notes)
    if table := verbs.metrics_table(opened):
        print_table(table)


@opt.command
def prove(
    run: Path,
    budget: int,
    scorer: str | None,
    proposals: tuple[str, ...],
    model: str | None,
    as_json: bool,
) -> None:
    """Look for leaks of RUN's model that are too rare to be drawn, and add what they prove.

    None of RUN's draws is drawn again. The model's own probabilities of leaking answers are added
    up: from the benchmark's answers, from what RUN's models and those of --proposal said, and from
    a search around these. The sum is a lower bound without chance, given the measured margin for
    rounding, and so is leak@k for every k. Table, report and certificate have it from then on.

    Examples:
        leakbound prove runs/npo --proposal runs/full --budget 1000
    """
    from leakbound.evaluation import prove as verb

    opened = locked_run(run, "prove")
    with progress_bar(not as_json) as progress:
        verb(opened, budget, scorer or "", model=model, proposals=proposals, progress=progress)
    report_on(opened, as_json)


@opt.command
def report(runs: tuple[Path, ...], out: Path | None, redact: Any, as_json: bool) -> None:
    """Write one self-contained HTML page about RUNS, and print their table.

    If RUNS is one folder that holds runs, write an index of all runs below it instead: index.html,
    in that folder. The index links to the page of each complete run, which is written if it is
    missing or older than the run, and to a comparison of the runs that share their questions.

    --redact is kept with the runs: later commands write report-redacted.html, and exports hold no
    text, until --no-redact is given.

    Examples:
        leakbound report runs/mine
        leakbound report runs
        leakbound report runs/npo runs/entropy --out both.html
    """
    from leakbound.reporting.index import write_index
    from leakbound.reporting.page import report as verb
    from leakbound.store import Run
    from leakbound.store.record import FILE

    if len(runs) == 1 and runs[0].is_dir() and not (runs[0] / FILE).exists():
        if out is not None:
            raise InputError(
                f"`--out` is for a page about runs, and `{runs[0]}` is a folder of runs, whose "
                "index is written into it. Leave out `--out`, or name runs."
            )
        with progress_bar(not as_json) as progress:
            index = write_index(runs[0], redact=redact, progress=progress)
        say_notes(index.notes)
        if as_json:
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
    if as_json:
        for run, count in zip(opened, before, strict=True):
            say_notes(run.notes[count:])
        print_json({"report": str(path), "runs": [*map(_as_json, opened)]})
        return
    for run in opened:
        print_tables(run)
    say(f"report: {path}")


@opt.command
def show(run: Path, texts: bool | None, as_json: bool) -> int | None:
    """Print the verdict on RUN, and nothing else.

    Of a run in progress, print how far it is, which command is at work on it, and bounds that are
    valid however often you look; the exit status is then 3. A redacted run shows no answer.

    Examples:
        leakbound show runs/mine
    """
    from leakbound.evaluation.following import follow
    from leakbound.store import Run

    opened = Run.open(run)
    try:
        _ = opened.estimates
    except LeakboundError as error:
        look = follow(opened)
        if look.holder is None and not isinstance(error, IncompleteError):
            raise
        if as_json:
            print_json({"run": str(opened.path), "progress": look.to_dict()})
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
    if as_json:
        print_json({"run": str(run), "verdicts": _verdicts(opened, texts=bool(texts))})
    else:
        print_verdicts(opened, texts)
    return None


@opt.command
def compare(
    runs: tuple[Path, ...],
    form: Literal["table", "markdown", "latex", "csv"],
    out: Path | None,
    utility: str | None,
    confidence: float | None,
    by: str,
    under: str | None,
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

    Examples:
        leakbound compare runs/before runs/after
        leakbound compare runs/before runs/after --format latex --out table.tex
    """
    from leakbound.presenting import comparing as verbs
    from leakbound.presenting.compared import SHOWN, Comparison
    from leakbound.store.files import write_text

    how: Any = {"under": under or ""} | ({} if confidence is None else {"confidence": confidence})
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


@opt.command
def plan(
    epsilon: float | None, clean: float | None, confidence: float, side: Any, as_json: bool
) -> None:
    """How many draws per question a guarantee needs.

    Examples:
        leakbound plan --epsilon 0.05 --clean 0.02
    """
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


@opt.command
def completion(shell: str) -> None:
    """Print click's script, with which SHELL completes commands, options, choices and files.

    Examples:
        eval "$(leakbound completion bash)"    # in ~/.bashrc
        eval "$(leakbound completion zsh)"     # in ~/.zshrc, after compinit
        leakbound completion fish > ~/.config/fish/completions/leakbound.fish
    """
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
        result = {**_as_json(run), "verdicts": _verdicts(run), "report": path}
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


def _as_json(run: Any) -> dict[str, Any]:
    """Return the ledger of each arm and the estimates, as JSON holds them."""
    ledger = {name: ledger.to_dict() for name, ledger in run.ledger.items()}
    estimates = [row.to_dict() for row in run.estimates]
    return {"run": str(run.path), "ledger": ledger, "estimates": estimates}


def _print_notes(run: Any) -> None:
    say_notes([*run.notes, *(note for arm in run.arms.values() for note in arm.usage.notes)])


def print_tables(run: Any, more: Sequence[Any] = ()) -> None:
    """The notes of a run on standard error; its verdict, tables and `more` on standard output."""
    from leakbound.evaluation import summary

    _print_notes(run)
    print_verdicts(run)
    for table in [*summary(run), *more]:
        print_table(table)
