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

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter

import numpy as np
import torch

from leakbound.sampling.candidates import BestFirst, Brood, Candidate, along
from leakbound.sampling.model import Ending, Ids
from leakbound.sampling.search import Node, SearchTree, Settle
from leakbound.sampling.stems import Ints, Root, laws_after

_CHILDREN = 64  # of a prefix, beside those on leads
_LIGHTEST = math.log(1e-13)  # of a prefix that is worth a forward
_BAND = 8.0  # within a batch nothing is worth less than the best by more than this factor
_FORCED = 0.5  # of the forwards, at most, are for leads after the first
_INSERTED = 0.25  # what a prefix counts for that would leak only if its last token were one more
_RETURNED = 0.03  # and if all that it said since it left the lead were more
_HOPELESS = 1e-4  # and for one that would not leak if it went on as the lead
_LEADERLESS = 1e-6  # and without any lead, or one of which nothing is proved
_LIGHT = 1e-4  # of what is proved: lighter prefixes are not asked about at the end


@dataclass(frozen=True, slots=True)
class Proof:
    """Leaking outputs of one root.

    Attributes:
        root: the root's place among those that were searched.
        nodes: disjoint outputs and sets of outputs, each with the range of its scores, above 0.
        forwards: prefixes forwarded, those of leads among them; the prompt is none of them.
        broken_at: the prefix after which logits were unusable; nodes are then left out. None: none
            was.
    """

    root: int
    nodes: tuple[Node, ...]
    forwards: int
    broken_at: Ids | None = None


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
    _forced: list[Candidate] = field(default_factory=list)
    _waiting: list[Brood] = field(default_factory=list)
    _open: BestFirst = field(default_factory=BestFirst)

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

    def next_batch(self, most: int) -> list[Candidate]:
        """Take at most so many prefixes to expand: those of leads first, then the best."""
        if self.broken_at is not None or most <= 0:
            return []
        while self._forced:
            first, self._forced = self._forced[:most], self._forced[most:]
            if going := self._ask(first):
                return going
        self._push_waiting()
        batch: list[Candidate] = []
        while self._open.best and len(batch) < most:
            least = (self._worth(batch[0]) if batch else self._open.best) / _BAND
            taken = self._open.take(most - len(batch), least)
            batch += [prefix for prefix in taken if prefix.share is not None]
            fresh = [prefix for prefix in taken if prefix.share is None]
            if not fresh:
                break
            for prefix in self._ask(fresh):
                self._open.push(prefix, self._worth(prefix))
        return batch

    def finish(self) -> None:
        """Make nodes of what was seen, not expanded, and has leaked already; the heaviest first."""
        mass = math.fsum(math.exp(node.floor) * node.low for node in self.nodes)
        least = math.log(max(_LIGHT * mass, math.exp(_LIGHTEST)))
        left = [prefix for prefix in (*self._forced, *self._open.made) if prefix.floor >= least]
        self._settle([prefix for prefix in left if prefix.share is None])
        for brood in (*self._waiting, *self._open.broods):
            heavy = np.flatnonzero(brood.waits & (brood.sums[1] >= least))
            ranges = self.settle(self.number, [(path, None) for path in brood.paths(heavy)])
            leaking = zip(heavy.tolist(), ranges, strict=True)
            left += (brood.open(place, scores) for place, scores in leaking if scores[0])
        for prefix in sorted(left, key=lambda prefix: (-prefix.floor, prefix.path)):
            self._file(prefix)
        self._forced, self._waiting, self._open = [], [], BestFirst()

    def expand(self, brood: Brood) -> None:
        """File what follows some prefixes."""
        self.handles += brood.handles
        depth = np.array([len(p.path) + 1 for p in brood.parents])[brood.row]
        over = self.ending.ends(brood.token, depth, lambda: brood.paths(np.arange(len(depth))))
        led = np.array([not p.path or p.path in self.on_leads for p in brood.parents])
        ended: list[Candidate] = []
        for place in np.flatnonzero(brood.waits & (over | led[brood.row])).tolist():
            child = brood.open(place)
            if lead := self.on_leads.get(child.path):
                self.masses[child.path] = math.exp(child.sums.item(0))
                child.lead, child.at, child.left = lead, len(child.path), len(child.path)
            child.reason = self.ending.reason(child.path)
            if child.reason or lead:
                (ended if child.reason else self._forced).append(child)
                brood.waits[place] = False
        self._waiting.append(brood)
        self._settle(ended)
        for child in ended:
            self._file(child)

    def _settled_at(self, lead: Ids) -> int | None:
        """After how many tokens a lead surely leaks; None where it is no output that does."""
        openings = [(ids, self.ending.reason(ids)) for ids in accumulate((i,) for i in lead)]
        if [reason is not None for _, reason in openings] != [False] * (len(lead) - 1) + [True]:
            return None
        ranges = self.settle(self.number, openings)
        if not ranges[-1][0]:
            return None
        return next(i for i, (low, high) in enumerate(ranges, 1) if low == high)

    def _worth(self, prefix: Candidate) -> float:
        """About how much leaking mass a forward of it finds."""
        share = 1.0 if prefix.share is None else prefix.share
        rate, missing = self._rate(prefix.lead, prefix.at)
        return math.exp(prefix.floor) * share * rate / missing

    def _rate(self, lead: Ids | None, at: int) -> tuple[float, int]:
        """The share that is known to leak at this place of a lead, and how many tokens it lacks."""
        if lead is None:
            return _LEADERLESS, 1
        before = lead[: max(at, 1)]
        mass = self.masses.get(before, 0.0)
        rate = min(self.proved.get(before, 0.0) / mass, 1.0) if mass else 0.0
        return max(rate, _LEADERLESS), max(len(lead) - at, 1)

    def _push_waiting(self) -> None:
        """Children that nothing was asked about are open, by what is proved of leads so far."""
        for brood in self._waiting:
            row, at = brood.row[brood.waits], brood.at[brood.waits]
            kinds, kind = np.unique(row << 32 | at, return_inverse=True)
            pairs = (divmod(code, 1 << 32) for code in kinds.tolist())
            rates = [self._rate(brood.parents[row].lead, at) for row, at in pairs]
            rate, missing = np.array(rates).reshape(-1, 2)[kind].T
            mass = np.array([math.exp(floor) for floor in brood.sums[1, brood.waits].tolist()])
            self._open.push_all(brood, mass * rate / missing)
        self._waiting = []

    def _ask(self, prefixes: Sequence[Candidate]) -> list[Candidate]:
        """Learn what their texts settle: leaks are nodes, the others go on or are done with."""
        self._settle(prefixes)
        going = [prefix for prefix in prefixes if self._goes_on(prefix)]
        hopes = [_hopes(prefix) for prefix in going]
        pairs = zip(going, hopes, strict=True)
        outputs = [
            (prefix.path + tail, self.ending.reason(prefix.path + tail) or "length")
            for prefix, mine in pairs
            for tail, *_ in mine
        ]
        ranges = iter(self.settle(self.number, outputs))
        for prefix, mine in zip(going, hopes, strict=True):
            shares = [(next(ranges)[0] * worth, at) for _, worth, at in mine]
            share, prefix.at = max(shares, key=itemgetter(0), default=(1.0, prefix.at))
            prefix.share = max(share, _HOPELESS)
        return going

    def _settle(self, prefixes: Sequence[Candidate]) -> None:
        openings = [(prefix.path, prefix.reason) for prefix in prefixes]
        for prefix, scores in zip(prefixes, self.settle(self.number, openings), strict=True):
            prefix.scores = scores

    def _goes_on(self, prefix: Candidate) -> bool:
        """Whether a prefix may be expanded; else it is a node where it leaks, and never both."""
        low, high = prefix.scores
        if low < high:
            return True
        self._file(prefix)
        return False

    def _file(self, child: Candidate) -> None:
        """A node, if it leaks; what is known to leak after each prefix of a lead grows by it."""
        (logprob, floor, *_), (low, high), reason = child.sums.tolist(), child.scores, child.reason
        if not low:
            return
        self.nodes.append(Node(child.path, logprob, floor, reason is not None, reason, low, high))
        for depth in range(1, len(child.path) + 1):
            if (before := child.path[:depth]) not in self.on_leads:
                break
            self.proved[before] = self.proved.get(before, 0.0) + math.exp(floor) * low


def _hopes(prefix: Candidate) -> list[tuple[Ids, float, int]]:
    """How a prefix goes on if it does as its lead, what counts most first.

    Each with what it counts for, and how many of the lead's tokens are then behind it: it may have
    put its last token in place of one of the lead's, or between two; or all since it left.
    """
    if prefix.lead is None:
        return []
    lead, at, left = prefix.lead, prefix.at, prefix.left
    hopes = [(lead[at:], 1.0, at), (lead[at - 1 :], _INSERTED, at)]
    return hopes if left >= at - 1 else [*hopes, (lead[left:], _RETURNED, left)]


class Prover:
    """Looks for leaking mass in a tree; the module's text says how.

    Args:
        tree: the model, the decoding, and what settles prefixes.
        forwards: the most prefixes of a root that are forwarded.
    """

    def __init__(self, tree: SearchTree, forwards: int) -> None:
        self._tree, self._most, self._ending = tree, forwards, tree.ending

    def prove(self, roots: Sequence[Root], leads: Sequence[Sequence[Ids]]) -> Iterator[Proof]:
        """Search every root for leaking mass.

        Args:
            roots: what to search.
            leads: of each root the ids of outputs that leak, what matters most first.

        Returns:
            One Proof for each root, in order.
        """
        for number, (root, mine) in enumerate(zip(roots, leads, strict=True)):
            hunt = _Hunt(number, self._ending, self._tree.settle, self._most)
            hunt.follow(mine)
            self._hunt(root, hunt)
            self._tree.model.release(np.array(hunt.handles, dtype=np.int64))
            broken = hunt.broken_at is not None
            yield Proof(number, () if broken else tuple(hunt.nodes), hunt.forwards, hunt.broken_at)

    def _hunt(self, root: Root, hunt: _Hunt) -> None:
        handles, logits = self._tree.prefill(root)
        lead = hunt.leads[0] if hunt.leads else None
        zero = np.zeros(1, dtype=np.int64)
        start = Brood((), (-1,), zero, zero, np.zeros((4, 1)), zero, zero, zero > 0)
        batch = [Candidate(start, 0, (), lead, 0, 0, 0.0)]
        while True:
            self._expand(hunt, logits, batch, handles)
            batch = hunt.next_batch(min(self._tree.rows, self._most - hunt.forwards))
            if not batch:
                hunt.finish()
                return
            held, logits = self._tree.forward([prefix.stem for prefix in batch])
            handles = held.tolist()

    def _expand(
        self, hunt: _Hunt, logits: torch.Tensor, batch: Sequence[Candidate], handles: Sequence[int]
    ) -> None:
        """Find what follows each prefix: its likeliest tokens, and those of leads."""
        stems = [prefix.stem for prefix in batch]
        for part, law in laws_after(logits, stems, self._tree.decoding, self._tree.margin):
            ids = law.logprob.topk(min(_CHILDREN, logits.shape[1])).indices.cpu().numpy()
            tokens = list[Ints]()
            for prefix, own, broken in zip(batch[part], ids, law.broken, strict=True):
                if broken:
                    hunt.broken_at, own = hunt.broken_at or prefix.path, own[:0]
                elif wanted := hunt.wanted_after(prefix.path):
                    own = np.array(list(dict.fromkeys([*wanted, *own.tolist()])))
                tokens.append(own)
            row = np.repeat(np.arange(len(tokens)), [len(own) for own in tokens])
            token = np.concatenate(tokens)
            steps = np.concatenate([law.taken(row, token), law.p_max[None, row]])
            sums = np.stack([prefix.sums for prefix in batch[part]], axis=1)[:, row] + steps
            at, waits = along(batch[part], row, token), sums[1] >= _LIGHTEST
            hunt.expand(Brood(batch[part], handles[part], row, token, sums, *at, waits))
