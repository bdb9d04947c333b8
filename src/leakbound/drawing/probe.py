"""The cost of an evaluation, from a short sample that is thrown away."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from leakbound.benchmarks import Benchmark
from leakbound.drawing.explore import ranges, require_explores
from leakbound.inputs.halving import most_candidates
from leakbound.planning.plan import SteeredPlan
from leakbound.store import ExploredDraws, Plan
from leakbound.study import ModelSettings, Rewritings
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Exploration,
    Generate,
    Query,
    Requests,
    Sample,
    Scorer,
)

_QUESTIONS = 2
_DRAWS = (16, 64, 256)  # of a question, one after the other while there is time
_SECONDS = 5.0
_FORWARDS = 128
_BYTES_PER_TOKEN = 12  # compressed text, ids and numbers of a distinct completion


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Expected cost of sampling: `seconds` and `bytes` as a range, from more to less sharing.

    Where distributions are explored it is so many `forwards`, and no range; else they are 0. A
    model behind a server has `requests`; their time follows from the trial's, and bytes are not
    measured.

    Attributes:
        tokens: new tokens of all draws, if they are as long as in the trial.
        requests: to the server, the greedy answers included; 0 if there is none.
        prompt_tokens: of all requests, if the server counts as many as in the trial; 0: it counts
            none, or there is no server.
        most_tokens: new tokens of all draws at most, at a server.
        expected: seconds within the range, from how the work grew with the draws.
        rate: tokens drawn in a second, of the few draws that were made.
        saving: tokens drawn for each that was forwarded, of the same.
    """

    questions: int
    decodings: int
    draws: int = 0
    tokens: int = 0
    forwards: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    most_tokens: int = 0
    seconds: tuple[float, float]
    expected: float
    bytes: tuple[int, int]
    rate: float = 0.0
    saving: float = 1.0

    def text(self) -> str:
        """For a person."""
        small, large = (f"{b / 1e6:.1f}" for b in self.bytes)
        if self.requests:
            work = self._served()
        elif self.forwards:
            work = f"{self.forwards:,} forwards; about {_time(self.seconds[1])}, {large} MB"
        else:
            both = dict.fromkeys(map(_time, self.seconds))
            work = (
                f"{self.draws:,} draws, about {self.tokens:,} tokens; {' to '.join(both)}, "
                f"{_time(self.expected)} if it grows as in the trial, {small} to {large} MB (the "
                f"less the draws share, the more); {self.rate:,.0f} tokens drawn a second, "
                f"{self.saving:.1f} for each one forwarded"
            )
        questions = _counted(self.questions, "question")
        return (
            f"{questions}, {_counted(self.decodings, 'decoding')}, {work}; "
            "of one model: a control takes about as much again; loading not counted"
        )

    def _served(self) -> str:
        """The work of a server: requests and tokens, and what is not known of them."""
        prompts, total = "the server counts no prompt tokens", "total not known"
        if self.prompt_tokens:
            prompts = f"about {self.prompt_tokens:,} prompt tokens"
            total = f"about {self.prompt_tokens + self.most_tokens:,} at most in total"
        drawn = f"about {self.tokens:,} as in the trial" if self.tokens else "no count in the trial"
        return (
            f"{self.draws:,} draws in {self.requests:,} requests; {prompts}, at most "
            f"{self.most_tokens:,} new tokens ({drawn}), {total}; about "
            f"{_time(self.expected)} at the trial's rate; the first trial of the server not counted"
        )


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def _time(seconds: float) -> str:
    """Seconds below a minute, else minutes."""
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{max(seconds, 1):.0f} s"


def probe(
    model: str | Generate,
    benchmark: Benchmark,
    *,
    n: int | SteeredPlan,
    decoding: Sequence[Decoding],
    settings: ModelSettings,
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
    if isinstance(engine, Requests):  # each of which costs money: a greedy decoding draws once
        work = [_Work(len(sampled), 1, drawing.n), _Work(len(decoding) - len(sampled) + 1, 1, 1)]
    if rewritings is not None:
        queries = drawing.n if rewritings.design == "fresh" else rewritings.queries + 1
        work.append(_Work(len(sampled), queries, drawing.n / queries))
        work += [_Work(1, queries, rewritings.ids_draws)] * rewritings.ids
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
    queries, served = _tried(benchmark), engine if isinstance(engine, Requests) else None
    most = max(round(work[0].draws), 1)
    sent = served.requests([min(_DRAWS[0], most)]) if served else 1  # tries the server first
    drawn = [_draw(engine, queries, decoding, min(_DRAWS[0], most))]
    for n in _DRAWS[1:]:
        if served is None and n <= most and sum(trial.seconds for trial in drawn) < _SECONDS:
            drawn.append(_draw(engine, queries, decoding, n))
    last = drawn[-1]
    questions = len(benchmark.prompts) / len(queries) / len(decoding)

    def grown(power: float) -> float:
        """How much more the study is than the last draws, where work grows like that power."""
        costs = (job.decodings * job.queries * math.pow(job.draws / last.n, power) for job in work)
        return questions * sum(costs)

    alone, requests = grown(1), 0
    if served:
        requests = len(benchmark.prompts) * sum(
            job.decodings * job.queries * served.requests(Plan.of(math.ceil(job.draws)).chunks())
            for job in work
        )
    draws = round(len(benchmark.prompts) * sum(job.total for job in work))
    low, high = sorted((grown(1 / 2), alone))
    return Cost(
        questions=len(benchmark.prompts),
        decodings=len(decoding),
        draws=draws,
        tokens=round(last.tokens * alone),
        requests=requests,
        prompt_tokens=round(last.prompt_tokens * requests / sent / len(queries) / len(decoding)),
        most_tokens=draws * max(how.longest for how in decoding) if served else 0,
        seconds=(last.seconds * low, last.seconds * high),
        expected=last.seconds * grown(_power(drawn)),
        bytes=(
            round(last.distinct * low * _BYTES_PER_TOKEN),
            round(last.distinct * high * _BYTES_PER_TOKEN),
        ),
        rate=last.tokens / last.seconds,
        saving=last.tokens / max(last.forwards, 1),
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The cost of n draws of each of a few questions, as measured."""

    n: int
    tokens: int
    distinct: int
    forwards: int
    prompt_tokens: int
    seconds: float


def _draw(
    engine: Generate, queries: Sequence[Query], decoding: Sequence[Decoding], n: int
) -> _Drawn:
    draws = Draws(sizes=(n,), purpose="pilot")
    before, started = replace(engine.usage), time.perf_counter()
    results = [result for how in decoding for result in engine.generate(queries, how, draws)]
    seconds = time.perf_counter() - started
    lengths = [
        (completion.count, len(completion.token_ids or ()))
        for result in results
        if isinstance(result, Sample)
        for completion in result.completions
    ]
    spent = engine.usage.since(before, seconds)
    tokens = sum(count * length for count, length in lengths) or spent.sampled_tokens
    distinct = sum(length for _, length in lengths)
    return _Drawn(n, tokens, distinct, spent.forwards, spent.prompt_tokens, seconds)


def _power(drawn: Sequence[_Drawn]) -> float:
    """The power of the number of draws that forwards grew like, between 1/2 and 1."""
    *_, before, last = (drawn[0], *drawn)
    if before.n == last.n or not before.forwards or not last.forwards:
        return 1.0
    power = math.log(last.forwards / before.forwards) / math.log(last.n / before.n)
    return min(max(power, 1 / 2), 1.0)


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
        for result in explorer.explore(_tried(benchmark), how, effort, settle):
            if isinstance(result, Exploration):
                forwards += result.forwards
                tokens += sum(len(event.token_ids) for event in result.events)
                tokens += sum(len(c.token_ids or ()) for c in result.sample.completions)
    seconds = time.perf_counter() - started
    total = exploring.forwards * len(benchmark.prompts) * len(explored)
    more = total / max(forwards, 1)
    return Cost(
        questions=len(benchmark.prompts),
        decodings=len(decoding),
        forwards=total,
        seconds=(seconds * more, seconds * more),
        expected=seconds * more,
        bytes=(round(tokens * more * _BYTES_PER_TOKEN),) * 2,
    )
