"""Exact masses of likely outputs, and draws from what they leave.

The prefix tree of a root is expanded best first: the open prefix that widens the bounds most is
forwarded next. What ended or is settled is an event of known mass. Then, unless all effort goes
into exploration, a number of draws is fixed and drawn from the remainder.

Where to stop: draws would forward a prefix of large mass anyway, so to explore it costs nothing; a
small one costs forwards that draws could have used. A pilot tells how many forwards a draw of the
remainder takes, and how often it leaks. Distinct prefixes of n draws grow like n^b, b ≤ 1. All this
decides where effort goes, and no bound rests on it.

A draw picks a cell by inverse CDF, in a lump a token by the law restricted to the lump, and goes
on ancestrally from there. So draws are independent and have the model's law, given that none of
the tree's events happens. Uniforms are keyed as the forest's are; the choice of a cell takes the
root's, which the forest does not use here, and the choice within a lump has a purpose of its own.

Roots advance together so that batches fill; what is found of one does not depend on the others.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from leakbound.sampling import philox
from leakbound.sampling.forest import Forest
from leakbound.sampling.law import certain_law, pick
from leakbound.sampling.model import Ids
from leakbound.sampling.search import Lump, Node, Open, Search, SearchTree, split_rows
from leakbound.sampling.stems import Floats, Leaf, Root, Starts, Stem, confidence_of
from leakbound.types import Decoding, Draws, Effort

_STORE = 1 << 30  # bytes of logits kept for draws from lumps
_HANDLES = 8192  # prefixes held at a time, unless one root needs more
_VISITS = 3.0  # expected of draws: one comes by but for a chance of 5 %
_ROUNDS = 64  # between them, whether to explore on is decided
_PILOT = (1, 1, 2, 4, 8, 16)  # draws of a pilot, while its share of the effort lasts
_PILOT_SHARE = 1 / 20
_QUARTER = 1 / 4  # of a hybrid's effort, at least, is exploration
_NOTHING = 1e-9  # a remainder not worth a forward
_MOST_DRAWS = 1 << 14  # more would take memory and narrow little
_LIGHTEST_ASKED = 1e-6  # at the end, open prefixes of this mass may still prove settled
_LEAST_GROWTH = 0.5
_Z, _LOG = 2.576, 5.3  # the normal quantile, and ln 2/α, at 99 %
_FASTEST = 0.97  # where no leak was seen: explore what most likely is visited anyway


@dataclass(frozen=True, slots=True)
class Survey:
    """The remainder as a pilot's draws tell of it.

    Attributes:
        draws: of the pilot.
        forwards: prefixes that they took.
        growth: the exponent b of n^b, by which n draws have distinct prefixes, in [0.5, 1].
        leaks: their mean score.
    """

    draws: int
    forwards: float
    growth: float
    leaks: float

    def affordable(self, forwards: int) -> float:
        """How many draws that many forwards are expected to pay for.

        Args:
            forwards: prefixes that may be forwarded.

        Returns:
            A number of draws.
        """
        return float(self.draws * (max(forwards, 0) / self.forwards) ** (1 / self.growth))

    def pays(self, share: float, forwards: int) -> bool:
        """Whether exploring a prefix with this share of the remainder narrows the interval.

        The interval is about remainder · width(n) with width ~ n^(-rate). Say v of the n draws
        are expected to visit the prefix. Settling it takes the share v/n off the remainder, and
        its draws, and costs a draw more where no draw would have come by, e^(-v). The logarithm
        of the interval changes by -v/n + rate · (v + e^(-v))/n.

        Args:
            share: the prefix's mass over the remainder's.
            forwards: prefixes that may still be forwarded.

        Returns:
            Whether it does.
        """
        n = self.affordable(forwards)
        visits = share * n
        return (1 - self.rate(n)) * visits > self.rate(n) * math.exp(-visits)

    def rate(self, n: float) -> float:
        """How fast n draws narrow Clopper-Pearson's interval, about (ln 2/α + 2z·deviation) / n.

        Args:
            n: draws.

        Returns:
            The exponent, at most 0.97.
        """
        deviation = 2 * _Z * math.sqrt(self.leaks * (1 - self.leaks) * n)
        return min((_LOG + deviation / 2) / (_LOG + deviation), _FASTEST)


def survey(search: Search, pilot: Iterable[tuple[Leaf, float]]) -> Survey | None:
    """The remainder of a tree as it is now, as a pilot's draws tell of it.

    Draws of an earlier remainder that no later event covers are draws of the present one.

    Args:
        search: the tree.
        pilot: leaves that were drawn, each with its score.

    Returns:
        The survey; None where no draw is left.
    """
    visits: Counter[Ids] = Counter()
    draws, leaks = 0, 0.0
    for leaf, score in pilot:
        prefixes = [leaf.token_ids[:depth] for depth in range(1, len(leaf.token_ids) + 1)]
        if search.closed.isdisjoint(prefixes):
            count = sum(leaf.counts)
            draws, leaks = draws + count, leaks + count * score
            visits.update(dict.fromkeys(set(prefixes[:-1]) - search.expanded, count))
    if not draws:
        return None
    forwards = max(len(visits), 1)
    half = draws // 2
    growth = 1.0
    if half:
        fewer = sum(_seen(count, draws, half) for count in visits.values())
        growth = math.log(forwards / max(fewer, 1)) / math.log(draws / half)
    return Survey(draws, forwards, min(max(growth, _LEAST_GROWTH), 1.0), leaks / draws)


def forwarded(search: Search, leaves: Iterable[Leaf]) -> int:
    """How many prefixes the forest forwarded to draw some leaves from the tree's remainder.

    Args:
        search: the tree.
        leaves: those that were drawn.

    Returns:
        Distinct prefixes that the tree had not expanded.
    """
    paths = {leaf.token_ids[:depth] for leaf in leaves for depth in range(1, len(leaf.token_ids))}
    return len(paths - search.expanded)


def _seen(count: int, draws: int, among: int) -> float:
    """Chance that a subset of the draws meets a prefix that `count` of all of them met."""
    return 1 - math.comb(draws - count, among) / math.comb(draws, among)


@dataclass(frozen=True, slots=True)
class ExploredTree:
    """One root's output distribution, as far as it is known.

    Attributes:
        root: the root's place among those that were explored.
        nodes: disjoint complete outputs, settled prefixes and, without draws, open ones.
        remainder: a lower bound, given the margin, of the chance that no node happens; 0 without
            draws.
        leaves: draws from the distribution given that no node happens.
        explored: prefixes forwarded before the draws.
        forwards: prefixes forwarded in all.
        broken_at: the prefix after which logits were unusable; only this is then told. None: none
            was.
    """

    root: int
    nodes: tuple[Node, ...]
    remainder: float
    leaves: tuple[Leaf, ...]
    explored: int
    forwards: int
    broken_at: Ids | None = None


@dataclass(slots=True)
class _Course:
    """How one root's effort is spent: on `search`, on pilots, at last on draws.

    `most` bounds exploration where the logits of expanded prefixes are kept.
    """

    root: Root
    search: Search
    effort: Effort
    most: int
    draws: bool
    pilot: list[tuple[Leaf, float]] = field(default_factory=list)
    pilots: int = 0
    drawn: int = 0
    forecast: Survey | None = None

    @property
    def left(self) -> int:
        """Forwards not yet spent."""
        return self.effort.forwards - self.search.explored - self.drawn

    @property
    def goal(self) -> int:
        """How far to explore before thinking again."""
        if not self.draws:
            return self.effort.forwards
        step = max(self.effort.forwards // _ROUNDS, 1)
        return min(self.search.explored + min(step, self.left), self.most)

    def wants_pilot(self) -> bool:
        """Whether too few pilot draws still lie in the remainder; there are two at most."""
        search = self.search
        if not self.draws or search.broken_at is not None or self.pilots == 2:
            return False
        if search.remainder <= _NOTHING or self.is_surely_free():
            return False
        now, made = survey(search, self.pilot), sum(sum(leaf.counts) for leaf, _ in self.pilot)
        return now is None or 4 * now.draws < made

    def is_surely_free(self) -> bool:
        """Whether draws alone would forward the best prefix anyway, however long they are."""
        best, longest = self.search.best, self.search.ending.longest
        return best is not None and best.mass * self.effort.forwards / longest >= _VISITS

    def goes_on(self) -> bool:
        """Whether to explore another round."""
        search, left = self.search, self.left
        best = search.best
        if best is None or search.explored >= min(self.most, self.effort.forwards):
            return False
        if left <= 0 or search.remainder <= _NOTHING:
            return False
        if not self.draws:
            return True
        self.forecast = survey(search, self.pilot) or self.forecast
        if self.forecast is None or self.is_surely_free():
            return True
        if self.effort.mode == "hybrid" and search.explored < _QUARTER * self.effort.forwards:
            return True
        return self.forecast.pays(best.mass / search.remainder, left)

    def n(self) -> int:
        """How many draws the rest of the effort is for."""
        self.forecast = survey(self.search, self.pilot) or self.forecast
        nothing = self.search.broken_at is not None or self.search.remainder <= _NOTHING
        if nothing or self.forecast is None:
            return 0
        return int(min(self.forecast.affordable(self.left), _MOST_DRAWS))


class Explorer:
    """Explores a tree with one effort for each root; the module's text says how.

    Args:
        tree: the model, the decoding, and what settles prefixes.
        effort: forwards a root, and how they are shared between exploring and draws.
    """

    def __init__(self, tree: SearchTree, effort: Effort) -> None:
        self._tree, self._effort, self._ending = tree, effort, tree.ending
        # the first draw must not cost more than the whole effort
        self._draws = effort.mode != "exact" and effort.forwards >= tree.decoding.longest
        store = _STORE // (4 * tree.model.vocab_size)
        self._most = store if self._draws else effort.forwards
        at_once = min(_HANDLES, store) if self._draws else _HANDLES
        self._together = min(max(at_once // effort.forwards, 1), tree.rows)

    def explore(self, roots: Sequence[Root]) -> Iterator[ExploredTree]:
        """Explore every root, and draw from what that leaves.

        Args:
            roots: what to explore.

        Returns:
            One ExploredTree for each root, in order.
        """
        for start in range(0, len(roots), self._together):
            numbers = range(start, min(start + self._together, len(roots)))
            courses = [self._begin(number, roots[number]) for number in numbers]
            self._search(courses)
            trees = self._finish(courses)
            for course in courses:
                self._tree.model.release(np.array(course.search.handles, dtype=np.int64))
            yield from trees

    def _begin(self, number: int, root: Root) -> _Course:
        """Read a prompt and split it."""
        handles, logits = self._tree.prefill(root)
        search = Search(number, self._ending, self._tree.settle, keeps_logits=self._draws)
        prompt = Open(Stem.prompt(), 0.0, 1.0)
        splits = split_rows(logits, [prompt.stem], self._tree.decoding, self._tree.margin)
        search.expand([prompt], handles, logits, splits)
        return _Course(root, search, self._effort, self._most, self._draws)

    def _search(self, courses: Sequence[_Course]) -> None:
        """Explore each as far as it goes, with pilots on the way."""
        going = list(courses)
        while going:
            for number in (1, 2):
                ready = [c for c in going if c.pilots == number - 1 and c.wants_pilot()]
                self._pilot(ready, number)
            going = [course for course in going if course.goes_on()]
            self._round(going)
        for course in courses:
            course.search.ask_all(_LIGHTEST_ASKED)

    def _round(self, courses: Sequence[_Course]) -> None:
        """Expand prefixes of all of them until each has reached its goal."""
        goals, rows = [course.goal for course in courses], self._tree.rows
        while True:
            batch = [
                (course.search, prefix)
                for course, goal in zip(courses, goals, strict=True)
                for prefix in course.search.next_batch(min(rows, goal - course.search.explored))
            ]
            if not batch:
                return
            for start in range(0, len(batch), rows):
                self._forward(batch[start : start + rows])

    def _forward(self, batch: Sequence[tuple[Search, Open]]) -> None:
        """One forward of the model, and what follows these prefixes."""
        stems = [prefix.stem for _, prefix in batch]
        handles, logits = self._tree.forward(stems)
        splits = split_rows(logits, stems, self._tree.decoding, self._tree.margin)
        start = 0
        for _, group in groupby(batch, key=lambda pair: pair[0].number):
            mine = list(group)
            part = slice(start, start + len(mine))
            mine[0][0].expand(
                [prefix for _, prefix in mine], handles[part].tolist(), logits[part], splits[part]
            )
            start += len(mine)

    def _pilot(self, courses: Sequence[_Course], number: int) -> None:
        """Make a pilot for each, of as many draws as its share of the effort allows."""
        growing = list(courses)
        for chunk, size in enumerate(_PILOT):
            purpose = f"{self._effort.purpose}:pilot{number}"
            draws = Draws(sizes=(size,), first_chunk=chunk, seed=self._effort.seed, purpose=purpose)
            for course, leaves in self._sample([(course, draws) for course in growing]):
                course.drawn += forwarded(course.search, leaves)
                ids = [(leaf.token_ids, leaf.finish) for leaf in leaves]
                ranges = self._tree.settle(course.search.number, ids)
                scores = [(low + high) / 2 for low, high in ranges]
                course.pilot += zip(leaves, scores, strict=True)
            share = _PILOT_SHARE * self._effort.forwards
            growing = [c for c in growing if 2 * c.drawn <= share and c.search.broken_at is None]
        for course in courses:
            course.pilots = number

    def _finish(self, courses: Sequence[_Course]) -> list[ExploredTree]:
        """Fix the number of draws of each, make them, and say what is known."""
        draws = Draws(sizes=(1,), seed=self._effort.seed, purpose=self._effort.purpose)
        sizes = [(course, course.n()) for course in courses]
        wanted = [(course, replace(draws, sizes=(n,))) for course, n in sizes if n]
        drawn = {course.search.number: leaves for course, leaves in self._sample(wanted)}
        trees = []
        for course in courses:
            search, leaves = course.search, drawn.get(course.search.number, ())
            nodes = [*search.events, *(prefix.node() for prefix in search.open if not leaves)]
            broken = search.broken_at is not None
            trees.append(
                ExploredTree(
                    root=search.number,
                    nodes=() if broken else tuple(nodes),
                    remainder=certain_mass(search) if leaves and not broken else 0.0,
                    leaves=() if broken else leaves,
                    explored=search.explored,
                    forwards=search.explored + course.drawn + forwarded(search, leaves),
                    broken_at=search.broken_at,
                )
            )
        return trees

    def _sample(
        self, wanted: Sequence[tuple[_Course, Draws]]
    ) -> list[tuple[_Course, tuple[Leaf, ...]]]:
        """Draw from the remainders, so many as each one's draws say; one key for all."""
        if not wanted:
            return []
        tree = self._tree
        forest = Forest(
            tree.model,
            tree.decoding,
            wanted[0][1],
            rows=tree.rows,
            ended=tree.ended,
            margin=tree.margin,
            tell=tree.tell,
        )
        roots = []
        for course, draws in wanted:
            query = course.root.query_id
            starts = plant(course.search, query, tree.decoding, draws, tree.margin)
            roots.append(replace(course.root, starts=starts))
        sampled = []
        for drawn in forest.sample(roots):
            course = wanted[drawn.root][0]
            if drawn.broken_at is not None:
                course.search.broken_at = drawn.broken_at
            sampled.append((course, drawn.leaves))
        tree.usage.add(forest.usage)
        return sampled


def certain_mass(search: Search) -> float:
    """A lower bound of the mass of all cells, for any logits within the margin.

    Args:
        search: the tree.

    Returns:
        The sum of the floors of its open prefixes and lumps.
    """
    opens = (math.exp(prefix.stem.floor) for prefix in search.open)
    return math.fsum((*opens, *(lump.floor_mass for lump in search.lumps)))


def plant(search: Search, query_id: str, decoding: Decoding, draws: Draws, margin: float) -> Starts:
    """Where the draws of one chunk go on: stems, with the number of draws on each.

    Args:
        search: the tree, whose cells are drawn from.
        query_id: keys the draws.
        decoding: the distribution to draw from.
        draws: one chunk of them, and what keys them.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        Stems to start from, each with its number of draws.
    """
    (size,), opens = draws.sizes, search.open
    u = _uniforms(draws, draws.purpose, query_id, (), size)
    upto = np.cumsum([*(open_.mass for open_ in opens), *(lump.mass for lump in search.lumps)])
    last = np.flatnonzero(np.diff(upto, prepend=0.0))[-1]
    cell = np.minimum(np.searchsorted(upto, u * upto[-1], side="right"), last)
    counts = np.bincount(cell, minlength=len(upto)).tolist()
    starts: Starts = tuple((open_.stem, (n,)) for open_, n in zip(opens, counts, strict=False) if n)
    for lump, count in zip(search.lumps, counts[len(opens) :], strict=True):
        if count:
            u = _uniforms(draws, f"{draws.purpose}:lump", query_id, lump.stem.path, count)
            starts += _within(lump, u, decoding, margin)
    return starts


def _within(lump: Lump, u: Floats, decoding: Decoding, margin: float) -> Starts:
    """Draw the next token of a lump's prefix, none of them a child's."""
    depth, stem = np.ones(1, dtype=np.int64), lump.stem
    law = certain_law(lump.logits[None], decoding, *confidence_of([stem]), margin)
    others = law.logprob.clone()
    others[0, [token for token, _ in lump.split.children]] = -math.inf
    # a law is its own logits at T = 1, and leaving tokens out renormalises it
    picks = pick(others, Decoding(), np.zeros(len(u), dtype=np.int64), u, (np.zeros(1), depth))
    tokens, counts = (x.tolist() for x in np.unique(picks.tokens, return_counts=True))
    stems = [stem.child(lump.handle, token, step) for token, step in law.steps([tokens])[0]]
    return tuple((start, (count,)) for start, count in zip(stems, counts, strict=True))


def _uniforms(draws: Draws, purpose: str, query_id: str, prefix: Ids, count: int) -> Floats:
    """Uniforms of this prefix in the one chunk of these draws."""
    key = philox.stream_key(draws.seed, purpose, query_id, draws.first_chunk)
    words = np.array(key, dtype=np.uint64)
    return philox.uniforms(
        (words[:1], words[1:]), philox.digests([prefix]), np.array([count], dtype=np.int64)
    )
