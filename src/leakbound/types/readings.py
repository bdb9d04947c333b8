"""Readings: the probabilities of given texts under a model, and fingerprints of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from leakbound.types.prompts import Query
from leakbound.types.records import Json, JsonObject, from_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """An answer teacher-forced after its query, under the untruncated T = 1 distribution.

    Every array has one entry per labelled token, [T]; the last token is the end token.

    Attributes:
        token_ids: the labelled tokens.
        text: the text of the tokens, without special tokens.
        logprobs: natural log-probability of each token, float64.
        top: whether the token is the likeliest; among tied tokens, the lowest id is the likeliest.
        mean: the mean of log p over the vocabulary under p itself, so that -mean is the entropy in
            nats.
        std: the standard deviation of log p under p.
        confidence: the largest next-token probability.
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
    """An engine that computes the probabilities of given answers."""

    @property
    def fingerprint(self) -> JsonObject:
        """See `Generate.fingerprint`."""

    def read(self, texts: Sequence[tuple[Query, str]]) -> list[Reading]:
        """Teacher-force answers after their queries.

        Args:
            texts: (query, answer) pairs; equal pairs are forwarded once.

        Returns:
            One Reading per pair, in order.

        Raises:
            InputError: a pair longer than the context.
            ModelError: the model gives unusable logits.
        """


@runtime_checkable
class Differentiates(Protocol):
    """An engine that computes gradient norms of answers."""

    def gradient_norms(self, texts: Sequence[tuple[Query, str]]) -> list[float]:
        """Return the gradient norm of each answer.

        Args:
            texts: (query, answer) pairs.

        Returns:
            The norm of the gradient of each answer's mean token loss, one per pair, in order.
        """


@dataclass(frozen=True, slots=True)
class ProbedPrompt:
    """The tokens of a fixed question's prompt, and the likeliest tokens after it.

    Attributes:
        token_ids: the prompt.
        top: (token, log-probability), the likeliest first; a log-probability that is not finite is
            None.
    """

    token_ids: tuple[int, ...]
    top: tuple[tuple[int, float | None], ...]


@runtime_checkable
class Probes(Protocol):
    """An engine that reads a few fixed questions, the same at every call."""

    @property
    def probe(self) -> tuple[ProbedPrompt, ...]:
        """Return the likeliest tokens; engines of one distribution differ only by rounding."""


def probe_difference(
    have: Sequence[ProbedPrompt], want: Sequence[ProbedPrompt], tolerance: float
) -> str | None:
    """Describe the first difference of two probes above a tolerance, or return None.

    Probes are compared, never hashed, because devices and threads round differently. If a probe
    lacks a token, the token's log-probability there is at most the probe's smallest.

    Args:
        have: a probe.
        want: another probe of the same questions.
        tolerance: the largest difference of log-probabilities, in nats, that counts as rounding.

    Returns:
        The first difference in words, or None.
    """
    if [prompt.token_ids for prompt in have] != [prompt.token_ids for prompt in want]:
        return "the prompts of the fixed questions have different tokens"
    for number, (prompt, other) in enumerate(zip(have, want, strict=True)):
        first, second = dict(prompt.top), dict(other.top)
        for token in {**first, **second}:
            a = _at_most(first, token, second.get(token))
            b = _at_most(second, token, first.get(token))
            if a is None or b is None:
                if a is not b:
                    return f"after fixed question {number}, token {token} has no log-probability"
            elif abs(a - b) > tolerance:
                return (
                    f"after fixed question {number}, token {token} has log-probability "
                    f"{a:.4f} in one model and {b:.4f} in the other"
                )
    return None


def _at_most(
    logprobs: Mapping[int, float | None], token: int, elsewhere: float | None
) -> float | None:
    if token in logprobs:
        return logprobs[token]
    finite = [logprob for logprob in logprobs.values() if logprob is not None]
    if elsewhere is None or not finite:
        return None
    return min(elsewhere, *finite)


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The members of a fingerprint that are used, not only compared.

    Attributes:
        dtype: the dtype in which the weights are used; None: not reported.
        prompting: the conversion of questions to prompts, as `Prompting.described` reads it.
        ordinary_end_tokens: ids of ordinary text tokens that end the model's answers.
        repeatable: whether the same keys give the same draws again.
        confirmed: whether it is known that only the decoding truncates the distribution. If not,
            neutral settings were sent to a server that may truncate nevertheless.
        assumes: assumptions behind every bound on the draws, which cannot be checked from outside.
    """

    dtype: str | None = None
    prompting: Json = None
    ordinary_end_tokens: tuple[int, ...] = ()
    repeatable: bool = True
    confirmed: bool = True
    assumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, fingerprint: JsonObject) -> Fingerprint:
        """Read the members of a fingerprint; absent members get their defaults.

        Args:
            fingerprint: an engine's fingerprint (`Generate.fingerprint`), present or stored.

        Returns:
            The members of the fingerprint.

        Raises:
            InputError: a member of another kind.
        """
        members = {f.name: fingerprint[f.name] for f in fields(cls) if f.name in fingerprint}
        return from_json(cls, members, "the fingerprint")
