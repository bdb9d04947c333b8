"""An engine that passes its calls to the workers of a crew; every worker opens the model."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
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

_MARGIN = "margin"
_KNOWN = ("fingerprint", "machine", "probe", _MARGIN)
_ABLE = ("explore", "force", "force_ids", "prove", "read", "gradient_norms", "words", "measure")


class CrewEngine:
    """An engine that runs its calls on the workers of a crew; `opener` opens the model there.

    A `CrewEngine` has the methods of the opened engine (see the protocols in `leakbound.types`).
    Each call runs on one worker; `spread` distributes many jobs. A worker is refused if its
    engine's fingerprint differs from that of the first worker's engine.
    """

    fingerprint: JsonObject
    usage: Usage

    def __init__(self, crew: Crew, opener: Opener[Generate]) -> None:
        self._crew, self._opens = crew, opener
        answers: list[tuple[dict[str, Any], list[str]]] = []

        def jobs() -> Iterator[None]:
            """Let every available worker open the model, until one worker has answered."""
            while not answers:
                yield None

        answers += (facts for _, facts in crew.each(opener, _facts, jobs()))
        values, able = answers[0]
        vars(self).update(values)
        calls = {name: partial(self._call, name) for name in able}
        vars(self).update({**calls, "measure": self._measure} if "measure" in able else calls)
        crew.prepare(opener, _require_same, self.fingerprint)

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """See `Generate.check`."""
        self._call("check", queries, decoding)

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """See `Generate.generate`."""
        yield from self._call("generate", queries, decoding, draws)

    def spread(self, do: Callable[[Generate, J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """See `Spreads.spread`; `do` reports its own cost."""
        return self._crew.each(self._opens, do, jobs)

    def _measure(self, queries: Sequence[Query]) -> None:
        """See `Measures.measure`; every worker measures, including workers that join later."""
        self._crew.prepare(self._opens, _called, ("measure", (tuple(queries),)))
        self.margin = alone(self._crew, self._opens, getattr, _MARGIN)

    def _call(self, name: str, *args: Any) -> Any:
        result, cost = alone(self._crew, self._opens, _called, (name, args))
        self.usage.add(cost)
        return result


def _facts(engine: Any, _: None) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of an engine that are cheap to read, and the names of its methods."""
    if isinstance(engine, Keeps):
        raise InputError(
            f"{type(engine).__name__} stores its draws in the folder of the run, which workers "
            "cannot access. Do not use workers for this model."
        )
    able = [name for name in _ABLE if callable(getattr(engine, name, None))]
    measures = "measure" in able
    names = [name for name in _KNOWN if not (measures and name == _MARGIN)]
    values = {name: getattr(engine, name) for name in names if hasattr(engine, name)}
    values["usage"] = Usage(notes=[*engine.usage.notes])
    if measures:
        values[_MARGIN] = math.inf  # no exact masses until the margin is measured
    return values, able


def _require_same(engine: Generate, fingerprint: JsonObject) -> None:
    """Refuse a worker whose engine's distribution differs from that of the first worker's."""
    if differing := different(engine.fingerprint, fingerprint):
        raise ModelError(
            f"the model on worker {socket.gethostname()} differs from the model of the same name "
            f"on the first worker: {', '.join(differing)}. Install the same files and versions "
            "there, or remove that machine from the cluster. Then run the same command again."
        )


def _called(engine: Any, call: tuple[str, tuple[Any, ...]]) -> tuple[Any, Usage]:
    """Return the complete result of one call, and its cost."""
    name, args = call
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    result = getattr(engine, name)(*args)
    result = list(result) if isinstance(result, Iterator) else result
    return result, engine.usage.since(before, time.perf_counter() - started)
