"""Adaptive temperature: greedy while the model is confident (Scholten et al. 2025, §5).

In mode `two_pass`, an evaluation uses only the greedy answer if the mean
confidence of the model over this answer is high enough. In mode `running`, each
step is greedy if the mean confidence so far is high enough.
`AdaptiveTemperature` is for users who serve a model through transformers'
`generate`. Its outputs have the distribution of mode `running`, so the bounds
of an evaluation apply to the served model. The authors published no code. Here
their confidence c(x) is the mean over the generated tokens, including the
present token.
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
    """Keep only the likeliest token if the mean confidence of a sequence exceeds `threshold`.

    The confidence at a token is the largest next-token probability at temperature 1, without
    truncation. The mean is over the generated tokens of the sequence. A row's mean does not depend
    on the other rows of its batch. Use

        model.generate(..., do_sample=True, top_k=0, logits_processor=[AdaptiveTemperature(0.9)])

    The temperature, top_k and top_p of `generate` apply afterwards, to the steps that are not
    greedy. Do not use the penalties of `generate`: they apply before this processor and would
    change the confidence. Rows are recognised by their tokens, so rows may be reordered or end.
    Call `reset` before a new generation whose prompt is an earlier output plus one token; otherwise
    the generation continues with the mean of that output. `threshold` must be in (0, 1], otherwise
    InputError is raised; with 1 no step is greedy.
    """

    def __init__(self, threshold: float = 0.9) -> None:
        self._decoding = Decoding(adaptive_temperature=threshold)
        self._seen: dict[tuple[int, ...], tuple[float, int]] = {}

    def reset(self) -> None:
        """Delete the recorded confidences of all sequences."""
        self._seen.clear()

    def __call__(self, input_ids: torch.LongTensor, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores [B, V] with all but the likeliest token of a confident row at -inf.

        `input_ids` [B, T] are the tokens so far, prompt included. Rows with unusable scores are
        returned unchanged, so that `generate` raises an error for them.
        """
        sequences = [tuple(row) for row in input_ids.tolist()]
        before = np.array([self._seen.get(row[:-1], (0.0, 0)) for row in sequences])
        reading = read(scores)
        total, depth = before[:, 0], before[:, 1].astype(np.int64) + 1
        greedy, _ = greedy_steps(reading.p_max, self._decoding, (total, depth), 0.0)
        states = zip((total + reading.p_max).tolist(), depth.tolist(), strict=True)
        self._seen = dict(zip(sequences, states, strict=True))
        confident = torch.from_numpy(greedy & ~reading.broken).to(scores.device)[:, None]
        best = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, reading.best[:, None], True)
        return scores.masked_fill(confident & ~best, -math.inf)


Grow: TypeAlias = Callable[[Sequence[Query], Decoding, Draws], Iterator[Sample | Failure]]
"""A function that returns samples of queries under a decoding without adaptive temperature."""

_ONE_DRAW = Draws(sizes=(1,))


def in_two_passes(
    queries: Sequence[Query], decoding: Decoding, draws: Draws, *, look: Grow, grow: Grow
) -> Iterator[Sample | Failure]:
    """Yield a sample per query, with only the greedy answer if the model is confident in it.

    The model is confident if the mean confidence of the greedy answer exceeds the threshold. `look`
    computes the greedy answers. `grow` draws for the queries without a confident greedy answer.
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
    """Return the sample with this decoding, and without lower bounds of log-probabilities."""
    completions = tuple(replace(c, logprob_floor=None) for c in sample.completions)
    return replace(sample, decoding=decoding, completions=completions)
