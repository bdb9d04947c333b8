"""Commands outside the core: demo, figures, export and import.

Only this module imports their packages; the core does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from leakbound.cli import options as opt
from leakbound.cli.console import print_json, print_table, progress_bar, prose, say_notes
from leakbound.cli.output import say
from leakbound.cli.parsed import Parsed
from leakbound.errors import InputError, needing


@opt.command
def demo(options: Parsed) -> None:
    """Train a small model, unlearn data, and show the leak that the greedy answer hides.

    The data is built in, and nothing is downloaded. The command trains four Llama models of a
    million parameters and evaluates them on all forget questions. It needs a few minutes on two
    cores. If the command is stopped, run it again to resume.

    Examples:
        leakbound demo --out demo-run
    """
    with needing("the demo", "models"):
        from leakbound.demo import SCORER, run_demo
    with progress_bar(not options.as_json) as progress:
        made = run_demo(options.out, n=options.n, progress=progress)
    if options.as_json:
        finding = {**asdict(made.finding), "shown": made.finding.shown}
        print_json({"report": str(made.report), "finding": finding})
        return
    for table in made.tables:
        print_table(table)
    for sentence in made.finding.sentences():
        say(prose(f"• {sentence}"))
    say(f"report: {made.report}")
    last = made.runs["NPO + entropy"].path
    say(f"try: leakbound certify {last} --scorer {SCORER} --max-leak 0.003")


@opt.command
def figures(options: Parsed) -> None:
    """Draw figures of RUNS for a paper, and write them to --out as PDF, SVG and PNG.

    RUNS are run directories with the same questions. For figures of training, RUNS are folders of
    trained models. A CSV file next to each figure has the plotted data. If RUNS lack the data for a
    figure, the command leaves out the figure and prints the reason.

    Examples:
        leakbound figures runs/mine --out figures
    """
    from leakbound.plotting import figures as verb
    from leakbound.plotting import figures_table

    runs, about = options.runs, options.stated("scorer", "question")
    if options.listing:
        table = figures_table(runs, **about)
        if options.as_json:
            columns = ("figure", "shows", "paper", "given" if runs else "needs")
            print_json([dict(zip(columns, row, strict=True)) for row in table.texts])
        else:
            print_table(table)
        return
    if options.out is None:
        raise InputError("`--out` is missing. Name a folder for the figures, as in --out figures.")
    made = verb(runs, options.out, **about, **options.stated("only", "formats", "width"))
    if not options.as_json:
        for name, why in made.left_out.items():
            say(f"left out: {name}: {why}", err=True)
    _print_written(options, made.files, left_out=made.left_out)


@opt.command
def export(options: Parsed) -> None:
    """Write the metrics or the completions of a run to OUT.

    With --openunlearning, OUT must end in _EVAL.json. The command also writes a _SUMMARY.json to
    the same folder. Neither file has questions, answers or completions. Runs of one model on the
    parts of MUSE (muse:news-knowmem, -verbmem, -privleak) are joined into one log.

    With --jsonl, OUT has the columns id, question, answer, completion and count, and the settings
    of the decoding. `leakbound import` reads this file. With --redact, or if the run's report is
    redacted, OUT has scores in place of all texts. A run that is imported from these scores has the
    same bounds as the original run. It has no proof of a leak, because a proof needs the
    probabilities of the texts.

    Examples:
        leakbound export runs/mine TOFU_EVAL.json --openunlearning
        leakbound export runs/mine draws.jsonl --jsonl
    """
    from leakbound.formats.exporting import export as verb
    from leakbound.store import Run

    if options.form is None:
        raise InputError("the format is missing. Add --openunlearning or --jsonl.")
    settings = options.stated("form", "redact", "arm", "retrained")
    made = verb([Run.open(run) for run in options.runs], options.out, **settings)
    say_notes(made.notes)
    _print_written(options, made.files)


def _print_written(options: Parsed, files: Sequence[Path], **more: object) -> None:
    """Print the paths of the written files, or a JSON document with them and `more`."""
    if options.as_json:
        print_json({"runs": [*map(str, options.runs)], "written": [*map(str, files)], **more})
        return
    for file in files:
        say(f"written: {file}")


@opt.command
def import_(options: Parsed) -> None:
    """Make a run from samples that another tool drew, so that you can score and bound it.

    FILES are logs of inspect_ai with epochs (.eval, .json), samples_*.jsonl of
    lm-evaluation-harness with repeats, *_EVAL.json of OpenUnlearning (greedy answers), reports of
    garak, outputs of promptfoo with repeats, details_*.parquet of lighteval, JSON lines, or CSV.

    JSON lines and CSV have the columns id, question, answer and completion. If each row is a
    distinct text, a column count has the number of draws of the text. Columns such as temperature,
    top_p, top_k, max_new_tokens and model contain the sampling settings; each must have the same
    value in every row. Optional columns describe the output: finish (how it ended), thought, tokens
    (their number), and refused (the provider marked it as a refusal). A filtered or empty output
    counts as missing.

    Samples drawn at temperature 0 become the greedy answers of the run. They can be imported only
    together with samples drawn at a higher temperature.

    Scores in the files become scores of the run, so no judge has to run again. Scores of inspect_ai
    and lm-evaluation-harness, and of garak's detectors, are named logged:by=NAME. Scores of
    promptfoo are named logged:by=failed. --scores NAME,... imports only these scores, and --scores
    none imports no scores. Redacted lines (`export --jsonl --redact`) have scores without texts. A
    run from such lines has the bounds of the original run.

    Examples:
        leakbound import logs/mine.eval --out runs/theirs
    """
    from leakbound.formats.importing import import_run
    from leakbound.scoring.score import scored_by
    from leakbound.store import ImportedDraws

    settings = options.stated("form", "benchmark", "data", "scores")
    run, out = import_run(options.files, out=options.out, **settings), options.out
    scorers = scored_by(run)
    arms = {
        name: {
            "questions": len(arm.queries),
            "n": arm.plan.n,
            "as_sampled_by": draws.sampled_by,
            "notes": arm.usage.notes,
        }
        for name, arm in run.arms.items()
        if isinstance(draws := arm.spec.draws, ImportedDraws)
    }
    if options.as_json:
        print_json({"run": str(out), "arms": arms, "scorers": list(scorers)})
        return
    for name, arm in arms.items():
        counts = f"{arm['questions']:,} questions, n = {arm['n']:,}"
        say(f"{name}: {counts}, as sampled by {arm['as_sampled_by']}")
    say_notes(note for arm in run.arms.values() for note in arm.usage.notes)
    if scorers:
        say(f"with scores of {', '.join(scorers)}; next: leakbound bound {out}")
    else:
        say(f"next: leakbound score {out}, then leakbound bound {out}")
