"""Results of promptfoo, `--output FILE.json`: every repeat of every test.

Tests with the same prompt as it was sent, the same provider and the same assertions are repeats of
one question (`--repeat`), each output a draw. The score `failed` is 1 where the test failed: what
a test asserts is what should be. A request that failed is missing, and so is an output that a
guardrail flagged.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from leakbound.errors import InputError
from leakbound.formats.imported import Draw, ImportedLog, ImportedQuestion, Json
from leakbound.text.counting import output_of
from leakbound.text.rows import parse_json, read_text

_ERROR = 2  # `failureReason` of a request that was not answered
_FLAGS = ("flagged", "flaggedInput", "flaggedOutput")
_CALLS = {"function", "function_call", "tool_calls"}


def read(path: Path) -> ImportedLog:
    """The repeats of every test.

    Raises InputError for what is no output of promptfoo, for one of several providers, and for
    outputs out of its cache: they are copies of one draw.
    """
    log = parse_json(read_text(path), f"`{path}` is no output of promptfoo: it")
    rows: Sequence[Json] = log["results"]["results"]
    providers = sorted({str(row["provider"]["id"]) for row in rows})
    if len(providers) != 1:
        raise InputError(
            f"`{path}` must be of one provider, it has {', '.join(providers) or 'none'}. "
            "Filter it with `promptfoo eval --filter-providers`, and import each alone."
        )
    if cached := sum(bool((row.get("response") or {}).get("cached")) for row in rows):
        raise InputError(
            f"{cached} outputs of `{path}` came out of a cache: they are copies of one draw. "
            "Evaluate again with --no-cache."
        )
    version = (log.get("metadata") or {}).get("promptfooVersion", "")
    return ImportedLog(
        path=path,
        tool=f"promptfoo {version}".strip(),
        model=providers[0],
        task=str(log["config"].get("description") or path.stem),
        stated={},
        asked=tuple(_questions(rows)),
        scorers={"failed": True},
    )


def _questions(rows: Sequence[Json]) -> list[ImportedQuestion]:
    by_test: dict[str, list[Json]] = {}
    for row in rows:
        test = [row["prompt"]["raw"], row["testCase"].get("assert") or []]
        by_test.setdefault(json.dumps(test, sort_keys=True), []).append(row)
    return [
        ImportedQuestion(
            id=str(i), text=str(repeats[0]["prompt"]["raw"]), draws=tuple(map(_draw, repeats))
        )
        for i, repeats in enumerate(by_test.values())
    ]


def _draw(row: Json) -> Draw | None:
    """The output of a row, with its score; None where the provider did not answer.

    What a guardrail flagged was withheld: promptfoo puts a text of its own in its place. It writes
    a visible thought as "Thinking: " before the answer, and nothing shows where the thought ends.
    """
    response = row.get("response") or {}
    value, usage = response.get("output"), response.get("tokenUsage") or {}
    word = response.get("finishReason")
    if any((response.get("guardrails") or {}).get(name) for name in _FLAGS):
        word = "filtered"
    elif row.get("failureReason") == _ERROR or response.get("error") or (value is word is None):
        return None
    elif _is_call(value):
        word = "tool"
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    output = output_of(
        text,
        word,
        tokens=usage.get("completion"),
        refused=response.get("isRefusal"),
        hidden=text.startswith("Thinking: "),
        reasoned=(usage.get("completionDetails") or {}).get("reasoning"),
    )
    return Draw(output, (("failed", float(not row["success"])),))


def _is_call(value: object) -> bool:
    """True for what promptfoo gives of a message that calls a tool."""
    calls = value if isinstance(value, list) else [value]
    return any(isinstance(call, dict) and _CALLS & call.keys() for call in calls)
