"""`samples_<task>_<date>.jsonl` of lm-evaluation-harness, with the repeats of every document.

A row is one document under one filter: `arguments.gen_args_0` holds the text put to the model
(`arg_0`) and the generation settings (`arg_1`), `resps` a list of the repeats for each request.
`results_<date>.json` in the same folder names the model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.formats.rows import SampleFile, SampleRow, score_of
from leakbound.text.counting import output_of
from leakbound.text.rows import Row, parse_json, read_rows, read_text
from leakbound.text.shown import kind_of

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
# Metrics of lm-evaluation-harness itself that are 0 or 1 for one response.
_BINARY = {"acc", "acc_bytes", "acc_norm", "exact_match"}
_OURS = {"max_gen_toks": "max_new_tokens", "max_tokens": "max_new_tokens", "until": "stop"}
_PLUGGED = {"scorer", "binary", "confidence"}  # keys of what our plug-in keeps under a metric


def read(path: Path) -> SampleFile:
    """Read the repeats as the model gave them, before any filter."""
    rows = read_rows(path, "jsonl")
    documents: dict[str, list[Row]] = {}
    for row in rows:
        documents.setdefault(str(row.values.get("doc_id")), []).append(row)
    ours: list[Any] = [v for row in rows for v in row.values.values() if _is_ours(v)]
    seeds = {value["seed"] for value in ours if isinstance(value.get("seed"), int)}
    named = _NAME.fullmatch(path.name)
    evaluation = path.with_name(f"results_{named['date']}.json") if named else None
    results = (
        parse_json(read_text(evaluation), f"`{evaluation}`")
        if evaluation and evaluation.is_file()
        else {}
    )
    return SampleFile(
        path=path,
        tool=f"lm-evaluation-harness {results.get('lm_eval_version', '')}".strip(),
        task=named["task"] if named else path.stem,
        rows=[sample for id, same in documents.items() for sample in _repeats(id, same)],
        stated={"model": str(results.get("model_name", "unnamed"))}
        | ({"order": seeds.pop()} if len(seeds) == 1 else {}),
        binary=lambda name: name.partition("@")[0] in _BINARY,
        notes=tuple(_notes(path, rows)),
    )


def _repeats(id: str, rows: Sequence[Row]) -> Iterator[SampleRow]:
    """The draws of one document, which its rows repeat under every filter."""
    first = rows[0]
    for row in rows:
        if any(row.values.get(k) != first.values.get(k) for k in ("arguments", "resps")):
            raise InputError(
                f"{row.place} is about the same document as {first.place}, with another prompt "
                "or other responses. Import the files of two evaluations separately."
            )
    values: Mapping[str, Any] = first.values
    match values:
        case {
            "doc_id": _,
            "resps": [[str(), *_] as texts],
            "arguments": {"gen_args_0": {"arg_0": str(text), "arg_1": dict(settings)}}
            | [[str(text), dict(settings)], *_],  # as versions before 0.4.4 wrote it
        } if all(isinstance(response, str) for response in texts):
            pass
        case _:
            got = " and ".join(kind_of(values.get(key)) for key in ("arguments", "resps"))
            raise InputError(
                f"{first.place} is no sample of lm-evaluation-harness: it must have 'doc_id', "
                "'arguments' with a text and generation settings, and 'resps' with one list of "
                f"texts, got {got}. Name a file of a task of the type `generate_until`, written "
                "with --log_samples, or another --format."
            )
    scores = {name: given for row in rows for name, given in _metrics(row) if given}
    for i, response in enumerate(texts):
        yield SampleRow(
            id=id,
            question=text,
            answers=_answers(first),
            output=output_of(response),
            scores={name: score_of(given[i]) for name, given in scores.items()},
            stated=_stated(settings),
            place=first.place,
        )


def _answers(row: Row) -> tuple[str, ...]:
    """The target; several, where the task has a list of them, which is written as Python does."""
    target = row.maybe("target")
    if target is None or target == "None":
        return ()
    if target.startswith("["):
        try:
            several = ast.literal_eval(target)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # as deep ones raise
            return (target,)
        if isinstance(several, list) and several and all(isinstance(t, str) for t in several):
            return tuple(several)
    return (target,)


def _stated(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings by our names. Without `do_sample` a temperature of 0 is a model's default."""
    stated = {_OURS.get(key, key): value for key, value in settings.items() if value is not None}
    if stated.pop("do_sample", None) is False:
        stated["temperature"] = 0.0
    stop = stated.pop("stop", [])
    stops = stop if isinstance(stop, list) else [stop]
    return stated | {"stop": tuple(text for text in stops if text)}


def _metrics(row: Row) -> Iterator[tuple[str, list[Any]]]:
    """The scores of each repeat by metric and filter; none for a metric of all repeats together.

    A single number belongs to the only repeat. Other values, such as pairs for an F1 over
    documents, are no scores of a draw.
    """
    responses, kept = row.values.get("resps"), row.values.get("filter", "none")
    first = responses[0] if isinstance(responses, list) and responses else None
    metrics = row.values.get("metrics")
    for metric in metrics if isinstance(metrics, list) else ():
        value = row.values.get(metric)
        values = value if isinstance(value, list) else [value]
        numbers = all(isinstance(v, int | float) for v in values)
        whole = numbers and isinstance(first, list) and len(values) == len(first)
        if whole or not (value is None or _is_ours(value)):
            yield metric if kept == "none" else f"{metric}@{kept}", values if whole else []


def _notes(path: Path, rows: Sequence[Row]) -> Iterator[str]:
    metrics = [pair for row in rows for pair in _metrics(row)]
    of_draws = {name for name, values in metrics if values}
    for name in dict.fromkeys(name for name, _ in metrics if name not in of_draws):
        yield (
            f"`{path.name}` has one {name} for all repeats of a document, none for each: left out"
        )
    if again := len(rows) - len({repr(row.values) for row in rows}):
        yield f"copies of rows in `{path.name}`: {again:,}; each row is counted once"


def _is_ours(value: Any) -> bool:
    """True for what `leakbound.plugins.lm_eval` keeps of a document under a metric."""
    return isinstance(value, dict) and value.keys() >= _PLUGGED
