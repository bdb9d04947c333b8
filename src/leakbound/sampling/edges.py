"""Which uniforms pick a token, and whether some draws can have split as they are said to have.

A draw picks by inverse CDF: the token whose stretch of [0, 1) holds its uniform. Logits within the
margin move the ends of a stretch. Where a is the mass up to an end and b what is beyond it, each
moves by a factor within e^(±margin / 2T), so a / (a + b) by no more than its odds do, e^(±margin
/ T). Under top-k and top-p tokens stand by their mass, and those within that ratio may change
places: below a token lies at least what surely is heavier, at most what may be and may be kept.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.law import LogitsReading, greedy_steps, ratio, read, truncations
from leakbound.types import Decoding

Stretch: TypeAlias = tuple[float, float]
"""The least uniform that may pick a token, and what all that may are below."""

_NONE: Stretch = (1.0, 0.0)
_ROUNDING = 1e-12  # of a cumulated float64 sum


def may_split(
    logits: torch.Tensor,
    decoding: Decoding,
    uniforms: NDArray[np.float64],
    counts: Mapping[int, int],
    confidence: tuple[NDArray[np.float64], NDArray[np.int64]],
    margin: float,
) -> bool:
    """True if draws with these uniforms may pick each token so often, within the margin.

    `logits` are one row; `confidence` is as for `pick`. What cannot be ruled out is allowed: a
    draw may be given any token whose stretch its uniform may lie in.
    """
    if sum(counts.values()) != len(uniforms) or not all(0 <= t < logits.shape[1] for t in counts):
        return False
    at_one = read(logits)
    (greedy,), (doubtful,) = greedy_steps(at_one.p_max, decoding, *confidence, margin)
    if greedy or doubtful:
        behind = (at_one.top[:, None] - at_one.logits)[0]
        near = all(float(behind[token]) <= margin + _ROUNDING for token in counts)
        if len(counts) == 1 and near and (margin > 0 or int(at_one.best) in counts):
            return True
        if not doubtful:
            return False
    return _matches(uniforms, counts, _stretches(at_one, decoding, list(counts), margin))


def _matches(
    uniforms: NDArray[np.float64], counts: Mapping[int, int], stretches: Mapping[int, Stretch]
) -> bool:
    """Whether every draw can be given a token in whose stretch it lies, each token so often.

    By ascending uniform, of the stretches that have begun the one that ends first: an exchange of
    two draws shows that no other choice succeeds where this fails.
    """
    begins = sorted((low, high, token) for token, (low, high) in stretches.items())[::-1]
    open_: list[tuple[float, int]] = []
    left = dict(counts)
    for u in np.sort(uniforms).tolist():
        while begins and begins[-1][0] <= u:
            _, high, token = begins.pop()
            heapq.heappush(open_, (high, token))
        if not open_ or open_[0][0] <= u:
            return False
        token = open_[0][1]
        left[token] -= 1
        if not left[token]:
            heapq.heappop(open_)
    return True


def _stretches(
    at_one: LogitsReading, decoding: Decoding, tokens: list[int], margin: float
) -> dict[int, Stretch]:
    """Where the uniforms lie that may pick these tokens, after one row, of a step that samples."""
    weights = at_one.tempered(decoding.temperature)
    factor = ratio(margin / decoding.temperature)
    if not decoding.top_k and decoding.top_p == 1:
        ends = weights[0].cumsum(dim=0)
        own, above, total = weights[0, tokens].tolist(), ends[tokens].tolist(), float(ends[-1])
        return {
            token: _stretch(end - mass, total, end, total, factor) if mass else _NONE
            for token, mass, end in zip(tokens, own, above, strict=True)
        }
    only = torch.zeros(1, dtype=torch.long, device=weights.device)
    ((_, kept),) = truncations(weights, only, decoding, margin)
    mass, ids = kept.mass[0], kept.ids[0].tolist()
    sure, possible = int(kept.sure), int(kept.possible)
    upto = [0.0, *mass.cumsum(dim=0).tolist()]
    lighter = -mass  # ascending, for the search
    heavier = torch.searchsorted(lighter, lighter * factor).tolist()
    near = torch.searchsorted(lighter, lighter / factor, right=True).tolist()
    found = dict.fromkeys(tokens, _NONE)
    for place in (ids.index(token) for token in tokens if token in ids):
        if place < possible:
            below, end = upto[heavier[place]], upto[min(near[place], possible)]
            found[ids[place]] = _stretch(below, upto[possible], end, upto[sure], factor)
    return found


def _stretch(below: float, most: float, end: float, least: float, factor: float) -> Stretch:
    """From the least that lies below a token, of `most` kept, to the most up to its end."""
    low = below / (below + (most - below) * factor)
    high = end * factor / (end * factor + max(least - end, 0.0))
    return low - _ROUNDING, high + _ROUNDING
