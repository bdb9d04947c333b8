"""Work shared among workers that come and go: what is lost with one is done again by another."""

from __future__ import annotations

import math
import socket
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from leakbound.errors import IncompleteError, InputError, ModelError
from leakbound.types import (
    Crew,
    Decoding,
    Draws,
    Failure,
    Generate,
    JsonObject,
    Keeps,
    Opener,
    Query,
    Sample,
    Usage,
    alone,
    different,
)

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")

_MOST_LOSSES = 5  # workers that one job may lose: more, and it is the job that kills them
_PATIENCE = 600.0  # seconds without any worker
_LOOK = 1.0  # seconds between two looks for workers that could join


class WorkerLostError(Exception):
    """A worker is gone, and what it was doing with it: its process ended, or its machine."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """The work that each worker does once, before its next job."""

    opener: Opener[Any]
    do: Callable[[Any, Any], object]
    what: Any
    number: int


@dataclass(frozen=True, slots=True)
class Task:
    """A job as it is sent to a worker: first what it must have done, then what it is to do."""

    opener: Opener[Any]
    do: Callable[[Any, Any], Any]
    job: Any
    first: tuple[Preparation, ...] = ()


class Worker:
    """A worker's end, in its own process: it opens what it needs once, and keeps it open."""

    def __init__(self) -> None:
        self._open: dict[Opener[Any], Any] = {}

    def do(self, task: Task) -> Any:
        """The result of the job."""
        for step in task.first:
            step.do(self._opened(step.opener), step.what)
        return task.do(self._opened(task.opener), task.job)

    def _opened(self, opener: Opener[Any]) -> Any:
        if opener not in self._open:
            self._open[opener] = opener.open()
        return self._open[opener]


class Cluster(Protocol):
    """The machines: they give workers and carry tasks. A worker and a ticket can be keys."""

    def room(self) -> int:
        """How many workers there is room for in all, as far as is known now."""
        ...

    def hire(self) -> tuple[Hashable, Hashable]:
        """A new worker, and the ticket that is done once it stands."""
        ...

    def send(self, worker: Any, task: Task) -> Hashable:
        """Let a worker do this; gives a ticket."""
        ...

    def wait(self, tickets: Sequence[Any], seconds: float) -> Sequence[Hashable]:
        """The tickets that are done, as soon as one is; none after so many seconds."""
        ...

    def fetch(self, ticket: Any) -> Any:
        """The result; raises what the task raised, or WorkerLostError."""
        ...

    def dismiss(self, worker: Any) -> None:
        """End a worker, wherever it is in its work."""
        ...


@dataclass(slots=True)
class _Sent(Generic[J]):
    """A job, and how often a worker was lost with it."""

    job: J
    losses: int = 0


@dataclass(slots=True)
class _Work(Generic[J]):
    """The jobs that one call of `each` still has to do."""

    left: Iterator[J]
    again: deque[_Sent[J]] = field(default_factory=deque)
    out: dict[Hashable, tuple[Hashable, _Sent[J]]] = field(default_factory=dict)
    ended: bool = False

    def take(self) -> _Sent[J] | None:
        """The next job, one that was lost before new ones; None where there is none left."""
        if self.again:
            return self.again.popleft()
        for job in self.left:
            return _Sent(job)
        self.ended = True
        return None

    @property
    def done(self) -> bool:
        return self.ended and not self.again and not self.out


class HiredCrew:
    """See `Crew`. Workers are hired while there is room, `most` at a time (None: all there are).

    Room is looked for every `look` seconds. Where no worker is to be had for `patience` seconds,
    IncompleteError.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        most: int | None = None,
        look: float = _LOOK,
        patience: float = _PATIENCE,
    ) -> None:
        self._cluster, self._most, self._look, self._patience = cluster, most, look, patience
        self._starting: dict[Hashable, Hashable] = {}  # ticket -> worker
        self._idle: list[Hashable] = []
        self._prepared: dict[Hashable, int] = {}  # worker -> the last preparation it was sent
        self._preparations: dict[tuple[Opener[Any], Any], Preparation] = {}
        self._looked, self._seen = -math.inf, time.monotonic()
        self._why = "the cluster is busy"

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J]
    ) -> Iterator[tuple[J, R]]:
        """See `Crew.each`."""
        work = _Work(iter(jobs))
        try:
            while True:
                self._hire()
                while self._idle and (sent := work.take()):
                    self._send(work, Task(opener, do, sent.job), sent)
                if work.done:
                    return
                for ticket in self._finished(work):
                    worker, sent = work.out.pop(ticket)
                    self._idle.append(worker)
                    try:
                        result = self._cluster.fetch(ticket)
                    except WorkerLostError as error:
                        self._lost(worker, error, sent)
                        work.again.append(sent)
                    else:
                        yield sent.job, result
        finally:
            for worker, _ in work.out.values():  # nobody waits for what they do
                self._dismiss(worker)

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], what: J) -> None:
        """See `Crew.prepare`."""
        number = 1 + max((step.number for step in self._preparations.values()), default=0)
        self._preparations[opener, do] = Preparation(opener, do, what, number)

    def close(self) -> None:
        """Dismiss every worker."""
        for worker in list(self._prepared):
            self._dismiss(worker)

    def _hire(self) -> None:
        """Hire as many workers as there is room for; looked for now and then."""
        now = time.monotonic()
        if now - self._looked < self._look:
            return
        self._looked = now
        room = self._cluster.room()
        for _ in range(len(self._prepared), room if self._most is None else min(room, self._most)):
            worker, ticket = self._cluster.hire()
            self._prepared[worker] = 0
            self._starting[ticket] = worker

    def _send(self, work: _Work[J], task: Task, sent: _Sent[J]) -> None:
        worker = self._idle.pop()
        last = self._prepared[worker]
        steps = sorted(self._preparations.values(), key=lambda step: step.number)
        first = tuple(step for step in steps if step.number > last)
        self._prepared[worker] = first[-1].number if first else last
        ticket = self._cluster.send(worker, Task(task.opener, task.do, task.job, first))
        work.out[ticket] = worker, sent

    def _finished(self, work: _Work[J]) -> list[Hashable]:
        """The tickets of jobs that are done; workers that have come are idle by then."""
        tickets = self._cluster.wait([*work.out, *self._starting], self._look)
        for ticket in tickets:
            if ticket in self._starting:
                self._welcome(ticket)
        if work.out or self._idle:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > self._patience:
            raise IncompleteError(
                f"no worker was to be had for {self._patience:.0f} seconds: {self._why}. What was "
                "finished is kept: run the same command again once there is room, or without "
                "workers."
            )
        return [ticket for ticket in tickets if ticket in work.out]

    def _welcome(self, ticket: Hashable) -> None:
        worker = self._starting.pop(ticket)
        try:
            self._cluster.fetch(ticket)
        except WorkerLostError as error:
            self._why = str(error)
            self._dismiss(worker)  # another is hired at the next look
        else:
            self._idle.append(worker)

    def _lost(self, worker: Hashable, error: WorkerLostError, sent: _Sent[J]) -> None:
        """Count a loss; IncompleteError where this job has lost too many workers."""
        self._dismiss(worker)
        self._why = str(error)
        sent.losses += 1
        if sent.losses == _MOST_LOSSES:
            raise IncompleteError(
                f"{_MOST_LOSSES} workers were lost one after the other with the same work, the "
                f"last one thus: {error}. Give a worker more memory, or fewer workers to a "
                "machine, and run the same command again: what was finished is kept."
            ) from error

    def _dismiss(self, worker: Hashable) -> None:
        self._prepared.pop(worker, None)
        if worker in self._idle:
            self._idle.remove(worker)
        self._cluster.dismiss(worker)


_VALUES = ("machine", "probe")
_MARGIN = "margin"
_ASKED = ("explore", "force", "force_ids", "prove", "read", "gradient_norms", "words")
_MEASURE = "measure"


@dataclass(frozen=True, slots=True)
class _Facts:
    """The facts of an engine that are known without asking it for work."""

    fingerprint: JsonObject
    notes: tuple[str, ...]
    values: dict[str, Any]
    able: tuple[str, ...]


class CrewEngine:
    """The engine that `opener` opens, at every worker of a crew.

    It can do what that engine can (see the seams in `leakbound.types`), each call at one worker;
    `spread` shares many among all. A worker whose engine has another fingerprint than the first
    one's is refused.
    """

    def __init__(self, crew: Crew, opener: Opener[Generate]) -> None:
        self._crew, self._opens = crew, opener
        facts = _facts_of(crew, opener)
        crew.prepare(opener, _require_same, facts.fingerprint)
        self.fingerprint = facts.fingerprint
        self.usage = Usage(notes=[*facts.notes])
        for name, value in facts.values.items():
            setattr(self, name, value)
        for name in facts.able:
            setattr(self, name, partial(self._ask, name))
        if _MEASURE in facts.able:
            self.measure = self._measure

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """See `Generate.check`."""
        self._ask("check", queries, decoding)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """See `Generate.generate`."""
        yield from self._ask("generate", queries, decoding, draws)

    def spread(self, do: Callable[[Generate, J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """See `Spreads.spread`. What `do` spends is its own to tell."""
        return self._crew.each(self._opens, do, jobs)

    def _measure(self, queries: Sequence[Query]) -> None:
        """See `Measures.measure`: every worker measures, those that come later too."""
        self._crew.prepare(self._opens, _measured, tuple(queries))
        self.margin = alone(self._crew, self._opens, _value, _MARGIN)

    def _ask(self, name: str, *args: Any) -> Any:
        result, cost = alone(self._crew, self._opens, _called, (name, args))
        self.usage.add(cost)
        return result


def _facts_of(crew: Crew, opener: Opener[Generate]) -> _Facts:
    """The facts, of the first worker that tells them; all that are there open the model for it."""
    answers: list[_Facts] = []

    def jobs() -> Iterator[Sequence[str]]:
        while not answers:
            yield _VALUES

    for _, facts in crew.each(opener, _facts, jobs()):
        answers.append(facts)
    return answers[0]


def _facts(engine: Any, names: Sequence[str]) -> _Facts:
    if isinstance(engine, Keeps):
        raise InputError(
            f"{type(engine).__name__} keeps what it draws beside the run, where workers do not "
            "reach. Leave workers out for this model."
        )
    able = tuple(name for name in (*_ASKED, _MEASURE) if callable(getattr(engine, name, None)))
    values = {name: getattr(engine, name) for name in names if hasattr(engine, name)}
    if _MEASURE in able:
        values[_MARGIN] = math.inf  # until it is measured, nothing is exact
    elif hasattr(engine, _MARGIN):
        values[_MARGIN] = engine.margin
    return _Facts(engine.fingerprint, tuple(engine.usage.notes), values, able)


def _require_same(engine: Generate, fingerprint: JsonObject) -> None:
    """Refuse a worker whose engine draws from another law than the first one's."""
    if differing := different(engine.fingerprint, fingerprint):
        raise ModelError(
            f"the worker on {socket.gethostname()} has another model of that name than the first "
            f"worker: its {', '.join(differing)} differ. Put the same files there and install the "
            "same versions, or take that machine out of the cluster; then run the same command "
            "again."
        )


def _measured(engine: Any, queries: Sequence[Query]) -> None:
    engine.measure(queries)


def _value(engine: Any, name: str) -> Any:
    return getattr(engine, name)


def _called(engine: Any, call: tuple[str, tuple[Any, ...]]) -> tuple[Any, Usage]:
    """The result of one call, whole, and what it cost."""
    name, args = call
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    result = getattr(engine, name)(*args)
    result = list(result) if isinstance(result, Iterator) else result
    return result, engine.usage.since(before, time.perf_counter() - started)
