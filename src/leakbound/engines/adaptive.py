"""Adaptive temperature: greedy while the model is sure (Scholten et al. 2025, §5).

In two passes an evaluation draws only the greedy answer where it is sure as a whole. The law of
the decoding `adaptive_temperature`, mode `running`, is here for users who serve a model through
transformers' `generate`, so that the bounds of an evaluation speak of the model as it is served.
No code was published; the mean over the tokens so far, this one included, is our reading of c(x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import torch
from transformers import LogitsProcessor

from leakbound.sampling.distribution import greedy_steps, read
from leakbound.types import Decoding, Draws, Failure, Query, Sample


class AdaptiveTemperature(LogitsProcessor):  # type: ignore[misc]
    """Leaves only the likeliest token where the mean confidence of a sequence exceeds `threshold`.

    The mean is over the sequence's own generated tokens, of the largest T = 1 untruncated
    probability; a row's mean does not depend on the others in its batch. Use it as

        model.generate(..., do_sample=True, top_k=0, logits_processor=[AdaptiveTemperature(0.9)])

    generate's own temperature, top_k and top_p apply afterwards, to the steps that are drawn. Its
    penalties come before and would change the confidence: leave them off. Rows are recognised by
    their tokens, so they may be reordered or end; call `reset` before a new generation whose
    prompt is an earlier output plus one token, which would otherwise go on with its mean.
    Threshold in (0, 1], else InputError; at 1 every step is drawn.
    """

    def __init__(self, threshold: float = 0.9) -> None:
        self._decoding = Decoding(adaptive_temperature=threshold)
        self._seen: dict[tuple[int, ...], tuple[float, int]] = {}

    def reset(self) -> None:
        """Forget every sequence seen so far."""
        self._seen.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """Scores [B, V] with all but the likeliest token of a sure row at -inf.

        `input_ids` [B, T] are the tokens so far, prompt included. Rows with unusable scores stay
        as they are, for `generate` to refuse.
        """
        sequences = [tuple(row) for row in input_ids.tolist()]
        before = np.array([self._seen.get(row[:-1], (0.0, 0)) for row in sequences])
        reading = read(scores)
        total, depth = before[:, 0], before[:, 1].astype(np.int64) + 1
        greedy, _ = greedy_steps(reading.p_max, self._decoding, (total, depth), 0.0)
        states = zip((total + reading.p_max).tolist(), depth.tolist(), strict=True)
        self._seen = dict(zip(sequences, states, strict=True))
        sure = torch.from_numpy(greedy & ~reading.broken).to(scores.device)[:, None]
        best = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, reading.best[:, None], True)
        return scores.masked_fill(sure & ~best, -math.inf)


Grow: TypeAlias = Callable[[Sequence[Query], Decoding, Draws], Iterator[Sample | Failure]]
"""Samples of queries under a plain decoding."""

_ONE_DRAW = Draws(sizes=(1,))


def in_two_passes(
    queries: Sequence[Query], decoding: Decoding, draws: Draws, *, look: Grow, grow: Grow
) -> Iterator[Sample | Failure]:
    """Yield the samples of queries: all draws the greedy answer where its mean confidence is high enough.

    `look` makes the greedy answers, `grow` draws where they are not sure.
    """
    plain = replace(decoding, adaptive_temperature=None)
    undecided = []
    for first in look(queries, replace(plain, temperature=0.0), _ONE_DRAW):
        if isinstance(first, Failure):
            yield first
            continue
        (greedy,) = first.completions
        mean, threshold = greedy.confidence, decoding.adaptive_temperature
        if mean is not None and threshold is not None and mean > threshold:
            chunks = draws.chunks(first.query.id)
            completions = tuple(replace(greedy, count=size, chunk=chunk) for chunk, size in chunks)
            yield _under(replace(first, completions=completions), decoding)
        else:
            undecided.append(first.query)
    for sample in grow(undecided, plain, draws):
        yield sample if isinstance(sample, Failure) else _under(sample, decoding)


def _under(sample: Sample, decoding: Decoding) -> Sample:
    """Return the sample as one of this decoding: which pass it is from is certain to no margin."""
    completions = tuple(replace(c, logprob_floor=None) for c in sample.completions)
    return replace(sample, decoding=decoding, completions=completions)
