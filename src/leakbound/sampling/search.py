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
from leakbound.types import Decoding, Finish, Tell, Usage, untold

Settle = Callable[[int, Sequence[tuple[Ids, Finish | None]]], list[tuple[float, float]]]
"""(root number, (generated ids, ended) pairs) -> range of the scores they can end with."""

_CHILDREN = 64
_LIGHTEST = math.log(1e-9)  # of a child's mass; what is lighter stays in the lump
_BAND = 8.0  # within a batch no prefix is worth less than the best by more than this factor


@dataclass(frozen=True, slots=True)
class Node:
    """A complete output, or all outputs that begin with the same ids.

    Attributes:
        token_ids: generated ids.
        logprob: their natural log-probability under the decoding.
        floor: a lower bound of `logprob` for any logits within the margin.
        ended: whether it is a complete output.
        finish: why it is complete; None unless it is.
        low: the lowest score that an output in it can have.
        high: the highest.
    """

    token_ids: Ids
    logprob: float
    floor: float
    ended: bool
    finish: Finish | None
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Open:
    """A prefix that may be expanded, and the range its scores are known to lie in.

    Attributes:
        stem: the prefix.
        low: the lowest score that it can end with.
        high: the highest.
        asked: whether the range is its own; else it is still that of the prefix before it.
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
        """Its share of the width of the bounds, as far as exploring it could help."""
        return math.exp(self.stem.floor) * (self.high - self.low)

    def node(self, reason: Finish | None = None) -> Node:
        """The same as it is reported.

        Args:
            reason: why it is complete; None: it is a prefix.

        Returns:
            The node.
        """
        return Node(
            token_ids=self.stem.path,
            logprob=self.stem.logprob,
            floor=self.stem.floor,
            ended=reason is not None,
            finish=reason,
            low=self.low,
            high=self.high,
        )


@dataclass(frozen=True, slots=True)
class Split:
    """One row of logits: its likeliest tokens, and all others together.

    Attributes:
        children: the likeliest tokens, each with its step.
        rest: the mass of all others.
        rest_floor: a lower bound of that for any logits within the margin.
        broken: whether the logits were unusable.
    """

    children: list[tuple[int, Step]]
    rest: float
    rest_floor: float
    broken: bool


@dataclass(frozen=True, slots=True)
class Lump:
    """The next tokens of an expanded prefix that are no children.

    Attributes:
        stem: the prefix.
        handle: its own.
        logits: those after it, [vocabulary], empty where no draws will be made.
        split: its children and the mass of the others.
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
        """A lower bound of the mass, for any logits within the margin."""
        return math.exp(self.stem.floor) * self.split.rest_floor


@dataclass(slots=True)
class Search:
    """One root's tree, while it is explored.

    Attributes:
        number: the root's place among those that are explored.
        ending: what ends a completion.
        settle: gives the range of scores that generated ids can end with.
        keeps_logits: whether lumps keep their logits.
        events: complete outputs and settled prefixes.
        lumps: those of its expanded prefixes.
        handles: those of its expanded prefixes, the prompt's first.
        expanded: the ids of its expanded prefixes.
        closed: the ids of its events.
        settled: the mass of its events.
        broken_at: the prefix after which logits were unusable; None: none was.
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
        return [prefix for *_, prefix in sorted(self._heap, key=lambda entry: entry[:2])]

    def next_batch(self, most: int) -> list[Open]:
        """Take prefixes to expand; what proves settled is an event instead.

        Args:
            most: how many, at most.

        Returns:
            Open prefixes, the best first.
        """
        batch: list[Open] = []
        while len(batch) < most and self.best is not None:
            least = (batch[0] if batch else self.best).worth / _BAND
            taken = self._take(most - len(batch), least)
            batch += [prefix for prefix in taken if prefix.asked]
            if all(prefix.asked for prefix in taken):
                break
            self._ask([prefix for prefix in taken if not prefix.asked])
        return batch

    def expand(
        self,
        batch: Sequence[Open],
        handles: Sequence[int],
        logits: torch.Tensor,
        splits: Sequence[Split],
    ) -> None:
        """File what follows some prefixes.

        Args:
            batch: the prefixes, n of them.
            handles: theirs, [n].
            logits: after each, [n, vocabulary].
            splits: of each.
        """
        ended: list[tuple[Open, Finish]] = []
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
                opened = Open(child, prefix.low, prefix.high)
                if reason is None:
                    self._push(opened)
                else:
                    ended.append((opened, reason))
        self._close(ended)

    def ask_all(self, lightest: float) -> None:
        """Ask for all open prefixes that are heavy enough: whatever is settled is an event.

        Args:
            lightest: the least mass of a prefix that is asked for.
        """
        entries = [prefix for *_, prefix in self._heap]
        mine = [not prefix.asked and prefix.mass >= lightest for prefix in entries]
        self._heap = []
        for prefix, ask in zip(entries, mine, strict=True):
            if not ask:
                self._push(prefix)
        self._ask([prefix for prefix, ask in zip(entries, mine, strict=True) if ask])

    def _take(self, most: int, least: float) -> list[Open]:
        """Off the heap: the best, while they are worth at least this."""
        taken: list[Open] = []
        while self._heap and len(taken) < most and -self._heap[0][0] >= least:
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def _push(self, prefix: Open) -> None:
        heapq.heappush(self._heap, (-prefix.worth, prefix.stem.path, prefix))

    def _ask(self, prefixes: Sequence[Open]) -> None:
        """Learn their ranges; settled ones become events, the others are open again."""
        if not prefixes:
            return
        ranges = self.settle(self.number, [(prefix.stem.path, None) for prefix in prefixes])
        for prefix, (low, high) in zip(prefixes, ranges, strict=True):
            opened = Open(prefix.stem, low, high, asked=True)
            if low == high:
                self._file(opened.node())
            else:
                self._push(opened)

    def _close(self, ended: Sequence[tuple[Open, Finish]]) -> None:
        """Make events of complete outputs."""
        if not ended:
            return
        ranges = self.settle(self.number, [(prefix.stem.path, reason) for prefix, reason in ended])
        for (prefix, reason), (low, high) in zip(ended, ranges, strict=True):
            self._file(replace(prefix, low=low, high=high).node(reason))

    def _file(self, event: Node) -> None:
        self.events.append(event)
        self.closed.add(event.token_ids)
        self.settled += math.exp(event.logprob)


@torch.inference_mode()
def split_rows(
    logits: torch.Tensor, stems: Sequence[Stem], decoding: Decoding, margin: float
) -> list[Split]:
    """Split the tokens after each stem: its likeliest, if heavy enough, and all others together.

    Args:
        logits: after each stem, [stems, vocabulary].
        stems: the prefixes.
        decoding: the distribution to draw from.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).

    Returns:
        One split a stem.
    """
    splits = list[Split]()
    for part, law in laws_after(logits, stems, decoding, margin):
        logprob, ids = law.logprob.topk(min(_CHILDREN, logits.shape[1]))
        before = torch.tensor([stem.logprob for stem in stems[part]], dtype=logprob.dtype)
        heavy = logprob + before.to(logprob.device)[:, None] >= _LIGHTEST
        rest = [
            torch.exp(logs).scatter_(1, ids, torch.exp(logs.gather(1, ids)) * ~heavy).sum(dim=-1)
            for logs in (law.logprob, law.floor)
        ]
        whole = torch.cat([torch.stack([heavy.sum(dim=-1), *rest], dim=1), ids], dim=1).cpu()
        counts, left, left_floor = whole[:, :3].T.tolist()
        tokens = [
            row[: int(count)]
            for row, count in zip(whole[:, 3:].long().tolist(), counts, strict=True)
        ]
        columns = zip(law.steps(tokens), left, left_floor, law.broken, strict=True)
        splits += [Split(*parts) for parts in columns]
    return splits


@dataclass(frozen=True, slots=True)
class SearchTree:
    """Which tree is searched, and by what means.

    Attributes:
        model: gives the logits of prefixes.
        decoding: the distribution to draw from.
        settle: gives the range of scores that generated ids can end with.
        margin: how far a T = 1 log-probability may move with the batch shape, in nats; at least 0
            (see `law`).
        rows: the most prefixes forwarded at a time.
        ended: why generated ids end at a stop string or a budget; needed where there are some.
        tell: hears what is done after every step.
        usage: what the search cost is added here.

    Raises:
        InputError: adaptive temperature in mode "two_pass".
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
        """The ends of a completion."""
        return Ending.of(self.model, self.decoding, self.ended)

    def prefill(self, root: Root) -> tuple[list[int], torch.Tensor]:
        """Read a prompt.

        Args:
            root: whose prompt it is.

        Returns:
            Its handle, [1], and the logits after it, [1, vocabulary].
        """
        self.usage.prompt_tokens += len(root.token_ids)
        handles, logits = self.model.prefill([root.token_ids])
        return handles.tolist(), logits

    def forward(self, stems: Sequence[Stem]) -> tuple[Handles, torch.Tensor]:
        """Forward the last tokens of some prefixes.

        Args:
            stems: the prefixes, of at least one token each.

        Returns:
            Their handles, [stems], and the logits after them, [stems, vocabulary].
        """
        held = forward(self.model, stems)
        self.usage.forwards += len(stems)
        self.tell(0, len(stems))
        return held
