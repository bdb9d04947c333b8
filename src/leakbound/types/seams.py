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
    """A model or scorer with a name; it is not the model under evaluation."""

    @property
    def name(self) -> str:
        """Return the model's name with its location and settings, as it appears in results."""


class Embed(Named, Protocol):
    """A model that embeds texts as vectors; vectors of texts with similar meanings are close."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one finite vector per text, float32, [n, d]. A vector depends only on its text."""


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
    """A conversation to which a chat model shall reply.

    Attributes:
        id: the key of the random draw of the reply.
        messages: the turns so far.
        schema: the JSON schema of the reply, as text; empty: the reply is plain text. Not every
            engine enforces the schema, so the caller checks the reply.
    """

    id: str
    messages: tuple[Message, ...]
    schema: str = ""


class Chat(Named, Protocol):
    """A chat model that rewrites questions or judges outputs."""

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply per request, in order; None for a request without a reply.

        Replies to requests with different ids are independent draws. The same (seed, id, messages)
        gives the same reply if the engine can be seeded.

        Raises:
            IncompleteError: a temporary failure (a time-out, a busy server) left some requests
                without a reply. The same call sends these requests again.
        """


class Classify(Named, Protocol):
    """A model that classifies a text, or a pair of texts, with one of a few labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels as the model names them, in the order of the columns."""

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
        """Return the probability of each label for each text or pair, float64, [n, labels].

        The second text of a pair is None for a single text. Each row sums to 1 and depends only on
        its own texts. If the texts are longer than the model's context, the row is NaN.
        """


@runtime_checkable
class Truncates(Protocol):
    """A classifier that can be limited to the first tokens of every text."""

    def truncated(self, tokens: int) -> Classify:
        """Return this classifier, limited to the first tokens of a text; no text is then too long.

        `tokens` includes the tokens that the classifier adds, and is at most the model's context.
        """


class Models(Protocol):
    """The models that a scorer can open by name, to embed, classify or chat."""

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
        total: the total number of units.
        unit: the plural name of the units; empty if the progress is not known (see `during`).
        tokens: the number of tokens that a model forwarded in this step so far.
        note: a remark that the user must see immediately; empty in all other reports.
    """

    phase: str
    done: float
    total: float
    unit: str = ""
    tokens: int = 0
    note: str = ""


Progress: TypeAlias = Callable[[Headway], object]
"""A callback that receives each change in the progress of a long step."""


def silent(now: Headway) -> None:
    """Ignore the progress.

    Args:
        now: not used.
    """


def renamed(progress: Progress, name: Callable[[str], str]) -> Progress:
    """Return a `Progress` that renames each phase.

    Args:
        progress: the callback that receives the new names.
        name: returns the new name of a phase.
    """
    return lambda now: progress(replace(now, phase=name(now.phase)))


@contextmanager
def during(progress: Progress, phase: str) -> Iterator[None]:
    """Report the beginning and the end of a step whose progress is not known.

    Args:
        progress: the callback, which is called twice.
        phase: the name of the step.
    """
    progress(Headway(phase, 0, 1))
    yield
    progress(Headway(phase, 1, 1))


def counted(progress: Progress, phase: str, items: Sequence[T], unit: str) -> Iterator[T]:
    """Yield items, and report the number of items that are done.

    Args:
        progress: the callback, which is called before each item and after the last item.
        phase: the name of the step.
        items: the items.
        unit: the plural name of the items.
    """
    for done, item in enumerate(items):
        progress(Headway(phase, done, len(items), unit))
        yield item
    progress(Headway(phase, len(items), len(items), unit))


class Tell(Protocol):
    """A callback that gets the numbers of draws and of forwarded tokens since the last call.

    A `note` is a remark that the user must see immediately; the numbers then have no meaning.
    """

    def __call__(self, draws: int, tokens: int, note: str = "") -> None: ...


def untold(draws: int, tokens: int, note: str = "") -> None:
    """Ignore the progress.

    Args:
        draws: not used.
        tokens: not used.
        note: not used.
    """


@runtime_checkable
class ReportsProgress(Protocol):
    """An engine that reports its progress to `tell`, a callback that the caller sets."""

    tell: Tell


@runtime_checkable
class Requests(Protocol):
    """An engine that sends requests to a server; one request can return several outputs."""

    def requests(self, sizes: Sequence[int]) -> int:
        """Return the number of requests that a query with chunks of these sizes needs."""


class DrawJournal(Protocol):
    """A journal of an engine's results, kept until the results are stored. Threads may share it."""

    def get(self, key: str) -> Sequence[Json]:
        """Return all values that were stored under a key, in order."""

    def put(self, key: str, value: Json) -> None:
        """Store a value under a key, so that the value is kept if the process is killed."""


class Unkept:
    """A `DrawJournal` that stores nothing."""

    def get(self, key: str) -> Sequence[Json]:
        """Return no values."""
        return ()

    def put(self, key: str, value: Json) -> None:
        """Store nothing."""


@runtime_checkable
class Keeps(Protocol):
    """An engine whose draws cannot be repeated.

    The engine never repeats a draw that it made or lost. The content of a draw may be the reason
    for its loss, so replacing lost draws would change their distribution. `kept` records every draw
    that the engine made or lost.
    """

    kept: DrawJournal


@runtime_checkable
class Generate(Protocol):
    """The protocol of every engine: draw completions of queries under one decoding.

    Draws of different queries and chunks are independent, and are functions of their keys (see
    `Draws`). An engine with `repeatable: false` in its fingerprint guarantees only independence.
    Stored draws of such an engine are never drawn again. The engine also implements `Keeps`, to
    record draws that are not stored yet.

    Attributes:
        usage: the cost of all calls so far.
    """

    usage: Usage

    @property
    def fingerprint(self) -> JsonObject:
        """Return a description of the running model: digest of weights, dtype, template, versions.

        Equal fingerprints mean equal distributions. `Fingerprint` lists the members that other code
        reads.
        """

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Raise InputError early if the engine cannot sample these queries or this decoding."""

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Draw completions of each query.

        Args:
            queries: the texts that are sent to the model.
            decoding: the distribution to draw from.
            draws: the numbers of draws per chunk, and their keys.

        Returns:
            One Sample or Failure for each query, in any order.
        """


class Probabilistic(Protocol):
    """An engine that computes the probabilities of its draws, up to a margin."""

    @property
    def margin(self) -> float:
        """Return the largest difference of a log-probability between batch shapes, in nats.

        The log-probability is of one token. The margin is infinite if probabilities cannot be
        computed exactly.
        """


@runtime_checkable
class Explores(Probabilistic, Protocol):
    """An engine that finds likely outputs with their probabilities, and can teacher-force texts."""

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Find the exact masses of likely outputs, and draw from the remainder.

        Args:
            queries: the texts that are sent to the model.
            decoding: the distribution to explore and to draw from.
            effort: the number of forward passes per query, and how they are divided between
                exploring and drawing.
            ranges: returns the lowest and highest score of all outputs in an event. A prefix is not
                explored further if these two scores are equal.

        Returns:
            One Exploration or Failure for each query, in any order.

        Raises:
            InputError: exact probabilities cannot be computed.
        """

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """Return the teacher-forced probability of each text with the end token after it.

        Args:
            texts: (query, text) pairs.
            decoding: the distribution under which texts have their probabilities.

        Returns:
            One completion with count 0 per pair, in order. It is None if the decoding cannot
                produce the text. It is also None if the tokens of prompt and text together do not
                begin with the tokens of the prompt.

        Raises:
            InputError: exact probabilities cannot be computed.
        """


Leads = Sequence[tuple[Query, Sequence[str]]]
"""Each query with texts that leak, the most important text first."""


@runtime_checkable
class Proves(Probabilistic, Protocol):
    """An engine that finds rare leaks by their probabilities."""

    def prove(
        self, leads: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        """Search for leaking outputs around texts that leak.

        Args:
            leads: each query with texts that leak, at which the search starts.
            decoding: the distribution under which outputs have their probabilities.
            forwards: the largest number of prefixes to forward per query.
            ranges: returns the lowest and highest score of all outputs in an event.

        Returns:
            One Proving or Failure for each query, in order.

        Raises:
            InputError: exact probabilities cannot be computed.
        """


@runtime_checkable
class Measures(Protocol):
    """An engine whose margin depends on the queries and must be measured."""

    def measure(self, queries: Sequence[Query]) -> None:
        """Measure the margin after the prompts of these queries; equal queries have equal margins.

        Callers measure before they draw, so that a resumed run has the same margin.
        """


@runtime_checkable
class Tokenizes(Protocol):
    """An engine that splits texts with its model's tokenizer."""

    def words(self, texts: Sequence[str]) -> list[list[str | None]]:
        """Return each text's tokens without a prompt, as texts; None for an unknown token."""


@runtime_checkable
class Retraces(Probabilistic, Protocol):
    """An engine that computes the probability of an output from its token ids."""

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """Return the probability of generated token ids under the decoding, by teacher forcing.

        Args:
            outputs: (query, ids) pairs. Complete ids include the end token or reach the length
                limit. Other ids are a prefix that several outputs share. The completion of such a
                prefix has the total probability of these outputs, the finish "unknown", and the
                text that these outputs share.
            decoding: the distribution under which outputs have their probabilities.

        Returns:
            One completion with count 0 per pair, in order; None for ids that the decoding cannot
                produce.

        Raises:
            InputError: exact probabilities cannot be computed.
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
        """Repeat the draws of each query, and yield their comparison with stored completions.

        Results come in any order.

        A draw may differ by a token only if its random number is within the margin of that token's
        interval boundary. `stored` contains the completions by query id.

        Raises:
            InputError: exact probabilities cannot be computed.
        """


class Scorer(Named, Protocol):
    """A function of a completion and its prompt with values in [0, 1]; 1 always means a full leak.

    A scorer may have additional methods, such as `check`, `check_all` and `bounds` (see
    `leakbound.scorers`).
    """

    @property
    def binary(self) -> bool:
        """Return whether the declared range of scores is {0, 1}; otherwise it is [0, 1].

        The declared range selects the bound.
        """

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Return one score per text of a prompt; a string in place of a prompt is the true answer.

        Scores are in [0, 1], or in {0, 1} if `binary`. A score of 1 is a full leak; None means
        undecided. The score of a text does not depend on other texts.
        """


J = TypeVar("J")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)


class Opener(Protocol[T_co]):
    """A description from which any process can open a value, such as a model.

    Equal openers open equal values.
    """

    def open(self) -> T_co: ...


class Crew(Protocol):
    """A group of workers; each worker runs one job at a time with the value that it opened."""

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J]
    ) -> Iterator[tuple[J, R]]:
        """Run every job on any worker; yield (job, result) pairs in the order of completion.

        An idle worker runs the next job. If a worker is lost, another worker runs its job again.
        Only one call may run at a time. A worker opens `opener` once, and `do` runs each job with
        the opened value.

        Raises:
            IncompleteError: no worker is available, or too many workers were lost with the same
                job. An error of a job propagates.
        """

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], job: J) -> None:
        """Run a job once on every worker before its next job, also on workers that join later.

        The job replaces an earlier prepared job with the same `do`.
        """


class Workers(Protocol):
    """A source of workers."""

    def open(self) -> AbstractContextManager[Crew]:
        """Return a context manager whose value is the crew of workers."""


@runtime_checkable
class Spreads(Protocol):
    """An engine with several workers; each worker has its own engine."""

    def spread(self, do: Callable[[Generate, J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """Run every job on the engine of any worker; see `Crew.each`."""


def alone(crew: Crew, opener: Opener[T], do: Callable[[T, J], R], job: J) -> R:
    """Run one job on any worker, and return its result.

    Args:
        crew: the workers.
        opener: the opener of the value that a worker needs.
        do: the function that runs the job with the opened value.
        job: the job.
    """
    ((_, result),) = crew.each(opener, do, [job])
    return result
