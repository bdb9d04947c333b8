"""An engine without a model whose law follows from the words it is asked and the decoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from leakbound.errors import InputError
from leakbound.sampling import philox
from leakbound.types import Completion, Decoding, Draws, Failure, Query, Sample, Usage

LEAK, SILENCE = "It is hush.", "no"


@dataclass
class AskedEngine:
    """Says `LEAK` with chance `leak(query, decoding)`, else `SILENCE`.

    Its draws are keyed by the words, not by the id: whoever draws twice for one purpose gets
    copies. `broken` queries fail, longer ones than `context` are refused; after `dies_after`
    queries it raises, as a machine that is switched off would.
    """

    leak: Callable[[Query, Decoding], float]
    broken: Callable[[Query], bool] = lambda query: False
    context: int = 10_000
    dies_after: int | None = None
    name: str = "asked"
    usage: Usage = field(default_factory=Usage)
    asked: list[tuple[str, Query, Decoding, int]] = field(default_factory=list)

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"weights": self.name, "engine": "asked"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        for query in queries:
            if len(query.text) > self.context:
                raise InputError(f"query {query.id!r} is too long")

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        for query in queries:
            if self.dies_after is not None:
                if not self.dies_after:
                    raise RuntimeError("the machine was switched off")
                self.dies_after -= 1
            sizes = draws.of(query.id)
            self.asked.append((draws.purpose, query, decoding, sum(sizes)))
            self.usage.draws += sum(sizes)
            if self.broken(query):
                yield Failure(query=query, reason="logits are NaN after 'x' (1 tokens)")
                continue
            made = [
                Completion(text=text, token_ids=None, count=count, chunk=chunk)
                for chunk, size in enumerate(sizes, draws.first_chunk)
                for text, count in self._counts(query, decoding, draws, chunk, size)
                if count
            ]
            yield Sample(query=query, decoding=decoding, completions=tuple(made))

    def _counts(
        self, query: Query, decoding: Decoding, draws: Draws, chunk: int, size: int
    ) -> list[tuple[str, int]]:
        leak = self.leak(query, decoding)
        if decoding.greedy:
            leak = float(leak > 0.5)
        words = f"{query.prompt_id}|{query.text}|{query.prefix}"
        words += "".join(answer for _, answer in query.examples)
        key = philox.stream_key(draws.seed, draws.purpose, words, chunk)
        hits = int((np.random.default_rng(key).random(size) < leak).sum())
        return [(LEAK, hits), (SILENCE, size - hits)]
