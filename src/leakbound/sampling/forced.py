"""Compute the probabilities of given outputs under a decoding, by teacher forcing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from leakbound.sampling.distribution import Distribution
from leakbound.sampling.model import Ending, Ids, OutputTree
from leakbound.sampling.search import Batch, Brood, Candidate, Search, begin, forward
from leakbound.sampling.stems import Ints, Leaf, Root
from leakbound.types import Finish

Key = tuple[int, Ids]
"""A pair (root number, generated ids)."""


@dataclass(slots=True, kw_only=True)
class Followed(Search):
    """The search that follows the given outputs of one root.

    Attributes:
        after: the tokens that follow each prefix of a given output.
        reached: the prefixes that the decoding can reach, by their ids.
        level: the prefixes to expand next, all of one length.
    """

    after: dict[Ids, set[int]] = field(default_factory=dict)
    reached: dict[Ids, Candidate] = field(default_factory=dict)
    level: list[Candidate] = field(default_factory=list)

    def expand(self, brood: Brood) -> None:
        self.handles += brood.handles
        possible = np.flatnonzero(brood.sums[0] > -math.inf).tolist()
        children = {child.path: child for child in map(brood.open, possible)}
        self.reached |= children
        self.level += [child for path, child in children.items() if path in self.after]

    def take(self) -> list[Candidate]:
        """Remove and return the prefixes to expand next, all of one length."""
        level, self.level = self.level, []
        return level


def force(
    tree: OutputTree, roots: Sequence[Root], sequences: Sequence[Key], beginnings: bool = False
) -> list[Leaf | None]:
    """Return the probabilities of sequences as outputs, or as beginnings of outputs.

    Each distinct prefix is forwarded once.

    Args:
        tree: the model, and the decoding that defines the probabilities.
        roots: the prompts.
        sequences: one pair (root number, generated ids with the end token) per sequence.
        beginnings: whether ids of incomplete outputs are accepted. The leaf of such ids has the
            total probability of all outputs that begin with them, and the finish "unknown".

    Returns:
        A leaf of count 0 for each sequence, in order. None if the decoding cannot generate the
            sequence, because a token is truncated, the ids continue after an end or, unless
            `beginnings`, the output is incomplete. Also None if the logits after one of its
            prefixes are unusable.

    Raises:
        InputError: a decoding with stop strings or budgets, but no `ended` to test for them.
    """
    reasons = {key: _reason(key[1], tree.ending, beginnings) for key in sequences}
    searches: dict[int, Followed] = {}
    for number, ids in sorted(key for key, reason in reasons.items() if reason is not None):
        search = searches.setdefault(number, Followed(number=number))
        for depth, token in enumerate(ids):
            search.after.setdefault(ids[:depth], set()).add(token)
    batch = [(search, Candidate.prompt()) for search in searches.values()]
    while batch:
        before = [handle for search in searches.values() for handle in search.handles]
        for search in searches.values():
            search.handles = []
        for start in range(0, len(batch), tree.rows):
            part = batch[start : start + tree.rows]
            if part[0][1].path:
                forward(tree, part, _wanted)
            else:
                begin(tree, [roots[search.number] for search, _ in part], part, _wanted)
        tree.model.release(np.array(before, dtype=np.int64))
        batch = [(search, prefix) for search in searches.values() for prefix in search.take()]
    last = [handle for search in searches.values() for handle in search.handles]
    tree.model.release(np.array(last, dtype=np.int64))
    leaves: dict[Key, Leaf] = {}
    for (number, ids), reason in reasons.items():
        if reason is not None and (prefix := searches[number].reached.get(ids)):
            leaves[number, ids] = prefix.stem.leaf((0,), reason)
    return [leaves.get(key) for key in sequences]


def _wanted(
    after: Distribution, batch: Batch[Followed], handles: Sequence[int], logits: torch.Tensor
) -> list[Ints]:
    """Return the next tokens of the given outputs after each prefix."""
    return [np.array(sorted(search.after[prefix.path])) for search, prefix in batch]


def _reason(ids: Ids, ending: Ending, beginnings: bool) -> Finish | None:
    """Return why ids are complete; None if they are not, or were complete before the last token."""
    before = [ending.reason(ids[:depth]) for depth in range(1, len(ids))]
    if any(before) or not ids:
        return None
    return ending.reason(ids) or ("unknown" if beginnings else None)
