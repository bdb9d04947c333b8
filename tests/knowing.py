"""Engines whose every probability is known, that prove, and weigh what they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leakbound.benchmarks import Benchmark
from leakbound.testing import FakeEngine
from leakbound.types import (
    Completion,
    Decoding,
    Draws,
    Failure,
    LogRange,
    Prompt,
    Proving,
    Query,
    Ranges,
    Sample,
)

LEAKS = {"It is Ann": 0.002, "It is surely Ann or Bob": 0.001, "Ann": 0.01, "well Ann": 0.03}
MODEL = {**LEAKS, "No": 0.6, "It is Bob": 0.2, "Bob": 0.156, "surely": 0.001}
OTHER = {
    "It is Ann": 0.4, "It is surely Ann or Bob": 0.2, "Ann": 0.1, "well Ann": 1e-9, "No": 0.1,
    "It is Bob": 0.15, "Bob": 1e-6, "surely": 0.05 - 1e-9 - 1e-6,
}  # fmt: skip
TRUTH = sum(LEAKS.values())
TASK = Benchmark(
    name="known",
    origin="",
    prompts=(Prompt(id="q", question="Who?", answer="Ann"),),
    scorers=("contains",),
    max_new_tokens=8,
)


class KnownEngine(FakeEngine):
    """An engine that also proves, and tells how likely given tokens are."""

    said: str | None = None  # what every draw says, where that is not left to chance

    def prove(
        self,
        asked: Sequence[tuple[Query, Sequence[str]]],
        decoding: Decoding,
        forwards: int,
        ranges: Ranges,
    ) -> Iterator[Proving | Failure]:
        leads = [(query, [self.ids(text) for text in texts]) for query, texts in asked]
        yield from self._sampler(self.margin).prove(leads, decoding, forwards, ranges)

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        return self._sampler(self.margin).force(outputs, decoding)

    def log_ranges(
        self,
        outputs: Sequence[tuple[Query, tuple[int, ...]]],
        decoding: Decoding,
        whole: bool = True,
    ) -> list[LogRange | None]:
        return self._sampler(self.margin).log_ranges(outputs, decoding, whole)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        if self.said is None:
            yield from super().generate(queries, decoding, draws)
            return
        for query in queries:
            one = Completion(
                count=sum(draws.of(query.id)), text=self.said, token_ids=self.ids(self.said)
            )
            yield Sample(query=query, decoding=decoding, completions=(one,))

    def ids(self, text: str) -> tuple[int, ...]:
        return (*self._encode(text), 0)


def engine(law: dict[str, float], name: str) -> KnownEngine:
    """Engines that give all outputs some chance, so that a token means the same to them."""
    return KnownEngine(
        {"q": law, "words": dict.fromkeys({**MODEL, **OTHER}, 0.0) | {"": 1.0}}, name=name
    )
