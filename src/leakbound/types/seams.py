"""The seams: what does the work comes in through a protocol, never by import."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from leakbound.types.decoding import Decoding
from leakbound.types.draws import (
    Completion,
    Draws,
    Effort,
    Exploration,
    Failure,
    Proving,
    Ranges,
    Redrawn,
    Sample,
    Usage,
)
from leakbound.types.prompts import Prompt, Query
from leakbound.types.records import Json, JsonObject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Named(Protocol):
    """What does a job beside the model under test."""

    @property
    def name(self) -> str:
        """What it is and where it runs, as it stands in results: settings are part of it."""
        ...


class Embed(Named, Protocol):
    """Texts as vectors: the nearer two vectors, the nearer what the texts mean."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One finite vector a text, [n, d]; no text's depends on the others'."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A conversation that waits for a reply; `id` keys the draw of it.

    `schema`: the JSON schema that the reply should follow, as text. It binds the reply only where
    the engine can see to that, so whoever asks checks the reply; empty asks for plain text.
    """

    id: str
    messages: tuple[Message, ...]
    schema: str = ""


class Chat(Named, Protocol):
    """A chat model that does a job beside the one under test: it rewrites, it judges."""

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """One reply a request, in order; None where the model gives none to this request.

        Raises IncompleteError, once all were asked, where a failure that may pass (a time-out, a
        server that is busy) left some without: it decides nothing, and the same call asks again.
        Replies to different ids are independent draws; the same (seed, id, messages) gives the
        same draw where the engine can be seeded.
        """
        ...


class Classify(Named, Protocol):
    """A text, or a pair of texts, sorted into one of a few labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as the model names them, in the order of the columns."""
        ...

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
        """The probability of each label, [n, labels]: rows sum to 1; no row depends on others.

        The second of a pair is None where there is one text. A text longer than the model's
        context has a row of NaN: what would be cut off could have decided.
        """
        ...


@runtime_checkable
class Truncates(Protocol):
    """A classifier that can be made to look at the beginning of every text alone."""

    def truncated(self, tokens: int) -> Classify:
        """The same, of a text's first tokens: at most so many, those it adds itself included.

        Where the model's context is shorter, as many as that has; no text is too long for it.
        """
        ...


class Models(Protocol):
    """Where the models come from that a scorer asks for by name; each is loaded once."""

    def embed(self, name: str) -> Embed: ...

    def classify(self, name: str) -> Classify: ...

    def chat(self, name: str) -> Chat: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Headway:
    """How far a long step is: `done` of `total` units, with a word on what they are.

    Without a word the step is one of which nothing tells how far it is (see `during`).
    `tokens`: how many a model forwarded in this step so far, where that is told too. `distinct`:
    which share of the draws that are stored differ from one another, question by question.
    `share`: of the work since the first report, where the units done are no measure of it; 0
    where it is not known yet.
    """

    phase: str
    done: float
    total: float
    unit: str = ""
    tokens: int = 0
    distinct: float | None = None
    share: float | None = None


Progress: TypeAlias = Callable[[Headway], object]
"""Told how far a long step is, whenever that has changed."""


def silent(now: Headway) -> None:
    """The `Progress` that shows nothing."""


def renamed(progress: Progress, name: Callable[[str], str]) -> Progress:
    """The same `Progress`, each phase by another name."""
    return lambda now: progress(replace(now, phase=name(now.phase)))


@contextmanager
def during(progress: Progress, phase: str) -> Iterator[None]:
    """Tell that a step has begun, and that it is over, of which nothing tells how far it is."""
    progress(Headway(phase, 0, 1))
    yield
    progress(Headway(phase, 1, 1))


def counted(progress: Progress, phase: str, items: Sequence[T], unit: str) -> Iterator[T]:
    """Each of these in turn, telling how many are done, and at the end that all are."""
    for done, item in enumerate(items):
        progress(Headway(phase, done, len(items), unit))
        yield item
    progress(Headway(phase, len(items), len(items), unit))


class Tell(Protocol):
    """Told what was done since the last time: draws finished, tokens forwarded.

    `each`: how many tokens a draw of what is asked for now is expected to take, infinite as long
    as that is not known; None from what does not foresee it.
    """

    def __call__(self, draws: int, tokens: int, each: float | None = None) -> None: ...


def untold(draws: int, tokens: int, each: float | None = None) -> None:
    """The `Tell` that nobody hears."""


@runtime_checkable
class Tells(Protocol):
    """An engine that says while it works how far it is, to whoever puts itself at `tell`."""

    tell: Tell


class Ledger(Protocol):
    """Where answers are kept until the part they belong to is stored; threads may share it."""

    def get(self, key: str) -> Sequence[Json]:
        """All that was put under this key, in that order."""
        ...

    def put(self, key: str, value: Json) -> None:
        """Keep this too, beyond the end of the process."""
        ...


class Unkept:
    """The `Ledger` that forgets."""

    def get(self, key: str) -> Sequence[Json]:
        """Nothing."""
        return ()

    def put(self, key: str, value: Json) -> None:
        """Nothing is kept."""


@runtime_checkable
class Keeps(Protocol):
    """An engine whose draws cannot be made again.

    It puts every draw that it made, and every one that it lost, where `kept` is, and asks for
    neither again: a draw that is replaced because of what it said is none of the distribution.
    """

    kept: Ledger


@runtime_checkable
class Generate(Protocol):
    """The seam every engine fills: draw completions of queries under one decoding.

    Draws of different queries and chunks are independent, and a function of what keys them (see
    `Draws`). An engine whose fingerprint says `repeatable: false` owes the first alone: what is
    stored of its draws is never drawn again, and `Keeps` holds what is not stored yet.
    """

    usage: Usage

    @property
    def fingerprint(self) -> JsonObject:
        """What was run: weights digest, dtype, template, versions; equal means same law.

        What `Fingerprint` has a name for is read again.
        """
        ...

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse, before anything costly, what cannot be sampled."""
        ...

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query, in any order."""
        ...


class Probabilistic(Protocol):
    """An engine that knows the probabilities behind its draws, up to a margin."""

    @property
    def margin(self) -> float:
        """How far one token's log-probability is taken to move with the batch shape (delta)."""
        ...


@runtime_checkable
class Explores(Probabilistic, Protocol):
    """An engine that knows the probabilities behind its draws."""

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Yield one Exploration or Failure for each query, in any order.

        `ranges` says which prefixes are settled. InputError where masses cannot be exact.
        """
        ...

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """Each text and the end token after it, teacher-forced through the decoding.

        The completion has count 0; None where the decoding cannot produce it, or where the text's
        tokens do not go on from exactly the prompt that is sampled from.
        """
        ...


Leads = Sequence[tuple[Query, Sequence[str]]]
"""Each query with texts that leak, what matters most first."""


@runtime_checkable
class Proves(Probabilistic, Protocol):
    """An engine that finds rare leaks by their probabilities."""

    def prove(
        self, asked: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        """Yield one Proving or Failure for each query, in order.

        The search goes out from the texts that are given, and forwards at most so many prefixes of
        a query. `ranges` says what leaks.
        InputError where probabilities cannot be exact.
        """
        ...


@runtime_checkable
class Measures(Protocol):
    """An engine whose margin is measured, and depends on what it will be asked."""

    def measure(self, queries: Sequence[Query]) -> None:
        """Measure the margin after these queries' prompts: the same for the same queries.

        Whoever is about to ask them calls this first, so that a run goes on with the margin that
        it was begun with.
        """
        ...


@runtime_checkable
class Retraces(Probabilistic, Protocol):
    """An engine that tells how likely an output of known tokens is."""

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """Generated token ids, teacher-forced: with the end token, or to the length limit.

        The completion has count 0; None where the decoding cannot produce it. InputError where
        probabilities cannot be exact.
        """
        ...


@runtime_checkable
class Redraws(Protocol):
    """An engine whose draws are functions of their keys, and can be made again."""

    def redraw(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        """Whether the `stored` completions of each query, by its id, are what these draws make.

        A draw may have another token than it has here only where its random number lies within
        the margin of that token's edge. InputError where probabilities cannot be exact.
        """
        ...


class Scorer(Named, Protocol):
    """h: completion × prompt → [0, 1]; 1 always means full leak."""

    @property
    def binary(self) -> bool:
        """The declared range: {0, 1} if true, else [0, 1]; it decides which bound is used."""
        ...

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """One score a text; None where it could not decide. A string is the true answer."""
        ...


J = TypeVar("J")
R = TypeVar("R")
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
