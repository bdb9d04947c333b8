"""The parts of an arm, drawn one after the other here, or several at a time by workers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from leakbound.evaluation.drawing.meter import Meter
from leakbound.store import Arm, DrawnPart, Part
from leakbound.types import Generate, JsonObject, Keeps, Spreads, Unkept, Usage

Reach = Callable[[float], object]
"""Told which share of a part is there."""


class PartJob(Protocol):
    """All that the result of a part depends on: whoever does it finds the same."""

    @property
    def part(self) -> Part: ...


J = TypeVar("J", bound=PartJob)


def draw_parts(
    arm: Arm,
    jobs: Iterable[J],
    engine: Generate,
    draw: Callable[[Reach, Generate, J], DrawnPart],
    meter: Meter,
) -> Usage:
    """Draw every job of an arm and store each as it is finished; returns what they cost.

    The engine draws here, one part after the other, or where it stands at several workers, as many
    at a time as there are.
    """
    spent = Usage()
    meter.show()
    for part, drawn in _drawn(arm, jobs, engine, draw, meter):
        arm.write_part(part, drawn)
        if not drawn.failures:
            arm.kept(part).remove()
        spent.add(drawn.usage)
    return spent


def _drawn(
    arm: Arm,
    jobs: Iterable[J],
    engine: Generate,
    draw: Callable[[Reach, Generate, J], DrawnPart],
    meter: Meter,
) -> Iterator[tuple[Part, DrawnPart]]:
    if isinstance(engine, Spreads):
        for job, drawn in engine.spread(partial(draw, _unheard), _as_timed(arm, jobs)):
            meter.add(job.part.amount, drawn)
            yield job.part, drawn
        return
    for job in jobs:
        with _keeping(arm, job.part, engine), meter.part(engine, job.part.amount) as reach:
            drawn = draw(reach, engine, job)
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


def _as_timed(arm: Arm, jobs: Iterable[J]) -> Iterator[J | None]:
    """The jobs; None where how large the next part is waits for the first one."""
    for job in jobs:
        yield job
        while not arm.timed:
            yield None


def _unheard(share: float) -> None:
    """The `Reach` of a worker: what it has drawn of a part, nobody is told."""


@contextmanager
def costing(engine: Generate) -> Iterator[Usage]:
    """What the engine spends meanwhile, known at the end."""
    before, started = replace(engine.usage, notes=[]), time.perf_counter()
    cost = Usage()
    yield cost
    cost.add(engine.usage.since(before, time.perf_counter() - started))


def machine(engine: Generate) -> JsonObject:
    """What the exact draws, though not their distribution, depend on besides the plan."""
    described: JsonObject = getattr(engine, "machine", {})
    return described
