"""The seam to workers: processes, here or on other machines, that models stand in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar, runtime_checkable

from leakbound.types.seams import Generate

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Opener(Protocol[T_co]):
    """How to open something, in whatever process: equal ones open the same."""

    def open(self) -> T_co: ...


class Crew(Protocol):
    """Workers, each of which does one thing at a time with what it has opened."""

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J | None]
    ) -> Iterator[tuple[J, R]]:
        """Do every job at some worker; yields them with their results, the first finished first.

        The next job is asked for when a worker is idle, so no more of them are under way than
        there are workers; None where there will be one only after another result. What a job
        raises is raised here. A job whose worker is lost is done again. One call at a time.
        """
        ...

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], what: J) -> None:
        """Do this once at every worker, those to come too, before its next job.

        It takes the place of what the same `do` was to do before.
        """
        ...


class Workers(Protocol):
    """Where workers are to be had."""

    def open(self) -> AbstractContextManager[Crew]:
        """Their crew, to be left when all is done."""
        ...


@runtime_checkable
class Spreads(Protocol):
    """An engine that stands at several workers, each of which can do what one engine does."""

    def spread(
        self, do: Callable[[Generate, J], R], jobs: Iterable[J | None]
    ) -> Iterator[tuple[J, R]]:
        """See `Crew.each`: what is done gets the worker's engine and the job."""
        ...


def alone(crew: Crew, opener: Opener[T], do: Callable[[T, J], R], job: J) -> R:
    """The result of one job, done at any worker."""
    ((_, result),) = crew.each(opener, do, [job])
    return result
