"""Proofs of leaks too rare to be drawn: leaking mass, looked for around answers known to leak.

A *lead* is an output that leaks: the true answer, another model's answer, a draw. Leads are
teacher-forced first, to where the scorer is settled; each of their prefixes shows the likeliest
tokens beside the lead's own. Then prefixes that left a lead are expanded, best first: by their
mass, times the share of the mass at the lead's place there that is known to leak, for each token
that is still missing, if they would leak were they to go on as the lead does: as if they had put
their last token in place of one of the lead's, or between two, or all since they left it.

No mass is counted twice. Every node found is an ended output or a settled prefix, and neither is
ever expanded; every node is reached by one token after a prefix that was expanded. Were a node's
path to begin another's, the first would have been expanded on the way to the second. So the nodes
are an antichain: the sets of outputs that begin with them are disjoint, and their masses add up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

import numpy as np
import torch

from leakbound.sampling.law import Step
from leakbound.sampling.model import Ending, Ids
from leakbound.sampling.search import Node, SearchTree, Settle
from leakbound.sampling.stems import Root, Stem, laws_after
from leakbound.types import FinishReason

_CHILDREN = 64  # of a prefix, beside those on leads
_LIGHTEST = math.log(1e-13)  # of a prefix that is worth a forward
_BAND = 8.0  # within a batch nothing is worth less than the best by more than this factor
_FORCED = 0.5  # of the forwards, at most, are for leads after the first
_WINDOW = (2, 8)  # how far back and on in a lead a token is looked for
_INSERTED = 0.25  # what a prefix counts for that would leak only if its last token were one more
_RETURNED = 0.03  # and if all that it said since it left the lead were more
_HOPELESS = 1e-4  # and for one that would not leak if it went on as the lead
_LEADERLESS = 1e-6  # and without any lead, or one of which nothing is proved
_LIGHT = 1e-4  # of what is proved: lighter prefixes are not asked about at the end


@dataclass(frozen=True, slots=True)
class Proof:
    """Leaking outputs of one root: disjoint nodes, with the range of scores of each above 0.

    `forwards`: prefixes forwarded, those of leads among them; the prompt is none of them. Where
    logits were unusable, only `broken_at` tells.
    """

    root: int
    nodes: tuple[Node, ...]
    forwards: int
    broken_at: Ids | None = None


@dataclass(frozen=True, slots=True)
class _Open:
    """A prefix that may be expanded.

    lead: the lead that it went along, and left; None: there is none.
    at: how many of the lead's tokens it has behind it, or has passed over.
    left: the same when it last said one of them.
    share: of its worth, by what is known of its text; None while that was not asked for.
    """

    stem: Stem
    lead: Ids | None
    at: int
    left: int
    share: float | None = None


@dataclass(slots=True)
class _Hunt:
    """One root's search. `leads` go to where they are settled; `on_leads` are their prefixes."""

    number: int
    ending: Ending
    settle: Settle
    most: int
    leads: list[Ids] = field(default_factory=list)
    on_leads: dict[Ids, Ids] = field(default_factory=dict)
    masses: dict[Ids, float] = field(default_factory=dict)
    proved: dict[Ids, float] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    broken_at: Ids | None = None
    _forced: list[_Open] = field(default_factory=list)
    _waiting: list[_Open] = field(default_factory=list)
    _heap: list[tuple[float, Ids, _Open]] = field(default_factory=list)

    @property
    def forwards(self) -> int:
        """Prefixes forwarded; the prompt is none of them."""
        return len(self.handles) - 1

    def follow(self, leads: Sequence[Ids]) -> None:
        """Take as many leads as half of the effort is for, and the first in any case."""
        prefixes = set[Ids]()
        for lead in leads:
            end = self._settled_at(lead)
            if end is None:
                continue
            more = prefixes | {lead[:depth] for depth in range(1, end)}
            if (not self.leads and len(more) <= self.most) or len(more) <= _FORCED * self.most:
                prefixes = more
                self.leads.append(lead[:end])
        for taken in self.leads:
            for depth in range(1, len(taken) + 1):
                self.on_leads.setdefault(taken[:depth], taken)

    def wanted_after(self, path: Ids) -> list[int]:
        """The tokens with which leads go on after a prefix."""
        if path and path not in self.on_leads:
            return []
        depth = len(path)
        goes_on = (lead[depth] for lead in self.leads if lead[:depth] == path and depth < len(lead))
        return list(dict.fromkeys(goes_on))

    def next_batch(self, most: int) -> list[_Open]:
        """Take at most so many prefixes to expand: those of leads first, then the best."""
        if self.broken_at is not None or most <= 0:
            return []
        while self._forced:
            batch, self._forced = self._forced[:most], self._forced[most:]
            if going := self._ask(batch):
                return going
        for each in self._waiting:
            self._push(each)
        self._waiting = []
        return self._best(most)

    def finish(self) -> None:
        """Ask about what was seen and not looked at: whatever has leaked already is a node."""
        found = math.fsum(math.exp(node.floor) * node.low for node in self.nodes)
        left = [*self._forced, *self._waiting, *(each for *_, each in self._heap)]
        least = math.log(max(_LIGHT * found, math.exp(_LIGHTEST)))
        self._ask([each for each in left if each.stem.floor >= least], last=True)
        self._forced, self._waiting, self._heap = [], [], []

    def _best(self, most: int) -> list[_Open]:
        batch: list[_Open] = []
        while self._heap and len(batch) < most:
            least = -(self._worth(batch[0]) if batch else -self._heap[0][0]) / _BAND
            taken = self._take(most - len(batch), -least)
            batch += [each for each in taken if each.share is not None]
            fresh = [each for each in taken if each.share is None]
            if not fresh:
                break
            for each in self._ask(fresh):
                self._push(each)
        return batch

    def expand(
        self, batch: Sequence[_Open], handles: Sequence[int], splits: Sequence[_Split]
    ) -> None:
        """File what follows these prefixes."""
        self.handles += handles
        ended: list[tuple[Stem, FinishReason]] = []
        for prefix, handle, split in zip(batch, handles, splits, strict=True):
            if split.broken:
                self.broken_at = self.broken_at or prefix.stem.path
                continue
            for token, step in split.children:
                child = prefix.stem.child(handle, token, step)
                if child.floor < _LIGHTEST:
                    continue
                if child.path in self.on_leads:
                    self.masses[child.path] = math.exp(child.logprob)
                if reason := self.ending.reason(child.path):
                    ended.append((child, reason))
                else:
                    self._open(prefix, child)
        self._close(ended)

    def _open(self, parent: _Open, child: Stem) -> None:
        if child.path in self.on_leads:
            at = len(child.path)
            self._forced.append(_Open(child, self.on_leads[child.path], at, at))
            return
        lead, token = parent.lead, child.path[-1]
        at, left = parent.at + 1, parent.left
        if lead is not None:
            back, on = _WINDOW
            near = range(max(parent.at - back, 0), min(parent.at + on, len(lead)))
            found = [i + 1 for i in near if lead[i] == token]
            at = min(found, key=lambda i: abs(i - 1 - parent.at), default=min(at, len(lead)))
            left = at if found else left
        self._waiting.append(_Open(child, lead, at, left))

    def _settled_at(self, lead: Ids) -> int | None:
        """After how many tokens a lead surely leaks; None where it is no output that does."""
        depths = [d for d in range(1, len(lead) + 1) if self.ending.reason(lead[:d])]
        if not depths or depths[0] != len(lead):
            return None
        asked = [(lead[:depth], depth == len(lead)) for depth in range(1, len(lead) + 1)]
        ranges = self.settle(self.number, asked)
        if not ranges[-1][0]:
            return None
        return next(i for i, (low, high) in enumerate(ranges, 1) if low == high)

    def _worth(self, each: _Open) -> float:
        """About how much leaking mass a forward of it finds."""
        share = 1.0 if each.share is None else each.share
        mass = math.exp(each.stem.floor) * share
        if each.lead is None:
            return mass * _LEADERLESS
        before = each.lead[: max(each.at, 1)]
        known = self.masses.get(before, 0.0)
        rate = min(self.proved.get(before, 0.0) / known, 1.0) if known else 0.0
        return mass * max(rate, _LEADERLESS) / max(len(each.lead) - each.at, 1)

    def _push(self, each: _Open) -> None:
        heapq.heappush(self._heap, (-self._worth(each), each.stem.path, each))

    def _take(self, most: int, least: float) -> list[_Open]:
        taken: list[_Open] = []
        while self._heap and len(taken) < most and -self._heap[0][0] >= least:
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def _ask(self, prefixes: Sequence[_Open], last: bool = False) -> list[_Open]:
        """Learn what their texts settle: leaks are nodes, the others go on or are done with.

        `last`: nothing is expanded any more, so what leaks in part is a node too.
        """
        hopes = [[] if last else _hopes(each) for each in prefixes]
        asked: list[tuple[Ids, bool]] = []
        for each, longer in zip(prefixes, hopes, strict=True):
            asked += [(each.stem.path, False), *((path, True) for path, *_ in longer)]
        ranges = iter(self.settle(self.number, asked))
        going = []
        for each, longer in zip(prefixes, hopes, strict=True):
            low, high = next(ranges)
            shares = [(next(ranges)[0] * worth, at) for _, worth, at in longer]
            share, at = max(shares, key=itemgetter(0), default=(1.0, each.at))
            if self._goes_on(each.stem, (low, high), last):
                going.append(replace(each, at=at, share=max(share, _HOPELESS)))
        return going

    def _goes_on(self, stem: Stem, scores: tuple[float, float], last: bool) -> bool:
        """Whether a prefix may be expanded; else it is a node where it leaks, and never both."""
        low, high = scores
        if low < high and not last:
            return True
        if low:
            self._file(stem, None, scores)
        return False

    def _close(self, ended: Sequence[tuple[Stem, FinishReason]]) -> None:
        if not ended:
            return
        ranges = self.settle(self.number, [(stem.path, True) for stem, _ in ended])
        for (stem, reason), (low, high) in zip(ended, ranges, strict=True):
            if low:
                self._file(stem, reason, (low, high))

    def _file(self, stem: Stem, reason: FinishReason | None, scores: tuple[float, float]) -> None:
        """A node; what is known to leak after each prefix of a lead grows by it."""
        ended = reason is not None
        self.nodes.append(Node(stem.path, stem.logprob, stem.floor, ended, reason, *scores))
        for depth in range(1, len(stem.path) + 1):
            if (before := stem.path[:depth]) not in self.on_leads:
                break
            self.proved[before] = self.proved.get(before, 0.0) + math.exp(stem.floor) * scores[0]


def _hopes(each: _Open) -> list[tuple[Ids, float, int]]:
    """The outputs that a prefix would be if it went on as its lead, by how much of it is behind.

    Each with what it counts for, and how many of the lead's tokens are then behind it: it may have
    put its last token in place of one of the lead's, or between two; or all since it left.
    """
    if each.lead is None:
        return []
    path, lead, at, left = each.stem.path, each.lead, each.at, each.left
    hopes = [(path + lead[at:], 1.0, at), (path + lead[at - 1 :], _INSERTED, at)]
    return hopes if left >= at - 1 else [*hopes, (path + lead[left:], _RETURNED, left)]


@dataclass(frozen=True, slots=True)
class _Split:
    """One row of logits: its likeliest tokens, and those that leads go on with."""

    children: list[tuple[int, Step]]
    broken: bool


class Prover:
    """Looks for leaking mass in a tree; the module's text says how.

    At most `forwards` prefixes of a root are forwarded.
    """

    def __init__(self, tree: SearchTree, forwards: int) -> None:
        self._tree, self._most, self._ending = tree, forwards, tree.ending

    def prove(self, roots: Sequence[Root], leads: Sequence[Sequence[Ids]]) -> Iterator[Proof]:
        """Yield one Proof for each root, in order; `leads` of each, what matters most first."""
        for number, (root, mine) in enumerate(zip(roots, leads, strict=True)):
            hunt = _Hunt(number, self._ending, self._tree.settle, self._most)
            hunt.follow(mine)
            self._hunt(root, hunt)
            self._tree.model.release(np.array(hunt.handles, dtype=np.int64))
            broken = hunt.broken_at is not None
            yield Proof(number, () if broken else tuple(hunt.nodes), hunt.forwards, hunt.broken_at)

    def _hunt(self, root: Root, hunt: _Hunt) -> None:
        handle, logits = self._tree.prefill(root)
        lead = hunt.leads[0] if hunt.leads else None
        batch, handles = [_Open(Stem.prompt(), lead, 0, 0)], [handle]
        while True:
            splits = self._split(hunt, logits, [each.stem for each in batch])
            hunt.expand(batch, handles, splits)
            batch = hunt.next_batch(min(self._tree.rows, self._most - hunt.forwards))
            if not batch:
                hunt.finish()
                return
            held, logits = self._tree.forward([each.stem for each in batch])
            handles = held.tolist()

    def _split(self, hunt: _Hunt, logits: torch.Tensor, stems: Sequence[Stem]) -> list[_Split]:
        """What follows each stem: its likeliest tokens, and those of leads."""
        found = list[_Split]()
        for part, law in laws_after(logits, stems, self._tree.decoding, self._tree.margin):
            ids = law.logprob.topk(min(_CHILDREN, logits.shape[1])).indices.cpu().tolist()
            tokens = [
                list(dict.fromkeys([*hunt.wanted_after(stem.path), *row]))
                for stem, row in zip(stems[part], ids, strict=True)
            ]
            found += [_Split(*each) for each in zip(law.steps(tokens), law.broken, strict=True)]
        return found
