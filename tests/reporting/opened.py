"""What the questions of a page open to, read as its script reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from leakbound.reporting.details import unpacked


def details(html: str) -> dict[str, Any]:
    """All that the page holds packed."""
    return dict(unpacked(html))


def question(html: str, number: int) -> dict[str, Any]:
    """What a question opens to, numbered from 1."""
    found: dict[str, Any] = details(html)["questions"][number - 1]
    return found


def charts(html: str, number: int, kind: str) -> list[dict[str, Any]]:
    """The charts of one kind of a question, of every model and scorer."""
    models = question(html, number)["models"]
    return [c for said in models if said for c in said.get("charts", []) if c["kind"] == kind]


def shown(html: str) -> str:
    """Every text that is packed, a completion in one piece, a line each."""
    return "\n".join(_texts(details(html)["questions"]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        if value and isinstance(value[0], list) and all(isinstance(v, str) for v in value[0]):
            yield "".join(value[0])
        for each in value:
            yield from _texts(each)
