"""Adaptive temperature in two passes: greedy altogether where the greedy answer is sure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from leakbound.types import Completion, Decoding, Draws, Failure, Query, Sample

Grow: TypeAlias = Callable[[Sequence[Query], Decoding, Draws], Iterator[Sample | Failure]]
"""Samples of queries under a plain decoding."""

_ONE_DRAW = Draws(sizes=(1,))


def in_two_passes(
    queries: Sequence[Query], decoding: Decoding, draws: Draws, *, look: Grow, grow: Grow
) -> Iterator[Sample | Failure]:
    """Samples of queries: all draws the greedy answer where its mean confidence is high enough.

    `look` makes the greedy answers, `grow` draws where they are not sure.
    """
    plain = replace(decoding, adaptive_temperature=None)
    undecided = []
    for first in look(queries, replace(plain, temperature=0.0), _ONE_DRAW):
        if isinstance(first, Failure):
            yield first
        elif _is_confident(first, decoding):
            sizes = draws.of(first.query.id)
            completions = _all_draws(first.completions[0], sizes, draws.first_chunk)
            yield _of(replace(first, completions=completions), decoding)
        else:
            undecided.append(first.query)
    for sample in grow(undecided, plain, draws):
        yield sample if isinstance(sample, Failure) else _of(sample, decoding)


def _is_confident(greedy: Sample, decoding: Decoding) -> bool:
    mean, threshold = greedy.completions[0].confidence, decoding.adaptive_temperature
    return mean is not None and threshold is not None and mean > threshold


def _of(sample: Sample, decoding: Decoding) -> Sample:
    """The sample as one of this decoding: which pass it is from is certain to no margin."""
    completions = tuple(replace(each, logprob_floor=None) for each in sample.completions)
    return replace(sample, decoding=decoding, completions=completions)


def _all_draws(
    completion: Completion, sizes: Sequence[int], first_chunk: int
) -> tuple[Completion, ...]:
    return tuple(
        replace(completion, count=size, chunk=first_chunk + i) for i, size in enumerate(sizes)
    )
