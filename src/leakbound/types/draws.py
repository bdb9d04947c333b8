"""Results of an engine: completions with counts, exact probabilities of outputs, and the cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, get_args

from leakbound.types.decoding import Decoding, require
from leakbound.types.prompts import Query

TURN = "\x1e"  # separates the turns of a conversation that is one completion
RULE = 2
"""The version of the rules for counting and matching, which is stored with scores."""
Finish = Literal["stop", "stop_string", "length", "filtered", "tool", "error", "unknown"]
_COUNTED = ("forwards", "sampled_tokens", "prompt_tokens", "draws")  # counts in `Usage`


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of a model, split into thought and answer.

    Each engine, server client, importer and plug-in splits raw text in one place, and no later code
    parses it again. `leakbound.text.counting` decides how an output is counted.

    Attributes:
        answer: the text after the thought, without the end token, and cut before a stop string.
        thought: the visible reasoning before the answer, or None.
        finish: "stop" (the model's end token), "stop_string", "length" (a limit on tokens),
            "filtered" (a content filter or guardrail), "tool" (a tool call), "error", or "unknown"
            (not recorded).
        tokens: the number of tokens of the output, including the end token; None: not known.
        refused: whether the provider marked the answer as a refusal.
        hidden: whether the model thought, but the thought, or a part of it, is not visible.
    """

    answer: str
    thought: str | None = None
    finish: Finish = "unknown"
    tokens: int | None = None
    refused: bool = False
    hidden: bool = False


class Parts(NamedTuple):
    """The text of an output, split into thought and answer.

    Attributes:
        thought: the thought, or None.
        answer: the text after the thought.
        finish: the finish, if the last token does not determine it: "tool" for a tool call, or
            "error" if a stop string came before the answer began.
    """

    thought: str | None
    answer: str
    finish: Finish | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Output):
    """One distinct output of a query within one chunk of draws, with its count.

    Attributes:
        chunk: the number of the chunk of draws, from 0.
        count: the number of draws that gave this output.
        token_ids: the token ids, including the end token; None if the engine returns no ids.
        logprob: natural log-probability of the complete sequence under the decoding, including the
            end token if one was drawn; None if the engine computes no probabilities.
        model_logprob: the log-probability of the same sequence under the untruncated T = 1 model.
        confidence: the mean over the tokens of the largest T = 1 next-token probability.
        logprob_floor: a lower bound of `logprob` that is valid at every batch shape in which the
            model runs, for proofs of leakage.
    """

    chunk: int = 0
    count: int
    token_ids: tuple[int, ...] | None = None
    logprob: float | None = None
    model_logprob: float | None = None
    confidence: float | None = None
    logprob_floor: float | None = None

    @classmethod
    def of(cls, output: Output, **values: Any) -> Completion:
        """Return a completion with the fields of an output.

        Args:
            output: the output; of a completion or an event, only the fields of an `Output` are
                used.
            values: the other fields by name, including `count`.

        Returns:
            The completion.
        """
        return cls(
            **{field.name: getattr(output, field.name) for field in fields(Output)}, **values
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All completions of one query under one decoding; their counts and `missing` add up to `n`.

    Attributes:
        query: the query.
        decoding: the distribution of the draws.
        completions: the distinct outputs, each with its count.
        missing: the number of requested draws without an output, such as failed requests; they
            count as 1 in upper bounds and as 0 in lower bounds.
    """

    query: Query
    decoding: Decoding
    completions: tuple[Completion, ...]
    missing: int = 0

    @property
    def n(self) -> int:
        """Return the number of draws, including missing draws."""
        return sum(c.count for c in self.completions) + self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A query that an engine could not sample.

    Attributes:
        query: the query.
        reason: the reason, with the prefix at which sampling failed.
    """

    query: Query
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """The draws that an engine must make per query: the number in each chunk, and the key.

    The same (seed, purpose, query id, chunk) gives the same draws. Draws for different purposes
    share no random numbers.

    Attributes:
        sizes: the number of draws in each chunk.
        first_chunk: the number of the first chunk.
        seed: the seed of the draws, at least 0.
        purpose: the purpose of the draws, which is part of their key together with the seed.
        draws_per_query: the number of draws of each query by the query's id, if queries differ in
            this number; `sizes` then has one chunk with the largest of these numbers.
    """

    sizes: tuple[int, ...]
    first_chunk: int = 0
    seed: int = 0
    purpose: str = "score"
    draws_per_query: Mapping[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return sum(self.sizes)

    def chunks(self, query_id: str) -> list[tuple[int, int]]:
        """Return the index of each chunk of a query, with the number of draws in the chunk.

        Args:
            query_id: the query.

        Returns:
            (index, draws) of each chunk, beginning with `first_chunk`.
        """
        return [*enumerate(self.of(query_id), start=self.first_chunk)]

    def of(self, query_id: str) -> tuple[int, ...]:
        """Return the number of draws of one query in each chunk.

        Args:
            query_id: the id of the query, which `draws_per_query` must contain if it is set.

        Returns:
            The number of draws in chunk `first_chunk` and in each later chunk.
        """
        return (self.draws_per_query[query_id],) if self.draws_per_query else self.sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrawn:
    """The result of comparing a query's stored completions with its repeated draws.

    Attributes:
        query: the query.
        differs_after: the number of tokens after which a repeated draw differs from every stored
            completion; None: every draw equals a stored completion.
        excused: the number of draws that differ from the stored completions by a token, but only
            within the margin.
    """

    query: Query
    differs_after: int | None
    excused: int


@dataclass(slots=True)
class Usage:
    """The cost of sampling.

    Attributes:
        forwards: the number of distinct prefixes that the model forwarded, one token per prefix.
        sampled_tokens: the number of tokens drawn, over all draws.
        prompt_tokens: the number of prompt tokens that the model processed.
        draws: the number of completions drawn, including repeated completions.
        seconds: the elapsed time.
        notes: remarks for readers of the result.
    """

    forwards: int = 0
    sampled_tokens: int = 0
    prompt_tokens: int = 0
    draws: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def since(self, before: Usage, seconds: float) -> Usage:
        """Return the cost since an earlier state.

        Args:
            before: the cost at the earlier state.
            seconds: the time since the earlier state.

        Returns:
            The difference, with all notes.
        """
        spent = {name: getattr(self, name) - getattr(before, name) for name in _COUNTED}
        return Usage(**spent, seconds=seconds, notes=list(self.notes))

    def add(self, other: Usage) -> None:
        """Add another cost to this cost, in place.

        Args:
            other: the other cost; its notes are added unless this cost already has them.
        """
        for name in (*_COUNTED, "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.notes += [n for n in other.notes if n not in self.notes]


ExploreMode = Literal["exact", "hybrid", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(Output):
    """A complete output, or all outputs that begin with `token_ids`, and its probability.

    Two events of one query share no output. If an event is not a complete output, `thought` and
    `answer` are the beginnings that all its outputs share, and the finish is "unknown".

    Attributes:
        token_ids: the generated ids, including an end token if there is one.
        ended: whether the event is one complete output.
        mass: a lower bound of the event's probability under the decoding, given the measured
            margin; 0 if it is not known yet.
    """

    token_ids: tuple[int, ...]
    ended: bool
    mass: float = 0.0


Ranges = Callable[[Query, Sequence[Event]], list[tuple[float, float]]]
"""A function (query, events) -> the lowest and the highest score of the outputs in each event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """The settings for exploring an output distribution.

    Attributes:
        mode: "exact" uses all forward passes for the likeliest prefixes. "hybrid" uses some of the
            passes for these prefixes, and the other passes for draws from the remainder. "auto"
            decides for each query from its tree of prefixes, and may decide to use all passes for
            draws.
        forwards: the total number of prefixes to forward per query, at least 1.
        seed: a part of the key of the draws, as in `Draws`.
        purpose: the purpose of the draws.

    Raises:
        InputError: an unknown `mode`, or `forwards` below 1.
    """

    mode: ExploreMode
    forwards: int
    seed: int = 0
    purpose: str = "remainder"

    def __post_init__(self) -> None:
        modes = get_args(ExploreMode)
        require(self.mode in modes, "explore", self.mode, f"one of {', '.join(modes)}")
        require(self.forwards >= 1, "forwards", self.forwards, "at least 1 per question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """The known part of a query's output distribution: exact masses, and draws from the remainder.

    The mass outside `events` and `remainder` is unknown. It comes from rounding and, if no draws
    were made, from unexplored outputs.

    Attributes:
        events: disjoint events (single outputs or sets of outputs), with their masses.
        remainder: a lower bound of the probability of all outputs outside `events`; 0 if no draws
            were made.
        sample: draws from the distribution of all outputs outside `events`; n may be 0.
        explored: the number of prefixes forwarded before the draws.
        forwards: the number of prefixes forwarded in total.
    """

    events: tuple[Event, ...]
    remainder: float
    sample: Sample
    explored: int
    forwards: int

    @property
    def query(self) -> Query:
        return self.sample.query


@dataclass(frozen=True, slots=True, kw_only=True)
class Proving:
    """Leaking outputs of one query that a search found, with their masses and scores.

    Attributes:
        query: the query.
        events: disjoint events (single outputs or sets of outputs), with their masses.
        lows: for each event, a number above 0 that is at most the score of every output in the
            event.
        forwards: the number of prefixes that the search forwarded.
    """

    query: Query
    events: tuple[Event, ...]
    lows: tuple[float, ...]
    forwards: int
