"""The nouns every layer shares: prompts, queries, decodings, completions, and the seams.

Layer 0: the standard library only. Frozen values; protocols for whatever does the work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from residua.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Role = Literal["forget", "retain", "holdout"]
Source = Literal["original", "benchmark", "file", "rules", "model"]
AdaptiveMode = Literal["running", "two_pass"]
FinishReason = Literal["stop", "stop_string", "length"]
ExploreMode = Literal["exact", "hybrid", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One item of a benchmark: a question and what a leak of it would say.

    `id` is unique within its benchmark and stable between runs. `answer` is None where the
    benchmark has none; a scorer that needs one refuses the prompt.
    """

    id: str
    question: str
    answer: str | None = None
    split: str = ""
    role: Role = "forget"
    keywords: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    paraphrases: tuple[str, ...] = ()
    paraphrased_answer: str | None = None
    perturbed_answers: tuple[str, ...] = ()
    alternate_answers: tuple[str, ...] = ()
    examples: tuple[tuple[str, str], ...] = ()
    prefix: str = ""

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("a prompt needs an `id`, got an empty one. Number the rows.")
        if not self.question.strip():
            raise InputError(
                f"prompt {self.id!r} has an empty question. Remove the row or fill it in."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One text put to the model for a prompt: its question, or a rewriting of it.

    `prefix` opens the answer for the model; it is no part of a completion.
    """

    id: str
    prompt_id: str
    text: str
    source: Source = "original"
    prefix: str = ""

    @classmethod
    def original(cls, prompt: Prompt) -> Query:
        """The prompt's own question, under the prompt's id."""
        return cls(id=prompt.id, prompt_id=prompt.id, text=prompt.question, prefix=prompt.prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """The named output distribution; every bound is about exactly one.

    The next-token distribution is softmax(logits / temperature), cut to the `top_k` likeliest
    tokens (0: all), then to the smallest set of them that holds mass `top_p` of what is left,
    ties by token id, renormalised. Temperature 0 is greedy, ties to the lowest id. No penalties.

    `adaptive_temperature` is the confidence threshold c_T of Scholten et al. (2025), section 5.
    `running`: a step is greedy when the mean over the tokens so far, this one included, of the
    largest T = 1 untruncated probability exceeds c_T. `two_pass`: a prompt is greedy altogether
    when its greedy completion's mean exceeds c_T.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 200
    adaptive_temperature: float | None = None
    adaptive_mode: AdaptiveMode = "running"
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", tuple(self.stop))
        _require(
            math.isfinite(self.temperature) and self.temperature >= 0,
            "temperature", self.temperature, "0 (greedy) or a positive number",
        )  # fmt: skip
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "a number in (0, 1]; 1 keeps all")
        _require(self.top_k >= 0, "top_k", self.top_k, "a whole number, 0 to keep all")
        _require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "at least 1")
        threshold = self.adaptive_temperature
        _require(
            threshold is None or 0 < threshold <= 1,
            "adaptive_temperature", threshold, "a number in (0, 1], or None",
        )  # fmt: skip
        _require(
            self.adaptive_mode in ("running", "two_pass"),
            "adaptive_mode", self.adaptive_mode, "'running' or 'two_pass'",
        )  # fmt: skip
        _require(all(self.stop), "stop", self.stop, "strings that are not empty")

    @property
    def greedy(self) -> bool:
        """True if this decoding puts all its mass on one completion per query."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def name(self) -> str:
        """A short unambiguous name: what is not said is at its default."""
        parts = ["greedy"] if self.temperature == 0 else [f"T={self.temperature:g}"]
        if self.top_k:
            parts.append(f"top-k={self.top_k}")
        if self.top_p < 1:
            parts.append(f"top-p={self.top_p:g}")
        if self.adaptive_temperature is not None:
            parts.append(f"adaptive={self.adaptive_temperature:g}")
            if self.adaptive_mode != "running":
                parts.append(self.adaptive_mode)
        return " ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Every field, as JSON holds it."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return values | {"stop": list(self.stop)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Decoding:
        """The inverse of `to_dict`; an unknown key is refused."""
        unknown = set(values) - {f.name for f in fields(cls)}
        _require(not unknown, "decoding", sorted(unknown), "only the fields of Decoding")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One distinct output of a query within one chunk of draws, with how often it was drawn.

    `logprob` is the natural log-probability of the whole sequence under the decoding,
    `model_logprob` under the untruncated T = 1 model, both including the end token where one
    was drawn; None where an engine has none. `finish_reason`: `stop` (the model's end token),
    `stop_string`, or `length`. `token_ids` includes the end token; `text` does not, and ends
    before a stop string. `confidence` is the mean over the tokens of the largest T = 1
    next-token probability. `logprob_floor` is what `logprob` is at least, whatever the batch
    shape in which the model runs: a proof of leakage rests on it.
    """

    text: str
    token_ids: tuple[int, ...] | None
    count: int
    chunk: int = 0
    logprob: float | None = None
    model_logprob: float | None = None
    confidence: float | None = None
    finish_reason: FinishReason = "stop"
    logprob_floor: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """All completions of one query under one decoding; counts add up to `n`.

    `missing` draws were asked for and never came (a request that failed): they count against
    every claim.
    """

    query: Query
    decoding: Decoding
    completions: tuple[Completion, ...]
    missing: int = 0

    @property
    def n(self) -> int:
        """Draws, the missing ones included."""
        return sum(c.count for c in self.completions) + self.missing


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A query an engine could not sample: `reason` names the prefix where it broke."""

    query: Query
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Which draws of a query to make: how many in each numbered chunk, under which key.

    The same (seed, purpose, query id, chunk) gives the same draws; two purposes share none.
    `own` gives each query, by id, a number of draws of its own; `sizes` is then one chunk, as
    large as the largest of them.
    """

    sizes: tuple[int, ...]
    first_chunk: int = 0
    seed: int = 0
    purpose: str = "score"
    own: Mapping[str, int] = field(default_factory=dict)

    @property
    def n(self) -> int:
        return sum(self.sizes)

    def of(self, query_id: str) -> tuple[int, ...]:
        """The draws of one query in each chunk."""
        return (self.own[query_id],) if self.own else self.sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A complete output, or all outputs that begin with `token_ids`, and how likely it is at least.

    `mass` is a certain lower bound of its probability under the decoding, at any batch shape.
    `ended`: complete; `text` is then the completion. Else `text` is what every continuation's
    text begins with. Two events of one query share no output.
    """

    text: str
    token_ids: tuple[int, ...]
    ended: bool
    mass: float


Ranges = Callable[[Query, Sequence[tuple[str, bool]]], list[tuple[float, float]]]
"""(query, (text, ended) pairs) -> lowest and highest score that the text can end with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How an output distribution is explored: `forwards` prefixes of a query forwarded in all.

    `exact` spends all of them on the likeliest prefixes; `hybrid` some, and the others on
    `Draws` of the remainder; `auto` lets each query's tree decide, draws alone included. (seed,
    purpose) keys the draws as in `Draws`.
    """

    mode: ExploreMode
    forwards: int
    seed: int = 0
    purpose: str = "remainder"

    def __post_init__(self) -> None:
        _require(self.mode in ("exact", "hybrid", "auto"), "mode", self.mode, "one of its three")
        _require(self.forwards >= 1, "budget", self.forwards, "at least 1 forward per question")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What is known of one query's output distribution: exact masses, and draws from the rest.

    `events` are disjoint. `sample` was drawn from the distribution given that none of them
    happens, and `remainder` is a lower bound of that chance; without draws (n = 0) it is 0.
    What `events` and `remainder` leave of 1 is unknown: rounding and, without draws, what was
    not explored. `explored` prefixes were forwarded before the draws, `forwards` in all.
    """

    events: tuple[Event, ...]
    remainder: float
    sample: Sample
    explored: int
    forwards: int

    @property
    def query(self) -> Query:
        return self.sample.query


@dataclass(slots=True)
class Usage:
    """What sampling cost: distinct prefixes forwarded, tokens drawn, prompt tokens read."""

    forwards: int = 0
    sampled_tokens: int = 0
    prompt_tokens: int = 0
    draws: int = 0
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def since(self, before: Usage, seconds: float) -> Usage:
        """What was spent after `before`, in so many seconds."""
        return Usage(
            forwards=self.forwards - before.forwards,
            sampled_tokens=self.sampled_tokens - before.sampled_tokens,
            prompt_tokens=self.prompt_tokens - before.prompt_tokens,
            draws=self.draws - before.draws,
            seconds=seconds,
            notes=list(self.notes),
        )

    def add(self, other: Usage) -> None:
        """Add another part's cost to this one."""
        self.forwards += other.forwards
        self.sampled_tokens += other.sampled_tokens
        self.prompt_tokens += other.prompt_tokens
        self.draws += other.draws
        self.seconds += other.seconds
        self.notes += [n for n in other.notes if n not in self.notes]


class Progress(Protocol):
    """Told how far a long step is: `done` of `total` units, with a word on what they are."""

    def __call__(self, phase: str, done: float, total: float, unit: str = "") -> None: ...


def silent(phase: str, done: float, total: float, unit: str = "") -> None:
    """The `Progress` that shows nothing."""


@runtime_checkable
class Generate(Protocol):
    """The seam every engine fills: draw completions of queries under one decoding."""

    usage: Usage

    @property
    def fingerprint(self) -> dict[str, Any]:
        """What was run: weights digest, dtype, template, versions; equal means same law."""
        ...

    def check(self, queries: Sequence[Query], decoding: Decoding) -> None:
        """Refuse, before anything costly, what cannot be sampled."""
        ...

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        """Yield one Sample or Failure for each query, in any order."""
        ...


@runtime_checkable
class Explores(Protocol):
    """An engine that knows the probabilities behind its draws."""

    @property
    def margin(self) -> float:
        """How far one token's log-probability may move with the batch shape (delta)."""
        ...

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

        The completion has count 0; None where the decoding cannot produce it.
        """
        ...


class Scorer(Protocol):
    """h: completion × prompt → [0, 1]; 1 always means full leak."""

    @property
    def name(self) -> str:
        """As it stands in results; settings that change h are part of it."""
        ...

    @property
    def binary(self) -> bool:
        """The declared range: {0, 1} if true, else [0, 1]; it decides which bound is used."""
        ...

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """One score a text; None where it could not decide. A string is the true answer."""
        ...


class Embed(Protocol):
    """Texts as vectors: the nearer two vectors, the nearer what the texts mean."""

    @property
    def name(self) -> str:
        """What makes the vectors, as it stands in results."""
        ...

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
    """A conversation that waits for a reply; `id` keys the draw of it."""

    id: str
    messages: tuple[Message, ...]


class Chat(Protocol):
    """A chat model that does a job beside the one under test: it rewrites, it judges."""

    @property
    def name(self) -> str:
        """The model and where it runs, as they stand in results."""
        ...

    def chat(self, requests: Sequence[Request], decoding: Decoding, seed: int) -> list[str | None]:
        """One reply a request, in order; None where none came, a time-out among the reasons.

        Replies to different ids are independent draws; the same (seed, id, messages) gives the
        same draw where the engine can be seeded.
        """
        ...


def _require(condition: bool, name: str, value: object, want: str) -> None:
    if not condition:
        raise InputError(f"`{name}` must be {want}, got {value!r}.")
