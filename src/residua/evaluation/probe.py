"""What an evaluation would cost, from a short sample that is thrown away."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from residua.benchmarks import Benchmark
from residua.types import Decoding, Draws, Generate, Query, Sample

_QUESTIONS = 2
_DRAWS = 64
_BYTES_PER_TOKEN = 12  # compressed text, ids and numbers of a distinct completion


class Opens(Protocol):
    """Whatever turns a model's name into an engine."""

    def open(self, model: str, benchmark: Benchmark) -> Generate: ...


@dataclass(frozen=True, slots=True)
class Cost:
    """Expected cost of sampling: `seconds` and `bytes` as a range, from less to more sharing."""

    questions: int
    decodings: int
    draws: int
    tokens: int
    seconds: tuple[float, float]
    bytes: tuple[int, int]

    def text(self) -> str:
        """For a person."""
        low, high = (s / 60 for s in self.seconds)
        small, large = (b / 1e6 for b in self.bytes)
        return (
            f"{self.questions} questions, {self.decodings} decodings, {self.draws:,} draws, about "
            f"{self.tokens:,} tokens; {low:.1f} to {high:.1f} minutes, {small:.1f} to {large:.1f} "
            "MB (the less the draws share, the more); one model, loading and scoring not counted"
        )


def probe(
    model: str | Generate,
    benchmark: Benchmark,
    *,
    n: int,
    decoding: Sequence[Decoding],
    settings: Opens,
) -> Cost:
    """Sample a little and extrapolate to n draws of every question under every decoding.

    Distinct prefixes, and with them time, grow like the square root of n where draws share
    much and like n where they share nothing: the two ends of the range.
    """
    engine = settings.open(model, benchmark) if isinstance(model, str) else model
    every = max(1, len(benchmark.prompts) // _QUESTIONS)
    queries = [Query.original(p) for p in benchmark.prompts[::every][:_QUESTIONS]]
    draws = Draws(sizes=(min(n, _DRAWS),), purpose="pilot")
    for how in decoding:
        engine.check([Query.original(p) for p in benchmark.prompts], how)
    tokens, distinct, started = 0, 0, time.perf_counter()
    for how in decoding:
        for result in engine.generate(queries, how, draws):
            if isinstance(result, Sample):
                tokens += sum(c.count * len(c.token_ids or ()) for c in result.completions)
                distinct += sum(len(c.token_ids or ()) for c in result.completions)
    seconds = time.perf_counter() - started
    questions = len(benchmark.prompts) / len(queries)
    more = n / draws.n
    shared, alone = questions * math.sqrt(more), questions * more
    return Cost(
        questions=len(benchmark.prompts),
        decodings=len(decoding),
        draws=n * len(benchmark.prompts) * len(decoding),
        tokens=round(tokens * alone),
        seconds=(seconds * shared, seconds * alone),
        bytes=(
            round(distinct * shared * _BYTES_PER_TOKEN),
            round(distinct * alone * _BYTES_PER_TOKEN),
        ),
    )
