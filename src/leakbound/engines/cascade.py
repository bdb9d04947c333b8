"""Compute the attention of rows that share prompts, without reading a prompt's keys repeatedly.

A row is a prefix whose next token is computed. Rows are independent. So this
module copies the keys of a few rows, computes their attention, and continues
with the next few rows. The result is the same to the bit, and the copies fit
into the cache of a CPU (`Shared.block`).

If prompts are long and have many rows, one matrix product reads the keys of a
prompt once for all rows of this prompt. A row's attention scores for its prompt
and for its generated tokens then go through one softmax (`_attend_joined`).
Prompts differ in length and in number of rows. So rows are grouped into
*strips* of an equal number of rows (the height), all of which follow one
prompt. A step then needs only a few matrix products for all prompts. The order
of summation differs from the order in ordinary attention. So the last bits of
logits change, as they do between batches of different shapes.

Models call this module through transformers' attention interface, under the
name `NAME`, within `attending`. Before a layer attends, the cache of this layer
passes its keys and values to `Shared.offer`. The cache then returns to the
layer only the keys and values of the new tokens. If a layer does not use the
offered keys and values, or attends in an unsupported way, `NotJoinedError` is
raised. The model is then not used with this module again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "leakbound_cascade"

# attention scores in one batch: few enough for the cache of a CPU, many for a GPU
_SCORES = {"cpu": 1 << 19, "other": 1 << 26}
_HEIGHTS = (4, 8, 16, 32, 64, 128)  # of strips
_STRIP = 8  # cost of reading a strip's keys, as a number of rows that attend
_ALL = 1 << 62  # bytes: no limit
_NOWHERE = torch.empty(0, 0, dtype=torch.long)
_REFUSED = ("position_bias", "head_mask")  # arguments that change scores in unsupported ways

KeysValues: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""Keys and values; each has the shape rows (or strips) × heads × tokens × width."""


class NotJoinedError(RuntimeError):
    """A model's attention cannot be computed in parts."""


@dataclass(frozen=True, slots=True)
class Strips:
    """Rows in strips of equal height. A strip has rows of one prompt; its last strip may be short.

    Attributes:
        starts: the first row of each strip, then the number of all rows.
        prompts: the index of each strip's prompt.
        rows: strips × height, the row at each place; a short strip is filled with its first row.
        places: the place of each row, as an index into the flattened `rows`.
    """

    starts: NDArray[np.int64]
    prompts: NDArray[np.int64]
    rows: NDArray[np.int64]
    places: NDArray[np.int64]

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> Strips:
        """Divide rows into strips of the height with the least cost; `sizes`: rows per prompt."""
        ways = ((height, -(-sizes // height)) for height in _HEIGHTS)
        height, counts = min(ways, key=lambda way: way[1].sum() * (way[0] + _STRIP))
        prompts = np.repeat(np.arange(len(sizes)), counts)
        nth = np.arange(len(prompts)) - (np.cumsum(counts) - counts)[prompts]
        starts = (np.cumsum(sizes) - sizes)[prompts] + nth * height
        ends = np.append(starts[1:], sizes.sum())
        rows = starts[:, None] + np.arange(height)
        inside = rows < ends[:, None]
        rows = np.where(inside, rows, starts[:, None])
        return cls(np.append(starts, ends[-1]), prompts, rows, np.flatnonzero(inside))


class Offered(NamedTuple):
    """The keys and values that the cache of a layer offers to the attention of this layer.

    Attributes:
        new: the new tokens' keys and values, which the cache returned to the layer.
        columns: the number of key columns of one row.
        bytes: the number of bytes of one row's keys and values.
        rows: returns the keys and values of rows, valid until the next call.
        ahead: the number of tokens of the longest prompt that is read once for all its rows; 0:
            prompts are part of the rows.
        prompts: returns the keys and values of the prompts of strips, valid until the next call.
    """

    new: KeysValues
    columns: int
    bytes: int
    rows: Callable[[slice], KeysValues]
    ahead: int
    prompts: Callable[[slice], KeysValues]


class Together(NamedTuple):
    """Rows that attend in one batch, and their strips.

    Attributes:
        rows: the rows, as a slice of all rows.
        strips: the strips, as a slice of all strips.
        into: for each place in the strips, the index of the place's row and head; strips · heads ·
            height.
        back: for each row and head, the place in the strips; rows · heads.
    """

    rows: slice
    strips: slice
    into: torch.Tensor
    back: torch.Tensor

    def by_strip(self, x: torch.Tensor) -> torch.Tensor:
        """Group queries by strip.

        Convert [rows, heads, queries of a row, width] to [strips, heads, queries of a strip,
        width].
        """
        return (
            x.flatten(0, 1)
            .index_select(0, self.into)
            .view(self.strips.stop - self.strips.start, x.shape[1], -1, x.shape[3])
        )

    def by_row(self, x: torch.Tensor, queries: int) -> torch.Tensor:
        """Convert strips back to rows, each with this number of queries."""
        return (
            x.view(-1, queries, x.shape[3])
            .index_select(0, self.back)
            .view(-1, x.shape[1], queries, x.shape[3])
        )


class Shared:
    """The layout of the rows of one forward pass. `block`: bytes of keys per batch (None: all).

    If prompts are read once, the layout has the `starts` of the strips, and their `rows` and
    `places` on the model's device (see `Strips`).
    """

    def __init__(
        self,
        block: int | None,
        starts: Sequence[int] = (),
        rows: torch.Tensor = _NOWHERE,
        places: torch.Tensor = _NOWHERE,
    ) -> None:
        self.block, self._starts, self._rows, self._places = block or _ALL, starts, rows, places
        self._offered: Offered | None = None
        self._together: dict[tuple[int, int], list[Together]] = {}

    def offer(self, offered: Offered) -> None:
        """Store the keys and values that a layer's cache offers to the attention of the layer."""
        self.require_taken()
        self._offered = offered

    def take(self) -> Offered:
        """Remove and return the offer for this layer; raise NotJoinedError if there is none."""
        if self._offered is None:
            raise NotJoinedError("a layer attends to keys that are not in the cache")
        offered, self._offered = self._offered, None
        return offered

    def require_taken(self) -> None:
        """Raise NotJoinedError if a layer's attention did not use its offer."""
        if self._offered is not None:
            raise NotJoinedError("a layer does not use transformers' attention interface")

    def together(self, offered: Offered, heads: int) -> Sequence[Together]:
        """Divide the strips into the largest groups that `block` and `_SCORES` allow."""
        kinds, height = offered.new[0].shape[1], self._rows.shape[1]
        scores = _SCORES.get(self._rows.device.type, _SCORES["other"])
        most = scores // (heads * (offered.ahead + offered.columns))
        key = kinds, max(min(most, self.block // offered.bytes) // height, 1)
        if key not in self._together:
            self._together[key] = [*self._divide(*key)]
        return self._together[key]

    def _divide(self, kinds: int, count: int) -> Iterator[Together]:
        strips, height = self._rows.shape
        kind = torch.arange(kinds, device=self._rows.device)
        for low in range(0, strips, count):
            some = slice(low, min(low + count, strips))
            mine = slice(self._starts[low], self._starts[some.stop])
            into = (self._rows[some, None] - mine.start) * kinds + kind[:, None]
            at = self._places[mine] - low * height
            back = (at + at // height * (kinds - 1) * height)[:, None] + kind * height
            yield Together(mine, some, into.flatten(), back.flatten())


_SHARED: ContextVar[Shared | None] = ContextVar("leakbound_shared_prompts", default=None)


@contextmanager
def attending(config: Any, shared: Shared) -> Iterator[None]:
    """Inside this context, the model with this config attends to the offers of its cache."""
    before, token = config._attn_implementation, _SHARED.set(shared)
    config._attn_implementation = NAME
    try:
        yield
        shared.require_taken()
    finally:
        config._attn_implementation = before
        _SHARED.reset(token)


def cascade_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Compute attention from the offer of the cache, as an attention function of transformers.

    Each row has one query. `attention_mask` has the columns of the longest prompt that is read
    once, then the columns of a row's keys. `s_aux` are the attention sinks, one per head.
    """
    shared = _SHARED.get()
    if shared is None:
        raise NotJoinedError(f"`{NAME}` attends only within `attending`")
    offered = shared.take()
    if key is not offered.new[0] or value is not offered.new[1]:
        raise NotJoinedError("a layer changes the keys and values that its cache returns")
    mask = _require_known(attention_mask, offered, others, query)
    if offered.ahead:
        return _attend_joined(query, mask, shared, offered, others), None
    if others.get("s_aux") is not None:
        raise NotJoinedError("a layer uses attention sinks")
    height, parts = max(1, shared.block // offered.bytes), []
    for low in range(0, len(query), height):
        some = slice(low, low + height)
        keys, values = offered.rows(some)
        parts.append(
            sdpa_attention_forward(module, query[some], keys, values, mask[some], **others)[0]
        )
    return torch.cat(parts), None


def _attend_joined(
    query: torch.Tensor,
    mask: torch.Tensor,
    shared: Shared,
    offered: Offered,
    others: dict[str, Any],
) -> torch.Tensor:
    """Compute attention; the keys of a prompt are read once for all rows that follow the prompt."""
    rows, heads, _, width = query.shape
    ahead, parts = offered.ahead, []
    grouped = query.reshape(rows, offered.new[0].shape[1], -1, width)
    for group in shared.together(offered, heads):
        mine, (keys, values) = grouped[group.rows], offered.prompts(group.strips)
        own_keys, own_values = offered.rows(group.rows)
        ahead_scores = group.by_row(group.by_strip(mine) @ keys.mT, mine.shape[2])
        scores = torch.cat([ahead_scores, mine @ own_keys.mT], dim=-1)
        weights = _softmax(scores, mask[group.rows], width, others).to(values.dtype)
        attended = group.by_row(group.by_strip(weights)[..., :ahead] @ values, mine.shape[2])
        parts.append(attended.add_(weights[..., ahead:] @ own_values))
    return (torch.cat(parts) if len(parts) > 1 else parts[0]).view(rows, 1, heads, -1)


def _softmax(
    scores: torch.Tensor, mask: torch.Tensor, width: int, others: dict[str, Any]
) -> torch.Tensor:
    """Return attention weights, rows × heads × queries × keys, in the precision of the mask."""
    sinks, softcap = others.get("s_aux"), others.get("softcap")
    scaling = others.get("scaling") or width**-0.5
    if softcap is None:
        scores = torch.add(mask, scores, alpha=scaling)
    else:
        scores = scores.to(mask.dtype).mul_(scaling / softcap).tanh_().mul_(softcap).add_(mask)
    if sinks is None:
        return torch.softmax(scores, dim=-1)
    sink = sinks.to(scores.dtype).view(1, *scores.shape[1:3], 1).expand(len(scores), -1, -1, -1)
    return torch.softmax(torch.cat([scores, sink], dim=-1), dim=-1)[..., :-1]  # a sink has no value


def _require_known(
    mask: torch.Tensor | None, offered: Offered, others: dict[str, Any], query: torch.Tensor
) -> torch.Tensor:
    """Return the mask; raise NotJoinedError if a layer needs a feature that this module lacks."""
    if mask is None or mask.shape[:3] != (len(query), 1, 1) or query.shape[2] != 1:
        raise NotJoinedError("a layer does not use the given attention mask")
    if mask.shape[-1] != offered.ahead + offered.columns:
        raise NotJoinedError("a layer changes the length of the attention mask")
    for name in _REFUSED:
        if others.get(name) is not None:
            raise NotJoinedError(f"a layer's attention uses `{name}`")
    return mask


AttentionInterface.register(NAME, cascade_attention)
