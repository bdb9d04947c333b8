"""`residua export`: what a run holds, for other tools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from residua.cli import options as opt
from residua.cli.console import print_json
from residua.errors import InputError
from residua.registry import suggestion

if TYPE_CHECKING:
    from residua.metrics import Values
    from residua.store import Run
    from residua.types import Prompt, Query

_EVAL, _SUMMARY = "_EVAL.json", "_SUMMARY.json"


@click.command()
@click.argument("run", type=opt.RUN)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--openunlearning", "form", flag_value="log", help="Metrics, as an evaluation log of theirs."
)
@click.option("--jsonl", "form", flag_value="samples", help="Completions and how often each came.")
@click.option("--arm", default="target", show_default=True, help="Of which model or decoding.")
@click.option(
    "--retrained",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A log of the retrained model, to compare with where RUN has no control.",
)
@opt.as_json
def export(
    run: Path, out: Path, form: str | None, arm: str, retrained: Path | None, as_json: bool
) -> None:
    """Write the metrics or the completions of RUN to OUT.

    With --openunlearning, OUT ends in _EVAL.json; the _SUMMARY.json beside it is written too. The
    log holds no text of the run. With --jsonl, OUT has the columns id, question, answer,
    completion and count, which `residua import` reads.
    """
    from residua.store import Run

    if form is None:
        raise InputError("say what to write: --openunlearning or --jsonl.")
    if retrained and form != "log":
        raise InputError("`--retrained` is for --openunlearning. Leave it out.")
    opened = Run.open(run)
    written = (
        _write_log(opened, out, arm, retrained)
        if form == "log"
        else _write_samples(opened, out, arm)
    )
    if as_json:
        print_json({"run": str(run), "written": [str(file) for file in written]})
        return
    for file in written:
        click.echo(f"written: {file}")


def _write_log(run: Run, out: Path, arm: str, retrained: Path | None) -> list[Path]:
    from residua.formats.openunlearning import as_log, as_summary, read_log
    from residua.formats.openunlearning_values import against_log
    from residua.store import write_json

    if not out.name.endswith(_EVAL):
        raise InputError(
            f"OUT must end in {_EVAL}, got {out.name!r}. Write {out.with_name('TOFU' + _EVAL)}."
        )
    found = _metrics(run, arm)
    if retrained:
        found = {**found, **against_log(found, read_log(retrained))}
    log = as_log(found, {prompt.id for prompt in run.prompts if prompt.role == "forget"})
    summary = out.with_name(out.name.removesuffix(_EVAL) + _SUMMARY)
    write_json(out, log)
    write_json(summary, as_summary(log))
    return [out, summary]


def _metrics(run: Run, arm: str) -> Mapping[str, Values]:
    """The metrics of one model, as `residua evaluate --metrics` has stored them."""
    from residua.metrics import Values

    file = run.path / "utility.json"
    try:
        arms = json.loads(file.read_text(encoding="utf-8"))["arms"]
    except FileNotFoundError as error:
        raise InputError(
            f"`{run.path}` has no metrics. Run `residua evaluate` with `--metrics all`."
        ) from error
    except (ValueError, KeyError) as error:
        raise InputError(f"`{file}` holds no metrics. Run `residua measure` again.") from error
    if arm not in arms:
        raise InputError(f"no metrics of {arm!r} in `{run.path}`. {suggestion(arm, arms)}")
    return {name: Values(**values) for name, values in arms[arm]["metrics"].items()}


def _write_samples(run: Run, out: Path, arm: str) -> list[Path]:
    """Draws alone: masses are no samples, and a sample with questions missing is another one."""
    from residua.evaluation import require_complete, require_sampled
    from residua.store import write_text

    if arm not in run.arms:
        raise InputError(f"`{run.path}` has no arm {arm!r}. {suggestion(arm, run.arms)}")
    drawn = run.arms[arm]
    if drawn.exploring is not None:
        raise InputError(f"arm {arm!r} holds masses, not draws. Export an arm that was sampled.")
    require_sampled(run)
    require_complete(run)
    prompts = {prompt.id: prompt for prompt in run.prompts}
    queries = {query.id: query for query in drawn.queries}
    lines = [
        _line(queries[row["query_id"]], prompts, row)
        for part in drawn.parts
        for row in drawn.completions(part).select(["query_id", "text", "count"]).to_pylist()
        if row["count"]  # a text that was only proved possible was not drawn
    ]
    write_text(out, "".join(lines))
    return [out]


def _line(query: Query, prompts: Mapping[str, Prompt], row: Mapping[str, Any]) -> str:
    columns = {
        "id": query.id,
        "question": query.text,
        "answer": prompts[query.prompt_id].answer,
        "completion": row["text"],
        "count": row["count"],
    }
    return json.dumps(columns) + "\n"
