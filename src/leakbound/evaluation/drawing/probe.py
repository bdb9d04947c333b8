"""What an evaluation would cost, from a short sample that is thrown away."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from leakbound.benchmarks import Benchmark
from leakbound.evaluation.drawing.explore import ranges, require_explores
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.inputs.halving import most_candidates
from leakbound.store import ExploredDraws
from leakbound.study import Rewritings
from leakbound.types import Decoding, Draws, Effort, Exploration, Generate, Query, Sample, Scorer

_QUESTIONS = 2
_DRAWS = 64
_FORWARDS = 128
_BYTES_PER_TOKEN = 12  # compressed text, ids and numbers of a distinct completion


class Opens(Protocol):
    """Whatever turns a model's name into an engine."""

    def open(self, model: str, benchmark: Benchmark) -> Generate: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Expected cost of sampling: `seconds` and `bytes` as a range, from less to more sharing.

    Where distributions are explored it is so many `forwards`, and no range; else they are 0.
    """

    questions: int
    decodings: int
    draws: int = 0
    tokens: int = 0
    forwards: int = 0
    seconds: tuple[float, float]
    bytes: tuple[int, int]

    def text(self) -> str:
        """For a person."""
        low, high = (f"{s / 60:.1f}" for s in self.seconds)
        small, large = (f"{b / 1e6:.1f}" for b in self.bytes)
        if self.forwards:
            what = f"{self.forwards:,} forwards; about {high} minutes, {large} MB"
        else:
            what = (
                f"{self.draws:,} draws, about {self.tokens:,} tokens; {low} to {high} minutes, "
                f"{small} to {large} MB (the less the draws share, the more)"
            )
        return (
            f"{self.questions} questions, {self.decodings} decodings, {what}; one model, loading "
            "and scoring not counted"
        )


def probe(
    model: str | Generate,
    benchmark: Benchmark,
    *,
    n: int | SteeredPlan,
    decoding: Sequence[Decoding],
    settings: Opens,
    rewritings: Rewritings | None = None,
) -> Cost:
    """Sample or explore a little, and extrapolate to every question under every decoding.

    `rewritings` are counted as if all their rewritings were asked; those are not made here.
    """
    engine = settings.open(model, benchmark) if isinstance(model, str) else model
    drawing = SteeredPlan(n) if isinstance(n, int) else n
    for how in decoding:
        engine.check([Query.original(p) for p in benchmark.prompts], how)
    if isinstance(drawing.draws, ExploredDraws):
        return _of_exploring(engine, benchmark, drawing.draws, drawing.steering, decoding)
    sampled = [how for how in decoding if not how.greedy]
    work = [_Work(len(decoding), 1, drawing.n)]
    if rewritings is not None:
        asked = drawing.n if rewritings.design == "fresh" else rewritings.queries + 1
        work.append(_Work(len(sampled), asked, drawing.n / asked))
        work += [_Work(1, asked, rewritings.ids_draws)] * rewritings.ids
    if drawing.attack is not None:
        budget = drawing.attack.budget
        tried = most_candidates(budget)
        work += [_Work(1, tried, budget / tried), _Work(1, 1, drawing.n)]
    return _of_drawing(engine, benchmark, work, decoding)


def _tried(benchmark: Benchmark) -> list[Query]:
    """A few questions, far apart."""
    every = max(1, len(benchmark.prompts) // _QUESTIONS)
    return [Query.original(p) for p in benchmark.prompts[::every][:_QUESTIONS]]


@dataclass(frozen=True, slots=True)
class _Work:
    """So many draws of each of so many queries of every question, under so many decodings."""

    decodings: int
    queries: int
    draws: float

    @property
    def total(self) -> float:
        return self.decodings * self.queries * self.draws


def _of_drawing(
    engine: Generate, benchmark: Benchmark, work: Sequence[_Work], decoding: Sequence[Decoding]
) -> Cost:
    """The cost of the draws of every question, from a few of its own words.

    Distinct prefixes, and with them time, grow like the square root of a query's draws where
    these share much and like their number where they share nothing: the two ends of the range.
    """
    queries = _tried(benchmark)
    draws = Draws(sizes=(min(round(work[0].draws), _DRAWS),), purpose="pilot")
    tokens, distinct, started = 0, 0, time.perf_counter()
    for how in decoding:
        for result in engine.generate(queries, how, draws):
            if isinstance(result, Sample):
                tokens += sum(c.count * len(c.token_ids or ()) for c in result.completions)
                distinct += sum(len(c.token_ids or ()) for c in result.completions)
    seconds = time.perf_counter() - started
    questions = len(benchmark.prompts) / len(queries) / len(decoding)
    alone = questions * sum(one.total / draws.n for one in work)
    shared = questions * sum(
        one.decodings * one.queries * math.sqrt(one.draws / draws.n) for one in work
    )
    low, high = sorted((shared, alone))
    return Cost(
        questions=len(benchmark.prompts),
        decodings=len(decoding),
        draws=round(len(benchmark.prompts) * sum(one.total for one in work)),
        tokens=round(tokens * alone),
        seconds=(seconds * low, seconds * high),
        bytes=(round(distinct * low * _BYTES_PER_TOKEN), round(distinct * high * _BYTES_PER_TOKEN)),
    )


def _of_exploring(
    engine: Generate,
    benchmark: Benchmark,
    exploring: ExploredDraws,
    scorer: Scorer,
    decoding: Sequence[Decoding],
) -> Cost:
    """The cost of exploring every question: time and files grow like the forwards."""
    explored = [how for how in decoding if not how.greedy]
    settle = ranges(scorer, {p.id: p for p in benchmark.prompts})
    few = min(exploring.forwards, _FORWARDS)
    effort = Effort(mode=exploring.mode, forwards=few, purpose="pilot")
    tokens, forwards, started = 0, 0, time.perf_counter()
    for how in explored:
        explorer = require_explores(engine, how.name, how)
        for found in explorer.explore(_tried(benchmark), how, effort, settle):
            if isinstance(found, Exploration):
                forwards += found.forwards
                tokens += sum(len(event.token_ids) for event in found.events)
                tokens += sum(len(c.token_ids or ()) for c in found.sample.completions)
    seconds = time.perf_counter() - started
    total = exploring.forwards * len(benchmark.prompts) * len(explored)
    more = total / max(forwards, 1)
    return Cost(
        questions=len(benchmark.prompts),
        decodings=len(decoding),
        forwards=total,
        seconds=(seconds * more, seconds * more),
        bytes=(round(tokens * more * _BYTES_PER_TOKEN),) * 2,
    )
