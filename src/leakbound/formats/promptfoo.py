"""Results of promptfoo, `--output FILE.json` or `.jsonl`: every repeat of every test.

Tests with the same prompt, provider and assertions are repeats of one question (`--repeat`). Each
output is a draw. The assertions of a test describe the right behaviour, so the score `failed` is 1
if the test failed. Failed requests and outputs that a guardrail flagged are missing.

The rows are under `results.results`, or under `results` in a summary. Rows before version 3 do not
contain their test, so the prompt and its variables replace it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakbound.errors import InputError
from leakbound.formats.rows import Json, SampleFile, SampleRow, each
from leakbound.text.counting import output_of
from leakbound.text.rows import each_row, parse_json, read_text, rows_of
from leakbound.types import Output

_ERROR = 2  # `failureReason` of a request that was not answered
_FLAGS = ("flagged", "flaggedInput", "flaggedOutput")
_CALLS = {"function", "function_call", "tool_calls"}


def read(path: Path) -> SampleFile:
    """Read the repeats of every test.

    Raises InputError for results of several providers, and for outputs from promptfoo's cache,
    which are copies of one draw.
    """
    text = "" if path.suffix == ".jsonl" else read_text(path).lstrip()
    log: Any = parse_json(text, f"`{path}`") if text.startswith("{") else {}
    results = log
    while isinstance(results, dict) and log:
        results = results["results"]
    rows = rows_of(path, results) if log else each_row(path, "jsonl")
    records: list[tuple[str, Json]] = [(row.place, row.values) for row in rows]
    providers = sorted({*each(records, lambda _, row: str(row["provider"]["id"]))})
    if len(providers) != 1:
        raise InputError(
            f"`{path}` must have one provider, got {', '.join(providers) or 'none'}. "
            "Filter the evaluation with `promptfoo eval --filter-providers`, and import each "
            "provider separately."
        )
    if cached := sum(bool((row.get("response") or {}).get("cached")) for _, row in records):
        raise InputError(
            f"{cached} outputs of `{path}` are from a cache, so they are copies of one draw. "
            "Evaluate again with --no-cache."
        )
    version = (log.get("metadata") or {}).get("promptfooVersion", "")
    ids: dict[str, str] = {}
    return SampleFile(
        path=path,
        tool=f"promptfoo {version}".strip(),
        task=str((log.get("config") or {}).get("description") or path.stem),
        rows=[*each(records, lambda _, row: _row(row, ids))],
        stated={"model": providers[0]},
        binary=lambda name: True,
    )


def _row(row: Json, ids: dict[str, str]) -> SampleRow:
    """Return the sample of a row.

    Column names are lower-case; `ids` contains the ids of known tests.
    """
    prompt, response = row["prompt"]["raw"], row.get("response") or {}
    stated = row["testcase"].get("assert") if "testcase" in row else row.get("vars")
    test = json.dumps([prompt, stated or []], sort_keys=True)
    flagged = any((response.get("guardrails") or {}).get(name) for name in _FLAGS)
    failed = row.get("failurereason") == _ERROR or response.get("error")
    silent = response.get("output") is response.get("finishReason") is None
    absent = not flagged and (failed or silent)
    return SampleRow(
        id=ids.setdefault(test, str(len(ids))),
        question=str(prompt),
        output=None if absent else _output(response, flagged=flagged),
        scores={"failed": float(not row["success"])},
    )


def _output(response: Json, *, flagged: bool) -> Output:
    """Return the output of a response.

    promptfoo replaces a flagged output by its own text, so the output is withheld. It writes
    "Thinking: " and a visible thought before the answer, but nothing marks the thought's end.
    """
    value, usage = response.get("output"), response.get("tokenUsage") or {}
    parts = value if isinstance(value, list) else [value]
    calls = any(isinstance(part, dict) and _CALLS & part.keys() for part in parts)
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return output_of(
        text,
        "filtered" if flagged else "tool" if calls else response.get("finishReason"),
        tokens=usage.get("completion"),
        refused=response.get("isRefusal"),
        hidden=text.startswith("Thinking: "),
        reasoned=(usage.get("completionDetails") or {}).get("reasoning"),
    )
