"""Draw n ancestral samples per prompt with one forward pass per distinct prefix.

The draws are made in chunks. The forest stores, for each live prefix, the number of draws of each
chunk that begin with this prefix. One forward pass computes the next-token distribution of the
prefix. Every draw that begins with the prefix picks a token by inverse CDF from its own uniform
random number. Draws that pick the same token share a child prefix. Each draw has the same
conditional distributions and independent uniforms as if it were drawn separately. So, by the chain
rule, the leaves have exactly the distribution of n independent ancestral samples, with one forward
pass per distinct prefix.

Uniforms are keyed by (seed, purpose, query, chunk, prefix). They depend neither
on the number of rows per batch nor on the other queries in the forest. Queries
whose prompts have the same tokens share one tree, each with separate draws. If
the logits of this tree become unusable, all of these queries fail.

Scheduling: a row is a live prefix. Queries advance in the order of admission, and all rows of a
query advance together. A query waits while its children would not fit into storage together with
the stored prefixes; the oldest query never waits. So at most `live` prefixes are stored, plus the
prefixes of the query with the most prefixes. New prompts are prefilled while fewer than `rows`
prefixes are live. If other prefixes are live, prefilling stops when the model reports that it is
full. The number of prompts that are prefilled together is expected to fill the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from leakbound.errors import InputError
from leakbound.sampling import philox
from leakbound.sampling.distribution import Picks, pick
from leakbound.sampling.frontier import Frontier, Paths
from leakbound.sampling.model import Handles, Ids, OutputTree
from leakbound.sampling.stems import Floats, Root, Stem, Tree
from leakbound.types import Draws

_READ = 2048  # number of prompt tokens after which no more prompts are prefilled in the same batch


class Forest:
    """Sample many prompts under one decoding; the module docstring proves that the draws are exact.

    Args:
        tree: the model and the decoding.
        draws: the sizes of the chunks, each at least 1, and the key.
        live: the largest number of stored prefixes, not counting the query with the most prefixes;
            at least the `rows` of the tree. With a larger `live`, fewer queries wait for the last
            draws of other queries.

    Attributes:
        usage: the cost, which is the `usage` of the tree.

    Raises:
        InputError: no chunk, an empty chunk, or a decoding with stop strings but no `ended`.
    """

    def __init__(self, tree: OutputTree, draws: Draws, *, live: int = 0) -> None:
        if min(draws.sizes, default=0) < 1:
            raise InputError(f"every chunk must have at least 1 draw, got sizes {draws.sizes}.")
        self.usage = tree.usage
        self._model, self._decoding, self._draws = tree.model, tree.decoding, draws
        self._rows, self._live = tree.rows, max(tree.rows, live)
        self._margin, self._tell = tree.margin, tree.tell
        self._ended = 0  # number of draws that have ended
        self._first_splits = np.zeros(2, dtype=np.int64)  # numbers of prompts and of their rows
        self._ending = tree.ending
        self._chunks = len(draws.sizes)  # largest number of chunks of a tree
        self._sharing: dict[int, list[int]] = {}
        self._keys: dict[int, philox.Words] = {}  # keys of the growing trees, by chunk number
        self._begun: dict[int, int] = {}  # per growing tree, the first number of its paths
        self._paths = Paths()
        self._complete: list[Frontier] = []  # complete outputs of growing trees
        self._broken: dict[int, Ids] = {}

    def sample(self, roots: Sequence[Root]) -> Iterator[Tree]:
        """Draw from every root.

        Args:
            roots: the roots to draw from; roots with equal prompts share one tree.

        Returns:
            One Tree for each root, in the order in which they finish; `Tree.root` is the index in
                `roots`.
        """
        self._sharing = _sharing(roots)
        waiting = list(self._sharing)[::-1]
        self._chunks = len(self._draws.sizes) * max(map(len, self._sharing.values()), default=1)
        live: list[Frontier] = []
        while waiting or live:
            ended, forwards = self._ended, self.usage.forwards
            while waiting and (room := self._rows - sum(map(len, live))) > 0:
                if live and self._model.full:
                    break
                live += self._admit(waiting, 1 if self._model.full else room, roots)
            frontier = Frontier.join(live)
            frontier = frontier.take(np.argsort(frontier.query, kind="stable"))
            chosen = self._choose(frontier)
            live = [frontier.where(~chosen), *self._advance(frontier.where(chosen))]
            live = [self._without_broken(rows) for rows in live]
            live = [rows for rows in live if len(rows)]
            ended, forwards = self._ended - ended, self.usage.forwards - forwards
            self._tell(ended, forwards)
            yield from self._finish(
                sorted(
                    self._keys.keys() - {query for rows in live for query in rows.query.tolist()}
                )
            )

    def _finish(self, numbers: Sequence[int]) -> Iterator[Tree]:
        """Yield these trees, and remove them from the forest."""
        if not numbers:
            return
        whole = Frontier.join(self._complete)
        done = np.isin(whole.query, numbers)
        self._complete, ended = [whole.where(~done)], whole.where(done)
        for number in numbers:
            yield from self._trees(number, ended.where(ended.query == number))
            del self._keys[number], self._begun[number]
        self._paths.forget(min(self._begun.values(), default=self._paths.end))

    def _trees(self, number: int, rows: Frontier) -> Iterator[Tree]:
        """Yield a finished tree with these complete rows, once for each query that shares it."""
        broken_at = self._broken.pop(number, None)
        stems, counts = rows.stems(self._paths), np.zeros((len(rows), self._chunks), dtype=np.int64)
        counts[rows.row, rows.chunk] = rows.count
        reasons = [self._ending.reason(stem.path) or "length" for stem in stems]
        shares = np.split(counts, self._chunks // len(self._draws.sizes), axis=1)
        for query, own in zip(self._sharing[number], shares, strict=False):
            outputs = zip(stems, map(tuple, own.tolist()), reasons, strict=True)
            leaves = sorted(
                (stem.leaf(drawn, reason) for stem, drawn, reason in outputs if any(drawn)),
                key=lambda leaf: leaf.token_ids,
            )
            own_leaves = () if broken_at is not None else tuple(leaves)
            yield Tree(query, own_leaves, broken_at=broken_at)

    def _admit(self, waiting: list[int], room: int, roots: Sequence[Root]) -> list[Frontier]:
        """Begin at least one waiting query, and more while their expected rows leave room.

        The prompts of these queries are prefilled together. A query is expected to have as many
        rows as earlier queries had.
        """
        begun, fresh, prompts = list[Frontier](), list[Frontier](), list[Ids]()
        while waiting and (not (begun or fresh) or (room > 0 and sum(map(len, prompts)) < _READ)):
            number = waiting.pop()
            rows, root = self._plant(number, [roots[i] for i in self._sharing[number]])
            if root.starts:
                begun.append(rows.where(~self._file(rows)))
                room -= len(rows)
            else:
                fresh.append(rows)
                prompts.append(root.token_ids)
                read, split = self._first_splits.tolist()
                room -= max(1, math.ceil(split / read)) if read else int(rows.count.sum())
        if prompts:
            handles, logits = self._model.prefill(prompts)
            self.usage.prompt_tokens += sum(map(len, prompts))
            begun.append(self._split(Frontier.join(fresh), handles, logits))
            self._first_splits += len(prompts), len(begun[-1])
        return begun

    def _plant(self, number: int, roots: Sequence[Root]) -> tuple[Frontier, Root]:
        """Return the first rows of a query: its prompt, or the stems with its draws."""
        draws, root = self._draws, roots[0]
        chunks = range(draws.first_chunk, draws.first_chunk + len(draws.sizes))
        name = partial(philox.stream_key, draws.seed, draws.purpose)
        keys = np.zeros((self._chunks, 2), dtype=np.uint64)
        keys[: len(roots) * len(chunks)] = [name(r.query_id, c) for r in roots for c in chunks]
        self._keys[number], self._begun[number] = keys, self._paths.end
        sizes = tuple(size for r in roots for size in draws.of(r.query_id))
        rows = Frontier.plant(number, root.starts or ((Stem.prompt(), sizes),), self._paths)
        self.usage.draws += int(rows.count.sum())
        return rows, root

    def _choose(self, frontier: Frontier) -> NDArray[np.bool_]:
        """Choose the rows to forward now: query by query, while their children fit."""
        _, which, sizes = np.unique(frontier.query, return_inverse=True, return_counts=True)
        pairs = which * (frontier.parent.max(initial=0) + 1) + frontier.parent
        live = np.bincount(which[np.unique(pairs, return_index=True)[1]]).tolist()
        total = sum(live)
        chosen = np.zeros(len(sizes), dtype=bool)
        for i, size in enumerate(sizes.tolist()):
            after = total - live[i] + size
            if i == 0 or after <= self._live:
                chosen[i], total = True, after
        return np.repeat(chosen, sizes)

    def _advance(self, rows: Frontier) -> list[Frontier]:
        """Forward these rows, at most `rows` per batch; return the incomplete children."""
        takes_over = np.zeros(len(rows), dtype=bool)
        takes_over[len(rows) - 1 - np.unique(rows.parent[::-1], return_index=True)[1]] = True
        takes_over &= ~rows.lent
        children = []
        for start in range(0, len(rows), self._rows):
            part = np.arange(start, min(start + self._rows, len(rows)))
            mine, last = rows.take(part), self._paths.last(rows.path[part])
            handles, logits = self._model.extend(mine.parent, last, takes_over[part])
            self.usage.forwards += len(part)
            children.append(self._split(mine, handles, logits))
        return children

    def _split(self, rows: Frontier, handles: Handles, logits: torch.Tensor) -> Frontier:
        """Draw the next token of every draw on `rows`; return the incomplete children."""
        queries, which = np.unique(rows.query, return_inverse=True)
        keys = np.stack([self._keys[query] for query in queries.tolist()])
        key = _pair(keys[which[rows.row], rows.chunk])
        u = philox.uniforms(key, _pair(rows.digest[rows.row]), rows.count)
        picks = self._pick(rows, logits, u)
        self.usage.sampled_tokens += len(u)
        bad = np.flatnonzero(picks.broken)
        paths = self._paths.ids(rows.path[bad], rows.depth[bad])
        for query, path in zip(rows.query[bad].tolist(), paths, strict=True):
            self._broken.setdefault(query, path)

        # one child per (row, token), one group of draws per (row, token, chunk)
        group = np.repeat(rows.row, rows.count) * self._model.vocab_size + picks.tokens
        group = group * self._chunks + np.repeat(rows.chunk, rows.count)
        codes, example, count = np.unique(group, return_index=True, return_counts=True)
        child, chunk = np.divmod(codes, self._chunks)
        first = np.diff(child, prepend=-1) > 0
        parent, token = np.divmod(child[first], self._model.vocab_size)
        depth = rows.depth[parent] + 1
        children = Frontier(
            query=rows.query[parent],
            parent=handles[parent],
            lent=np.zeros(len(parent), dtype=bool),
            path=self._paths.add(rows.path[parent], token),
            depth=depth,
            digest=np.stack(philox.extend_prefix(_pair(rows.digest[parent]), token, depth), axis=1),
            sums=rows.sums[parent] + picks.steps(example[first], parent),
            row=np.cumsum(first) - 1,
            chunk=chunk,
            count=count,
        )
        ended = self._file(children)
        extended = np.zeros(len(rows), dtype=bool)
        extended[parent[~ended]] = True
        self._model.release(handles[~extended])
        return children.where(~ended)

    def _pick(self, rows: Frontier, logits: torch.Tensor, u: Floats) -> Picks:
        """Pick the next token of every draw on `rows`, in the order of their groups."""
        draw_row = np.repeat(rows.row, rows.count)
        return pick(logits, self._decoding, draw_row, u, rows.confidence, self._margin)

    def _file(self, rows: Frontier) -> NDArray[np.bool_]:
        """Store the complete rows; return a mask of the complete rows."""
        ended = self._ending.ends(
            self._paths.last(rows.path), rows.depth, lambda: self._paths.ids(rows.path, rows.depth)
        )
        complete = rows.where(ended)
        self._ended += int(complete.count.sum())
        self._complete.append(complete)
        return ended

    def _without_broken(self, rows: Frontier) -> Frontier:
        """Return the rows of queries whose logits were usable so far; release the other rows."""
        if not self._broken:
            return rows
        broken = np.isin(rows.query, list(self._broken))
        self._model.release(np.unique(rows.parent[broken]))
        return rows.where(~broken)


def _sharing(roots: Sequence[Root]) -> dict[int, list[int]]:
    """Return the roots that share each tree, by the index of the tree's first root."""
    first: dict[Ids, int] = {}
    sharing: dict[int, list[int]] = {}
    for number, root in enumerate(roots):
        tree = number if root.starts else first.setdefault(root.token_ids, number)
        sharing.setdefault(tree, []).append(number)
    return sharing


def _pair(words: philox.Words) -> tuple[philox.Words, philox.Words]:
    return words[:, 0], words[:, 1]
