"""The one loop that runs a model: jobs, each with all that its result depends on.

Sampling, exploring, searching for rare leaks and reading texts are jobs. They are done one after
the other here, or several at a time by workers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from leakbound.drawing.explore import Result, ranges, try_bounds, with_answers
from leakbound.errors import ModelError
from leakbound.store import DrawnPart
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Exploration,
    Explores,
    Failure,
    Generate,
    Headway,
    JsonObject,
    Opener,
    Progress,
    Prompt,
    Query,
    Sample,
    Scorer,
    Spreads,
    Tells,
    untold,
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Work for a model, with all that its result depends on: any process gets the same result.

    Attributes:
        number: its place among the jobs of one call; of a part its number in the arm.
        queries: what the model is given.
        decoding: the distribution of its outputs.
        how: the keys of the draws of each query, or the effort with which each is explored or
            searched; None: the texts are read.
        prompts: by query id; of draws those whose true answers are forced alongside.
        scorer: opens the scorer that settles prefixes where outputs are explored or searched.
        texts: one text for each query that is read; or the texts with which a search begins.
    """

    number: int
    queries: tuple[Query, ...]
    decoding: Decoding
    how: Draws | Effort | int | None = None
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    scorer: Opener[Scorer] | None = None
    texts: tuple[str, ...] = ()


def run_jobs(
    engine: Generate, do: Callable[[Generate, Job], R], jobs: Iterable[Job]
) -> Iterator[tuple[Job, R]]:
    """Do every job with the engine, here or at the workers that have it open.

    Args:
        engine: draws; one that stands at workers does as many jobs at a time as there are.
        do: does a job with an engine.
        jobs: the jobs; the next one is taken when somebody is free for it.

    Returns:
        (job, result) pairs, the first finished first.
    """
    if isinstance(engine, Spreads):
        yield from engine.spread(do, jobs)
        return
    for job in jobs:
        yield job, do(engine, job)


def draw_part(engine: Generate, job: Job) -> DrawnPart:
    """Draw or explore the queries of a job."""
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    results = list(_results(engine, job))
    if job.prompts:
        results = with_answers(results, engine, job.decoding, job.prompts)
    cost = engine.usage.since(before, time.perf_counter() - started)
    return DrawnPart.of([query.id for query in job.queries], results, cost, machine(engine))


def _results(engine: Generate, job: Job) -> Iterator[Result]:
    """Each query drawn as often as was planned, or explored by a scorer with valid bounds."""
    if isinstance(job.how, Draws):
        for result in engine.generate(job.queries, job.decoding, job.how):
            _require_planned(result, job, job.how)
            yield result
        return
    assert job.scorer is not None
    assert isinstance(job.how, Effort)
    scorer, explorer = job.scorer.open(), cast(Explores, engine)
    settle = ranges(scorer, job.prompts, job.decoding.stop)
    for outcome in explorer.explore(job.queries, job.decoding, job.how, settle):
        if isinstance(outcome, Exploration):
            prompt = job.prompts[outcome.query.id]
            try_bounds(scorer, prompt, outcome.events, outcome.sample.completions)
        yield outcome


def _require_planned(result: Sample | Failure, job: Job, draws: Draws) -> None:
    """Refuse a query that is not in the job, or other draws of it than were planned."""
    name = result.query.id
    if name not in [query.id for query in job.queries]:
        raise ModelError(f"query {name!r} was not asked: an engine answers those given to it.")
    if isinstance(result, Sample) and result.n != (planned := sum(draws.of(name))):
        raise ModelError(
            f"the engine drew {result.n} outputs of query {name!r} where {planned} were planned. "
            "It does not heed `Draws`, or loses some and does not call them missing."
        )


def machine(engine: Generate) -> JsonObject:
    """Return all that the exact draws, but not their distribution, depend on besides the plan."""
    described: JsonObject = getattr(engine, "machine", {})
    return described


@dataclass(slots=True)
class Meter:
    """Progress of an arm: what is done of the total, and the tokens forwarded so far.

    Attributes:
        progress: is called with every change.
        phase: the step.
        unit: a word for what is counted.
        done: the amount in the parts that are done.
        total: the amount in all parts.
        tokens: those of the parts that are done.
    """

    progress: Progress
    phase: str
    unit: str
    done: int
    total: int
    tokens: int = 0
    _draws: int = 0  # finished in the part at work, and the tokens forwarded for it
    _forwarded: int = 0

    @contextmanager
    def following(self, engine: Generate) -> Iterator[None]:
        """Follow an engine that reports while it works."""
        if isinstance(engine, Tells):
            engine.tell = self._tell
        self._show()
        try:
            yield
        finally:
            if isinstance(engine, Tells):
                engine.tell = untold

    def add(self, amount: int, tokens: int) -> None:
        """Count a part that is done."""
        self.done += amount
        self.tokens += max(tokens, self._forwarded)
        self._draws = self._forwarded = 0
        self._show()

    def _tell(self, draws: int, tokens: int, note: str = "") -> None:
        if note:
            self.progress(Headway(self.phase, self.done, self.total, note=note))
            return
        self._draws += draws if self.unit == "draws" else 0
        self._forwarded += tokens
        self._show()

    def _show(self) -> None:
        done = min(self.done + self._draws, self.total)
        tokens = self.tokens + self._forwarded
        self.progress(Headway(self.phase, done, self.total, self.unit, tokens=tokens))
