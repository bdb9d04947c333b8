"""Run a model on jobs, in this process or in workers.

A job is a piece of work with everything that its result depends on. Sampling,
exploring, searching for rare leaks and reading texts are jobs. This process
does jobs one after another, or workers do several jobs in parallel. No other
module runs a model in a loop.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    ReportsProgress,
    Sample,
    Scorer,
    Spreads,
    untold,
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A piece of work for a model that any process can do.

    Attributes:
        number: the position of the job among the jobs of one call, or the number of its part.
        queries: the queries.
        decoding: the distribution of the outputs.
        work: the keys of the draws, the effort of exploring, or the number of forward passes of a
            search; None: the job reads the texts.
        prompts: prompts by query id. In a job of draws, these are the prompts whose reference
            answers are teacher-forced.
        scorer: opens the scorer that bounds the scores of prefixes, for exploring or a search.
        texts: one text to read per query, or the texts with which a search begins.
    """

    number: int
    queries: tuple[Query, ...]
    decoding: Decoding
    work: Draws | Effort | int | None = None
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    scorer: Opener[Scorer] | None = None
    texts: tuple[str, ...] = ()

    @property
    def amount(self) -> int:
        """The size of the job: its number of draws, or of queries if the job draws nothing."""
        if isinstance(self.work, Draws):
            return sum(sum(self.work.of(query.id)) for query in self.queries)
        return len(self.queries)


def run_jobs(
    engine: Generate, do: Callable[[Generate, Job], R], jobs: Iterable[Job], meter: Meter
) -> Iterator[tuple[Job, R]]:
    """Do every job with the engine, in this process or in the engine's workers.

    Args:
        engine: the engine. An engine with workers does one job per worker in parallel.
        do: the function that does a job with an engine.
        jobs: the jobs; the next job is requested when a process is free.
        meter: shows the progress; a job is added after the caller has stored its result.

    Returns:
        (job, result) pairs in the order of completion.
    """
    if isinstance(engine, ReportsProgress):
        engine.tell = meter.tell
    meter.show()
    here = ((job, do(engine, job)) for job in jobs)
    try:
        for job, result in engine.spread(do, jobs) if isinstance(engine, Spreads) else here:
            yield job, result
            spent = result.record.usage.forwards if isinstance(result, DrawnPart) else 0
            meter.add(job.amount, spent)
    finally:
        if isinstance(engine, ReportsProgress):
            engine.tell = untold


def draw_part(engine: Generate, job: Job) -> DrawnPart:
    """Draw or explore the queries of a job, and return the part with the results."""
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    results = list(_results(engine, job))
    if job.prompts:
        results = with_answers(results, engine, job.decoding, job.prompts)
    cost = engine.usage.since(before, time.perf_counter() - started)
    return DrawnPart.of([query.id for query in job.queries], results, cost, machine(engine))


def _results(engine: Generate, job: Job) -> Iterator[Result]:
    """Yield the result of each query: its draws or its exploration.

    The results of an exploration also test the scorer's bounds.
    """
    if isinstance(job.work, Draws):
        for result in engine.generate(job.queries, job.decoding, job.work):
            _require_planned(result, job, job.work)
            yield result
        return
    assert job.scorer is not None
    assert isinstance(job.work, Effort)
    scorer, explorer = job.scorer.open(), cast(Explores, engine)
    settle = ranges(scorer, job.prompts, job.decoding.stop)
    for outcome in explorer.explore(job.queries, job.decoding, job.work, settle):
        if isinstance(outcome, Exploration):
            prompt = job.prompts[outcome.query.id]
            try_bounds(scorer, prompt, outcome.events, outcome.sample.completions)
        yield outcome


def _require_planned(result: Sample | Failure, job: Job, draws: Draws) -> None:
    """Raise an error for a query that is not in the job, or an unplanned number of draws."""
    name = result.query.id
    if name not in [query.id for query in job.queries]:
        raise ModelError(
            f"the engine returned outputs of query {name!r}, which was not requested. Correct the "
            "engine."
        )
    if isinstance(result, Sample) and result.n != (planned := sum(draws.of(name))):
        raise ModelError(
            f"the engine drew {result.n} outputs of query {name!r}, but {planned} were planned. "
            "Correct the engine: it must follow `Draws`, and count lost draws as missing."
        )


def machine(engine: Generate) -> JsonObject:
    """Return facts about the machine that affect the draws but not their distribution."""
    described: JsonObject = getattr(engine, "machine", {})
    return described


@dataclass(slots=True)
class Meter:
    """The progress of an arm: the amount that is done, and the tokens processed so far.

    Attributes:
        progress: the function that is called with every change.
        phase: the name of the step.
        unit: the unit of the amounts.
        done: the amount of the finished parts.
        total: the amount of all parts.
        tokens: the tokens of the finished parts.
    """

    progress: Progress
    phase: str
    unit: str
    done: int
    total: int
    tokens: int = 0
    _draws: int = 0  # draws finished in the current part; `_forwarded` has its tokens
    _forwarded: int = 0

    def add(self, amount: int, tokens: int) -> None:
        """Add a finished job to the progress."""
        self.done += amount
        self.tokens += max(tokens, self._forwarded)
        self._draws = self._forwarded = 0
        self.show()

    def tell(self, draws: int, tokens: int, note: str = "") -> None:
        """Add finished draws and processed tokens of the current part; see `Tell`."""
        if note:
            self.progress(Headway(self.phase, self.done, self.total, note=note))
            return
        self._draws += draws if self.unit == "draws" else 0
        self._forwarded += tokens
        self.show()

    def show(self) -> None:
        """Report the progress."""
        done = min(self.done + self._draws, self.total)
        tokens = self.tokens + self._forwarded
        self.progress(Headway(self.phase, done, self.total, self.unit, tokens=tokens))
