"""Prove leaks too rare to be drawn, by a search for leaking outputs near known leaking outputs.

A *lead* is an output that leaks, for example the true answer, an answer of another model, or a
draw. Leads are teacher-forced first, up to the token from which every continuation has the same
score. At each prefix of a lead, the likeliest other next tokens begin prefixes that leave the lead.
Then such prefixes are expanded, in descending order of their worth. The worth is m f / k, where

- m is the mass of the prefix,
- f is the fraction of the mass at the corresponding prefix of its lead that is known to leak,
- k is the number of tokens that remain of the lead.

The worth is reduced if the prefix would not leak after continuing like the lead. Three
continuations are tried:

- The last token of the prefix replaces a token of the lead.
- The last token of the prefix is inserted between two tokens of the lead.
- All tokens of the prefix since it left the lead are inserted.

The nodes of the result are disjoint, as the module `search` proves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import ClassVar

import numpy as np
import torch

from leakbound.sampling.distribution import Distribution
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
from leakbound.sampling.stems import Floats, Ints, Root, Tree

_LIGHTEST = math.log(1e-13)  # smallest log mass of a prefix that is worth a forward pass
_NEAR = sorted(range(-2, 8), key=abs)  # offsets in a lead at which a token is searched for
_FORCED = 0.5  # largest part of the forward passes that is for leads after the first
_INSERTED = 0.25  # factor for a prefix that would leak only if its last token were inserted
_RETURNED = 0.03  # factor if all tokens since the prefix left the lead were inserted
_HOPELESS = 1e-4  # factor if the prefix would not leak after continuing like the lead
_LEADERLESS = 1e-6  # factor without a lead, or with a lead of which nothing is proved
_LIGHT = 1e-4  # prefixes with a smaller part of the proved mass are not scored at the end


@dataclass(slots=True, kw_only=True)
class Hunt(BestFirstSearch):
    """The search for leaking outputs of one root.

    Attributes:
        most: the largest number of forward passes, one per prefix.
        leads: the leads that are followed, each up to the token from which its score is fixed.
        on_leads: the prefixes of these leads, each with its lead.
        masses: the mass of each prefix of a lead that was reached.
        proved: the known leaking mass after each prefix of a lead.
    """

    lightest: ClassVar[float] = _LIGHTEST

    most: int
    leads: list[Ids] = field(default_factory=list)
    on_leads: dict[Ids, Ids] = field(default_factory=dict)
    masses: dict[Ids, float] = field(default_factory=dict)
    proved: dict[Ids, float] = field(default_factory=dict)

    def follow(self, leads: Sequence[Ids]) -> None:
        """Use leads that need at most half of the forward passes; the first lead may use all."""
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
        """Return the next tokens of leads after a prefix."""
        if path and path not in self.on_leads:
            return []
        depth = len(path)
        wanted = (lead[depth] for lead in self.leads if lead[:depth] == path and depth < len(lead))
        return list(dict.fromkeys(wanted))

    def expand(self, brood: Brood) -> None:
        """See `Search.expand`; children on leads are expanded before all other prefixes."""
        led = np.array([not p.path or p.path in self.on_leads for p in brood.parents])
        for place in np.flatnonzero(brood.waits & led[brood.row]).tolist():
            child = brood.open(place)
            if (lead := self.on_leads.get(child.path)) is None:
                continue
            self.masses[child.path] = child.mass
            child.lead, child.at, child.left = lead, len(child.path), len(child.path)
            if not self.ending.reason(child.path):
                brood.waits[place] = False
                self._open.push(child, self._worth(child))
        BestFirstSearch.expand(self, brood)  # super() needs a class without slots

    def finish(self) -> None:
        """Convert unexpanded prefixes that certainly leak to nodes, in descending order of mass."""
        self._push_waiting()
        mass = math.fsum(math.exp(node.floor) * node.low for node in self.nodes)
        least = math.log(max(_LIGHT * mass, math.exp(_LIGHTEST)))
        left = [prefix for prefix in self._open.candidates if prefix.floor >= least]
        self._settle([prefix for prefix in left if prefix.share is None])
        for brood in self._open.broods:
            heavy = np.flatnonzero(brood.waits & (brood.sums[1] >= least)).tolist()
            fresh = [brood.open(place) for place in heavy]
            self._settle(fresh)
            left += [prefix for prefix in fresh if prefix.scores[0]]
        for prefix in sorted(left, key=lambda prefix: (-prefix.floor, prefix.path)):
            self._file(prefix)
        self._open = BestFirst()

    def along(self, parents: Sequence[Candidate], row: Ints, token: Ints) -> tuple[Ints, Ints]:
        places = [(p.at, min(p.at + 1, len(p.lead or ())), p.left) for p in parents]
        at, ahead, left = np.array(places, dtype=np.int64).T
        near = [
            [lead[at + i] if 0 <= at + i < len(lead) else -1 for i in _NEAR]
            for at, lead in ((p.at, p.lead or ()) for p in parents)
        ]
        same = token[:, None] == np.array(near)[row]
        hits = same.any(axis=1)
        after = np.where(hits, at[row] + np.array(_NEAR)[same.argmax(axis=1)] + 1, ahead[row])
        return after, np.where(hits, after, left[row])

    def _settled_at(self, lead: Ids) -> int | None:
        """Return the number of tokens after which a lead certainly leaks; None if it does not."""
        openings = [(ids, self.ending.reason(ids)) for ids in accumulate((i,) for i in lead)]
        if [reason is not None for _, reason in openings] != [False] * (len(lead) - 1) + [True]:
            return None
        ranges = self.settle(self.number, openings)
        if not ranges[-1][0]:
            return None
        return next(i for i, (low, high) in enumerate(ranges, 1) if low == high)

    def _worth(self, prefix: Candidate) -> float:
        """Estimate the leaking mass that a forward pass of the prefix would find."""
        if prefix.path in self.on_leads:
            return math.inf
        share = 1.0 if prefix.share is None else prefix.share
        rate, missing = self._rate(prefix.lead, prefix.at)
        return math.exp(prefix.floor) * share * rate / missing

    def _rate(self, lead: Ids | None, at: int) -> tuple[float, int]:
        """Return f and k at this place of a lead, as the module docstring defines them."""
        if lead is None:
            return _LEADERLESS, 1
        before = lead[: max(at, 1)]
        mass = self.masses.get(before, 0.0)
        rate = min(self.proved.get(before, 0.0) / mass, 1.0) if mass else 0.0
        return max(rate, _LEADERLESS), max(len(lead) - at, 1)

    def _worths(self, brood: Brood) -> Floats:
        row, at = brood.row[brood.waits], brood.at[brood.waits]
        kinds, kind = np.unique(row << 32 | at, return_inverse=True)
        pairs = (divmod(code, 1 << 32) for code in kinds.tolist())
        rates = [self._rate(brood.parents[row].lead, at) for row, at in pairs]
        rate, missing = np.array(rates).reshape(-1, 2)[kind].T
        mass = np.array([math.exp(floor) for floor in brood.sums[1, brood.waits].tolist()])
        return np.asarray(mass * rate / missing)

    def _settle_texts(self, prefixes: Sequence[Candidate]) -> list[Candidate]:
        """Compute score ranges of prefixes; convert leaks to nodes, and update other prefixes."""
        going = BestFirstSearch._settle_texts(self, prefixes)
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

    def _file(self, child: Candidate) -> None:
        """Convert a leaking child to a node; add its mass to the prefixes of leads before it."""
        low = child.scores[0]
        if not low:
            return
        self.nodes.append(child.node)
        for depth in range(1, len(child.path) + 1):
            if (before := child.path[:depth]) not in self.on_leads:
                break
            self.proved[before] = self.proved.get(before, 0.0) + math.exp(child.floor) * low


def _hopes(prefix: Candidate) -> list[tuple[Ids, float, int]]:
    """Return the continuations of a prefix along its lead, in descending order of their factors.

    Each continuation has its factor, and the number of the lead's tokens before it. The module
    docstring describes the three continuations.
    """
    if prefix.lead is None:
        return []
    lead, at, left = prefix.lead, prefix.at, prefix.left
    hopes = [(lead[at:], 1.0, at), (lead[at - 1 :], _INSERTED, at)]
    return hopes if left >= at - 1 else [*hopes, (lead[left:], _RETURNED, left)]


def _split(
    after: Distribution, batch: Batch[Hunt], handles: Sequence[int], logits: torch.Tensor
) -> list[Ints]:
    """Return the likeliest next tokens after each prefix, preceded by the next tokens of leads."""
    ids = after.logprob.topk(min(CHILDREN, logits.shape[1])).indices.cpu().numpy()
    tokens = list[Ints]()
    for (hunt, prefix), own in zip(batch, ids, strict=True):
        wanted = hunt.wanted_after(prefix.path)
        tokens.append(np.array(list(dict.fromkeys([*wanted, *own.tolist()]))) if wanted else own)
    return tokens


def prove(
    tree: OutputTree,
    settle: Settle,
    forwards: int,
    roots: Sequence[Root],
    leads: Sequence[Sequence[Ids]],
) -> Iterator[Tree]:
    """Search every root for leaking outputs, as the module docstring describes.

    Args:
        tree: the model and the decoding.
        settle: returns, for generated ids, the range of scores of all outputs that begin with them.
        forwards: the largest number of forward passes per root.
        roots: the roots to search.
        leads: for each root, the ids of outputs that leak, the most important first.

    Returns:
        One Tree for each root, in order. Its nodes are disjoint outputs and sets of outputs, each
            with the range of its scores, which is above 0.
    """
    for number, (root, mine) in enumerate(zip(roots, leads, strict=True)):
        hunt = Hunt(number=number, ending=tree.ending, settle=settle, most=forwards)
        hunt.follow(mine)
        prompt = Candidate.prompt(hunt.leads[0] if hunt.leads else None)
        begin(tree, [root], [(hunt, prompt)], _split)
        while batch := hunt.next_batch(min(tree.rows, forwards - hunt.forwards)):
            forward(tree, [(hunt, prefix) for prefix in batch], _split)
        hunt.finish()
        tree.model.release(np.array(hunt.handles, dtype=np.int64))
        nodes = () if hunt.broken_at is not None else tuple(hunt.nodes)
        yield Tree(number, nodes=nodes, forwards=hunt.forwards, broken_at=hunt.broken_at)
