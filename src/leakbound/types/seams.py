"""Protocols of engines, models, scorers and workers, which other code receives as arguments."""

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
    """A model that is not under evaluation."""

    @property
    def name(self) -> str:
        """Return the name of the model with its location and settings, as results show it."""


class Embed(Named, Protocol):
    """A model that maps texts to vectors; similar meanings have near vectors."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one finite vector per text, float32, [n, d], independent of the other texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: the content of the turn.
    """

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A conversation that waits for a reply.

    Attributes:
        id: the key of the draw of the reply.
        messages: the turns so far.
        schema: the JSON schema of the reply, as text; empty: plain text. Not every engine enforces
            it, so the caller checks the reply.
    """

    id: str
    messages: tuple[Message, ...]
    schema: str = ""


class Chat(Named, Protocol):
    """A chat model that rewrites or judges."""

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply per request, in order; None if the model gives no reply.

        Replies to different ids are independent draws. The same (seed, id, messages) gives the same
        draw if the engine can be seeded.

        Raises:
            IncompleteError: a temporary failure (a time-out, a busy server) left some requests
                without a reply. The same call sends these requests again.
        """


class Classify(Named, Protocol):
    """A classifier that sorts a text, or a pair of texts, into one of a few labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels as the model names them, in the order of the columns."""

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
        """Return the probability of each label, float64, [n, labels].

        The second text of a pair is None for a single text. Rows sum to 1 and are independent of
        each other. A text longer than the model's context has a row of NaN.
        """


@runtime_checkable
class Truncates(Protocol):
    """A classifier that can be limited to the beginning of every text."""

    def truncated(self, tokens: int) -> Classify:
        """Return the same classifier for the first tokens only, so that no text is too long.

        `tokens` includes the tokens that the classifier adds, and is at most the model's context.
        """


class Models(Protocol):
    """The models that a scorer opens by their names: to embed, classify or chat."""

    def embed(self, name: str) -> Embed: ...

    def classify(self, name: str) -> Classify: ...

    def chat(self, name: str) -> Chat: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Headway:
    """The progress of a long step.

    Attributes:
        phase: the name of the step.
        done: the number of units that are done.
        total: the number of all units.
        unit: the name of the units; empty if the progress is not known (see `during`).
        tokens: the number of tokens that a model forwarded in this step so far.
        note: a remark for the user, to be shown immediately; empty in all other reports.
    """

    phase: str
    done: float
    total: float
    unit: str = ""
    tokens: int = 0
    note: str = ""


Progress: TypeAlias = Callable[[Headway], object]
"""Called with each change of a long step's progress."""


def silent(now: Headway) -> None:
    """Show nothing.

    Args:
        now: not used.
    """


def renamed(progress: Progress, name: Callable[[str], str]) -> Progress:
    """Return a `Progress` that renames each phase.

    Args:
        progress: called with the new names.
        name: gives a phase's new name.
    """
    return lambda now: progress(replace(now, phase=name(now.phase)))


@contextmanager
def during(progress: Progress, phase: str) -> Iterator[None]:
    """Report the beginning and the end of a step whose progress is not known.

    Args:
        progress: called twice.
        phase: the step.
    """
    progress(Headway(phase, 0, 1))
    yield
    progress(Headway(phase, 1, 1))


def counted(progress: Progress, phase: str, items: Sequence[T], unit: str) -> Iterator[T]:
    """Yield items, and report the number of items that are done.

    Args:
        progress: called before each item, and after the last.
        phase: the step.
        items: the items.
        unit: the name of the items.
    """
    for done, item in enumerate(items):
        progress(Headway(phase, done, len(items), unit))
        yield item
    progress(Headway(phase, len(items), len(items), unit))


class Tell(Protocol):
    """Called with the numbers of finished draws and of forwarded tokens since the last call.

    A `note` is a remark for the user, to be shown immediately; the numbers then have no meaning.
    """

    def __call__(self, draws: int, tokens: int, note: str = "") -> None: ...


def untold(draws: int, tokens: int, note: str = "") -> None:
    """Show nothing.

    Args:
        draws: not used.
        tokens: not used.
        note: not used.
    """


@runtime_checkable
class ReportsProgress(Protocol):
    """An engine that reports its progress to `tell`, which its caller sets."""

    tell: Tell


@runtime_checkable
class Requests(Protocol):
    """An engine that sends requests to a server, each for several outputs."""

    def requests(self, sizes: Sequence[int]) -> int:
        """Return the number of requests for a query with chunks of these sizes."""


class DrawJournal(Protocol):
    """Keeps an engine's results until their part is stored; threads may share it."""

    def get(self, key: str) -> Sequence[Json]:
        """Return all values that were stored under a key, in order."""

    def put(self, key: str, value: Json) -> None:
        """Store a value under a key. It is kept even if the process is killed."""


class Unkept:
    """A `DrawJournal` that keeps nothing."""

    def get(self, key: str) -> Sequence[Json]:
        """Return no values."""
        return ()

    def put(self, key: str, value: Json) -> None:
        """Keep nothing."""


@runtime_checkable
class Keeps(Protocol):
    """An engine whose draws cannot be repeated.

    The engine never repeats a draw that it made or lost: the content of a draw may be the reason
    for its loss, and replacing such draws would change their distribution. `kept` records every
    draw that the engine made or lost.
    """

    kept: DrawJournal


@runtime_checkable
class Generate(Protocol):
    """The protocol of every engine: draw completions of queries under one decoding.

    Draws of different queries and chunks are independent, and are functions of their keys (see
    `Draws`). An engine with `repeatable: false` in its fingerprint guarantees only independence.
    Stored draws of such an engine are never drawn again, and the engine is a `Keeps`, which records
    draws that are not stored yet.

    Attributes:
        usage: the cost of all calls so far.
    """

    usage: Usage

    @property
    def fingerprint(self) -> JsonObject:
        """Describe the model as it runs: digest of the weights, dtype, template, versions.

        Equal fingerprints mean equal distributions. `Fingerprint` lists the members that are used.
        """

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError, before costly work, for input that the engine cannot draw from."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Draw completions.

        Args:
            queries: the texts that the model gets.
            decoding: the distribution to draw from.
            draws: the numbers of draws per chunk, and their keys.

        Returns:
            One Sample or Failure for each query, in any order.
        """


class Probabilistic(Protocol):
    """An engine that knows the probabilities behind its draws, up to a margin."""

    @property
    def margin(self) -> float:
        """Return delta, the largest change of a token's log-probability with the batch shape.

        The margin is in nats. It is infinite if probabilities cannot be exact.
        """


@runtime_checkable
class Explores(Probabilistic, Protocol):
    """An engine that finds likely outputs with their probabilities, and teacher-forces texts."""

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Find the exact masses of likely outputs, and draw from the remainder.

        Args:
            queries: the texts that the model gets.
            decoding: the distribution to explore and to draw from.
            effort: the number of forward passes per query, and their division between exploring and
                draws.
            ranges: returns the lowest and highest score of all outputs in an event. A prefix whose
                two numbers are equal is not explored further.

        Returns:
            One Exploration or Failure for each query, in any order.

        Raises:
            InputError: masses cannot be exact.
        """

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """Return the teacher-forced probability of each text with the end token after it.

        Args:
            texts: (query, text) pairs.
            decoding: the distribution under which texts have their probabilities.

        Returns:
            One completion with count 0 per pair, in order. None if the decoding cannot produce the
            text, or if the text's tokens do not exactly continue the prompt of the draws.

        Raises:
            InputError: probabilities cannot be exact.
        """


Leads = Sequence[tuple[Query, Sequence[str]]]
"""Each query with texts that leak, the most important first."""


@runtime_checkable
class Proves(Probabilistic, Protocol):
    """An engine that finds rare leaks by their probabilities."""

    def prove(
        self, leads: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        """Search for leaking outputs around texts that leak.

        Args:
            leads: each query with texts that leak, where the search starts.
            decoding: the distribution under which outputs have their probabilities.
            forwards: the largest number of prefixes to forward per query.
            ranges: returns the lowest and highest score of all outputs in an event.

        Returns:
            One Proving or Failure for each query, in order.

        Raises:
            InputError: probabilities cannot be exact.
        """


@runtime_checkable
class Measures(Protocol):
    """An engine whose margin is measured, and depends on the queries."""

    def measure(self, queries: Sequence[Query]) -> None:
        """Measure the margin after these queries' prompts; equal queries give the same margin.

        Callers do this before they draw, so that a resumed run has the same margin.
        """


@runtime_checkable
class Tokenizes(Protocol):
    """An engine that splits texts with its model's tokenizer."""

    def words(self, texts: Sequence[str]) -> list[list[str | None]]:
        """Return the tokens of each text without a prompt; None stands for an unknown token."""


@runtime_checkable
class Retraces(Probabilistic, Protocol):
    """An engine that computes the probability of an output of known tokens."""

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """Return the probability of generated token ids, teacher-forced through the decoding.

        Args:
            outputs: (query, ids) pairs; ids include the end token or reach the length limit.
                Shorter ids are the beginning of several outputs: they get the probability of all
                these outputs, the finish "unknown", and the text that these outputs share.
            decoding: the distribution under which outputs have their probabilities.

        Returns:
            One completion with count 0 per pair, in order; None if the decoding cannot produce it.

        Raises:
            InputError: probabilities cannot be exact.
        """


@runtime_checkable
class Redraws(Protocol):
    """An engine whose draws are functions of their keys, and can be repeated."""

    def redraw(
        self,
        queries: Sequence[Query],
        decoding: Decoding,
        draws: Draws,
        stored: Mapping[str, Sequence[Completion]],
    ) -> Iterator[Redrawn]:
        """Yield, per query in any order, how repeated draws compare with stored completions.

        A draw may differ by a token only if its random number is within the margin of that token's
        interval boundary. `stored` has the completions by query id.

        Raises:
            InputError: probabilities cannot be exact.
        """


class Scorer(Named, Protocol):
    """A function of completion and prompt with values in [0, 1]; 1 always means a full leak.

    A scorer may have further methods, such as `check`, `check_all` and `bounds`: see
    `leakbound.scorers`.
    """

    @property
    def binary(self) -> bool:
        """Return the declared range, which selects the bound: {0, 1} if true, else [0, 1]."""

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Return one score per text of a prompt; a prompt that is a string is the true answer.

        Scores are in [0, 1], or in {0, 1} if `binary`; 1 is a full leak, None is undecided. The
        score of a text does not depend on other texts.
        """


J = TypeVar("J")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)


class Opener(Protocol[T_co]):
    """Opens a value, such as a model, in any process; equal openers open equal values."""

    def open(self) -> T_co: ...


class Crew(Protocol):
    """Workers, each of which does one job at a time with the value that it opened."""

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J]
    ) -> Iterator[tuple[J, R]]:
        """Do every job at some worker; yield (job, result) pairs in the order of completion.

        The next job is taken when a worker is idle. A job whose worker is lost is done again. Only
        one call may run at a time. A worker opens `opener` once, and `do` does each job with the
        opened value.

        Raises:
            IncompleteError: no worker is available, or too many were lost with one job. An error of
                a job propagates.
        """

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], job: J) -> None:
        """Do a job once at every worker, including workers that join later, before its next job.

        The job replaces an earlier prepared job of the same `do`.
        """


class Workers(Protocol):
    """A source of workers."""

    def open(self) -> AbstractContextManager[Crew]:
        """Return a context whose value is the crew."""


@runtime_checkable
class Spreads(Protocol):
    """An engine with several workers, each of which works like one engine."""

    def spread(self, do: Callable[[Generate, J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """Do every job at some worker's engine; see `Crew.each`."""


def alone(crew: Crew, opener: Opener[T], do: Callable[[T, J], R], job: J) -> R:
    """Return the result of one job, done at any worker.

    Args:
        crew: the workers.
        opener: opens the value that a worker needs.
        do: does the job with the opened value.
        job: the job.
    """
    ((_, result),) = crew.each(opener, do, [job])
    return result
