"""A few readings of a model, kept with its draws: they tell it apart where fingerprints do not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ProbedPrompt:
    """The tokens of a fixed question's prompt, and the likeliest tokens after it.

    `top` has (token, log-probability), the likeliest first; a log-probability that is not finite
    is None.
    """

    token_ids: tuple[int, ...]
    top: tuple[tuple[int, float | None], ...]


@runtime_checkable
class Probes(Protocol):
    """An engine that reads a few fixed questions, the same at every call."""

    @property
    def probe(self) -> tuple[ProbedPrompt, ...]:
        """What it makes of them; two engines of one law differ by roundings alone."""
        ...


def probe_difference(
    have: Sequence[ProbedPrompt], want: Sequence[ProbedPrompt], tolerance: float
) -> str | None:
    """How two probes differ by more than `tolerance` in a log-probability; None where they do not.

    Compared, never hashed: devices and threads round differently.
    """
    if [one.token_ids for one in have] != [one.token_ids for one in want]:
        return "the prompts of the fixed questions are other tokens"
    for number, (one, other) in enumerate(zip(have, want, strict=True)):
        for token, a, b in _pairs(one.top, other.top):
            if a is None or b is None:
                if a is not b:
                    return f"after fixed question {number}, token {token} has no log-probability"
            elif abs(a - b) > tolerance:
                return (
                    f"after fixed question {number}, token {token} has log-probability "
                    f"{a:.4f} in one and {b:.4f} in the other"
                )
    return None


def _pairs(
    one: Iterable[tuple[int, float | None]], other: Iterable[tuple[int, float | None]]
) -> Iterable[tuple[int, float | None, float | None]]:
    """(token, its two log-probabilities) of all tokens in either list.

    A token that a list lacks has there at most the smallest log-probability of the list.
    """
    a, b = dict(one), dict(other)
    for token in {**a, **b}:
        yield token, _at_most(a, token, b.get(token)), _at_most(b, token, a.get(token))


def _at_most(
    known: Mapping[int, float | None], token: int, elsewhere: float | None
) -> float | None:
    if token in known:
        return known[token]
    finite = [logprob for logprob in known.values() if logprob is not None]
    if elsewhere is None or not finite:
        return None
    return min(elsewhere, *finite)
