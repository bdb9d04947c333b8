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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.sampling import philox
from leakbound.sampling.ending import Ended, Ending
from leakbound.sampling.law import Step
from leakbound.sampling.model import Handles, PrefixModel
from leakbound.sampling.next_token import pick
from leakbound.types import Decoding, Draws, FinishReason, Tell, Usage, untold

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Stem:
    """Generated ids from which draws can go on, with their sums.

    `parent` is the handle of the prefix without the last token of `path`.
    """

    parent: int
    path: tuple[int, ...]
    logprob: float
    floor: float
    model_logprob: float
    p_max_sum: float

    @classmethod
    def prompt(cls) -> Stem:
        """Nothing generated yet."""
        return cls(-1, (), 0.0, 0.0, 0.0, 0.0)

    def child(self, handle: int, token: int, step: Step) -> Stem:
        """One token more, where `handle` is this prefix's own."""
        return Stem(
            parent=handle,
            path=(*self.path, token),
            logprob=self.logprob + step.logprob,
            floor=self.floor + step.floor,
            model_logprob=self.model_logprob + step.model_logprob,
            p_max_sum=self.p_max_sum + step.p_max,
        )


@dataclass(frozen=True, slots=True)
class Root:
    """A prompt to sample from: its query's id, which keys the draws, and its token ids.

    With `starts`, draws begin there instead of at the prompt: on each stem, so many of each
    chunk. The handles of stems stay the caller's: they are neither taken over nor released.
    """

    query_id: str
    token_ids: tuple[int, ...]
    starts: tuple[tuple[Stem, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Leaf:
    """A completed sequence: how often each chunk drew it, and how likely it was.

    `counts[c]` belongs to the c-th chunk of the draws. `floor` is what `logprob` is at least for
    any logits within the margin (see `law`). `confidence` is the mean over its tokens of the
    largest T = 1 next-token probability.
    """

    token_ids: tuple[int, ...]
    counts: tuple[int, ...]
    logprob: float
    floor: float
    model_logprob: float
    confidence: float
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class Tree:
    """All leaves of one root; or, where logits were unusable, the prefix at which it broke."""

    root: int
    leaves: tuple[Leaf, ...]
    broken_at: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Rows:
    """Live prefixes with the draws on them; rows of one query together, oldest query first.

    Per row: its query, the handle of the prefix without the last token of `path` and whether
    that handle is only lent, the generated token ids, their digest, and sums over them. Per draw
    group, rows ascending: `count[i]` draws of chunk number `chunk[i]` stand on prefix `row[i]`.
    A query stands for all that share its tree: their chunks are numbered one query after another.
    """

    query: Ints
    parent: Handles
    lent: NDArray[np.bool_]
    path: list[tuple[int, ...]]
    digest: tuple[philox.Words, philox.Words]
    logprob: Floats
    floor: Floats
    model_logprob: Floats
    p_max_sum: Floats
    row: Ints
    chunk: Ints
    count: Ints

    def __len__(self) -> int:
        return len(self.query)

    def take(self, rows: Ints) -> _Rows:
        """These rows, in this order, with their draws."""
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        draws = np.flatnonzero(position[self.row] >= 0)
        draws = draws[np.argsort(position[self.row[draws]], kind="stable")]
        return _Rows(
            query=self.query[rows],
            parent=self.parent[rows],
            lent=self.lent[rows],
            path=[self.path[i] for i in rows],
            digest=(self.digest[0][rows], self.digest[1][rows]),
            logprob=self.logprob[rows],
            floor=self.floor[rows],
            model_logprob=self.model_logprob[rows],
            p_max_sum=self.p_max_sum[rows],
            row=position[self.row[draws]],
            chunk=self.chunk[draws],
            count=self.count[draws],
        )

    @staticmethod
    def join(parts: Sequence[_Rows]) -> _Rows:
        """All rows of several, one after the other."""
        shifts = np.cumsum([0, *(len(p) for p in parts[:-1])])
        return _Rows(
            query=np.concatenate([p.query for p in parts]),
            parent=np.concatenate([p.parent for p in parts]),
            lent=np.concatenate([p.lent for p in parts]),
            path=[path for p in parts for path in p.path],
            digest=(
                np.concatenate([p.digest[0] for p in parts]),
                np.concatenate([p.digest[1] for p in parts]),
            ),
            logprob=np.concatenate([p.logprob for p in parts]),
            floor=np.concatenate([p.floor for p in parts]),
            model_logprob=np.concatenate([p.model_logprob for p in parts]),
            p_max_sum=np.concatenate([p.p_max_sum for p in parts]),
            row=np.concatenate([p.row + s for p, s in zip(parts, shifts, strict=True)]),
            chunk=np.concatenate([p.chunk for p in parts]),
            count=np.concatenate([p.count for p in parts]),
        )


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
        self._ending = Ending.of(model, decoding, ended)
        self._chunks = len(draws.sizes)  # of the widest tree
        self._sharing: dict[int, list[int]] = {}
        self._keys: dict[int, NDArray[np.uint64]] = {}
        self._leaves: dict[int, list[Leaf]] = {}
        self._broken: dict[int, tuple[int, ...]] = {}

    def sample(self, roots: Sequence[Root]) -> Iterator[Tree]:
        """Yield one Tree for each root, as they finish."""
        self._sharing = _sharing(roots)
        waiting = list(self._sharing)[::-1]
        self._chunks = len(self._draws.sizes) * max(map(len, self._sharing.values()), default=1)
        live: list[_Rows] = []
        while waiting or live:
            ended, forwards = self._ended, self.usage.forwards
            while waiting and sum(map(len, live)) < self._rows:
                number = waiting.pop()
                live.append(self._admit(number, [roots[i] for i in self._sharing[number]]))
            frontier = _Rows.join(live)
            frontier = frontier.take(np.argsort(frontier.query, kind="stable"))
            chosen = self._choose(frontier)
            live = [frontier.take(np.flatnonzero(~chosen))]
            live += self._advance(frontier.take(np.flatnonzero(chosen)))
            live = [self._without_broken(rows) for rows in live]
            live = [rows for rows in live if len(rows)]
            self._tell(self._ended - ended, self.usage.forwards - forwards)
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

    def _admit(self, number: int, roots: Sequence[Root]) -> _Rows:
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

    def _choose(self, frontier: _Rows) -> NDArray[np.bool_]:
        """The rows to forward now: query by query, while their children fit."""
        queries, first, sizes = np.unique(frontier.query, return_index=True, return_counts=True)
        held = [
            len(np.unique(frontier.parent[a : a + n])) for a, n in zip(first, sizes, strict=True)
        ]
        total = sum(held)
        chosen = np.zeros(len(queries), dtype=bool)
        for i, size in enumerate(sizes):
            after = total - held[i] + size
            if i == 0 or after <= self._rows:
                chosen[i], total = True, after
        return np.repeat(chosen, sizes)

    def _advance(self, rows: _Rows) -> list[_Rows]:
        """Forward these rows, a budget at a time; their children that go on."""
        takes_over = np.zeros(len(rows), dtype=bool)
        takes_over[len(rows) - 1 - np.unique(rows.parent[::-1], return_index=True)[1]] = True
        takes_over &= ~rows.lent
        tokens = np.array([path[-1] for path in rows.path])
        children = []
        for start in range(0, len(rows), self._rows):
            part = np.arange(start, min(start + self._rows, len(rows)))
            handles, logits = self._model.extend(rows.parent[part], tokens[part], takes_over[part])
            self.usage.forwards += len(part)
            children.append(self._split(rows.take(part), handles, logits))
        return children

    def _split(self, rows: _Rows, handles: Handles, logits: torch.Tensor) -> _Rows:
        """Draw the next token of every draw on `rows`; keep the leaves, return the rest."""
        keys = np.stack([self._keys[int(q)] for q in rows.query])[rows.row, rows.chunk]
        digest = (rows.digest[0][rows.row], rows.digest[1][rows.row])
        u = philox.uniforms((keys[:, 0], keys[:, 1]), digest, rows.count)
        depth = np.array([len(path) + 1 for path in rows.path])
        draw_row = np.repeat(rows.row, rows.count)
        confidence = (rows.p_max_sum, depth)
        picks = pick(logits, self._decoding, draw_row, u, confidence, self._margin)
        self.usage.sampled_tokens += len(u)
        for i in np.flatnonzero(picks.broken):
            self._broken.setdefault(int(rows.query[i]), rows.path[i])

        # one child per (row, token), one group of draws per (row, token, chunk)
        child_code = draw_row * self._model.vocab_size + picks.tokens
        codes, example, child = np.unique(child_code, return_index=True, return_inverse=True)
        width = self._chunks
        group_code = child * width + np.repeat(rows.chunk, rows.count)
        groups, count = np.unique(group_code, return_counts=True)
        parent_row, token = np.divmod(codes, self._model.vocab_size)
        low, high = philox.extend_prefix(
            (rows.digest[0][parent_row], rows.digest[1][parent_row]), token, depth[parent_row]
        )
        children = _Rows(
            query=rows.query[parent_row],
            parent=handles[parent_row],
            lent=np.zeros(len(codes), dtype=bool),
            path=[(*rows.path[r], t) for r, t in zip(parent_row, token.tolist(), strict=True)],
            digest=(low, high),
            logprob=rows.logprob[parent_row] + picks.logprob[example],
            floor=rows.floor[parent_row] + picks.floor[example],
            model_logprob=rows.model_logprob[parent_row] + picks.model_logprob[example],
            p_max_sum=rows.p_max_sum[parent_row] + picks.p_max[parent_row],
            row=groups // width,
            chunk=groups % width,
            count=count,
        )
        ended = self._keep_leaves(children)
        going = children.take(np.flatnonzero(~ended))
        self._model.release(np.setdiff1d(handles, going.parent))
        return going

    def _keep_leaves(self, rows: _Rows) -> NDArray[np.bool_]:
        """File the rows that end here as leaves; tell which they are."""
        reasons = [self._ending.reason(path) for path in rows.path]
        ended = np.array([reason is not None for reason in reasons], dtype=bool)
        counts = np.zeros((len(rows), self._chunks), dtype=np.int64)
        counts[rows.row, rows.chunk] = rows.count
        self._ended += int(counts[ended].sum())
        for i, reason in enumerate(reasons):
            if reason is None:
                continue
            leaf = Leaf(
                token_ids=rows.path[i],
                counts=tuple(counts[i].tolist()),
                logprob=float(rows.logprob[i]),
                floor=float(rows.floor[i]),
                model_logprob=float(rows.model_logprob[i]),
                confidence=float(rows.p_max_sum[i] / len(rows.path[i])),
                finish_reason=reason,
            )
            self._leaves[int(rows.query[i])].append(leaf)
        return ended

    def _without_broken(self, rows: _Rows) -> _Rows:
        """The rows of queries whose logits were usable so far; the others are released."""
        if not self._broken:
            return rows
        broken = np.isin(rows.query, list(self._broken))
        self._model.release(np.unique(rows.parent[broken]))
        return rows.take(np.flatnonzero(~broken))


def _sharing(roots: Sequence[Root]) -> dict[int, list[int]]:
    """Which roots grow one tree, by the number of the first of them."""
    first: dict[tuple[int, ...], int] = {}
    sharing: dict[int, list[int]] = {}
    for number, root in enumerate(roots):
        tree = number if root.starts else first.setdefault(root.token_ids, number)
        sharing.setdefault(tree, []).append(number)
    return sharing


def _planted(number: int, starts: Sequence[tuple[Stem, tuple[int, ...]]]) -> _Rows:
    """The rows that these stems of one query are, with the draws on them."""
    stems = [stem for stem, _ in starts]
    counts = np.array([each for _, each in starts], dtype=np.int64)
    row, chunk = np.nonzero(counts)
    return _Rows(
        query=np.full(len(stems), number),
        parent=np.array([stem.parent for stem in stems], dtype=np.int64),
        lent=np.ones(len(stems), dtype=bool),
        path=[stem.path for stem in stems],
        digest=philox.digests([stem.path for stem in stems]),
        logprob=np.array([stem.logprob for stem in stems]),
        floor=np.array([stem.floor for stem in stems]),
        model_logprob=np.array([stem.model_logprob for stem in stems]),
        p_max_sum=np.array([stem.p_max_sum for stem in stems]),
        row=row,
        chunk=chunk,
        count=counts[row, chunk],
    )
