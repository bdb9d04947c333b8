"""`samples_<task>_<date>.jsonl` of lm-evaluation-harness, with the repeats of every document.

A row is one document under one filter. `arguments.gen_args_0` has the model's input (`arg_0`) and
the generation settings (`arg_1`). `resps` has a list of repeats for each request. A chat for an API
is a list of turns, or a list with one text that contains the turns as JSON. The user's turns become
the question. `results_<date>.json` in the same folder has the name of the model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.formats.rows import SampleFile, SampleRow, each, score_of, settings_of, text_of
from leakbound.text.counting import output_of
from leakbound.text.rows import Row, parse_json, read_rows, read_text
from leakbound.text.shown import kind_of

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
# Metrics of lm-evaluation-harness that are 0 or 1 for one response.
_BINARY = {"acc", "acc_bytes", "acc_norm", "exact_match"}
_PLUGGED = {"scorer", "binary", "confidence"}  # keys that our plug-in stores under a metric


def read(path: Path) -> SampleFile:
    """Read the repeats of every document, before any filter."""
    rows = read_rows(path, "jsonl")
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(str(row.values.get("doc_id")), []).append(row)
    ours: list[Any] = [v for row in rows for v in row.values.values() if _is_ours(v)]
    seeds = {value["seed"] for value in ours if isinstance(value.get("seed"), int)}
    named = _NAME.fullmatch(path.name)
    results = {}
    if named and (file := path.with_name(f"results_{named['date']}.json")).is_file():
        results = parse_json(read_text(file), f"`{file}`")
    records = ((same[0].place, same) for same in documents.values())
    samples = [sample for repeats in each(records, _repeats) for sample in repeats]
    taken = {name for sample in samples for name in sample.scores}
    metrics = dict.fromkeys(name for row in rows for name, _ in _metrics(row))
    left_out = ", ".join(name for name in metrics if name not in taken)
    return SampleFile(
        path=path,
        tool=f"lm-evaluation-harness {results.get('lm_eval_version', '')}".strip(),
        task=named["task"] if named else path.stem,
        rows=samples,
        stated={"model": str(results.get("model_name", "unnamed"))}
        | ({"order": seeds.pop()} if len(seeds) == 1 else {}),
        binary=lambda name: name.partition("@")[0] in _BINARY,
        note=left_out and f"left out of `{path.name}`: scores that are not per repeat, {left_out}",
    )


def _repeats(place: str, rows: Sequence[Row]) -> list[SampleRow]:
    """Return the draws of one document from its rows. Every row (filter) has the same draws."""
    first = rows[0]
    for row in rows:
        if any(row.values.get(k) != first.values.get(k) for k in ("arguments", "resps")):
            raise InputError(
                f"{row.place} is about the same document as {place}, but has another prompt or "
                "other responses. Import the files of two evaluations separately."
            )
    values: Mapping[str, Any] = first.values
    match values:
        case {
            "doc_id": id,
            "resps": [[str(), *_] as texts],
            "arguments": {"gen_args_0": {"arg_0": put, "arg_1": dict(settings)}}
            | [[put, dict(settings)], *_],  # versions before 0.4.4
        } if isinstance(put, str | list) and all(isinstance(text, str) for text in texts):
            if isinstance(put, list) and isinstance(put[0], str):
                put = parse_json(put[0], f"the chat of {place}")
        case _:
            got = " and ".join(kind_of(values.get(key)) for key in ("arguments", "resps"))
            raise InputError(
                f"{place} is not a sample of lm-evaluation-harness. It must have 'doc_id', "
                "'arguments' with a text or a chat and generation settings, and 'resps' with one "
                f"list of texts, got {got}. Import --log_samples of a `generate_until` task."
            )
    scores = {name: given for row in rows for name, given in _metrics(row) if given}
    return [
        SampleRow(
            id=str(id),
            question=text_of(put),
            answers=_answers(first),
            output=output_of(text),
            scores={name: score_of(given[i]) for name, given in scores.items()},
            stated=settings_of(settings),
            place=place,
        )
        for i, text in enumerate(texts)
    ]


def _answers(row: Row) -> tuple[str, ...]:
    """Return the target of a row; several targets if the target is a Python list of texts."""
    target = row.maybe("target")
    if target is None or target == "None":
        return ()
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):  # deep lists raise these
        several = ast.literal_eval(target) if target.startswith("[") else None
        if isinstance(several, list) and several and all(isinstance(t, str) for t in several):
            return tuple(several)
    return (target,)


def _metrics(row: Row) -> Iterator[tuple[str, list[Any]]]:
    """Yield each metric's name and its scores, one per repeat; [] if it has no score per repeat.

    A single number is a score only if there is one repeat. Other values, such as pairs for an F1
    over documents, are not scores of a draw.
    """
    of_row: Mapping[str, Any] = row.values
    kept = of_row.get("filter", "none")
    for metric in of_row.get("metrics") or ():
        value = of_row.get(metric)
        values = value if isinstance(value, list) else [value]
        numbers = all(isinstance(v, int | float) for v in values)
        per_repeat = numbers and len(values) == len(of_row["resps"][0])
        if per_repeat or not (value is None or _is_ours(value)):
            yield metric if kept == "none" else f"{metric}@{kept}", values if per_repeat else []


def _is_ours(value: Any) -> bool:
    """Return whether `leakbound.plugins.lm_eval` stored this value under a metric."""
    return isinstance(value, dict) and value.keys() >= _PLUGGED
