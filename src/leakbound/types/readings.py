"""Readings (the probabilities of given texts under a model), and fingerprints of models."""

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
    """The probabilities of an answer, teacher-forced after its query at T = 1 without truncation.

    Every array has one entry per labelled token, [T]. The last token is the end token.

    Attributes:
        token_ids: the labelled tokens.
        text: the text of the tokens, without special tokens.
        logprobs: natural log-probability of each token, float64.
        top: whether the token is the likeliest next token; among ties, this is the token with the
            lowest id.
        mean: the expectation of log p under the next-token distribution p, so that -mean is the
            entropy in nats.
        std: the standard deviation of log p under this distribution.
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
        """Return the probabilities of answers, teacher-forced after their queries.

        Args:
            texts: (query, answer) pairs; equal pairs are forwarded once.

        Returns:
            One Reading per pair, in order.

        Raises:
            InputError: a pair with more tokens than the model's context allows.
            ModelError: the model computes unusable logits.
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
    """The tokens of a fixed question's prompt, and the likeliest next tokens.

    Attributes:
        token_ids: the tokens of the prompt.
        top: (token, log-probability) pairs, the likeliest token first; None in place of a
            log-probability that is not finite.
    """

    token_ids: tuple[int, ...]
    top: tuple[tuple[int, float | None], ...]


@runtime_checkable
class Probes(Protocol):
    """An engine that evaluates its model on a few fixed questions."""

    @property
    def probe(self) -> tuple[ProbedPrompt, ...]:
        """Return the likeliest next tokens; equal models have equal results up to rounding."""


def probe_difference(
    have: Sequence[ProbedPrompt], want: Sequence[ProbedPrompt], tolerance: float
) -> str | None:
    """Return a sentence on the first difference above a tolerance between two probes, or None.

    Probes are compared, never hashed, because devices and threads round differently. If a probe
    lacks a token, the token's log-probability is at most the smallest log-probability in the probe.

    Args:
        have: a probe.
        want: another probe of the same questions.
        tolerance: the largest difference of log-probabilities, in nats, that counts as rounding.

    Returns:
        The first difference in words, or None.
    """
    if [prompt.token_ids for prompt in have] != [prompt.token_ids for prompt in want]:
        return "the prompts of the fixed questions have different tokens in the two models"
    for number, (prompt, other) in enumerate(zip(have, want, strict=True)):
        first, second = dict(prompt.top), dict(other.top)
        for token in {**first, **second}:
            a = _at_most(first, token, second.get(token))
            b = _at_most(second, token, first.get(token))
            if a is None or b is None:
                if a is not b:
                    return f"fixed question {number}: one model has no probability of token {token}"
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
    """The members of a fingerprint that the code reads; all other members are only compared.

    Attributes:
        dtype: the dtype in which the weights are used; None: not reported.
        prompting: the conversion of questions to prompts, in the form that `Prompting.described`
            accepts.
        ordinary_end_tokens: ids of the tokens that end the model's answers but are ordinary text
            tokens.
        repeatable: whether draws with the same keys are identical when they are repeated.
        confirmed: whether it is certain that only the decoding truncates the distribution. False:
            neutral settings were sent to a server, but the server may truncate nevertheless.
        assumes: assumptions of every bound on the draws that cannot be checked from outside the
            model.
    """

    dtype: str | None = None
    prompting: Json = None
    ordinary_end_tokens: tuple[int, ...] = ()
    repeatable: bool = True
    confirmed: bool = True
    assumes: tuple[str, ...] = ()

    @classmethod
    def of(cls, fingerprint: JsonObject) -> Fingerprint:
        """Return the members of a fingerprint that code reads; absent members have their defaults.

        Args:
            fingerprint: an engine's fingerprint (`Generate.fingerprint`), current or stored.

        Returns:
            The members of the fingerprint.

        Raises:
            InputError: a member has another type.
        """
        members = {f.name: fingerprint[f.name] for f in fields(cls) if f.name in fingerprint}
        return from_json(cls, members, "the fingerprint")
