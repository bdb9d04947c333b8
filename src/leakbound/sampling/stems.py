"""Generated ids: prefixes to draw from, complete outputs, and the trees of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leakbound.sampling.distribution import Confidence
from leakbound.sampling.model import Ids
from leakbound.types import Finish

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stem:
    """A prefix of generated ids from which draws can continue, with sums over its tokens.

    Attributes:
        parent: the handle of the prefix without the last token of `path`.
        path: the ids.
        logprob: the sum of the ids' natural log-probabilities under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin.
        model_logprob: the sum of the log-probabilities under the untruncated T = 1 model.
        p_max_sum: the sum, over the positions of the ids, of the largest T = 1 next-token
            probability.
    """

    parent: int
    path: Ids
    logprob: float
    floor: float
    model_logprob: float
    p_max_sum: float

    @classmethod
    def prompt(cls) -> Stem:
        """Return the stem that has no generated tokens."""
        return cls(-1, (), 0.0, 0.0, 0.0, 0.0)

    @property
    def sums(self) -> tuple[float, float, float, float]:
        """The four sums, in the order of the fields."""
        return self.logprob, self.floor, self.model_logprob, self.p_max_sum

    def leaf(self, counts: tuple[int, ...], reason: Finish) -> Leaf:
        """Return the stem as a completed sequence.

        Args:
            counts: for each chunk, the number of its draws that are this sequence.
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


def confidence_of(stems: Sequence[Stem]) -> Confidence:
    """Return the confidence of some prefixes (see `distribution.Confidence`).

    Args:
        stems: the prefixes.

    Returns:
        Two arrays, [stems] each.
    """
    return np.array([x.p_max_sum for x in stems]), np.array([len(x.path) + 1 for x in stems])


Starts = tuple[tuple[Stem, tuple[int, ...]], ...]
"""Stems, each with the numbers of draws, per chunk, that continue from it."""


@dataclass(frozen=True, slots=True)
class Root:
    """A prompt to sample from.

    Attributes:
        query_id: the id of its query, which is part of the key of the draws.
        token_ids: the prompt.
        starts: stems from which draws continue instead of from the prompt; empty: draws begin after
            the prompt. The caller releases the stems' handles; the forest neither reuses nor
            releases them.
    """

    query_id: str
    token_ids: Ids
    starts: Starts = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A completed sequence, its counts and its probabilities.

    Attributes:
        token_ids: generated ids, including the end token if one was drawn.
        counts: `counts[c]` is the number of draws in the c-th chunk.
        logprob: natural log-probability under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin (see `distribution`).
        model_logprob: natural log-probability under the untruncated T = 1 model.
        confidence: the mean over the tokens of the largest T = 1 next-token probability.
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
class Node:
    """A complete output, or all outputs that begin with the same ids.

    Attributes:
        token_ids: generated ids.
        logprob: their natural log-probability under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin.
        finish: why the ids are a complete output; None: they are the beginning of several outputs.
        low: the lowest score of its outputs.
        high: the highest score of its outputs.
    """

    token_ids: Ids
    logprob: float
    floor: float
    finish: Finish | None
    low: float
    high: float

    @property
    def ended(self) -> bool:
        """Whether the node is a complete output."""
        return self.finish is not None


@dataclass(frozen=True, slots=True)
class Tree:
    """The outputs of one root that were drawn or found, or the prefix with unusable logits.

    Attributes:
        root: the index of the root.
        leaves: the distinct outputs that were drawn. In a search, they are drawn from the outputs
            that are in no node.
        nodes: the disjoint complete outputs and prefixes of a search. An exploration without draws
            adds its open prefixes; a proof has only nodes that leak.
        remainder: a lower bound, given the margin, of the probability of all outputs that are in no
            node; 0 if no draws are made.
        explored: the number of prefixes, without the prompt, that a search forwarded before
            drawing.
        forwards: the number of all prefixes that a search forwarded.
        broken_at: the prefix after which logits were unusable; the tree then has neither nodes nor
            leaves. None: all logits were usable.
    """

    root: int
    leaves: tuple[Leaf, ...] = ()
    nodes: tuple[Node, ...] = ()
    remainder: float = 0.0
    explored: int = 0
    forwards: int = 0
    broken_at: Ids | None = None
