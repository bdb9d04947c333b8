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
    """A helper that does a job beside the model under test."""

    @property
    def name(self) -> str:
        """The helper and where it runs, as it stands in results: settings are part of it."""


class Embed(Named, Protocol):
    """Texts as vectors: the nearer two vectors, the nearer what the texts mean."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Turn texts into vectors.

        Args:
            texts: n of them; no text's vector depends on the others.

        Returns:
            One finite vector a text, float32, [n, d].
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: what is said.
    """

    role: Literal["system", "user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A conversation that waits for a reply.

    Attributes:
        id: keys the draw of the reply.
        messages: the turns so far.
        schema: the JSON schema that the reply should follow, as text. It binds the reply only where
            the engine can see to that, so whoever asks checks the reply; empty asks for plain text.
    """

    id: str
    messages: tuple[Message, ...]
    schema: str = ""


class Chat(Named, Protocol):
    """A chat model that does a job beside the one under test: it rewrites, it judges."""

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """Draw one reply a request.

        Replies to different ids are independent draws; the same (seed, id, messages) gives the
        same draw where the engine can be seeded.

        Args:
            requests: the conversations.
            decoding: the distribution that replies are drawn from.
            seed: keys the draws with the ids of the requests.

        Returns:
            The replies, in order; None where the model gives none to this request.

        Raises:
            IncompleteError: a failure that may pass (a time-out, a server that is busy) left some
                without, once all were asked: it decides nothing, and the same call asks again.
        """


class Classify(Named, Protocol):
    """A text, or a pair of texts, sorted into one of a few labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels as the model names them, in the order of the columns."""

    def classify(self, texts: Sequence[tuple[str, str | None]]) -> NDArray[np.float64]:
        """The probability of each label, for each text or pair.

        Args:
            texts: n pairs; the second of a pair is None where there is one text.

        Returns:
            [n, labels], float64: rows sum to 1, and no row depends on others. A text longer than
            the model's context has a row of NaN: what would be cut off could have decided.
        """


@runtime_checkable
class Truncates(Protocol):
    """A classifier that can be made to look at the beginning of every text alone."""

    def truncated(self, tokens: int) -> Classify:
        """The same classifier, of a text's first tokens.

        Args:
            tokens: the most that it reads of a text, those it adds itself included; where the
                model's context is shorter, as many as that has.

        Returns:
            A classifier for which no text is too long.
        """


class Models(Protocol):
    """Where the models come from that a scorer asks for by name; each is loaded once.

    Its methods give a model that embeds, classifies or chats. Each takes the model's `name`.
    """

    def embed(self, name: str) -> Embed: ...

    def classify(self, name: str) -> Classify: ...

    def chat(self, name: str) -> Chat: ...


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Headway:
    """How far a long step is.

    Attributes:
        phase: the step.
        done: units done.
        total: units in all.
        unit: a word on what they are; empty where nothing tells how far the step is (see `during`).
        tokens: how many a model forwarded in this step so far, where that is told too.
        note: a remark for the user, to be shown immediately; empty in all other reports.
    """

    phase: str
    done: float
    total: float
    unit: str = ""
    tokens: int = 0
    note: str = ""


Progress: TypeAlias = Callable[[Headway], object]
"""Told how far a long step is, whenever that has changed."""


def silent(now: Headway) -> None:
    """The `Progress` that shows nothing.

    Args:
        now: passed over.
    """


def renamed(progress: Progress, name: Callable[[str], str]) -> Progress:
    """The same `Progress`, each phase by another name.

    Args:
        progress: told under the new names.
        name: gives a phase's new name.

    Returns:
        A `Progress`.
    """
    return lambda now: progress(replace(now, phase=name(now.phase)))


@contextmanager
def during(progress: Progress, phase: str) -> Iterator[None]:
    """Tell that a step has begun, and that it is over, of which nothing tells how far it is.

    Args:
        progress: told.
        phase: the step.
    """
    progress(Headway(phase, 0, 1))
    yield
    progress(Headway(phase, 1, 1))


def counted(progress: Progress, phase: str, items: Sequence[T], unit: str) -> Iterator[T]:
    """Each of some items in turn, telling how many are done, and at the end that all are.

    Args:
        progress: told before each item, and after the last.
        phase: the step.
        items: what is gone through.
        unit: a word on what they are.

    Returns:
        The items.
    """
    for done, item in enumerate(items):
        progress(Headway(phase, done, len(items), unit))
        yield item
    progress(Headway(phase, len(items), len(items), unit))


class Tell(Protocol):
    """Told what was done since the last time.

    Args:
        draws: those finished.
        tokens: those forwarded.
        note: a remark for the user, to be shown immediately; the other values then mean nothing.
    """

    def __call__(self, draws: int, tokens: int, note: str = "") -> None: ...


def untold(draws: int, tokens: int, note: str = "") -> None:
    """The `Tell` that nobody hears.

    Args:
        draws: passed over.
        tokens: passed over.
        note: passed over.
    """


@runtime_checkable
class Tells(Protocol):
    """An engine that says while it works how far it is.

    Attributes:
        tell: told; whoever wants to hear it puts itself here.
    """

    tell: Tell


@runtime_checkable
class Requests(Protocol):
    """An engine that sends requests to a server, each for several outputs."""

    def requests(self, sizes: Sequence[int]) -> int:
        """Count the requests for the draws of a query.

        Args:
            sizes: draws in each of its chunks.

        Returns:
            The number of requests, if none is sent again.
        """


class DrawJournal(Protocol):
    """Where answers are kept until the part they belong to is stored; threads may share it."""

    def get(self, key: str) -> Sequence[Json]:
        """Read what was kept under a key.

        Args:
            key: any text.

        Returns:
            All that was put there, in that order.
        """

    def put(self, key: str, value: Json) -> None:
        """Keep a value beside those under its key, beyond the end of the process.

        Args:
            key: any text.
            value: what JSON can hold.
        """


class Unkept:
    """The `DrawJournal` that forgets."""

    def get(self, key: str) -> Sequence[Json]:
        """Nothing.

        Args:
            key: passed over.

        Returns:
            No values.
        """
        return ()

    def put(self, key: str, value: Json) -> None:
        """Keep nothing.

        Args:
            key: passed over.
            value: passed over.
        """


@runtime_checkable
class Keeps(Protocol):
    """An engine whose draws cannot be made again.

    It asks for no draw again that it made or lost: a draw that is replaced because of what it said
    is none of the distribution.

    Attributes:
        kept: where it puts every draw that it made, and every one that it lost.
    """

    kept: DrawJournal


@runtime_checkable
class Generate(Protocol):
    """The seam every engine fills: draw completions of queries under one decoding.

    Draws of different queries and chunks are independent, and a function of what keys them (see
    `Draws`). An engine whose fingerprint says `repeatable: false` owes the first alone: what is
    stored of its draws is never drawn again, and `Keeps` holds what is not stored yet.

    Attributes:
        usage: the cost of all calls so far.
    """

    usage: Usage

    @property
    def fingerprint(self) -> JsonObject:
        """The model as it runs: weights digest, dtype, template, versions; equal means same law.

        What `Fingerprint` has a name for is read again.
        """

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse, before anything costly, what cannot be sampled.

        Args:
            queries: texts to put to the model.
            decoding: the distribution to draw from.

        Raises:
            InputError: a query or a decoding that the engine cannot draw from.
        """

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Draw completions.

        Args:
            queries: texts to put to the model.
            decoding: the distribution to draw from.
            draws: how many in which chunks, and what keys them.

        Returns:
            One Sample or Failure for each query, in any order.
        """


class Probabilistic(Protocol):
    """An engine that knows the probabilities behind its draws, up to a margin."""

    @property
    def margin(self) -> float:
        """How far one token's log-probability is taken to move with the batch shape (delta).

        In nats; infinite where probabilities cannot be exact.
        """


@runtime_checkable
class Explores(Probabilistic, Protocol):
    """An engine that knows the probabilities behind its draws."""

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Exploration | Failure]:
        """Find the exact masses of likely outputs, and draw from what they leave.

        Args:
            queries: texts to put to the model.
            decoding: the distribution to explore and to draw from.
            effort: how many forwards a query, and how they are shared between exploring and draws.
            ranges: gives the lowest and highest score that texts can end with, which says which
                prefixes are settled.

        Returns:
            One Exploration or Failure for each query, in any order.

        Raises:
            InputError: masses cannot be exact.
        """

    def force(
        self, texts: Sequence[tuple[Query, str]], decoding: Decoding
    ) -> list[Completion | None]:
        """The probability of each text and the end token after it, teacher-forced.

        Args:
            texts: (query, text) pairs.
            decoding: the distribution under which texts have their probabilities.

        Returns:
            One completion a pair, in order, of count 0; None where the decoding cannot produce it,
            or where the text's tokens do not go on from exactly the prompt that is sampled from.

        Raises:
            InputError: probabilities cannot be exact.
        """


Leads = Sequence[tuple[Query, Sequence[str]]]
"""Each query with texts that leak, what matters most first."""


@runtime_checkable
class Proves(Probabilistic, Protocol):
    """An engine that finds rare leaks by their probabilities."""

    def prove(
        self, leads: Leads, decoding: Decoding, forwards: int, ranges: Ranges
    ) -> Iterator[Proving | Failure]:
        """Search for leaking outputs around texts that leak.

        Args:
            leads: each query with texts that leak, what matters most first; the search goes out
                from them.
            decoding: the distribution under which outputs have their probabilities.
            forwards: the most prefixes of a query that are forwarded.
            ranges: gives the lowest and highest score that texts can end with, which says what
                leaks.

        Returns:
            One Proving or Failure for each query, in order.

        Raises:
            InputError: probabilities cannot be exact.
        """


@runtime_checkable
class Measures(Protocol):
    """An engine whose margin is measured, and depends on what it will be asked."""

    def measure(self, queries: Sequence[Query]) -> None:
        """Measure the margin after these queries' prompts: the same for the same queries.

        Whoever is about to ask them calls this first, so that a run goes on with the margin that
        it was begun with.

        Args:
            queries: texts that will be put to the model.
        """


@runtime_checkable
class Tokenizes(Protocol):
    """An engine that splits texts with its model's tokenizer."""

    def words(self, texts: Sequence[str]) -> list[list[str | None]]:
        """Split texts into the model's tokens.

        Args:
            texts: n texts, without what a prompt adds to them.

        Returns:
            The tokens of each text, [n]; None in place of a token that stands for unknown text.
        """


@runtime_checkable
class Retraces(Probabilistic, Protocol):
    """An engine that tells how likely an output of known tokens is."""

    def force_ids(
        self, outputs: Sequence[tuple[Query, tuple[int, ...]]], decoding: Decoding
    ) -> list[Completion | None]:
        """The probability of generated token ids, teacher-forced through the decoding.

        Args:
            outputs: (query, ids) pairs; ids with the end token, or to the length limit. Ids that
                stop before are the beginning of outputs: their probability is that of all of them,
                their finish "unknown", their text what all of them have.
            decoding: the distribution under which outputs have their probabilities.

        Returns:
            One completion a pair, in order, of count 0; None where the decoding cannot produce it.

        Raises:
            InputError: probabilities cannot be exact.
        """


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
        """Whether stored completions are what these draws make.

        A draw may have another token than it has here only where its random number lies within
        the margin of that token's edge.

        Args:
            queries: texts to put to the model.
            decoding: the distribution that was drawn from.
            draws: how many in which chunks, and what keys them.
            stored: the completions of each query, by its id.

        Returns:
            One Redrawn for each query, in any order.

        Raises:
            InputError: probabilities cannot be exact.
        """


class Scorer(Named, Protocol):
    """h: completion × prompt → [0, 1]; 1 always means full leak.

    Optional methods, `check`, `check_all` and `bounds` among them: see `leakbound.scorers`.
    """

    @property
    def binary(self) -> bool:
        """The declared range: {0, 1} if true, else [0, 1]; it decides which bound is used."""

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Score completions of one prompt.

        Args:
            texts: completions; the score of one depends on no other, nor on their order.
            prompt: the prompt; a string is the true answer.

        Returns:
            One score a text, in [0, 1], or in {0, 1} where `binary`; 1 is a full leak, None where
            it could not decide.
        """


J = TypeVar("J")
R = TypeVar("R")
T_co = TypeVar("T_co", covariant=True)


class Opener(Protocol[T_co]):
    """How to open something, in whatever process: equal ones open the same. `open` gives it."""

    def open(self) -> T_co: ...


class Crew(Protocol):
    """Workers, each of which does one thing at a time with what it has opened."""

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J]
    ) -> Iterator[tuple[J, R]]:
        """Do every job at some worker.

        The next job is asked for when a worker is idle, so no more of them are under way than
        there are workers. A job whose worker is lost is done again. One call at a time.

        Args:
            opener: gives what a worker needs, which it opens once.
            do: does a job with that.
            jobs: the jobs.

        Returns:
            (job, result) pairs, the first finished first.

        Raises:
            IncompleteError: no worker is to be had, or too many were lost with one job. What a job
                raises is raised here, too.
        """

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], job: J) -> None:
        """Do a job once at every worker, those to come too, before its next job.

        It takes the place of what the same `do` was to do before.

        Args:
            opener: gives what a worker needs, which it opens once.
            do: does the job with that.
            job: the job.
        """


class Workers(Protocol):
    """Where workers are to be had."""

    def open(self) -> AbstractContextManager[Crew]:
        """Their crew, to be left when all is done.

        Returns:
            A context whose value is the crew.
        """


@runtime_checkable
class Spreads(Protocol):
    """An engine that stands at several workers, each of which can do what one engine does."""

    def spread(self, do: Callable[[Generate, J], R], jobs: Iterable[J]) -> Iterator[tuple[J, R]]:
        """Do every job at some worker's engine; see `Crew.each`.

        Args:
            do: does a job with the worker's engine.
            jobs: the jobs.

        Returns:
            (job, result) pairs, the first finished first.
        """


def alone(crew: Crew, opener: Opener[T], do: Callable[[T, J], R], job: J) -> R:
    """The result of one job, done at any worker.

    Args:
        crew: the workers.
        opener: gives what a worker needs, which it opens once.
        do: does the job with that.
        job: the job.

    Returns:
        The result.
    """
    ((_, result),) = crew.each(opener, do, [job])
    return result
