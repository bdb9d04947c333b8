"""Generated ids: what they are drawn from, and what they are once complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.law import Law, certain_law, rows_at_once
from leakbound.sampling.model import Handles, Ids, PrefixModel
from leakbound.types import Decoding, Finish

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stem:
    """Generated ids from which draws can go on, with their sums.

    Attributes:
        parent: the handle of the prefix without the last token of `path`.
        path: the ids.
        logprob: the sum of their natural log-probabilities under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin.
        model_logprob: the same sum under the untruncated T = 1 model.
        p_max_sum: the sum over them of the largest T = 1 next-token probability.
    """

    parent: int
    path: Ids
    logprob: float
    floor: float
    model_logprob: float
    p_max_sum: float

    @classmethod
    def prompt(cls) -> Stem:
        """Nothing generated yet."""
        return cls(-1, (), 0.0, 0.0, 0.0, 0.0)

    @property
    def sums(self) -> tuple[float, float, float, float]:
        """Its four sums, in this order."""
        return self.logprob, self.floor, self.model_logprob, self.p_max_sum

    def leaf(self, counts: tuple[int, ...], reason: Finish) -> Leaf:
        """The same as a completed sequence.

        Args:
            counts: how often each chunk drew it.
            reason: why it is complete.

        Returns:
            The leaf.
        """
        return Leaf(
            token_ids=self.path,
            counts=counts,
            logprob=self.logprob,
            floor=self.floor,
            model_logprob=self.model_logprob,
            confidence=self.p_max_sum / len(self.path),
            finish=reason,
        )


def confidence_of(stems: Sequence[Stem]) -> tuple[Floats, Ints]:
    """The sum of p_max so far, and how many tokens there will be with the next: for `pick`.

    Args:
        stems: the prefixes.

    Returns:
        Two arrays, [stems] each.
    """
    return np.array([x.p_max_sum for x in stems]), np.array([len(x.path) + 1 for x in stems])


def laws_after(
    logits: torch.Tensor, stems: Sequence[Stem], decoding: Decoding, margin: float
) -> Iterator[tuple[slice, Law]]:
    """The next-token law after each stem, for a few stems at a time.

    Args:
        logits: after each stem, [stems, vocabulary].
        stems: the prefixes.
        decoding: the distribution to draw from.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        (slice of the stems, their law), until all were told of.
    """
    height = rows_at_once(logits)
    for start in range(0, len(stems), height):
        part = slice(start, start + height)
        confidence = confidence_of(stems[part])
        yield part, certain_law(logits[part], decoding, *confidence, margin)


def forward(model: PrefixModel, stems: Sequence[Stem]) -> tuple[Handles, torch.Tensor]:
    """Forward the last tokens of some prefixes.

    Args:
        model: gives the logits of prefixes.
        stems: the prefixes, of at least one token each.

    Returns:
        Their handles, [stems], and the logits after them, [stems, vocabulary].
    """
    parents = np.array([stem.parent for stem in stems], dtype=np.int64)
    tokens = np.array([stem.path[-1] for stem in stems], dtype=np.int64)
    return model.extend(parents, tokens, np.zeros(len(stems), dtype=bool))


Starts = tuple[tuple[Stem, tuple[int, ...]], ...]
"""Stems, each with how many draws of each chunk go on from it."""


@dataclass(frozen=True, slots=True)
class Root:
    """A prompt to sample from.

    Attributes:
        query_id: its query's id, which keys the draws.
        token_ids: the prompt.
        starts: stems to draw from instead of the prompt, each with so many draws of each chunk;
            empty: the prompt. The handles of stems stay the caller's: they are neither taken over
            nor released.
    """

    query_id: str
    token_ids: Ids
    starts: Starts = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A completed sequence: how often each chunk drew it, and how likely it was.

    Attributes:
        token_ids: generated ids, with the end token where one was drawn.
        counts: `counts[c]` belongs to the c-th chunk of the draws.
        logprob: natural log-probability under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin (see `law`).
        model_logprob: that under the untruncated T = 1 model.
        confidence: the mean over its tokens of the largest T = 1 next-token probability.
        finish: "stop" (an end token), "stop_string", or "length".
    """

    token_ids: Ids
    counts: tuple[int, ...]
    logprob: float
    floor: float
    model_logprob: float
    confidence: float
    finish: Finish


@dataclass(frozen=True, slots=True)
class Tree:
    """All leaves of one root; or, where logits were unusable, the prefix at which it broke.

    Attributes:
        root: the root's place among those that were sampled.
        leaves: the distinct outputs, by their ids; none where it broke.
        broken_at: the prefix after which logits were unusable; None: none was.
    """

    root: int
    leaves: tuple[Leaf, ...]
    broken_at: Ids | None = None
