"""An engine at a chat server of words, and the question whose law the server knows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from leakbound.engines import Prompting
from leakbound.engines.openai import ServedEngine
from leakbound.engines.server import Patience
from leakbound.types import Decoding, Draws, Query, Sample
from misbehaving import Body, Served, question

WHO = "who did it"
QUERY = Query(id="q0", prompt_id="q0", text=WHO)
QUICK = Patience(timeout=60, attempts=3, first_wait=0.01, longest_wait=0.5)


def engine_at(url: str, options: str = "probe=off", prompting: Prompting | None = None) -> Any:
    return ServedEngine(f"{url}#m?{options}", prompting, patience=QUICK)


def draw(engine: ServedEngine, n: int, decoding: Decoding) -> Sample:
    (sample,) = engine.generate([QUERY], decoding, Draws(sizes=(n,)))
    assert isinstance(sample, Sample)
    return sample


def asked_of(served: Served) -> list[Body]:
    """The requests that ask the question."""
    return [body for body in served.asked if WHO in question(body)]


def described(takes: Collection[str]) -> dict[str, object]:
    """As FastAPI describes a chat: the body refers to a schema, and that to others."""
    schemas = {
        "Chat": {"properties": {name: {} for name in takes}, "anyOf": []},
        "Reply": {"properties": {"choices": {}}},
    }
    body = {"schema": {"$ref": "#/components/schemas/Chat"}}
    asked = {"requestBody": {"content": {"application/json": body}}}
    return {
        "/openapi.json": {
            "paths": {"/v1/chat/completions": {"post": asked}},
            "components": {"schemas": schemas},
        },
    }
