"""`leakbound import`: other tools' samples as a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json
from leakbound.cli.help import Command
from leakbound.cli.saying import say


@click.command("import", cls=Command)
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=opt.RUN, required=True, help="The run directory.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["inspect", "lm-eval", "openunlearning", "jsonl"]),
    help="[default: what the files look like]",
)
@click.option("--benchmark", metavar="SPEC", help="Take questions and answers from this one.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder of the benchmark's files.")
@click.option("--scores", type=opt.names, help="Which of the files' to take.  [default: all]")
@opt.as_json
def import_(files: tuple[Path, ...], out: Path, as_json: bool, **how: Any) -> None:
    """Make a run of samples that another tool drew; then score, bound and report it.

    FILES are logs of inspect_ai with epochs (.eval, .json), samples_*.jsonl of
    lm-evaluation-harness with repeats, *_EVAL.json of OpenUnlearning (greedy answers), or JSON
    lines with the columns id, question, answer, completion and, where rows are distinct texts,
    count; columns such as temperature, top_p, top_k, max_new_tokens and model, the same in every
    row, say how they were drawn. Samples drawn at temperature 0 become the greedy answers beside
    the rest.

    Scores that the files hold become scores of the run, so that no judge is asked again: those of
    inspect_ai's and lm-evaluation-harness's scorers as logged:by=NAME. --scores NAME,... takes
    some of them, --scores none no one. Lines of scores without texts, as export --jsonl --redact
    writes them, give a run that is bounded as the one they came from.
    """
    from leakbound.evaluation.importing import import_run
    from leakbound.evaluation.scoring.score import scored_by
    from leakbound.store import ImportedDraws

    run = import_run(files, out=out, **how)
    given = scored_by(run)
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
    if as_json:
        print_json({"run": str(out), "arms": arms, "scorers": list(given)})
        return
    for name, arm in arms.items():
        counts = f"{arm['questions']:,} questions, n = {arm['n']:,}"
        say(f"{name}: {counts}, as sampled by {arm['as_sampled_by']}")
    for note in dict.fromkeys(note for arm in run.arms.values() for note in arm.usage.notes):
        say(f"note: {note}", err=True)
    if given:
        say(f"with scores of {', '.join(given)}; next: leakbound bound {out}")
    else:
        say(f"next: leakbound score {out}, leakbound bound {out}")
