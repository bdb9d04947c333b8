"""`samples_<task>_<date>.jsonl` of lm-evaluation-harness, with the repeats of every document.

A row is one document under one filter: `arguments.gen_args_0` holds the text put to the model
(`arg_0`) and the generation settings (`arg_1`), `resps` a list of the repeats for each request.
The file beside it, `results_<date>.json`, names the model.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from residua.errors import InputError
from residua.formats.imported import Asked, Draw, Log, same_settings
from residua.text.rows import Row, read_rows, read_text

_NAME = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.-]+)\.jsonl")
_OURS = {"max_gen_toks": "max_new_tokens", "max_tokens": "max_new_tokens", "until": "stop"}


def read(path: Path) -> Log:
    """The repeats of a file, as the model gave them, before any filter."""
    rows: dict[str, Row] = {}
    for row in read_rows(path, "jsonl"):
        earlier = rows.setdefault(_id(row), row)
        if row.values.get("resps") != earlier.values.get("resps"):
            raise InputError(
                f"{row.place} is about the same document as {earlier.place}, with other responses. "
                "Import the files of two evaluations by themselves."
            )
    stated = same_settings(path, {row.place: _stated(_arguments(row)[1]) for row in rows.values()})
    named = _NAME.fullmatch(path.name)
    results = _results(path.with_name(f"results_{named['date']}.json")) if named else {}
    return Log(
        path=path,
        tool=f"lm-evaluation-harness {results.get('lm_eval_version', '')}".strip(),
        model=str(results.get("model_name", "unnamed")),
        task=named["task"] if named else path.stem,
        stated=stated,
        asked=tuple(_asked(id, row) for id, row in rows.items()),
    )


def _id(row: Row) -> str:
    if "doc_id" not in row.values or "resps" not in row.values:
        raise InputError(
            f"{row.place} is no sample of lm-evaluation-harness: it has no 'doc_id' or no 'resps'. "
            "Name a file written with --log_samples, or another --format."
        )
    return str(row.values["doc_id"])


def _asked(id: str, row: Row) -> Asked:
    responses = row.values["resps"]
    if (
        not isinstance(responses, list)
        or len(responses) != 1
        or not isinstance(responses[0], list)
        or not all(isinstance(text, str) for text in responses[0])
    ):
        raise InputError(
            f"'resps' must hold one list of texts, the repeats of one request, got "
            f"{str(responses)[:80]} in {row.place}. Only tasks of the type `generate_until` draw "
            "completions."
        )
    draws = tuple(Draw(text) for text in responses[0])
    return Asked(id=id, text=_arguments(row)[0], answers=_answers(row), draws=draws)


def _arguments(row: Row) -> tuple[str, Mapping[str, Any]]:
    """The text put to the model, and how it was to generate."""
    arguments = row.values.get("arguments")
    match arguments:
        case {"gen_args_0": {"arg_0": str(text), "arg_1": dict(settings)}}:
            return text, settings
        case [[str(text), dict(settings)], *_]:  # as versions before 0.4.4 wrote it
            return text, settings
    raise InputError(
        f"'arguments' must hold a text and generation settings, got {str(arguments)[:80]} in "
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
        except (SyntaxError, ValueError):
            return (target,)
        if isinstance(several, list) and several and all(isinstance(one, str) for one in several):
            return tuple(several)
    return (target,)


def _stated(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by our names. Without `do_sample` a temperature of 0 is a model's default."""
    stated = {_OURS.get(key, key): value for key, value in settings.items() if value is not None}
    if stated.pop("do_sample", None) is False:
        stated["temperature"] = 0.0
    stop = stated.pop("stop", [])
    stops = [stop] if isinstance(stop, str) else stop
    return stated | {"stop": tuple(text for text in stops if text)}


def _results(path: Path) -> dict[str, Any]:
    """What the evaluation's own file says; nothing where it is not there."""
    if not path.is_file():
        return {}
    try:
        found = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise InputError(f"`{path}` is no JSON: {error}. Restore it, or move it away.") from error
    return found if isinstance(found, dict) else {}
