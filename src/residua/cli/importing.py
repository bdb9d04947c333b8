"""`residua import`: other tools' samples as a run."""

from __future__ import annotations

from pathlib import Path

import click

from residua.cli import options as opt
from residua.cli.console import print_json


@click.command("import")
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
@opt.as_json
def import_(
    files: tuple[Path, ...],
    out: Path,
    form: str | None,
    benchmark: str | None,
    data: Path | None,
    as_json: bool,
) -> None:
    """Make a run of samples that another tool drew; then score, bound and report it.

    FILES are logs of inspect_ai with epochs (.eval, .json), samples_*.jsonl of
    lm-evaluation-harness with repeats, *_EVAL.json of OpenUnlearning (greedy answers), or JSON
    lines with the columns id, question, answer, completion and, where rows are distinct texts,
    count; columns such as temperature, top_p, top_k, max_new_tokens and model, the same in every
    row, say how they were drawn. Samples drawn at temperature 0 become the greedy answers beside
    the rest.
    """
    from residua.evaluation.importing import import_samples

    run = import_samples(files, out=out, form=form, benchmark=benchmark, data=data)
    arms = {
        name: {
            "questions": len(arm.queries),
            "n": arm.plan.n,
            "as_sampled_by": arm.spec["fingerprint"]["as sampled by"],
            "notes": arm.usage.notes,
        }
        for name, arm in run.arms.items()
    }
    if as_json:
        print_json({"run": str(out), "arms": arms})
        return
    for name, arm in arms.items():
        click.echo(
            f"{name}: {arm['questions']:,} questions, n = {arm['n']:,}, as sampled by "
            f"{arm['as_sampled_by']}"
        )
    for note in dict.fromkeys(note for arm in arms.values() for note in arm["notes"]):
        click.echo(f"note: {note}", err=True)
    click.echo(f"next: residua score {out}, residua bound {out}")
