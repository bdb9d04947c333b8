"""Exact masses of likely outputs, and draws from the remainder.

A root is a prompt. Its prefix tree of generated tokens is expanded best first. A prefix is *open*
if it can still be expanded. Each forward pass of the model is for the open prefix that contributes
most to the width of the bounds. The likeliest next tokens of this prefix become children, and all
other next tokens together form a *lump*. A child is an event of known mass if its output is
complete, or if all outputs that begin with it have the same score. The other children are open.
Open prefixes and lumps are the cells of the remainder. Then, unless all effort is for exploration,
a number of draws is fixed, and these draws are made from the remainder.

The rule for stopping compares costs. Draws would need a forward pass for a prefix of large mass in
any case, so exploring such a prefix costs no additional forward pass. A prefix of small mass costs
a forward pass that draws could have used. The summed mass of all expanded prefixes is the expected
number of these prefixes on the path of a draw. So it estimates the forward passes per draw. After
exploring, a few pilot draws show the number of draws that the remaining effort allows. The validity
of bounds does not depend on the time of stopping or on the pilot.

A draw picks a cell by inverse CDF. In a lump, it then picks a token from the distribution
restricted to the lump. From there it continues by ancestral sampling. So draws are independent and
have the model's distribution, given that none of the tree's events happens. The uniform random
numbers have the same keys as those of the module `forest`. The choice of a cell uses the uniforms
of the root, which nothing else uses here. The choice within a lump uses keys with a separate
purpose.

All roots are explored together to fill batches; the result of a root does not
depend on other roots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from leakbound.sampling import philox
from leakbound.sampling.distribution import Distribution, next_distribution, pick
from leakbound.sampling.forest import Forest
from leakbound.sampling.model import Ids, OutputTree
from leakbound.sampling.search import (
    CHILDREN,
    Batch,
    BestFirst,
    BestFirstSearch,
    Brood,
    Candidate,
    Settle,
    begin,
    forward,
)
from leakbound.sampling.stems import Floats, Ints, Leaf, Root, Starts, Stem, Tree, confidence_of
from leakbound.types import Decoding, Draws, Effort

_STORE = 1 << 30  # bytes of logits kept for draws from lumps
_HANDLES = 8192  # the largest number of stored prefixes, unless one root needs more
_LIGHTEST = math.log(1e-9)  # smallest log mass of a child; other tokens stay in the lump
_VISITS = 2.0  # a prefix is explored if this number of affordable draws visits it
_ROUNDS = 64  # number of decisions whether to continue exploring
_PILOT = (1, 1, 2, 4, 8, 16)  # draws per step of a pilot, until the pilot's effort is spent
_PILOT_SHARE = 1 / 20
_QUARTER = 1 / 4  # smallest part of the effort that is for exploration, if draws follow
_NOTHING = 1e-9  # largest mass of a remainder that is not worth a forward pass
_MOST_DRAWS = 1 << 14  # more draws would take memory and hardly narrow the bounds
_LIGHTEST_SETTLED = 1e-6  # smallest mass of open prefixes whose scores are checked at the end


@dataclass(frozen=True, slots=True)
class Lump:
    """The next tokens of an expanded prefix that are not children.

    Attributes:
        stem: the prefix.
        handle: the handle of the prefix.
        logits: the logits after the prefix, [vocabulary], empty if no draws will be made.
        children: the tokens that are children.
        rest: the mass of all next tokens that are not children, given the prefix.
        rest_floor: a lower bound of `rest` for any logits within the margin.
    """

    stem: Stem
    handle: int
    logits: torch.Tensor
    children: Ints
    rest: float
    rest_floor: float

    @property
    def mass(self) -> float:
        return math.exp(self.stem.logprob) * self.rest


@dataclass(slots=True, kw_only=True)
class Exploring(BestFirstSearch):
    """The tree of one root, while it is explored; the tree's nodes are its events.

    Attributes:
        root: the root to explore.
        effort: the number of forward passes, and their division between exploring and draws.
        draws: whether draws follow.
        most: the largest number of prefixes that are explored.
        lumps: the lumps of the expanded prefixes.
        expanded: the ids of the tree's expanded prefixes.
        passed: the summed mass of the tree's expanded prefixes, which is the expected number of
            expanded prefixes on the path of a draw.
        settled: the total mass of the tree's events.
        piloted: the number of prefixes that the pilot draws forwarded.
    """

    root: Root
    effort: Effort
    draws: bool = True
    most: int = 0
    lumps: list[Lump] = field(default_factory=list)
    expanded: set[Ids] = field(default_factory=set)
    passed: float = 0.0
    settled: float = 0.0
    piloted: int = 0

    @property
    def remainder(self) -> float:
        """The mass of all outputs outside the events."""
        return max(1 - self.settled, 0.0)

    @property
    def left(self) -> int:
        """The number of forward passes that are not yet spent."""
        return self.effort.forwards - self.forwards - self.piloted

    @property
    def drawn_from(self) -> bool:
        """Whether draws from the remainder are made."""
        return self.draws and self.broken_at is None and self.remainder > _NOTHING

    @property
    def open(self) -> list[Candidate]:
        """All open prefixes by descending contribution to the bounds' width, after `settle_all`."""
        return self._open.candidates

    def goal(self) -> int:
        """Return the number of forward passes at which to decide again whether to explore further.

        Exploring stops if this number is already reached.
        """
        self._push_waiting()
        forwards = self.effort.forwards
        if not self.draws and self._open.best:
            return forwards
        if not self.drawn_from or not self._open.best or self.left <= 0:
            return self.forwards
        early = self.effort.mode == "hybrid" and self.forwards < _QUARTER * forwards
        visits = self._open.first.mass / self.remainder * self.left / self.passed
        step = min(max(forwards // _ROUNDS, 1), self.left)
        return min(self.forwards + step, self.most) if early or visits >= _VISITS else self.forwards

    def settle_all(self) -> None:
        """Compute score ranges of heavy open prefixes; those with a single score become events."""
        self._push_waiting()
        waiting = (prefix for brood in self._open.broods for prefix in brood.open_waiting())
        every, self._open = [*self._open.candidates, *waiting], BestFirst()
        fresh, kept = list[Candidate](), list[Candidate]()
        for prefix in every:
            new = prefix.share is None and prefix.mass >= _LIGHTEST_SETTLED
            (fresh if new else kept).append(prefix)
        for prefix in [*kept, *self._settle_texts(fresh)]:
            self._open.push(prefix, self._worth(prefix))

    def tree(self, leaves: tuple[Leaf, ...]) -> Tree:
        """Return the outputs that are known so far.

        Args:
            leaves: outputs that were drawn from the remainder.

        Returns:
            The tree; if no draws are made, its open prefixes are nodes as well.
        """
        forwards = self.forwards + self.piloted + forwarded(self, leaves)
        tree = Tree(self.number, explored=self.forwards, forwards=forwards)
        if self.broken_at is not None:
            return replace(tree, broken_at=self.broken_at)
        if leaves:
            remainder = certain_mass(self)
            return replace(tree, leaves=leaves, nodes=tuple(self.nodes), remainder=remainder)
        return replace(tree, nodes=(*self.nodes, *(prefix.node for prefix in self.open)))

    def _worth(self, prefix: Candidate) -> float:
        """Return the prefix's contribution to the width of the bounds."""
        low, high = prefix.scores
        return math.exp(prefix.floor) * (high - low)

    def _worths(self, brood: Brood) -> Floats:
        widths = [high - low for low, high in (p.scores for p in brood.parents)]
        floors = brood.sums[1, brood.waits].tolist()
        rows = brood.row[brood.waits].tolist()
        return np.array([math.exp(x) * widths[row] for x, row in zip(floors, rows, strict=True)])

    def _file(self, child: Candidate) -> None:
        self.nodes.append(child.node)
        self.settled += child.mass


@torch.inference_mode()
def split(
    after: Distribution, batch: Batch[Exploring], handles: Sequence[int], logits: torch.Tensor
) -> list[Ints]:
    """Split the next tokens of prefixes: the likeliest are children, the others are a lump.

    Args:
        after: the next-token distribution of each prefix.
        batch: n prefixes, with their searches.
        handles: the handles of the prefixes, [n].
        logits: the logits after each prefix, [n, vocabulary].

    Returns:
        For each prefix, the tokens that are its children.
    """
    logprob, ids = after.logprob.topk(min(CHILDREN, logits.shape[1]))
    stems = [prefix.stem for _, prefix in batch]
    before = torch.tensor([stem.logprob for stem in stems], dtype=logprob.dtype)
    heavy = logprob + before.to(logprob.device)[:, None] >= _LIGHTEST
    rest = [
        torch.exp(logs).scatter_(1, ids, torch.exp(logs.gather(1, ids)) * ~heavy).sum(dim=-1)
        for logs in (after.logprob, after.floor)
    ]
    whole = torch.cat([torch.stack([heavy.sum(dim=-1), *rest], dim=1), ids], dim=1).cpu().numpy()
    kept = (logits if batch[0][0].draws else logits[:, :0]).to("cpu", copy=True)
    tokens = list[Ints]()
    for i, ((search, prefix), (count, left, left_floor, *_)) in enumerate(
        zip(batch, whole.tolist(), strict=True)
    ):
        own = whole[i, 3 : 3 + int(count)].astype(np.int64)
        search.expanded.add(prefix.path)
        search.passed += prefix.mass
        search.lumps.append(Lump(stems[i], handles[i], kept[i], own, left, left_floor))
        tokens.append(own)
    return tokens


class Explorer:
    """Explore the tree of each root with the same effort, as the module docstring describes.

    Args:
        tree: the model and the decoding.
        settle: returns, for generated ids, the range of scores of all outputs that begin with them.
        effort: the number of forward passes per root, and their division between exploring and
            draws.
    """

    def __init__(self, tree: OutputTree, settle: Settle, effort: Effort) -> None:
        self._tree, self._settle, self._effort = tree, settle, effort
        # the first draw must not cost more than the whole effort
        self._draws = effort.mode != "exact" and effort.forwards >= tree.decoding.longest
        store = _STORE // (4 * tree.model.vocab_size)
        self._most = store if self._draws else effort.forwards
        stored = min(_HANDLES, store) if self._draws else _HANDLES
        self._together = min(max(stored // effort.forwards, 1), tree.rows)

    def explore(self, roots: Sequence[Root]) -> Iterator[Tree]:
        """Explore every root, and draw from the remainder of each.

        Args:
            roots: the roots to explore.

        Returns:
            One Tree for each root, in order.
        """
        for start in range(0, len(roots), self._together):
            numbers = range(start, min(start + self._together, len(roots)))
            searches = [self.begin(number, roots[number]) for number in numbers]
            while self._round(searches):
                pass
            for search in searches:
                search.settle_all()
            trees = self._finish(searches)
            for search in searches:
                self._tree.model.release(np.array(search.handles, dtype=np.int64))
            yield from trees

    def begin(self, number: int, root: Root) -> Exploring:
        """Process a prompt, and split its next tokens into children and a lump.

        Args:
            number: the index of the root.
            root: the root to explore.

        Returns:
            The tree of the root, in which only the prompt is expanded.
        """
        search = Exploring(
            number=number,
            ending=self._tree.ending,
            settle=self._settle,
            root=root,
            effort=self._effort,
            draws=self._draws,
            most=self._most,
        )
        begin(self._tree, [root], [(search, Candidate.prompt())], split)
        return search

    def _round(self, searches: Sequence[Exploring]) -> bool:
        """Expand prefixes until each search reaches its goal; return whether any were expanded."""
        goals, rows, begun = [search.goal() for search in searches], self._tree.rows, False
        while batch := [
            (search, prefix)
            for search, goal in zip(searches, goals, strict=True)
            for prefix in search.next_batch(min(rows, goal - search.forwards))
        ]:
            begun = True
            for start in range(0, len(batch), rows):
                forward(self._tree, batch[start : start + rows], split)
        return begun

    def _pilot(self, searches: Sequence[Exploring]) -> dict[int, int]:
        """Make pilot draws; return the number of draws that each search's effort still allows."""
        drawn = dict.fromkeys((search.number for search in searches), 0)
        growing, purpose = list(searches), f"{self._effort.purpose}:pilot"
        for chunk, size in enumerate(_PILOT):
            draws = Draws(sizes=(size,), first_chunk=chunk, seed=self._effort.seed, purpose=purpose)
            for search, leaves in self._sample([(search, draws) for search in growing]):
                search.piloted += forwarded(search, leaves)
                drawn[search.number] += size
            share = _PILOT_SHARE * self._effort.forwards
            growing = [s for s in growing if 2 * s.piloted <= share and s.broken_at is None]
        return {
            search.number: int(
                min(drawn[search.number] * search.left / max(search.piloted, 1), _MOST_DRAWS)
            )
            for search in searches
            if search.broken_at is None and search.left > 0
        }

    def _finish(self, searches: Sequence[Exploring]) -> list[Tree]:
        """Fix the number of draws of each search, make the draws, and return the trees."""
        draws = Draws(sizes=(1,), seed=self._effort.seed, purpose=self._effort.purpose)
        sizes = self._pilot([s for s in searches if s.drawn_from and s.left > 0])
        wanted = [(s, replace(draws, sizes=(n,))) for s in searches if (n := sizes.get(s.number))]
        drawn = {search.number: leaves for search, leaves in self._sample(wanted)}
        return [search.tree(drawn.get(search.number, ())) for search in searches]

    def _sample(
        self, wanted: Sequence[tuple[Exploring, Draws]]
    ) -> list[tuple[Exploring, tuple[Leaf, ...]]]:
        """Draw from the remainder of each search, with one key for all draws."""
        if not wanted:
            return []
        tree = self._tree
        roots = [
            replace(search.root, starts=plant(search, tree.decoding, draws, tree.margin))
            for search, draws in wanted
        ]
        sampled = []
        for drawn in Forest(tree, wanted[0][1]).sample(roots):
            search = wanted[drawn.root][0]
            if drawn.broken_at is not None:
                search.broken_at = drawn.broken_at
            sampled.append((search, drawn.leaves))
        return sampled


def forwarded(search: Exploring, leaves: Iterable[Leaf]) -> int:
    """Return the number of forward passes that the draws from a tree's remainder needed.

    Args:
        search: the tree.
        leaves: the outputs that were drawn.

    Returns:
        The number of distinct prefixes that the tree had not expanded.
    """
    paths = {leaf.token_ids[:depth] for leaf in leaves for depth in range(1, len(leaf.token_ids))}
    return len(paths - search.expanded)


def certain_mass(search: Exploring) -> float:
    """Return a lower bound of the mass of all cells, for any logits within the margin.

    Args:
        search: the tree.

    Returns:
        The sum of the floors of its open prefixes and lumps.
    """
    opens = (math.exp(prefix.floor) for prefix in search.open)
    lumps = (math.exp(lump.stem.floor) * lump.rest_floor for lump in search.lumps)
    return math.fsum((*opens, *lumps))


def plant(search: Exploring, decoding: Decoding, draws: Draws, margin: float) -> Starts:
    """Draw a stem (a prefix from which sampling continues) for each draw of one chunk.

    Args:
        search: the tree with the cells to draw from.
        decoding: the distribution to draw from.
        draws: one chunk of draws, and their key.
        margin: the largest difference of a T = 1 log-probability between batch shapes, in nats; at
            least 0 (see `distribution`).

    Returns:
        The stems, each with its number of draws.
    """
    (size,), opens, query_id = draws.sizes, search.open, search.root.query_id
    u = _uniforms(draws, draws.purpose, query_id, (), size)
    upto = np.cumsum([*(prefix.mass for prefix in opens), *(lump.mass for lump in search.lumps)])
    last = np.flatnonzero(np.diff(upto, prepend=0.0))[-1]
    cell = np.minimum(np.searchsorted(upto, u * upto[-1], side="right"), last)
    counts = np.bincount(cell, minlength=len(upto)).tolist()
    starts: Starts = tuple((x.stem, (n,)) for x, n in zip(opens, counts, strict=False) if n)
    for lump, count in zip(search.lumps, counts[len(opens) :], strict=True):
        if count:
            u = _uniforms(draws, f"{draws.purpose}:lump", query_id, lump.stem.path, count)
            starts += _within(lump, u, decoding, margin)
    return starts


def _within(lump: Lump, u: Floats, decoding: Decoding, margin: float) -> Starts:
    """Draw the next token of a lump's prefix from the tokens that are not children."""
    depth, stem = np.ones(1, dtype=np.int64), lump.stem
    after = next_distribution(lump.logits[None], decoding, confidence_of([stem]), margin)
    others = after.logprob.clone()
    others[0, lump.children] = -math.inf
    # log-probabilities serve as logits at T = 1
    picks = pick(others, Decoding(), np.zeros(len(u), dtype=np.int64), u, (np.zeros(1), depth))
    tokens, counts = (x.tolist() for x in np.unique(picks.tokens, return_counts=True))
    steps = after.at(np.zeros(len(tokens), dtype=np.int64), np.array(tokens))
    sums = (np.array(stem.sums)[:, None] + steps).T.tolist()
    return tuple(
        (Stem(lump.handle, (*stem.path, token), *own), (count,))
        for token, own, count in zip(tokens, sums, counts, strict=True)
    )


def _uniforms(draws: Draws, purpose: str, query_id: str, prefix: Ids, count: int) -> Floats:
    """Return the uniform random numbers of this prefix in the single chunk of these draws."""
    key = philox.stream_key(draws.seed, purpose, query_id, draws.first_chunk)
    words = np.array(key, dtype=np.uint64)
    return philox.uniforms(
        (words[:1], words[1:]), philox.digests([prefix]), np.array([count], dtype=np.int64)
    )
