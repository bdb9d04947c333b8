"""Given sequences, teacher-forced through a decoding: how likely is exactly this output?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from leakbound.errors import InputError
from leakbound.sampling.model import Ended, Ending, Ids, PrefixModel
from leakbound.sampling.stems import Leaf, Root, Stem, forward, laws_after
from leakbound.types import Decoding, Finish

Key = tuple[int, Ids]
"""(root number, generated ids)"""


def force(
    model: PrefixModel,
    decoding: Decoding,
    roots: Sequence[Root],
    sequences: Sequence[Key],
    *,
    margin: float,
    rows: int = 64,
    ended: Ended | None = None,
    beginnings: bool = False,
) -> list[Leaf | None]:
    """How likely each of some sequences is as an output, or as the beginning of one.

    Each distinct prefix is forwarded once.

    Args:
        model: gives the logits of prefixes.
        decoding: the distribution under which outputs have their probabilities.
        roots: the prompts.
        sequences: (root number, generated ids with the end token) of each.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).
        rows: the most prefixes forwarded together.
        ended: why generated ids end at a stop string or a budget; needed where there are some.
        beginnings: whether ids that stop short of their end are the beginning of outputs, with the
            probability of all of these and the finish "unknown".

    Returns:
        A leaf of count 0 for each, in order; None where the decoding cannot give this output: a
        truncated token, ids that go on past their end or, unless `beginnings`, stop short of it, or
        logits that are unusable on the way.

    Raises:
        InputError: adaptive temperature in mode "two_pass", or stop strings without `ended`.
    """
    require_one_law(decoding)
    ending = Ending.of(model, decoding, ended)
    reasons = {key: _reason(key[1], ending, beginnings) for key in sequences}
    wanted = {key: reason for key, reason in reasons.items() if reason is not None}
    trie = _Trie(wanted, decoding, margin)
    held, level = list[int](), trie.roots
    while level:
        handles: list[int] = []
        for start in range(0, len(level), rows):
            part = level[start : start + rows]
            mine, logits = _forward(model, roots, [(key[0], trie.stems[key]) for key in part])
            trie.grow(part, mine, logits)
            handles += mine
        model.release(np.array(held, dtype=np.int64))
        held, level = handles, trie.next_level(level)
    model.release(np.array(held, dtype=np.int64))
    return [trie.leaf(key) for key in sequences]


def require_one_law(decoding: Decoding) -> None:
    """Refuse a decoding under which a whole prompt's law hangs on its greedy completion.

    Args:
        decoding: any.

    Raises:
        InputError: adaptive temperature in mode "two_pass".
    """
    if decoding.adaptive_temperature is not None and decoding.adaptive_mode == "two_pass":
        raise InputError(
            "`adaptive_mode` must be 'running' here, got 'two_pass'. Choose each prompt's law by "
            "its greedy completion first, and pass that."
        )


class _Trie:
    """The prefixes of wanted outputs, and the stems of those the decoding can reach."""

    def __init__(self, wanted: Mapping[Key, Finish], decoding: Decoding, margin: float) -> None:
        self.roots: list[Key] = [(number, ()) for number in sorted({n for n, _ in wanted})]
        self.stems = dict.fromkeys(self.roots, Stem.prompt())
        self._wanted, self._decoding, self._margin = wanted, decoding, margin
        self._after: dict[Key, set[int]] = {}
        for number, ids in wanted:
            for depth, token in enumerate(ids):
                self._after.setdefault((number, ids[:depth]), set()).add(token)

    def grow(self, part: Sequence[Key], handles: Sequence[int], logits: torch.Tensor) -> None:
        """Follow the wanted tokens after each of these prefixes, one row of logits each."""
        stems = [self.stems[key] for key in part]
        for some, law in laws_after(logits, stems, self._decoding, self._margin):
            wanted = [
                [] if broken else sorted(self._after[key])
                for key, broken in zip(part[some], law.broken, strict=True)
            ]
            mine = zip(part[some], stems[some], handles[some], law.steps(wanted), strict=True)
            for key, stem, handle, steps in mine:
                for token, step in steps:
                    if step.logprob > -math.inf:
                        child = stem.child(handle, token, step)
                        self.stems[key[0], child.path] = child

    def next_level(self, level: Sequence[Key]) -> list[Key]:
        """The reachable prefixes one token longer that some sequence goes on from."""
        longer = [(n, (*ids, token)) for n, ids in level for token in sorted(self._after[n, ids])]
        return [key for key in longer if key in self.stems and key in self._after]

    def leaf(self, key: Key) -> Leaf | None:
        """The sequence as an output, if it is one and was reached."""
        stem, reason = self.stems.get(key), self._wanted.get(key)
        return None if stem is None or reason is None else stem.leaf((0,), reason)


def _reason(ids: Ids, ending: Ending, beginnings: bool) -> Finish | None:
    """Why ids are complete; None where they are not, or were before their last token."""
    before = [ending.reason(ids[:depth]) for depth in range(1, len(ids))]
    if any(before) or not ids:
        return None
    return ending.reason(ids) or ("unknown" if beginnings else None)


def _forward(
    model: PrefixModel, roots: Sequence[Root], stems: Sequence[tuple[int, Stem]]
) -> tuple[list[int], torch.Tensor]:
    """Handles of prefixes of one length, and the logits after them."""
    if not stems[0][1].path:
        handles, logits = model.prefill([roots[number].token_ids for number, _ in stems])
    else:
        handles, logits = forward(model, [stem for _, stem in stems])
    return handles.tolist(), logits
