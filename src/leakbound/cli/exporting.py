"""`leakbound export`: what a run holds, for other tools."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import print_json
from leakbound.cli.saying import say
from leakbound.errors import InputError, MixError
from leakbound.registry import suggestion

if TYPE_CHECKING:
    from leakbound.metrics import Values
    from leakbound.store import Arm, Run

_EVAL, _SUMMARY = "_EVAL.json", "_SUMMARY.json"


@click.command()
@click.argument("runs", type=opt.RUN, nargs=-1, required=True)
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--openunlearning", "form", flag_value="log", help="Metrics, as an evaluation log of theirs."
)
@click.option("--jsonl", "form", flag_value="samples", help="Completions and how often each came.")
@click.option(
    "--redact/--no-redact",
    default=None,
    help="With --jsonl: scores in place of all texts.  [default: as `leakbound report` was told]",
)
@click.option("--arm", default="target", show_default=True, help="Of which model or decoding.")
@click.option(
    "--retrained",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A log of the retrained model, to compare with where RUN has no control.",
)
@opt.as_json
def export(
    runs: tuple[Path, ...],
    out: Path,
    form: str | None,
    redact: bool | None,
    arm: str,
    retrained: Path | None,
    as_json: bool,
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
    from leakbound.store import Run

    if form is None:
        raise InputError("say what to write: --openunlearning or --jsonl.")
    if retrained and form != "log":
        raise InputError("`--retrained` is for --openunlearning. Leave it out.")
    if form == "samples" and len(runs) > 1:
        raise InputError(f"--jsonl writes the draws of one run, got {len(runs)}. Name one.")
    opened = [Run.open(run) for run in runs]
    if form == "samples" and redact is None and opened[0].redacted:
        redact = True
        say(
            f"note: `{runs[0]}` is redacted: scores in place of texts. --no-redact writes texts.",
            err=True,
        )
    written = (
        _write_log(opened, out, arm, retrained)
        if form == "log"
        else _write_samples(opened[0], out, arm, bool(redact))
    )
    if as_json:
        print_json({"runs": [str(run) for run in runs], "written": [str(file) for file in written]})
        return
    for file in written:
        say(f"written: {file}")


def _write_log(runs: Sequence[Run], out: Path, arm: str, retrained: Path | None) -> list[Path]:
    from leakbound.formats.openunlearning import as_summary
    from leakbound.store import write_json

    task = _benchmark(runs[0])
    family = "MUSE" if task.startswith("muse:") else "TOFU"
    if not out.name.endswith(_EVAL):
        raise InputError(
            f"OUT must end in {_EVAL}, got {out.name!r}. Write {out.with_name(family + _EVAL)}."
        )
    if len(runs) > 1:
        _require_joined(runs, arm)
    log: dict[str, Any] = {}
    for run in runs:
        log |= _log(run, arm, retrained)
    summary = out.with_name(out.name.removesuffix(_EVAL) + _SUMMARY)
    write_json(out, dict(sorted(log.items(), key=lambda entry: entry[0].lower())))
    write_json(summary, as_summary(log))
    return [out, summary]


def _log(run: Run, arm: str, retrained: Path | None) -> dict[str, Any]:
    """What a log holds of one run."""
    from leakbound.formats.openunlearning import as_log, read_log
    from leakbound.formats.openunlearning_names import names_of
    from leakbound.formats.openunlearning_values import against_log

    task, found = _benchmark(run), _metrics(run, arm)
    names = names_of(task)
    if retrained:
        found = {**found, **against_log(found, read_log(retrained))}
    log = as_log(found, {prompt.id for prompt in run.prompts if prompt.role == "forget"}, names)
    unnamed = [name for name in found if name not in names]
    if unnamed:
        say(
            f"note: left out, as OpenUnlearning's log of {task!r} has no entry for them: "
            f"{', '.join(unnamed)}",
            err=True,
        )
    if not log:
        raise InputError(
            f"no metric of `{run.path}` has an entry in OpenUnlearning's log of {task!r}. Run "
            f"`leakbound measure` with one of: {', '.join(names) or 'another benchmark'}."
        )
    return log


def _benchmark(run: Run) -> str:
    name: str = run.record["benchmark"]["name"]
    return name


def _require_joined(runs: Sequence[Run], arm: str) -> None:
    """Refuse runs that are not of one model on different parts of one corpus of MUSE."""
    first = runs[0]
    corpora = {_benchmark(run).partition("-")[0] for run in runs}
    if len(corpora) > 1 or not corpora.pop().startswith("muse:"):
        named = ", ".join(_benchmark(run) for run in runs)
        raise InputError(
            f"runs that make one log together are of the parts of MUSE News or of MUSE Books, got "
            f"{named}. Export the others by themselves."
        )
    for i, run in enumerate(runs[1:], 1):
        if _benchmark(run) in map(_benchmark, runs[:i]):
            raise InputError(
                f"two of the runs are of {_benchmark(run)!r}, the second is `{run.path}`. Name one."
            )
        if _model(run, arm) != _model(first, arm):
            raise MixError(
                f"`{run.path}` measured another model as {arm!r} than `{first.path}` did. Export "
                "runs of one model together."
            )


def _model(run: Run, arm: str) -> dict[str, Any]:
    """What was measured, however it was asked."""
    fingerprint = _stored(run, arm)["fingerprint"]["models"][arm]
    return {k: v for k, v in fingerprint.items() if k not in ("prompting", "row_budget")}


def _metrics(run: Run, arm: str) -> Mapping[str, Values]:
    """The metrics of one model, as `leakbound evaluate --metrics` has stored them."""
    from leakbound.metrics import Values

    metrics = _stored(run, arm)["arms"][arm]["metrics"]
    return {name: Values(**values) for name, values in metrics.items()}


def _stored(run: Run, arm: str) -> dict[str, Any]:
    """What `utility.json` has, an arm of that name included."""
    from leakbound.evaluation import stored_metrics

    stored = stored_metrics(run)
    arms = stored.get("arms")
    if arms is None:
        raise InputError(
            f"`{run.path}` has no metrics. Run `leakbound evaluate` with `--metrics all`."
        )
    if arm not in arms:
        raise InputError(f"no metrics of {arm!r} in `{run.path}`. {suggestion(arm, arms)}")
    return stored


def _write_samples(run: Run, out: Path, arm: str, redact: bool) -> list[Path]:
    """Draws alone: masses are no samples, and a sample with questions missing is another one."""
    from leakbound.evaluation import require_complete, require_fixed_n, require_sampled
    from leakbound.store import write_text

    if arm not in run.arms:
        raise InputError(f"`{run.path}` has no arm {arm!r}. {suggestion(arm, run.arms)}")
    drawn = run.arms[arm]
    if drawn.exploring is not None:
        raise InputError(f"arm {arm!r} holds masses, not draws. Export an arm that was sampled.")
    require_fixed_n(drawn)  # whoever bounds the samples again takes their number as fixed
    require_sampled(run)
    require_complete(run)
    if redact and not drawn.key.own_words:
        raise InputError(
            f"bounds of arm {arm!r} need to know which question each of its queries asks, which "
            "scores alone do not tell. Export an arm that asks the questions in their own words."
        )
    rows = _scores(run, drawn) if redact else _texts(drawn)
    how = _stated(drawn)
    write_text(out, "".join(json.dumps({**row, **how}) + "\n" for row in rows))
    return [out]


def _stated(arm: Arm) -> dict[str, Any]:
    """What is known of who drew, and how: the columns of `leakbound import`."""
    from leakbound.evaluation.scoring.ordering import draws_key

    decoding = arm.decoding
    known = {k: v for k, v in decoding.to_dict().items() if k not in (*decoding.unknown, "unknown")}
    if decoding.adaptive_temperature is None:
        del known["adaptive_mode"]
    stated = {k: v for k, v in known.items() if v not in (None, [])}
    return stated | {"order": draws_key(arm), "model": arm.spec["model"]}


def _texts(arm: Arm) -> Iterator[dict[str, Any]]:
    """What was asked and answered, and how often; null for draws that never came."""
    answers = {prompt.id: prompt.answer for prompt in arm.asked.prompts}
    queries = {query.id: query for query in arm.queries}
    for part in arm.parts:
        table = arm.completions(part)
        drawn = zip(
            *(table[name].to_pylist() for name in ("query_id", "text", "count")), strict=True
        )
        undrawn = [
            (query_id, None, count)
            for meta in arm.meta([part])
            for query_id, count in meta["missing"].items()
        ]
        for query_id, text, count in [*drawn, *undrawn]:
            if count:  # a text that was only proved possible was not drawn
                query = queries[query_id]
                yield {
                    "id": query.id,
                    "question": query.text,
                    "answer": answers[query.prompt_id],
                    "completion": text,
                    "count": count,
                }


def _scores(run: Run, arm: Arm) -> Iterator[dict[str, Any]]:
    """How often each query drew which scores: all that a bound needs of a text.

    A score is null where the scorer could not decide, and all are where a draw never came.
    """
    from leakbound.evaluation import require_scores
    from leakbound.evaluation.scoring.score import slug
    from leakbound.scorers import make_scorer
    from leakbound.store import row_scores

    names = list(dict.fromkeys(row["scorer"] for row in run.estimates()))
    for scorer in map(make_scorer, names):
        require_scores(arm, scorer)
    columns = [row_scores(arm, slug(make_scorer(name))) for name in names]
    found: Counter[tuple[str, tuple[float | None, ...] | None]] = Counter()
    given = zip(*columns, strict=True)
    for part in arm.parts:
        table = arm.completions(part)
        drawn = (table[name].to_pylist() for name in ("query_id", "count"))
        for query_id, count in zip(*drawn, strict=True):
            found[query_id, next(given)] += count
        for meta in arm.meta([part]):
            for query_id, count in meta["missing"].items():
                found[query_id, None] += count
    for (query_id, scores), count in sorted(found.items(), key=lambda item: item[0][0]):
        if count:
            told = None if scores is None else dict(zip(names, scores, strict=True))
            yield {"id": query_id, "scores": told, "count": count}
