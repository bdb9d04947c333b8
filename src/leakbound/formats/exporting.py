"""`export`: write a run's metrics as OpenUnlearning's log, or its completions as JSON lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from leakbound.errors import InputError, MixError
from leakbound.formats.openunlearning import against_log, as_log, as_summary, names_of, read_log
from leakbound.formats.rows import REDACTED
from leakbound.metrics import Values
from leakbound.planning.metrics import stored_metrics
from leakbound.registry import suggestion
from leakbound.scorers import make_scorer
from leakbound.scoring.checks import (
    require_complete,
    require_fixed_n,
    require_sampled,
    require_scores,
)
from leakbound.scoring.ordering import draws_key
from leakbound.scoring.score import is_dialogue, slug
from leakbound.store import Arm, Redaction, Run, tables, write_json, write_text
from leakbound.text.counting import visible
from leakbound.types import JsonObject, Output
from leakbound.types.decoding import require

_ENDINGS = {"openunlearning": "_EVAL.json", "jsonl": ".jsonl"}


@dataclass(frozen=True, slots=True)
class Exported:
    """The files that an export wrote.

    Attributes:
        files: the written files.
        notes: warnings for the user, one sentence each.
    """

    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()


def export(
    runs: Run | Sequence[Run],
    out: str | Path,
    *,
    form: Literal["openunlearning", "jsonl"],
    arm: str = "target",
    redact: Redaction | None = None,
    retrained: str | Path | None = None,
) -> Exported:
    """Write the metrics or the completions of runs for other tools.

    Args:
        runs: an open run; for a log of MUSE, the runs of its parts, all of one model.
        out: the file to write. The name of a log must end in _EVAL.json; its summary, with a name
            that ends in _SUMMARY.json, is written into the same folder. The name of a file of JSON
            lines must end in .jsonl.
        form: "openunlearning" for an evaluation log of the metrics, "jsonl" for one line per
            completion.
        arm: the name of the arm (a model under a decoding).
        redact: with "jsonl", whether scores replace all texts (None: as in the run's report).
        retrained: with "openunlearning", the retrained model's log (None: no comparison).

    Returns:
        The written files, and notes on omitted values.

    Raises:
        InputError: `out` does not end as required; the run lacks the arm, metrics or scores; the
            form does not accept several runs or `retrained`; or the arm is explored, stopped early,
            or has conversations.
        MixError: runs of one log are of different models.
        IncompleteError: with "jsonl", if draws are missing.
        UnansweredError: with "jsonl", if questions could not be sampled.
        DamagedError: with "openunlearning", if stored metrics were changed.
    """
    opened = [runs] if isinstance(runs, Run) else list(runs)
    require(form in _ENDINGS, "form", form, "'openunlearning' or 'jsonl'")
    file, ending = Path(out), _ENDINGS[form]
    if not file.name.endswith(ending):
        raise InputError(
            f"OUT must end in {ending}, got {file.name!r}. Write "
            f"{file.with_name(file.stem + ending)}."
        )
    if form == "openunlearning":
        return _write_log(opened, file, arm, None if retrained is None else Path(retrained))
    if retrained:
        raise InputError(f"`--retrained` {retrained} is only for --openunlearning. Omit it.")
    if len(opened) > 1:
        raise InputError(f"--jsonl writes the draws of one run, got {len(opened)}. Name one run.")
    return _write_samples(opened[0], file, arm, None if redact is None else bool(redact))


def _write_log(runs: Sequence[Run], out: Path, arm: str, retrained: Path | None) -> Exported:
    tasks = [run.record.benchmark.name for run in runs]
    if len(runs) > 1:
        _require_joined(runs, tasks, arm)
    log: dict[str, dict[str, object]] = {}
    notes = []
    for run, task in zip(runs, tasks, strict=True):
        stored, names = _stored(run, arm)["arms"][arm]["metrics"], names_of(task)
        metrics = {name: Values(**values) for name, values in stored.items()}
        if retrained:
            metrics |= against_log(metrics, read_log(retrained))
        forget = {prompt.id for prompt in run.prompts if prompt.role == "forget"}
        entries = as_log(metrics, forget, names)
        if not entries:
            raise InputError(
                f"no metric of `{run.path}` has an entry in OpenUnlearning's log of {task!r}. Run "
                f"`leakbound evaluate {run.path} --only metrics` with --metrics, one of: "
                f"{', '.join(names) or 'none for this benchmark'}."
            )
        log |= entries
        if unnamed := [name for name in metrics if name not in names]:
            notes.append(
                "these metrics are left out, because OpenUnlearning's log of "
                f"{task!r} has no entry for them: {', '.join(unnamed)}"
            )
    summary = out.with_name(out.name.removesuffix(_ENDINGS["openunlearning"]) + "_SUMMARY.json")
    write_json(out, dict(sorted(log.items(), key=lambda entry: entry[0].lower())))
    write_json(summary, as_summary(log))
    return Exported((out, summary), tuple(notes))


def _require_joined(runs: Sequence[Run], tasks: Sequence[str], arm: str) -> None:
    """Raise InputError unless the runs are of one model on different parts of a MUSE corpus."""
    corpora = {task.partition("-")[0] for task in tasks}
    if len(corpora) > 1 or not corpora.pop().startswith("muse:"):
        raise InputError(
            f"the runs of one log must all be about MUSE News, or all about MUSE Books, got "
            f"{', '.join(tasks)}. Export the other runs separately."
        )
    for i, run in enumerate(runs):
        if tasks[i] in tasks[:i]:
            raise InputError(
                f"two runs are about {tasks[i]!r}, and one of them is `{run.path}`. Name only one."
            )
        if _model(run, arm) != _model(runs[0], arm):
            raise MixError(
                f"the {arm} of `{run.path}` and the {arm} of `{runs[0].path}` are different "
                "models. Export the runs of each model separately."
            )


def _model(run: Run, arm: str) -> Mapping[str, object]:
    """Return the fingerprint of an arm's model, without its prompts."""
    fingerprint = _stored(run, arm)["fingerprint"]["models"][arm]
    return {k: v for k, v in fingerprint.items() if k not in ("prompting", "row_budget")}


def _stored(run: Run, arm: str) -> dict[str, Any]:
    """Return the contents of `utility.json`; raise InputError if it has no metrics of this arm."""
    stored = stored_metrics(run)
    arms = stored.get("arms") or {}
    if arm not in arms:
        raise InputError(
            f"`{run.path}` has no metrics of {arm!r}. {suggestion(arm, arms)} Run `leakbound "
            "evaluate` with `--metrics all`."
        )
    return stored


def _write_samples(run: Run, out: Path, arm: str, redact: bool | None) -> Exported:
    """Write the draws of an arm. The arm must have a fixed number of draws per question."""
    if arm not in run.arms:
        raise InputError(f"`{run.path}` has no arm {arm!r}. {suggestion(arm, run.arms)}")
    drawn = run.arms[arm]
    if drawn.explored:
        raise InputError(f"arm {arm!r} was explored, not sampled. Export an arm that was sampled.")
    require_fixed_n(drawn)  # bounds of the export assume a fixed n
    require_sampled(run)
    require_complete(run)
    notes: tuple[str, ...] = ()
    if redact is None and run.redacted:
        redact = True
        notes = (f"`{run.path}` is redacted, so OUT has no texts. --no-redact writes texts.",)
    if is_dialogue(drawn):
        raise InputError(
            f"arm {arm!r} has conversations, but OUT needs one answer per row. Export another arm."
        )
    if redact and (drawn.key.kind != "own words" or drawn.spec.attack_queries):
        raise InputError(
            f"arm {arm!r} has several queries per question, but an export of scores does not "
            "contain the questions of queries. Export an arm of the original questions."
        )
    rows = _scores(run, drawn) if redact else _texts(drawn)
    settings = _stated(drawn)
    write_text(out, "".join(json.dumps({**row, **settings}) + "\n" for row in rows))
    return Exported((out,), notes)


def _stated(arm: Arm) -> JsonObject:
    """Return the model and its known decoding, with the column names of `leakbound import`."""
    decoding = arm.decoding
    facts = {k: v for k, v in decoding.to_dict().items() if k not in (*decoding.unknown, "unknown")}
    if decoding.adaptive_temperature is None:
        del facts["adaptive_mode"]
    stated = {k: v for k, v in facts.items() if v not in (None, [])}
    return stated | {"order": draws_key(arm), "model": arm.spec.model}


def _texts(arm: Arm) -> Iterator[dict[str, object]]:
    """Yield rows of question, answer, output and count. The output of failed draws is null."""
    answers = {prompt.id: prompt.answer for prompt in arm.run_queries.prompts}
    queries = {query.id: query for query in arm.queries}
    for query_id, output, _, count in _draws(arm):
        if count:  # a count of 0: proved possible, not drawn
            query = queries[query_id]
            columns = {"question": query.text, "answer": answers[query.prompt_id]}
            text, more = None, {}
            if output is not None:
                text = output.answer
                more = _counting(output, thought=output.thought, tokens=output.tokens)
            yield {"id": query_id, **columns, "completion": text, **more, "count": count}


def _counting(output: Output, **more: object) -> dict[str, object]:
    """Return the columns that decide the class of an output, without empty columns."""
    stated = {"finish": output.finish, "refused": output.refused, "hidden": output.hidden, **more}
    return {name: value for name, value in stated.items() if value}


def _scores(run: Run, arm: Arm) -> Iterator[dict[str, object]]:
    """Yield the number of draws of each query for every combination of scores and output class.

    Scores and classes suffice for the bounds and for the number of draws per class. A score is null
    if the scorer could not decide. All scores of a failed draw are null.
    """
    names = run.estimates.scorers
    for scorer in map(make_scorer, names):
        require_scores(arm, scorer)
    columns = [arm.scored.rows(slug(make_scorer(name))) for name in names]
    counts: Counter[tuple[str, tuple[float | None, ...] | None, str]] = Counter()
    rows = zip(*columns, strict=True)
    for query_id, output, unanswered, count in _draws(arm):
        if output is None:
            counts[query_id, None, "{}"] += count
        else:
            thought = REDACTED if visible(output.thought) else None
            more = json.dumps(_counting(output, thought=thought, unanswered=unanswered))
            counts[query_id, next(rows), more] += count
    for (query_id, scores, more), count in sorted(counts.items(), key=lambda item: item[0][0]):
        if count:
            by_name = None if scores is None else dict(zip(names, scores, strict=True))
            yield {"id": query_id, "scores": by_name, **json.loads(more), "count": count}


def _draws(arm: Arm) -> Iterator[tuple[str, Output | None, bool, int]]:
    """Yield (query id, output, missing answer, count). The output of failed draws is None."""
    for part in arm.parts:
        table = arm.completions(part)
        rows = zip(tables.completions_of(table), table["unanswered"].to_pylist(), strict=True)
        yield from ((query_id, output, absent, output.count) for (query_id, output), absent in rows)
        for meta in arm.meta([part]):
            yield from ((query_id, None, True, count) for query_id, count in meta.missing.items())
