"""`samples_<task>_<date>.jsonl` of lm-evaluation-harness, with the repeats of every document.

A row is one document under one filter: `arguments.gen_args_0` holds the text put to the model
(`arg_0`) and the generation settings (`arg_1`), `resps` a list of the repeats for each request.
The file beside it, `results_<date>.json`, names the model.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from leakbound.errors import InputError
from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion, same_settings
from leakbound.text.counting import output_of
from leakbound.text.rows import Row, parse_json, read_rows, read_text
from leakbound.text.shown import kind_of

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
# Metrics of lm-evaluation-harness itself that are 0 or 1 for one response.
_BINARY = {"acc", "acc_bytes", "acc_norm", "exact_match"}
_MOST = sys.float_info.max
_OURS = {"max_gen_toks": "max_new_tokens", "max_tokens": "max_new_tokens", "until": "stop"}


def read(path: Path) -> ImportedLog:
    """The repeats of a file, as the model gave them, before any filter."""
    rows: dict[str, Row] = {}
    every = read_rows(path, "jsonl")
    for row in every:
        earlier = rows.setdefault(_id(row), row)
        if any(row.values.get(k) != earlier.values.get(k) for k in ("arguments", "resps")):
            raise InputError(
                f"{row.place} is about the same document as {earlier.place}, with another prompt "
                "or other responses. Import the files of two evaluations by themselves."
            )
    scored = [_row_scores(row) for row in every]
    scorers = dict.fromkeys(name for score in scored for name in score.of_draws)
    single = dict.fromkeys(name for score in scored for name in score.of_all if name not in scorers)
    notes = [
        f"`{path.name}` has one {name} for all repeats of a document, none for each: left out"
        for name in single
    ]
    if again := len(every) - len({repr(row.values) for row in every}):
        notes.append(f"copies of rows in `{path.name}`: {again:,}; each row is counted once")
    of_id: dict[str, dict[str, list[float | None]]] = {}
    for score in scored:
        of_id.setdefault(score.id, {}).update(score.of_draws)
    stated = same_settings({row.place: _stated(_arguments(row)[1]) for row in rows.values()})
    named = _NAME.fullmatch(path.name)
    results = _results(path.with_name(f"results_{named['date']}.json")) if named else {}
    return ImportedLog(
        path=path,
        tool=f"lm-evaluation-harness {results.get('lm_eval_version', '')}".strip(),
        model=str(results.get("model_name", "unnamed")),
        task=named["task"] if named else path.stem,
        stated={**stated, **_order(every)},
        asked=tuple(_question(id, row, of_id[id]) for id, row in rows.items()),
        scorers={name: name.partition("@")[0] in _BINARY for name in scorers},
        notes=tuple(notes),
    )


def _id(row: Row) -> str:
    if "doc_id" not in row.values or "resps" not in row.values:
        raise InputError(
            f"{row.place} is no sample of lm-evaluation-harness: it has no 'doc_id' or no 'resps'. "
            "Name a file written with --log_samples, or another --format."
        )
    return str(row.values["doc_id"])


class _RowScores(NamedTuple):
    """The scores of a row: those of each of its draws, and the names of those of all together."""

    id: str
    of_draws: dict[str, list[float | None]]
    of_all: tuple[str, ...]


def _row_scores(row: Row) -> _RowScores:
    """The metrics of a document under one filter, which is named where there is one.

    A list has one number a repeat, and a single number is of the one repeat that there is. What
    else a metric keeps, such as pairs for an F1 over documents, is no score of a draw.
    """
    responses = row.values["resps"]
    first = responses[0] if isinstance(responses, list) and responses else None
    draws = len(first) if isinstance(first, list) else 0
    kept = row.values.get("filter", "none")
    of_draws: dict[str, list[float | None]] = {}
    of_all = []
    metrics = row.values.get("metrics")
    for metric in metrics if isinstance(metrics, list) else ():
        name = metric if kept == "none" else f"{metric}@{kept}"
        value = row.values.get(metric)
        values: list[Any] = value if isinstance(value, list) else [value]
        if len(values) == draws and all(map(_is_number, values)):
            numbers = map(float, values)
            of_draws[name] = [None if math.isnan(number) else number for number in numbers]
        elif value is not None and not _is_ours(value):
            of_all.append(name)
    return _RowScores(_id(row), of_draws, tuple(of_all))


def _order(rows: Sequence[Row]) -> dict[str, object]:
    """The seed of the order in which our metrics' bets met the draws, where all state the same."""
    ours = [value for row in rows for value in row.values.values() if _is_ours(value)]
    seeds = {value["seed"] for value in ours if isinstance(value.get("seed"), int)}
    return {"order": seeds.pop()} if len(seeds) == 1 else {}


def _is_ours(value: object) -> TypeGuard[dict[str, Any]]:
    """True for what `leakbound.plugins.lm_eval` keeps of a document under a metric."""
    return isinstance(value, dict) and {"scorer", "binary", "confidence"} <= value.keys()


def _is_number(value: object) -> bool:
    """True for what a float can hold, NaN among it."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) <= _MOST)


def _question(id: str, row: Row, scores: Mapping[str, Sequence[float | None]]) -> ImportedQuestion:
    responses = row.values["resps"]
    if (
        not isinstance(responses, list)
        or len(responses) != 1
        or not isinstance(responses[0], list)
        or not all(isinstance(text, str) for text in responses[0])
    ):
        raise InputError(
            f"'resps' must hold one list of texts, the repeats of one request, got "
            f"{kind_of(responses)} in {row.place}. Only tasks of the type `generate_until` draw "
            "completions."
        )
    draws = tuple(
        Draw(output_of(text), tuple((name, values[i]) for name, values in scores.items()))
        for i, text in enumerate(responses[0])
    )
    return ImportedQuestion(id=id, text=_arguments(row)[0], answers=_answers(row), draws=draws)


def _arguments(row: Row) -> tuple[str, Mapping[str, object]]:
    """The text put to the model, and how it was to generate."""
    arguments = row.values.get("arguments")
    match arguments:
        case {"gen_args_0": {"arg_0": str(text), "arg_1": dict(settings)}}:
            return text, settings
        case [[str(text), dict(settings)], *_]:  # as versions before 0.4.4 wrote it
            return text, settings
    raise InputError(
        f"'arguments' must hold a text and generation settings, got {kind_of(arguments)} in "
        f"{row.place}. Only tasks of the type `generate_until` draw completions."
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


def _results(path: Path) -> dict[str, object]:
    """The contents of the evaluation's own file; empty where it is not there."""
    if not path.is_file():
        return {}
    results = parse_json(read_text(path), f"`{path}`")
    return results if isinstance(results, dict) else {}
