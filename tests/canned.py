"""Engines without a model: canned completions, or a distribution by a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.inputs import SELECTION
from leakbound.sampling import philox
from leakbound.store import DrawnPart, Part
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Exploration,
    Failure,
    Prompt,
    Query,
    Sample,
    Usage,
)


def benchmark_of(
    ids: Iterable[str],
    *,
    question: str = "What is {}?",
    answer: str | None = None,
    keywords: Sequence[str] = (),
    **changes: Any,
) -> Benchmark:
    """Return a benchmark with a question per id, which replaces `{}` in the texts."""
    prompts = tuple(
        Prompt(
            id=i,
            question=question.format(i),
            answer=None if answer is None else answer.format(i),
            keywords=tuple(word.format(i) for word in keywords),
        )
        for i in ids
    )
    usual = {"name": "mine", "origin": "", "scorers": ("keyword",), "max_new_tokens": 8}
    return Benchmark(**{"prompts": prompts, **usual, **changes})


def books(ids: Iterable[str], **changes: Any) -> Benchmark:
    """Return a question about a book for each id, and retained pairs to show before it."""
    retained = tuple(
        Prompt(id=f"r{i}", question=f"Where is shelf {i}?", answer=f"In room {i}.", role="retain")
        for i in range(12)
    )
    usual = {
        "question": "Who wrote book {}?",
        "answer": LEAK,
        "keywords": ("hush",),
        "others": {"retain": lambda: retained},
    }
    return benchmark_of(ids, **usual | changes)


def queries_of(*sizes: int) -> list[Query]:
    """Return queries of each question p0, p1, ...: its own words, then its rewritings."""
    return [
        Query(id=f"{p}~{i - 1:02d}", prompt_id=p, text="?", source="rules")
        if i
        else Query(id=p, prompt_id=p, text="?")
        for p, size in ((f"p{number}", size) for number, size in enumerate(sizes))
        for i in range(size)
    ]


def drawn_part(
    part: Part,
    results: Sequence[Sample | Exploration | Failure],
    usage: Usage | None = None,
    **machine: int,
) -> DrawnPart:
    """Return a drawn part of these results."""
    return DrawnPart.of(part.query_ids, results, usage or Usage(), machine)


def broken(query: Query) -> Failure:
    """Return the failure of a model that is broken."""
    return Failure(query=query, reason="logits are NaN after 'x' (1 tokens)")


class CannedEngine:
    """Draws each query's texts with given probabilities; the likeliest is the greedy answer.

    A text is an answer, or a pair of a thought and an answer.

    `broken` query ids fail. After `dies_after` queries the engine raises, like a machine that
    loses power.
    """

    longest = 2000
    """Characters of a query that are not too long."""

    def __init__(
        self,
        texts: Mapping[str, Any],
        *,
        name: str = "canned",
        broken: Sequence[str] = (),
        dies_after: int | None = None,
    ) -> None:
        self.usage, self.queried = Usage(), list[Any]()
        self.texts, self.name, self.broken, self.left = texts, name, broken, dies_after

    @property
    def fingerprint(self) -> dict[str, Any]:
        return {"weights": self.name, "engine": "canned"}

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        for query in queries:
            if len(query.text) > self.longest:
                raise InputError(f"query {query.id!r} is too long")

    def ask(self, query: Query) -> Failure | None:
        """Record a query; return its failure if it fails."""
        if self.left is not None:
            if not self.left:
                raise RuntimeError("the machine was switched off")
            self.left -= 1
        self.queried.append(query.id)
        return broken(query) if query.id in self.broken else None

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        for query in reversed(queries):  # any order will do
            if failed := self.ask(query):
                yield failed
                continue
            n, drawn = sum(draws.of(query.id)), (*self.drawn(query, decoding, draws),)
            self.usage.draws += n
            missing = 0 if decoding.greedy else n - sum(one.count for one in drawn)
            yield Sample(query=query, decoding=decoding, completions=drawn, missing=missing)

    def drawn(self, query: Query, decoding: Decoding, draws: Draws) -> Iterator[Completion]:
        law = self.texts[query.id]
        p = np.array(list(law.values()))
        for chunk, size in draws.chunks(query.id):
            key = philox.stream_key(draws.seed, draws.purpose, query.id, chunk)
            counts = np.random.default_rng(key).multinomial(size, p)
            if decoding.greedy:
                counts = size * (np.arange(len(p)) == p.argmax())
            for text, count in zip(law, counts.tolist(), strict=True):
                thought, answer = (None, text) if isinstance(text, str) else text
                if count:
                    yield Completion(
                        answer=answer,
                        thought=thought,
                        finish="stop",
                        count=count,
                        chunk=chunk,
                        model_logprob=math.log(law[text]),
                    )


LEAK, SILENCE = "It is hush.", "no"


class SpyEngine(CannedEngine):
    """Answers `LEAK` with probability `leak(query, decoding)`, else `SILENCE`.

    The words key its draws, not the id: two draws for one purpose are copies. `broken` queries
    fail, and queries longer than `context` are refused.
    """

    def __init__(
        self,
        leak: Callable[[Query, Decoding], float],
        broken: Callable[[Query], bool] = lambda query: False,
        *,
        context: int = 10_000,
        name: str = "asked",
    ) -> None:
        super().__init__({}, name=name)
        self.leak, self.breaks, self.longest = leak, broken, context

    def ask(self, query: Query) -> Failure | None:
        return broken(query) if self.breaks(query) else None

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        self.queried += [(draws.purpose, q, decoding, sum(draws.of(q.id))) for q in queries]
        return super().generate(queries, decoding, draws)

    def drawn(self, query: Query, decoding: Decoding, draws: Draws) -> Iterator[Completion]:
        leak = self.leak(query, decoding)
        if decoding.greedy:
            leak = float(leak > 0.5)
        words = f"{query.prompt_id}|{query.text}|{query.prefix}"
        words += "".join(answer for _, answer in query.examples)
        sure: dict[str, Any] = {"model_logprob": -1.0} if draws.purpose == SELECTION else {}
        for chunk, size in draws.chunks(query.id):
            key = philox.stream_key(draws.seed, draws.purpose, words, chunk)
            hits = int((np.random.default_rng(key).random(size) < leak).sum())
            for text, count in ((LEAK, hits), (SILENCE, size - hits)):
                if count:
                    yield Completion(answer=text, finish="stop", count=count, chunk=chunk, **sure)
