"""Attention over branching prefixes: a few rows at a time, and to what many share once for all.

Rows are independent, so whoever gathers the keys of a few, attends, and goes on to the next few
has the same result to the bit, from a processor's cache instead of its memory (`_attend_gathered`).

Where prompts are long and rows many, their keys are read once for all rows and joined with each
row's own (`_attend_joined`). A row's keys are its prompt's P and its own S. With scores
sᵢ = q · kᵢ, and of a part A of them the logsumexp ℓ_A = log Σ_A exp sᵢ and the attention
o_A = Σ_A exp(sᵢ − ℓ_A) vᵢ, attention to both parts is

    o = exp(ℓ_P − ℓ) o_P + exp(ℓ_S − ℓ) o_S,   ℓ = log(exp ℓ_P + exp ℓ_S),

since exp(ℓ_A − ℓ) is the softmax's mass on A. So the queries of all rows after one prompt meet its
keys in one product of matrices, which reads them once, whatever the number of rows; a sink, a
score without a value, is one more part. Sums are in another order than those of one softmax over
all keys: the last bits of logits move, as they do between batches of other shapes.

Models come here through transformers' attention interface, by the name `NAME`, for the time of
one forward (`attending`). Their cache has just `offer`ed what there is to attend to in the same
layer, and returned the new tokens' keys and values alone; a layer that offers and does not attend,
or attends in a way that is not known here, raises `NotJoinedError`, and such a model is never asked
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, TypeAlias

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

NAME = "leakbound_cascade"

# scores worked on at once: few enough to stay in a processor's cache, many for a GPU
_SCORES = {"cpu": 1 << 19, "other": 1 << 26}
_REFUSED = ("position_bias", "head_mask")  # they change scores, and nothing here knows how

KeysValues: TypeAlias = tuple[torch.Tensor, torch.Tensor]
"""A prompt's keys and values, heads × tokens × width each."""


class NotJoinedError(RuntimeError):
    """A model's attention is not of the kind that can be computed in parts."""


class Attended(NamedTuple):
    """Attention to some keys, ... × queries × width; and of their scores, ... × queries × 1, the
    largest and the sum of exp(score − largest). Of several parts, one after the other, or of one.
    """

    values: torch.Tensor
    most: torch.Tensor
    total: torch.Tensor

    @classmethod
    def room(cls, query: torch.Tensor, width: int, parts: int) -> Attended:
        """For so many parts of the attention of `query` to values of this width; not yet filled."""
        shape, dtype = (parts, *query.shape[:-1]), torch.promote_types(query.dtype, torch.float32)
        sizes = ((*shape, width), (*shape, 1), (*shape, 1))
        return cls(*(query.new_empty(size, dtype=dtype) for size in sizes))

    def of(self, part: int) -> Attended:
        """One part of several."""
        return Attended(*(each[part] for each in self))


class Offered(NamedTuple):
    """What a layer's cache has for its attention, and how large it is.

    new: the new tokens' keys and values, which the cache returned to the layer.
    prompts: keys and values of each prompt that is read once.
    columns, bytes: of a row's keys and values.
    gather: the keys and values of some rows, rows × heads × columns × width each; they last until
        others are gathered.
    """

    new: KeysValues
    prompts: Sequence[KeysValues]
    columns: int
    bytes: int
    gather: Callable[[slice], KeysValues]


class Shared:
    """How the rows of one forward attend: `sizes[i]` of them, one after the other, to the i-th
    prompt, where prompts are read once; `block` bytes of their own keys at a time, None: all.
    """

    def __init__(self, sizes: Sequence[int], block: int | None) -> None:
        self.sizes, self.block = tuple(sizes), block
        self._offered: Offered | None = None

    def offer(self, offered: Offered) -> None:
        """Lay out what a layer's attention is to take."""
        self.require_taken()
        self._offered = offered

    def take(self) -> Offered:
        """What this layer offered; NotJoinedError where it offered nothing."""
        if self._offered is None:
            raise NotJoinedError("a layer attends to keys that no cache gave it")
        offered, self._offered = self._offered, None
        return offered

    def require_taken(self) -> None:
        """Raise NotJoinedError if a layer has not taken what it offered."""
        if self._offered is not None:
            raise NotJoinedError("a layer attends otherwise than through the attention interface")

    def blocks(self, rows: int, offered: Offered) -> Iterator[tuple[slice, KeysValues]]:
        """Some rows after others, with their keys and values."""
        height = rows if self.block is None else max(1, self.block // offered.bytes)
        for low in range(0, rows, height):
            some = slice(low, min(low + height, rows))
            yield some, offered.gather(some)


_SHARED: ContextVar[Shared | None] = ContextVar("leakbound_shared_prompts", default=None)


@contextmanager
def attending(config: Any, shared: Shared) -> Iterator[None]:
    """Let the model of this config attend to these prompts and to what its cache returns."""
    before, token = config._attn_implementation, _SHARED.set(shared)
    config._attn_implementation = NAME
    try:
        yield
        shared.require_taken()
    finally:
        config._attn_implementation = before
        _SHARED.reset(token)


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float,
    softcap: float | None,
    out: Attended,
) -> None:
    """Attention of `query` (... × queries × width) to `keys` and `values` (... × keys × width).

    `mask`, of zeros and a number that hides whatever the score, is added to the scores, after they
    are scaled and capped. Scores and sums are at least float32. `out` may have more axes than
    `query` has.
    """
    scores = (query @ keys.transpose(-1, -2)).to(out.total.dtype)
    if softcap is not None or mask is None:
        scores = scores.mul_(scaling)
    if softcap is not None:
        scores = scores.div_(softcap).tanh_().mul_(softcap)
    if mask is not None:
        scores = torch.add(mask, scores, alpha=1.0 if softcap is not None else scaling)
    by_query = scores.view(*out.total.shape[:-1], scores.shape[-1])
    torch.amax(by_query, dim=-1, keepdim=True, out=out.most)
    by_query.sub_(out.most).exp_()
    torch.sum(by_query, dim=-1, keepdim=True, out=out.total)
    found = scores.to(values.dtype) @ values
    torch.div(found.view(out.values.shape), out.total, out=out.values)


def join(parts: Attended) -> torch.Tensor:
    """Attention to the keys of all parts together, whose values it takes; see the module's text."""
    shares = torch.softmax(parts.total.log_().add_(parts.most), dim=0)
    return parts.values.mul_(shares).sum(dim=0)


def cascade_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of transformers: one query a row, to all that its cache has offered.

    `attention_mask` has the columns of a row's own keys and before them, unless nothing in a prompt
    is masked, those of the longest prompt. `s_aux` are the sinks, one a head.
    """
    shared = _SHARED.get()
    if shared is None:
        raise NotJoinedError(f"`{NAME}` attends within `attending` alone")
    offered = shared.take()
    if key is not offered.new[0] or value is not offered.new[1]:
        raise NotJoinedError("a layer changes the keys and values that its cache returns")
    attention = _attend_joined if shared.sizes else _attend_gathered
    mask = _require_known(attention_mask, offered, others, query)
    return attention(module, query, mask, shared, offered, others), None


def _attend_gathered(
    module: Any,
    query: torch.Tensor,
    mask: torch.Tensor,
    shared: Shared,
    offered: Offered,
    others: dict[str, Any],
) -> torch.Tensor:
    """Torch's own attention, some rows after others."""
    if others.get("s_aux") is not None:
        raise NotJoinedError("a layer attends with sinks")
    return torch.cat(
        [
            sdpa_attention_forward(module, query[some], *gathered, mask[some], **others)[0]
            for some, gathered in shared.blocks(len(query), offered)
        ]
    )


def _attend_joined(
    module: Any,
    query: torch.Tensor,
    mask: torch.Tensor,
    shared: Shared,
    offered: Offered,
    others: dict[str, Any],
) -> torch.Tensor:
    """To prompts once for all of their rows, and to each row's own keys; see the module's text."""
    rows, heads, _, width = query.shape
    kinds, own, wide = offered.new[0].shape[1], offered.columns, offered.new[1].shape[3]
    sinks, softcap = others.get("s_aux"), others.get("softcap")
    scaling = others.get("scaling") or width**-0.5
    grouped = query.reshape(rows, kinds, heads // kinds, width)
    ahead = mask[..., :-own] if mask.shape[-1] > own else None
    parts = Attended.room(grouped, wide, 2 if sinks is None else 3)
    _attend_prompts(grouped, offered.prompts, ahead, shared.sizes, scaling, softcap, parts.of(0))
    for some, (keys, values) in shared.blocks(rows, offered):
        part = Attended(*(each[some] for each in parts.of(1)))
        attend(grouped[some], keys, values, mask[some, ..., -own:], scaling, softcap, part)
    if sinks is not None:  # a part without values: its score alone takes mass from the others
        sink = parts.of(2)
        sink.values.zero_()
        sink.total.fill_(1.0)
        sink.most.copy_(sinks.view(1, *grouped.shape[1:3], 1))
    return join(parts).to(query.dtype).reshape(rows, 1, heads, wide)


def _require_known(
    mask: torch.Tensor | None, offered: Offered, others: dict[str, Any], query: torch.Tensor
) -> torch.Tensor:
    """The mask, where a layer asks for what is computed here; NotJoinedError where it does not."""
    if mask is None or mask.shape[:3] != (len(query), 1, 1) or query.shape[2] != 1:
        raise NotJoinedError("a layer does not use the mask that it is given")
    longest = max((keys.shape[1] for keys, _ in offered.prompts), default=0)
    if mask.shape[-1] not in (offered.columns, offered.columns + longest):
        raise NotJoinedError("a layer cuts the mask that it is given")
    for name in _REFUSED:
        if others.get(name) is not None:
            raise NotJoinedError(f"a layer attends with {name}")
    return mask


def _attend_prompts(
    query: torch.Tensor,
    prompts: Sequence[KeysValues],
    mask: torch.Tensor | None,
    sizes: Sequence[int],
    scaling: float,
    softcap: float | None,
    out: Attended,
) -> None:
    """Attention of rows × heads × queries of a head × width, of each row to its prompt's keys."""
    start, each = 0, query.shape[2]
    folded = query.transpose(0, 1).flatten(1, 2)
    for (keys, values), size in zip(prompts, sizes, strict=True):
        heads, tokens, _ = keys.shape
        most = _SCORES["cpu" if keys.device.type == "cpu" else "other"]
        height = max(1, most // (heads * each * tokens))
        for low in range(start, start + size, height):
            some = slice(low, min(low + height, start + size))
            unseen = None
            if mask is not None:  # as that of the queries of a head, row after row
                unseen = mask[some, 0, :, :tokens].expand(-1, each, -1).flatten(0, 1)
            part = Attended(*(x[some].transpose(0, 1) for x in out))
            mine = folded[:, low * each : some.stop * each]
            attend(mine, keys, values, unseen, scaling, softcap, part)
        start += size


AttentionInterface.register(NAME, cascade_attention)
