"""The parts of an arm, drawn one after the other here, or several at a time by workers.

How much of an arm is done is told meanwhile.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import cast

from leakbound.drawing.explore import Result, ranges, try_bounds, with_answers
from leakbound.errors import ModelError
from leakbound.store import Arm, DrawnPart, Part
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
    Keeps,
    Opener,
    Progress,
    Prompt,
    Query,
    Sample,
    Scorer,
    Spreads,
    Tells,
    Unkept,
    Usage,
    untold,
)

Reach = Callable[[float], object]
"""Told which share of a part is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawJob:
    """A part to be drawn, with all that its result depends on: whoever does it finds the same.

    how: what keys so many draws of each query, or the effort with which they are explored.
    prompts: by query id, those whose true answers are forced beside the draws; empty: none.
    scorer: what settles prefixes where they are explored.
    """

    part: Part
    queries: tuple[Query, ...]
    decoding: Decoding
    how: Draws | Effort
    prompts: Mapping[str, Prompt]
    scorer: Opener[Scorer] | None = None


def draw_part(reach: Reach, engine: Generate, job: DrawJob) -> DrawnPart:
    """Draw or explore a part with the engine; `reach` is told of it."""
    with costing(engine) as cost:
        results: list[Result] = []
        for result in _results(engine, job):
            results.append(result)
            reach(len(results) / len(job.queries))
        if job.prompts:
            results = with_answers(results, engine, job.decoding, job.prompts)
    return DrawnPart.of(job.part.query_ids, results, cost, machine(engine))


def _results(engine: Generate, job: DrawJob) -> Iterator[Result]:
    """Each query drawn as often as was planned, or explored by a scorer whose bounds hold."""
    if isinstance(job.how, Draws):
        for result in engine.generate(job.queries, job.decoding, job.how):
            _require_planned(result, job, job.how)
            yield result
        return
    assert job.scorer is not None
    scorer, explorer = job.scorer.open(), cast(Explores, engine)
    settle = ranges(scorer, job.prompts, job.decoding.stop)
    for outcome in explorer.explore(job.queries, job.decoding, job.how, settle):
        if isinstance(outcome, Exploration):
            prompt = job.prompts[outcome.query.id]
            try_bounds(scorer, prompt, outcome.events, outcome.sample.completions)
        yield outcome


def _require_planned(result: Sample | Failure, job: DrawJob, draws: Draws) -> None:
    """Refuse a query that was not asked, or drawn more or less often than was planned of it."""
    name = result.query.id
    if name not in job.part.query_ids:
        raise ModelError(f"query {name!r} was not asked: an engine answers those given to it.")
    if isinstance(result, Sample) and result.n != (planned := sum(draws.of(name))):
        raise ModelError(
            f"the engine drew {result.n} outputs of query {name!r} where {planned} were planned. "
            "It does not heed `Draws`, or loses some and does not call them missing."
        )


def draw_parts(arm: Arm, jobs: Iterable[DrawJob], engine: Generate, meter: Meter) -> Usage:
    """Draw every job of an arm and store each as it is finished; returns what they cost.

    The engine draws here, one part after the other, or where it stands at several workers, as many
    at a time as there are.
    """
    spent = Usage()
    meter.show()
    for part, drawn in _drawn(arm, jobs, engine, meter):
        arm.write_part(part, drawn)
        if not drawn.failures:
            arm.kept(part).remove()
        spent.add(drawn.usage)
    return spent


def _drawn(
    arm: Arm, jobs: Iterable[DrawJob], engine: Generate, meter: Meter
) -> Iterator[tuple[Part, DrawnPart]]:
    if isinstance(engine, Spreads):
        for job, drawn in engine.spread(partial(draw_part, _unheard), jobs):
            meter.add(job.part.amount, drawn)
            yield job.part, drawn
        return
    for job in jobs:
        with _keeping(arm, job.part, engine), meter.part(engine, job.part.amount) as reach:
            drawn = draw_part(reach, engine, job)
            meter.found(drawn)
        yield job.part, drawn


@contextmanager
def _keeping(arm: Arm, part: Part, engine: Generate) -> Iterator[None]:
    """Let an engine whose draws cannot be made again keep those of a part beside the arm."""
    if not isinstance(engine, Keeps):
        yield
        return
    engine.kept = arm.kept(part)
    try:
        yield
    finally:
        engine.kept = Unkept()


def _unheard(share: float) -> None:
    """The `Reach` of a worker: what it has drawn of a part, nobody is told."""


@contextmanager
def costing(engine: Generate) -> Iterator[Usage]:
    """The cost of what the engine does meanwhile, known at the end."""
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    cost = Usage()
    yield cost
    cost.add(engine.usage.since(before, time.perf_counter() - started))


def machine(engine: Generate) -> JsonObject:
    """All that the exact draws, though not their distribution, depend on besides the plan."""
    described: JsonObject = getattr(engine, "machine", {})
    return described


@dataclass(slots=True)
class Meter:
    """Tells `progress` how much of `phase` is done: `done` of `total` units, and what the part
    that is drawn now adds.

    An engine that tells (see `Tells`) moves it while it works: by the draws it finishes or, where
    `worth` says how many units a forward is worth, by its forwards.
    """

    progress: Progress
    phase: str
    unit: str
    done: float
    total: float
    worth: float = 0.0
    _first: float = field(init=False)
    _amount: float = 0.0  # of the part
    _now: float = 0.0
    _before: int = 0  # tokens of the parts that are done
    _each: float | None = None
    _tokens: int = 0
    _draws: int = 0
    _distinct: int = 0
    _asked: int = 0

    def __post_init__(self) -> None:
        self._first = self.done

    def show(self) -> None:
        """Tell how far it is: all is done only once the last part is there."""
        done = self.done + self._now
        if self._now:
            done = min(done, math.nextafter(self.total, 0.0))
        several = self._draws > self._asked  # of one draw each there is nothing to tell
        distinct = self._distinct / self._draws if several else None
        self.progress(
            Headway(
                self.phase,
                done,
                self.total,
                self.unit,
                tokens=self._tokens,
                distinct=distinct,
                share=self._share(),
            )
        )

    def _share(self) -> float | None:
        """Which share of the tokens of all parts is there, if draws take as many as these do.

        A part whose draws end last is foreseen by what its engine tells of each; None where that
        is nothing.
        """
        if self._each is None:
            return None
        tokens: float = self._before
        draws = self.done - self._first
        if math.isfinite(self._each):
            tokens, draws = tokens + self._each * self._amount, draws + self._amount
        if not tokens:
            return 0.0
        return min(self._tokens * draws / (tokens * (self.total - self._first)), 1.0)

    @contextmanager
    def part(self, engine: Generate, amount: float) -> Iterator[Callable[[float], None]]:
        """Draw a part of this amount here; gives what is told which share of it is there."""
        self._now, self._amount = 0.0, amount

        def tell(draws: int, tokens: int, each: float | None = None, note: str = "") -> None:
            if note:
                self.progress(Headway(self.phase, self.done, self.total, note=note))
                return
            self._tokens += tokens
            self._each = None if self.worth else each
            self._now = min(self._now + (tokens * self.worth or draws), amount)
            self.show()

        if isinstance(engine, Tells):
            engine.tell = tell
        self.show()
        try:
            yield lambda share: self._reach(share * amount)
        finally:
            if isinstance(engine, Tells):
                engine.tell = untold
        self._add(amount)

    def add(self, amount: float, drawn: DrawnPart) -> None:
        """A part of this amount was drawn elsewhere."""
        self._tokens += drawn.usage.forwards
        self.found(drawn)
        self._add(amount)

    def found(self, drawn: DrawnPart) -> None:
        """How many draws of a part there are, and how many of them differ."""
        self._asked += len(drawn.completions["query_id"].unique())
        self._draws += drawn.draws
        self._distinct += drawn.distinct

    def _add(self, amount: float) -> None:
        self.done, self._now, self._before = self.done + amount, 0.0, self._tokens
        self._each = None if self._each is None else math.inf
        self.show()

    def _reach(self, amount: float) -> None:
        """So much of the part is there, whatever was told."""
        self._now = max(self._now, amount)
        self.show()
