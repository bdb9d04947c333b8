"""An engine that stands at the workers of a crew: what is asked of it, one of them does."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from leakbound.errors import InputError, ModelError
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

_VALUES = ("machine", "probe")
_MARGIN = "margin"
_ASKED = ("explore", "force", "force_ids", "prove", "read", "gradient_norms")
_MEASURE = "measure"


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of an engine without asking it for work."""

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
        facts = _told(crew, opener)
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

    def spread(
        self, do: Callable[[Generate, J], R], jobs: Iterable[J | None]
    ) -> Iterator[tuple[J, R]]:
        """See `Spreads.spread`. What `do` spends is its own to tell."""
        return self._crew.each(self._opens, do, jobs)

    def _measure(self, queries: Sequence[Query]) -> None:
        """See `Measures.measure`: every worker measures, those that come later too."""
        self._crew.prepare(self._opens, _measured, tuple(queries))
        self.margin = alone(self._crew, self._opens, _value, _MARGIN)

    def _ask(self, name: str, *args: Any) -> Any:
        found, cost = alone(self._crew, self._opens, _asked, (name, args))
        self.usage.add(cost)
        return found


def _told(crew: Crew, opener: Opener[Generate]) -> _Facts:
    """The facts, of the first worker that tells them; all that are there open the model for it."""
    found: list[_Facts] = []

    def asked() -> Iterator[Sequence[str]]:
        while not found:
            yield _VALUES

    for _, facts in crew.each(opener, _facts, asked()):
        found.append(facts)
    return found[0]


def _facts(engine: Any, told: Sequence[str]) -> _Facts:
    if isinstance(engine, Keeps):
        raise InputError(
            f"{type(engine).__name__} keeps what it draws beside the run, where workers do not "
            "reach. Leave workers out for this model."
        )
    able = tuple(name for name in (*_ASKED, _MEASURE) if callable(getattr(engine, name, None)))
    values = {name: getattr(engine, name) for name in told if hasattr(engine, name)}
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


def _asked(engine: Any, call: tuple[str, tuple[Any, ...]]) -> tuple[Any, Usage]:
    """What one call gives, whole, and what it cost."""
    name, args = call
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    found = getattr(engine, name)(*args)
    found = list(found) if isinstance(found, Iterator) else found
    return found, engine.usage.since(before, time.perf_counter() - started)
