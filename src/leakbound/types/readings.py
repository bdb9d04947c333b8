"""What a model makes of a text that is already there, token by token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from leakbound.types.prompts import Query
from leakbound.types.records import JsonObject

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer teacher-forced after its query, under the untruncated T = 1 distribution.

    Every array has one entry a labelled token, [T]; the last token is the end token. `text`: what
    the tokens spell, special ones left out. `logprobs`:
    natural log-probability of the token, float64. `top`: the token is the likeliest, ties to the
    lowest id. `mean`, `std`: of log p over the vocabulary under p itself, so that -mean is the
    entropy in nats. `confidence`: the largest next-token probability.
    """

    token_ids: tuple[int, ...]
    text: str
    logprobs: NDArray[np.float64]
    top: NDArray[np.bool_]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    confidence: NDArray[np.float64]


@runtime_checkable
class Reads(Protocol):
    """An engine that can be shown an answer."""

    @property
    def fingerprint(self) -> JsonObject:
        """See `Generate.fingerprint`."""
        ...

    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        """One Reading a (query, answer) pair, in order; equal pairs are forwarded once.

        InputError for a pair longer than the context, ModelError for unusable logits.
        """
        ...


@runtime_checkable
class Differentiates(Protocol):
    """An engine that can say how far an answer would move the model."""

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        """A norm of the gradient of each answer's mean token loss, one a pair, in order."""
        ...
