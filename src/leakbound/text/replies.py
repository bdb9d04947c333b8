"""What a chat model replied, where a JSON object was asked for."""

from __future__ import annotations

import json
import re
from typing import Any

_THOUGHTS = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)
_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def json_object(reply: str) -> dict[str, object] | None:
    """The JSON object that a reply consists of; None where it is anything else.

    Thoughts in tags before it, and a code fence around it, do no harm. An object among words does
    not count: it may be quoted from what the model was shown. Nor does one that has a key twice:
    it says two things.
    """
    text = _THOUGHTS.sub("", reply).strip()
    fenced = _FENCED.match(text)
    try:
        found = json.loads(fenced[1] if fenced else text, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found
