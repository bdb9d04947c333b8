"""n ancestral samples for one forward per distinct prefix, many prompts together.

A live prefix carries how many of the draws of each chunk stand on it. One forward gives its
next-token distribution; every draw on it picks a token by inverse CDF from its own uniform; the
draws that agree form a child. Every draw sees the same conditional distributions, with its own
independent uniforms, as it would alone, so the leaves have exactly the law of n independent
ancestral samples (the chain rule, draw by draw), for one forward per distinct prefix.

Uniforms are keyed by (seed, purpose, query, chunk, prefix): neither the row budget nor the other
queries in the forest change them. So queries whose prompts are the same tokens share one tree,
each with draws of its own; where the model breaks, they fail together.

Scheduling: queries advance in the order of admission, all rows of a query together. A query
waits while its children would not fit beside the prefixes already held; the oldest never waits.
So at most `rows` prefixes are held, plus the widest single query.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.sampling import philox
from leakbound.sampling.law import Picks, pick
from leakbound.sampling.model import Ended, Ending, Handles, Ids, PrefixModel
from leakbound.sampling.stems import (
    Floats,
    Ints,
    Leaf,
    Root,
    Starts,
    Stem,
    Tree,
    confidence_of,
    forward,
)
from leakbound.types import Decoding, Draws, Tell, Usage, untold

_OF_ROWS, _OF_DRAWS = ("query", "stem", "lent", "digest"), ("chunk", "count")  # of `Frontier`
_ENDED, _WAY = 0.1, 0.125  # of the draws, of the longest output: after either is something known


@dataclass(frozen=True, slots=True)
class Frontier:
    """Live prefixes with the draws on them; rows of one query together, oldest query first.

    Per row: its query, its stem, whether the stem's handle is only lent, and the digest of its ids,
    [n, 2]. Per draw group, rows ascending: `count[i]` draws of chunk number `chunk[i]` stand on
    prefix `row[i]`.
    A query stands for all that share its tree: their chunks are numbered one query after another.
    """

    query: Ints
    stem: NDArray[np.object_]
    lent: NDArray[np.bool_]
    digest: philox.Words
    row: Ints
    chunk: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.query)

    @property
    def parent(self) -> Handles:
        """The handles of the prefixes without their last tokens."""
        return np.array([stem.parent for stem in self.stem], dtype=np.int64)

    def take(self, rows: Ints) -> Frontier:
        """These rows, in this order, with their draws."""
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        draws = np.flatnonzero(position[self.row] >= 0)
        draws = draws[np.argsort(position[self.row[draws]], kind="stable")]
        own = {name: getattr(self, name)[rows] for name in _OF_ROWS}
        drawn = {name: getattr(self, name)[draws] for name in _OF_DRAWS}
        return Frontier(**own, row=position[self.row[draws]], **drawn)

    @staticmethod
    def join(parts: Sequence[Frontier]) -> Frontier:
        """All rows of several, one after the other."""
        shifts = np.cumsum([0, *(len(p) for p in parts[:-1])])
        columns = (*_OF_ROWS, *_OF_DRAWS)
        whole = {name: np.concatenate([getattr(p, name) for p in parts]) for name in columns}
        rows = [p.row + shift for p, shift in zip(parts, shifts, strict=True)]
        return Frontier(**whole, row=np.concatenate(rows))


class Lengths:
    """By how many tokens they had: draws, those that ended with the next one, and the prefixes
    that the others went on as.
    """

    def __init__(self, longest: int) -> None:
        self._draws, self._ended, self._prefixes = np.zeros((3, longest))

    def add(self, tokens: Ints, draws: Ints, ended: Ints, prefixes: Ints) -> None:
        """Rows of so many tokens: the draws on each, how many ended, as what the others go on."""
        np.add.at(self._draws, tokens, draws)
        np.add.at(self._ended, tokens, ended)
        np.add.at(self._prefixes, tokens, prefixes)

    def forwards(self) -> float:
        """How many prefixes behind the prompt are forwarded for a draw, until it ends.

        The product-limit estimate, which counts draws that go on for as far as they are; further
        on, draws end as often as in the later half of that, and share as few prefixes as now.
        Infinite where little is known yet: few ended, and none has come far.
        """
        seen = np.flatnonzero(self._draws)
        if not len(seen):
            return math.inf
        last, shape = int(seen[-1]), len(self._draws)
        late, going = slice((last + 1) // 2, None), self._draws - self._ended
        ends = np.full(shape, self._ended[late].sum() / self._draws[late].sum())
        np.divide(self._ended, self._draws, out=ends, where=self._draws > 0)
        width = self._prefixes / np.maximum(going, 1)
        width[last + 1 :] = width[last]
        goes_on = np.cumprod(1 - ends)
        if goes_on[last] > 1 - _ENDED and last < _WAY * shape:
            return math.inf
        return float(goes_on[:-1] @ width[:-1])


class Forest:
    """Samples many prompts under one decoding; the module's text says how and why it is exact.

    `rows` bounds the prefixes forwarded at a time and, but for the widest query, those held.
    `ended` tells, where the decoding has stop strings, whether generated ids contain one.
    `margin` is how far a log-probability may move with the batch shape (see `law`). `tell` hears
    what is done after every step.
    """

    def __init__(
        self,
        model: PrefixModel,
        decoding: Decoding,
        draws: Draws,
        *,
        rows: int = 1024,
        ended: Ended | None = None,
        margin: float = 0.0,
        tell: Tell = untold,
    ) -> None:
        if rows < 1:
            raise InputError(f"`rows` must be at least 1, got {rows}.")
        if min(draws.sizes, default=0) < 1:
            raise InputError(f"every chunk must hold at least 1 draw, got sizes {draws.sizes}.")
        self.usage = Usage()
        self._model, self._decoding, self._draws = model, decoding, draws
        self._rows, self._margin, self._tell = rows, margin, tell
        self._ended = 0  # draws, so far
        self._lengths = Lengths(decoding.max_new_tokens)
        self._ending = Ending.of(model, decoding, ended)
        self._chunks = len(draws.sizes)  # of the widest tree
        self._sharing: dict[int, list[int]] = {}
        self._keys: dict[int, NDArray[np.uint64]] = {}
        self._leaves: dict[int, list[Leaf]] = {}
        self._broken: dict[int, Ids] = {}

    def sample(self, roots: Sequence[Root]) -> Iterator[Tree]:
        """Yield one Tree for each root, as they finish."""
        self._sharing = _sharing(roots)
        waiting = list(self._sharing)[::-1]
        self._chunks = len(self._draws.sizes) * max(map(len, self._sharing.values()), default=1)
        live: list[Frontier] = []
        while waiting or live:
            ended, forwards = self._ended, self.usage.forwards
            while waiting and sum(map(len, live)) < self._rows:
                number = waiting.pop()
                live.append(self._admit(number, [roots[i] for i in self._sharing[number]]))
            frontier = Frontier.join(live)
            frontier = frontier.take(np.argsort(frontier.query, kind="stable"))
            chosen = self._choose(frontier)
            live = [frontier.take(np.flatnonzero(~chosen))]
            live += self._advance(frontier.take(np.flatnonzero(chosen)))
            live = [self._without_broken(rows) for rows in live]
            live = [rows for rows in live if len(rows)]
            ended, forwards = self._ended - ended, self.usage.forwards - forwards
            self._tell(ended, forwards, self._lengths.forwards())
            open_queries = {int(q) for rows in live for q in np.unique(rows.query)}
            for number in sorted(set(self._leaves) - open_queries):
                yield from self._trees(number)

    def _trees(self, number: int) -> Iterator[Tree]:
        """A finished tree, as each query that shares it sees it."""
        leaves = sorted(self._leaves.pop(number), key=lambda leaf: leaf.token_ids)
        broken_at = self._broken.pop(number, None)
        width = len(self._draws.sizes)
        for i, query in enumerate(self._sharing[number]):
            own = [replace(x, counts=x.counts[i * width : (i + 1) * width]) for x in leaves]
            drawn = tuple(leaf for leaf in own if any(leaf.counts))
            yield Tree(query, () if broken_at is not None else drawn, broken_at)

    def _admit(self, number: int, roots: Sequence[Root]) -> Frontier:
        """Read a prompt and make its first split; or take up the draws on its stems."""
        draws, root = self._draws, roots[0]
        chunks = range(draws.first_chunk, draws.first_chunk + len(draws.sizes))
        name = partial(philox.stream_key, draws.seed, draws.purpose)
        keys = np.zeros((self._chunks, 2), dtype=np.uint64)
        keys[: len(roots) * len(chunks)] = [name(r.query_id, c) for r in roots for c in chunks]
        self._keys[number], self._leaves[number] = keys, []
        sizes = tuple(size for each in roots for size in draws.of(each.query_id))
        stems = root.starts or ((Stem.prompt(), sizes),)
        rows = _planted(number, stems)
        self.usage.draws += int(rows.count.sum())
        if root.starts:
            return rows.take(np.flatnonzero(~self._keep_leaves(rows)))
        handle, logits = self._model.prefill(root.token_ids)
        self.usage.prompt_tokens += len(root.token_ids)
        return self._split(rows, np.array([handle]), logits)

    def _choose(self, frontier: Frontier) -> NDArray[np.bool_]:
        """The rows to forward now: query by query, while their children fit."""
        queries, first, sizes = np.unique(frontier.query, return_index=True, return_counts=True)
        parent = frontier.parent
        held = [len(np.unique(parent[a : a + n])) for a, n in zip(first, sizes, strict=True)]
        total = sum(held)
        chosen = np.zeros(len(queries), dtype=bool)
        for i, size in enumerate(sizes):
            after = total - held[i] + size
            if i == 0 or after <= self._rows:
                chosen[i], total = True, after
        return np.repeat(chosen, sizes)

    def _advance(self, rows: Frontier) -> list[Frontier]:
        """Forward these rows, a budget at a time; their children that go on."""
        takes_over = np.zeros(len(rows), dtype=bool)
        takes_over[len(rows) - 1 - np.unique(rows.parent[::-1], return_index=True)[1]] = True
        takes_over &= ~rows.lent
        children = []
        for start in range(0, len(rows), self._rows):
            part = np.arange(start, min(start + self._rows, len(rows)))
            handles, logits = forward(self._model, rows.stem[part].tolist(), takes_over[part])
            self.usage.forwards += len(part)
            children.append(self._split(rows.take(part), handles, logits))
        return children

    def _split(self, rows: Frontier, handles: Handles, logits: torch.Tensor) -> Frontier:
        """Draw the next token of every draw on `rows`; keep the leaves, return the rest."""
        keys = np.stack([self._keys[int(q)] for q in rows.query])[rows.row, rows.chunk]
        u = philox.uniforms(_pair(keys), _pair(rows.digest[rows.row]), rows.count)
        draw_row = np.repeat(rows.row, rows.count)
        confidence = confidence_of(rows.stem.tolist())
        picks = self._pick(rows, logits, u, confidence)
        self.usage.sampled_tokens += len(u)
        for i in np.flatnonzero(picks.broken):
            self._broken.setdefault(int(rows.query[i]), rows.stem[i].path)

        # one child per (row, token), one group of draws per (row, token, chunk)
        child_code = draw_row * self._model.vocab_size + picks.tokens
        codes, example, child = np.unique(child_code, return_index=True, return_inverse=True)
        width = self._chunks
        group_code = child * width + np.repeat(rows.chunk, rows.count)
        groups, count = np.unique(group_code, return_counts=True)
        parent_row, token = np.divmod(codes, self._model.vocab_size)
        steps = picks.steps(example, parent_row)
        parents = zip(rows.stem[parent_row], handles[parent_row].tolist(), strict=True)
        taken = zip(parents, token.tolist(), steps, strict=True)
        digest = _pair(rows.digest[parent_row])
        children = Frontier(
            query=rows.query[parent_row],
            stem=_objects([stem.child(handle, t, step) for (stem, handle), t, step in taken]),
            lent=np.zeros(len(codes), dtype=bool),
            digest=np.stack(philox.extend_prefix(digest, token, confidence[1][parent_row]), axis=1),
            row=groups // width,
            chunk=groups % width,
            count=count,
        )
        ended = self._keep_leaves(children)
        drawn = np.bincount(child, minlength=len(codes))
        self._lengths.add(
            confidence[1] - 1,
            np.bincount(draw_row, minlength=len(rows)),
            np.bincount(parent_row, drawn * ended, len(rows)).astype(np.int64),
            np.bincount(parent_row, ~ended, len(rows)).astype(np.int64),
        )
        going = children.take(np.flatnonzero(~ended))
        self._model.release(np.setdiff1d(handles, going.parent))
        return going

    def _pick(
        self, rows: Frontier, logits: torch.Tensor, u: Floats, confidence: tuple[Floats, Ints]
    ) -> Picks:
        """The next token of every draw on `rows`, in the order of their groups."""
        draw_row = np.repeat(rows.row, rows.count)
        return pick(logits, self._decoding, draw_row, u, confidence, self._margin)

    def _keep_leaves(self, rows: Frontier) -> NDArray[np.bool_]:
        """File the rows that end here as leaves; tell which they are."""
        reasons = [self._ending.reason(stem.path) for stem in rows.stem]
        ended = np.array([reason is not None for reason in reasons], dtype=bool)
        counts = np.zeros((len(rows), self._chunks), dtype=np.int64)
        counts[rows.row, rows.chunk] = rows.count
        self._ended += int(counts[ended].sum())
        for i, reason in enumerate(reasons):
            if reason is not None:
                leaf = rows.stem[i].leaf(tuple(counts[i].tolist()), reason)
                self._leaves[int(rows.query[i])].append(leaf)
        return ended

    def _without_broken(self, rows: Frontier) -> Frontier:
        """The rows of queries whose logits were usable so far; the others are released."""
        if not self._broken:
            return rows
        broken = np.isin(rows.query, list(self._broken))
        self._model.release(np.unique(rows.parent[broken]))
        return rows.take(np.flatnonzero(~broken))


def _sharing(roots: Sequence[Root]) -> dict[int, list[int]]:
    """Which roots grow one tree, by the number of the first of them."""
    first: dict[Ids, int] = {}
    sharing: dict[int, list[int]] = {}
    for number, root in enumerate(roots):
        tree = number if root.starts else first.setdefault(root.token_ids, number)
        sharing.setdefault(tree, []).append(number)
    return sharing


def _planted(number: int, starts: Starts) -> Frontier:
    """The rows that these stems of one query are, with the draws on them."""
    stems = [stem for stem, _ in starts]
    counts = np.array([each for _, each in starts], dtype=np.int64)
    row, chunk = np.nonzero(counts)
    return Frontier(
        query=np.full(len(stems), number),
        stem=_objects(stems),
        lent=np.ones(len(stems), dtype=bool),
        digest=np.stack(philox.digests([stem.path for stem in stems]), axis=1),
        row=row,
        chunk=chunk,
        count=counts[row, chunk],
    )


def _pair(words: philox.Words) -> tuple[philox.Words, philox.Words]:
    return words[:, 0], words[:, 1]


def _objects(stems: Sequence[Stem]) -> NDArray[np.object_]:
    return np.fromiter(stems, dtype=object, count=len(stems))
