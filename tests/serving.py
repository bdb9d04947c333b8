"""A server of an OpenAI-compatible API on this machine, over outputs whose probabilities are known.

`honest` is a rule for `misbehaving.chat_server`; a lie is a rule made of another.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import count
from typing import Any

from leakbound.testing import FakeEngine
from leakbound.types import Decoding, Draws, Query, Sample
from misbehaving import Answer, Body, Rule

NAMED = {"model": "m", "system_fingerprint": "fp"}
LISTED: Mapping[str, object] = {"/v1/models": {"data": [{"id": "m", "owned_by": "us"}]}}
WORDS = [f"{a}{b}{c}" for a in "bdfgkl" for b in "aeiou" for c in "mnprst"]
Law = Mapping[str, float]


def question(body: Body) -> str:
    """The text that is asked, without how it is asked."""
    return str(body["prompt"] if "prompt" in body else body["messages"][-1]["content"])


def texts_of(engine: FakeEngine | None, body: Body, seed: object) -> list[tuple[str, str]]:
    """`n` outputs of a request and how each ended; random words without an engine."""
    n, most, temperature = body.get("n", 1), body["max_tokens"], body["temperature"]
    if engine is None:
        rng = random.Random(f"{seed} {question(body)}" if temperature else question(body))
        drawn = [" ".join(rng.choices(WORDS, k=min(most, 40))) for _ in range(n)]
        end = "length" if most <= 40 else "stop"
        return [(text, end) for text in (drawn if temperature else [drawn[0]] * n)]
    how = Decoding(temperature=temperature, top_p=body["top_p"], max_new_tokens=most)
    draws = Draws(sizes=(1,) * n, seed=int(str(seed or 0)))
    (sample,) = engine.generate([Query(id="q", prompt_id="q", text="")], how, draws)
    assert isinstance(sample, Sample)
    by_chunk = {c.chunk: (c.text, c.finish_reason) for c in sample.completions}
    return [by_chunk[i] for i in range(n)]


def tokens_of(text: str, end: str) -> int:
    return len(text.split()) + (end == "stop")


def packed(body: Body, drawn: list[tuple[str, str]], **more: Any) -> Answer:
    """Outputs as the API puts them, with the count of their tokens."""
    held = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"message": {"content": t}})
    choices = [{"index": i, "finish_reason": e, **held(t)} for i, (t, e) in enumerate(drawn)]
    usage = {"completion_tokens": sum(tokens_of(t, e) for t, e in drawn)}
    return Answer(json.dumps({**NAMED, "choices": choices, "usage": usage, **more}))


def honest(laws: Mapping[str, Law]) -> Rule:
    """The rule of a server that keeps every promise; questions without a law get random words."""

    unseeded = count()
    engines = {text: FakeEngine({"q": law}) for text, law in laws.items()}

    def rule(body: Body, _: int) -> Answer:
        engine = next((made for text, made in engines.items() if text in question(body)), None)
        return packed(body, texts_of(engine, body, body.get("seed", next(unseeded))))

    return rule
