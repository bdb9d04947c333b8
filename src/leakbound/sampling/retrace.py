"""Test whether stored outputs are the draws that their keys determine, within the margin.

The uniform random numbers of the draws on a prefix depend only on the key of the prefix and on the
number of draws. So if the stored number of draws on a prefix is correct, the uniforms that selected
its next tokens are known. But different rounding in another batch may change the token that a draw
picks, and so all later tokens of this draw. Therefore the outputs are not simply drawn again and
compared. Instead, the forest is sampled again, and at every prefix the stored split of the draws
over next tokens is used if `may_split` allows it. Otherwise, these uniforms cannot have drawn the
stored outputs.

Inverse-CDF sampling divides [0, 1) into one interval per token, as long as the
token's probability. A draw picks the token whose interval contains its uniform
number. Logits that differ within the margin move the bounds of an interval. Let
a be the mass of the tokens below a bound, and b the mass above it. Each of a
and b changes by a factor within e^(±margin / 2T), so the odds a / b change by a
factor within e^(±margin / T). Under top-k and top-p, tokens are ordered by
mass, and tokens whose ratio of mass is within this factor may change places.
The mass before a token is at least the mass of the tokens that certainly have
more mass. It is at most the mass of all tokens that may have more mass and may
be kept.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.sampling.distribution import (
    Confidence,
    LogitsReading,
    Picks,
    greedy_steps,
    ratio,
    read,
    truncated,
)
from leakbound.sampling.forest import Forest
from leakbound.sampling.frontier import Frontier
from leakbound.sampling.model import Ids
from leakbound.sampling.stems import Floats, Root, Tree
from leakbound.types import Decoding

Stretch: TypeAlias = tuple[float, float]
"""An interval of uniforms: the smallest uniform that may pick a token, and an upper bound."""

_NONE: Stretch = (1.0, 0.0)
_ROUNDING = 1e-12  # rounding error of a cumulated float64 sum


def may_split(
    logits: torch.Tensor,
    decoding: Decoding,
    uniforms: NDArray[np.float64],
    counts: Mapping[int, int],
    confidence: Confidence,
    margin: float,
) -> bool:
    """Return whether draws with these uniforms may have these counts, within the margin.

    A draw may have picked any token whose interval may contain the uniform of the draw. The counts
    are refused only if no such assignment of tokens to draws has these counts.

    Args:
        logits: the untruncated T = 1 logits, [1, vocabulary].
        decoding: the distribution to draw from.
        uniforms: a number in [0, 1) for each draw, [draws].
        counts: the number of draws that picked each token.
        confidence: the `Confidence` of the prefix, as in `distribution.pick`.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        False if draws with these uniforms certainly have other counts.
    """
    if sum(counts.values()) != len(uniforms) or not all(0 <= t < logits.shape[1] for t in counts):
        return False
    at_one = read(logits)
    (greedy,), (doubtful,) = greedy_steps(at_one.p_max, decoding, confidence, margin)
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
    """Return whether draws can be assigned to tokens, within their intervals, with these counts.

    In the order of their uniforms, each draw is assigned to the interval that ends first, among the
    intervals that have begun and need more draws. By an exchange argument, no other assignment
    succeeds if this one fails.
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
    """Return the intervals of these tokens for one row of logits, if the step is not greedy."""
    weights = at_one.tempered(decoding.temperature).flat
    factor = ratio(margin / decoding.temperature)
    if not decoding.truncated:
        ends = weights[0].cumsum(dim=0)
        own, above, total = weights[0, tokens].tolist(), ends[tokens].tolist(), float(ends[-1])
        return {
            token: _stretch(end - mass, total, end, total, factor) if mass else _NONE
            for token, mass, end in zip(tokens, own, above, strict=True)
        }
    kept = truncated(weights, decoding, margin)
    mass, ids = kept.mass[0], kept.ids[0].tolist()
    certain, possible = int(kept.certain), int(kept.possible)
    upto = [0.0, *kept.upto[0].tolist()]
    lighter = -mass  # ascending, as the search needs
    heavier = torch.searchsorted(lighter, lighter * factor).tolist()
    near = torch.searchsorted(lighter, lighter / factor, right=True).tolist()
    stretches = dict.fromkeys(tokens, _NONE)
    for place in (ids.index(token) for token in tokens if token in ids):
        if place < possible:
            below, end = upto[heavier[place]], upto[min(near[place], possible)]
            stretches[ids[place]] = _stretch(below, upto[possible], end, upto[certain], factor)
    return stretches


def _stretch(below: float, most: float, end: float, least: float, factor: float) -> Stretch:
    """Return the uniforms that may pick a token: its interval in [0, 1), widened by the margin.

    `below` is the smallest mass before the token, if all kept tokens have the mass `most`. `end` is
    the largest mass up to and including the token, if all kept tokens have the mass `least`. The
    odds of a mass change by at most `factor`.
    """
    low = below / (below + (most - below) * factor)
    high = end * factor / (end * factor + max(least - end, 0.0))
    return low - _ROUNDING, high + _ROUNDING


StoredOutputs: TypeAlias = Sequence[tuple[Ids, Mapping[int, int]]]
"""The outputs of a query: the tokens of each distinct output, and its count by chunk number."""

_ENDS = -1  # stands for the next token of a complete output


@dataclass(frozen=True, slots=True)
class Retraced:
    """The result of comparing a root's stored outputs with its draws.

    Attributes:
        root: the index of the root.
        differs_at: the prefix after which the stored outputs differ from the draws; None: they do
            not differ. A root without stored outputs differs unless its logits are unusable again.
        excused: the number of prefixes at which stored and new draws differ within the margin.
    """

    root: int
    differs_at: Ids | None
    excused: int


class Retracer(Forest):
    """A forest that is sampled along stored outputs, as the module docstring describes."""

    def retrace(
        self, roots: Sequence[Root], stored: Mapping[str, StoredOutputs]
    ) -> Iterator[Retraced]:
        """Compare the draws of each root with its stored outputs.

        Args:
            roots: the roots that were drawn from.
            stored: by query id, the ids of each distinct output and its count in each chunk.

        Returns:
            One Retraced for each root, in the order in which they finish.
        """
        own = (stored.get(root.query_id, ()) for root in roots)
        self._stored = [sorted(outputs, key=lambda output: output[0]) for outputs in own]
        self._differs: dict[int, Ids] = {}
        self._excused = Counter[int]()
        for tree in self.sample(roots):
            self._compare(tree)
            differs = self._differs.get(tree.root)
            yield Retraced(tree.root, differs, self._excused[tree.root])

    def _compare(self, tree: Tree) -> None:
        """Record where the leaves of a finished tree differ from the stored outputs."""
        first = self._draws.first_chunk
        drawn = {
            leaf.token_ids: {first + i: n for i, n in enumerate(leaf.counts) if n}
            for leaf in tree.leaves
        }
        stored = dict(self._stored[tree.root])
        if tree.broken_at is not None and stored:
            self._differs.setdefault(tree.root, tree.broken_at)
        elif tree.broken_at is None and drawn != stored:
            paths = (path for path in (*drawn, *stored) if drawn.get(path) != stored.get(path))
            self._differs.setdefault(tree.root, min(paths) if stored else ())

    def _pick(self, rows: Frontier, logits: torch.Tensor, u: Floats) -> Picks:
        """Pick next tokens as in sampling, but use the stored tokens if the draws may pick them."""
        picks = super()._pick(rows, logits, u)
        paths, confidence = self._paths.ids(rows.path, rows.depth), rows.confidence
        ends = np.cumsum(rows.count)
        groups = zip(rows.row, rows.chunk, ends - rows.count, ends, strict=True)
        for row, chunk, start, end in groups:
            place, number = divmod(int(chunk), len(self._draws.sizes))
            query = self._sharing[int(rows.query[row])][place]
            if query in self._differs or not self._stored[query]:
                continue
            path = paths[row]
            stored = self._next_tokens(query, self._draws.first_chunk + number, path)
            if stored == Counter(picks.tokens[start:end].tolist()):
                continue
            at = (confidence[0][row : row + 1], confidence[1][row : row + 1])
            mine = logits[row : row + 1]
            if may_split(mine, self._decoding, u[start:end], stored, at, self._margin):
                picks.tokens[start:end] = np.repeat(list(stored), list(stored.values()))
                self._excused[query] += 1
            else:
                self._differs[query] = path
        return picks

    def _next_tokens(self, root: int, chunk: int, path: Ids) -> Counter[int]:
        """Count the stored next tokens of a chunk after this prefix."""
        stored, depth = self._stored[root], len(path)
        tokens = Counter[int]()
        for i in range(bisect_left(stored, path, key=lambda output: output[0]), len(stored)):
            ids, counts = stored[i]
            if ids[:depth] != path:
                break
            if chunk in counts:
                tokens[ids[depth] if len(ids) > depth else _ENDS] += counts[chunk]
        return tokens
