"""The part of one root's prefix tree that was explored, best first.

Every expanded prefix splits into children and a *lump*: its likeliest next tokens are children,
all others together the lump. A child that ends, or whose scores are settled, is an event of known
mass; the other children are open and, with the lumps, the cells of what is not known.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from leakbound.sampling.forced import require_one_law
from leakbound.sampling.law import Step
from leakbound.sampling.model import Ended, Ending, Handles, Ids, PrefixModel
from leakbound.sampling.stems import Root, Stem, forward, laws_after
from leakbound.types import Decoding, FinishReason, Tell, Usage, untold

Settle = Callable[[int, Sequence[tuple[Ids, bool]]], list[tuple[float, float]]]
"""(root number, (generated ids, ended) pairs) -> range of the scores they can end with."""

_CHILDREN = 64
_LIGHTEST = math.log(1e-9)  # of a child's mass; what is lighter stays in the lump
_BAND = 8.0  # within a batch no prefix is worth less than the best by more than this factor


@dataclass(frozen=True, slots=True)
class Node:
    """A complete output (`ended`), or all outputs that begin with these ids; its scores' range.

    `floor` is what `logprob` is at least for any logits within the margin. `finish_reason` is
    None unless `ended`.
    """

    token_ids: Ids
    logprob: float
    floor: float
    ended: bool
    finish_reason: FinishReason | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Open:
    """A prefix that may be expanded, and the range its scores are known to lie in.

    `asked`: the range is its own; else it is still that of the prefix before it.
    """

    stem: Stem
    low: float
    high: float
    asked: bool = False

    @property
    def mass(self) -> float:
        return math.exp(self.stem.logprob)

    @property
    def worth(self) -> float:
        """What it contributes to the width of the bounds, as far as exploring it could help."""
        return math.exp(self.stem.floor) * (self.high - self.low)

    def node(self, reason: FinishReason | None = None) -> Node:
        """The same as it is reported: complete for this reason, or a prefix."""
        return Node(
            token_ids=self.stem.path,
            logprob=self.stem.logprob,
            floor=self.stem.floor,
            ended=reason is not None,
            finish_reason=reason,
            low=self.low,
            high=self.high,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """One row of logits: its likeliest tokens, and the mass and floor of all others together."""

    children: list[tuple[int, Step]]
    rest: float
    rest_floor: float
    broken: bool


@dataclass(frozen=True, slots=True)
class Lump:
    """The next tokens of an expanded prefix that are no children.

    `handle` is the prefix's own; `logits` are those after it, empty where no draws will be made.
    """

    stem: Stem
    handle: int
    logits: torch.Tensor
    split: Split

    @property
    def mass(self) -> float:
        return math.exp(self.stem.logprob) * self.split.rest

    @property
    def floor_mass(self) -> float:
        """What the mass is at least, for any logits within the margin."""
        return math.exp(self.stem.floor) * self.split.rest_floor


@dataclass(slots=True)
class Search:
    """One root's tree, while it is explored.

    `handles` are those of its expanded prefixes, the prompt's first. `closed` are the ids of its
    events, `settled` their mass.
    """

    number: int
    ending: Ending
    settle: Settle
    keeps_logits: bool
    events: list[Node] = field(default_factory=list)
    lumps: list[Lump] = field(default_factory=list)
    handles: list[int] = field(default_factory=list)
    expanded: set[Ids] = field(default_factory=set)
    closed: set[Ids] = field(default_factory=set)
    settled: float = 0.0
    broken_at: Ids | None = None
    _heap: list[tuple[float, Ids, Open]] = field(default_factory=list)

    @property
    def explored(self) -> int:
        """Prefixes forwarded; the prompt is none of them."""
        return len(self.handles) - 1

    @property
    def best(self) -> Open | None:
        """The open prefix that is worth most; None where none is worth anything."""
        if self.broken_at is not None or not self._heap or self._heap[0][0] == 0:
            return None
        return self._heap[0][2]

    @property
    def remainder(self) -> float:
        """Mass of all that is no event."""
        return max(1 - self.settled, 0.0)

    @property
    def open(self) -> list[Open]:
        """All open prefixes, those worth most first."""
        return [each for *_, each in sorted(self._heap, key=lambda entry: entry[:2])]

    def next_batch(self, most: int) -> list[Open]:
        """Take at most so many prefixes to expand; what proves settled is an event instead."""
        batch: list[Open] = []
        while len(batch) < most and self.best is not None:
            least = (batch[0] if batch else self.best).worth / _BAND
            taken = self._take(most - len(batch), least)
            batch += [each for each in taken if each.asked]
            if all(each.asked for each in taken):
                break
            self._ask([each for each in taken if not each.asked])
        return batch

    def expand(
        self,
        batch: Sequence[Open],
        handles: Sequence[int],
        logits: torch.Tensor,
        splits: Sequence[Split],
    ) -> None:
        """File what follows these prefixes: one handle, row of logits and split for each."""
        ended: list[tuple[Open, FinishReason]] = []
        self.handles += handles
        rows = (logits if self.keeps_logits else logits[:, :0]).to("cpu", copy=True)
        for prefix, handle, row, split in zip(batch, handles, rows, splits, strict=True):
            stem = prefix.stem
            if split.broken:
                self.broken_at = self.broken_at or stem.path
                continue
            self.expanded.add(stem.path)
            self.lumps.append(Lump(stem, handle, row, split))
            for token, step in split.children:
                child = stem.child(handle, token, step)
                reason = self.ending.reason(child.path)
                each = Open(child, prefix.low, prefix.high)
                if reason is None:
                    self._push(each)
                else:
                    ended.append((each, reason))
        self._close(ended)

    def ask_all(self, lightest: float) -> None:
        """Ask for all open prefixes of at least this mass: whatever is settled is an event."""
        entries = [each for *_, each in self._heap]
        mine = [not each.asked and each.mass >= lightest for each in entries]
        self._heap = []
        for each, ask in zip(entries, mine, strict=True):
            if not ask:
                self._push(each)
        self._ask([each for each, ask in zip(entries, mine, strict=True) if ask])

    def _take(self, most: int, least: float) -> list[Open]:
        """Off the heap: the best, while they are worth at least this."""
        taken: list[Open] = []
        while self._heap and len(taken) < most and -self._heap[0][0] >= least:
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def _push(self, each: Open) -> None:
        heapq.heappush(self._heap, (-each.worth, each.stem.path, each))

    def _ask(self, prefixes: Sequence[Open]) -> None:
        """Learn their ranges; settled ones become events, the others are open again."""
        if not prefixes:
            return
        ranges = self.settle(self.number, [(each.stem.path, False) for each in prefixes])
        for each, (low, high) in zip(prefixes, ranges, strict=True):
            known = Open(each.stem, low, high, asked=True)
            if low == high:
                self._file(known.node())
            else:
                self._push(known)

    def _close(self, ended: Sequence[tuple[Open, FinishReason]]) -> None:
        """Make events of complete outputs."""
        if not ended:
            return
        ranges = self.settle(self.number, [(each.stem.path, True) for each, _ in ended])
        for (each, reason), (low, high) in zip(ended, ranges, strict=True):
            self._file(replace(each, low=low, high=high).node(reason))

    def _file(self, event: Node) -> None:
        self.events.append(event)
        self.closed.add(event.token_ids)
        self.settled += math.exp(event.logprob)


@torch.inference_mode()
def split_rows(
    logits: torch.Tensor, stems: Sequence[Stem], decoding: Decoding, margin: float
) -> list[Split]:
    """What follows each stem: its likeliest tokens, if heavy enough, and all others together."""
    found = list[Split]()
    for part, law in laws_after(logits, stems, decoding, margin):
        logprob, ids = law.logprob.topk(min(_CHILDREN, logits.shape[1]))
        before = torch.tensor([stem.logprob for stem in stems[part]], dtype=logprob.dtype)
        heavy = logprob + before.to(logprob.device)[:, None] >= _LIGHTEST
        rest = [
            torch.exp(each).scatter_(1, ids, torch.exp(each.gather(1, ids)) * ~heavy).sum(dim=-1)
            for each in (law.logprob, law.floor)
        ]
        whole = torch.cat([torch.stack([heavy.sum(dim=-1), *rest], dim=1), ids], dim=1).cpu()
        counts, left, left_floor = whole[:, :3].T.tolist()
        tokens = [
            row[: int(count)]
            for row, count in zip(whole[:, 3:].long().tolist(), counts, strict=True)
        ]
        splits = zip(law.steps(tokens), left, left_floor, law.broken, strict=True)
        found += [Split(*each) for each in splits]
    return found


@dataclass(frozen=True, slots=True)
class SearchTree:
    """Which tree is searched, and by what means; what that cost is added to `usage`.

    `settle` tells the range of scores that generated ids can end with. `rows` prefixes at most
    are forwarded at a time; `margin`, `ended` and `tell` are the forest's. InputError for
    `two_pass`.
    """

    model: PrefixModel
    decoding: Decoding
    settle: Settle
    margin: float
    rows: int = 64
    ended: Ended | None = None
    tell: Tell = untold
    usage: Usage = field(default_factory=Usage)

    def __post_init__(self) -> None:
        require_one_law(self.decoding)

    @property
    def ending(self) -> Ending:
        """What ends a completion."""
        return Ending.of(self.model, self.decoding, self.ended)

    def prefill(self, root: Root) -> tuple[int, torch.Tensor]:
        """The handle of a prompt, and the logits after it."""
        self.usage.prompt_tokens += len(root.token_ids)
        return self.model.prefill(root.token_ids)

    def forward(self, stems: Sequence[Stem]) -> tuple[Handles, torch.Tensor]:
        """Handles of these prefixes, and the logits after them."""
        found = forward(self.model, stems)
        self.usage.forwards += len(stems)
        self.tell(0, len(stems))
        return found
