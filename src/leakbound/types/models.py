"""The seams to models that do a job beside the one under test: they embed, classify, converse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from leakbound.types.decoding import Decoding

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
