"""`PrefixModel` for transformers models: branching prefixes over one key-value cache.

The keys and values of every token, of prompts and completions, are stored once,
in a slot, for all prefixes that share the token. If a prompt begins like a
stored prompt, only the remaining tokens are forwarded. `PrefixTree` stores the
parent of every slot; a prefix is identified by the slot of its last token.
`_Gathered`, a transformers `Cache`, copies the slots of the current rows into a
scratch buffer that all layers share. So every model that reads its keys and
values from a cache works unchanged. The keys of all rows end at the same column
and begin at different columns. So this module makes the attention masks: causal
masks, and sliding masks for layers with windows.

On a CPU, keys are copied and used for only a few rows at a time, as many as fit
into its cache. If prompts are long and rows many (see `Cascade`), only the keys
and values of generated tokens are copied per row. The keys and values of a
prompt are read once for all of its rows (see the module `cascade`).

The module `branching` tests whether a model's results are correct in this way.
If not, the keys of complete paths are copied, or every prefix is recomputed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import astuple, dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Cache

from leakbound.engines.cascade import KeysValues, Offered, Shared, Strips, attending
from leakbound.engines.prefix_tree import NOTHING, PADDING, ByPrompt, PrefixTree, Slots
from leakbound.engines.products import HEAVY, LEAST, Products
from leakbound.sampling.model import Handles, WholePrefixes

_SLIDING, _FULL = "sliding_attention", "full_attention"
READ_TOGETHER = {"cpu": 512, "other": 2048}  # tokens of prompts, read together
BLOCK = 1 << 21  # bytes of keys and values that are copied in one batch
# without cuDNN's attention, which took 50 ms per new number of rows or columns on an H200
_BACKENDS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


@dataclass(frozen=True, slots=True)
class Cascade:
    """The batches for which the keys of a prompt are read once for all of its rows.

    Attributes:
        tokens: the smallest number of tokens of the longest prompt.
        rows: the smallest average number of rows per prompt.
        keys: the smallest product of the number of rows and the length of the longest prompt.
    """

    tokens: int = 64
    rows: int = 4
    keys: int = 1

    @classmethod
    def on(cls, device: torch.device) -> Cascade:
        """Return the limits for a device; a GPU has higher limits, because its calls cost more."""
        return cls(keys=1 << 19) if device.type == "cuda" else cls()

    def pays(self, longest: int, rows: int, prompts: int) -> bool:
        """Return whether a batch with these numbers of rows and prompts reads each prompt once."""
        return (
            longest >= self.tokens and rows >= self.rows * prompts and longest * rows >= self.keys
        )


ALWAYS = Cascade(tokens=1, rows=1)


def arithmetic(device: torch.device) -> str:
    """Describe how logits are computed on a device; this determines their rounding."""
    rule = (
        "oneDNN from {} multiplications, without AVX-512 in layers of {} weights; {} tokens of "
        "prompts per forward pass; sequences share one read of a prompt from {} tokens, {} "
        "sequences per prompt, and {} tokens times sequences"
    )
    at_once = READ_TOGETHER.get(device.type, READ_TOGETHER["other"])
    return rule.format(LEAST, HEAVY, at_once, *astuple(Cascade.on(device)))


def memory_for_keys(device: torch.device) -> int:
    """Return the bytes for keys and values: an eighth of a GPU's memory, elsewhere 2 GiB.

    The keys and values of generated tokens stay below this limit. No additional prompt is processed
    while the keys and values of all tokens exceed the limit.
    """
    if device.type != "cuda":
        return 2 << 30
    return int(torch.cuda.get_device_properties(device).total_memory // 8)


class CachedModel:
    """Branching prefixes over stored keys and values; see `PrefixModel` for the contract.

    A handle is the slot of a prefix's last token; `live` handles are not yet released. `cascade`
    decides when the keys of prompts are read once for all of their rows; None: never. `cascade` may
    change between calls. If the keys and values of a batch need more than `block` bytes in a layer,
    attention is computed in parts. The results are bit-equal. None: never in parts.

    The model is full if keys and values use `memory_for_keys` bytes. A batch is forwarded in parts
    if its keys and values would need more than a quarter of these bytes in a layer.
    """

    def __init__(
        self,
        model: Any,
        eos_token_ids: frozenset[int],
        cascade: Cascade | None = None,
        block: int | None = None,
    ) -> None:
        self.eos_token_ids = eos_token_ids
        self.dtype: torch.dtype = model.dtype  # of the weights
        self.cascade, self.block = cascade, block
        self.live = 0
        self._products = Products(model)
        self._model = model
        self._config = model.config.get_text_config()
        self.vocab_size = int(self._config.vocab_size)
        self._tree = PrefixTree()
        self._cache = _Gathered()
        self._memory = memory_for_keys(model.device)
        self._together = READ_TOGETHER.get(model.device.type, READ_TOGETHER["other"])

    @property
    def full(self) -> bool:
        """See `PrefixModel.full`."""
        return self._tree.used * sum(self._cache.bytes_of_a_token) >= self._memory

    @torch.inference_mode()
    def prefill(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.prefill`; prompts of similar length are processed together.

        Prompts of one batch can share tokens, because a layer stores all keys before attention is
        computed.
        """
        waiting = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        order, read = np.argsort(waiting), list[tuple[Handles, torch.Tensor]]()
        while waiting:
            some = self._fitting([prompts[i] for i in waiting])
            read.append(self._read(some))
            waiting = waiting[len(some) :]
        self.live += len(prompts)
        handles, logits = zip(*read, strict=True)
        back = torch.as_tensor(order, device=logits[0].device)
        return np.concatenate(handles)[order], torch.cat(logits)[back]

    def _fitting(self, prompts: Sequence[Sequence[int]]) -> Sequence[Sequence[int]]:
        """Return the first prompts, sorted by length, to process together; at least one prompt."""
        most, widest = self._memory // (4 * max(self._cache.bytes_of_a_token, default=1)), 0
        for count, prompt in enumerate(prompts):
            widest = max(widest, len(prompt) - self._tree.find(prompt[:-1])[1])
            size, gathered = (count + 1) * widest, (count + 1) * len(prompt)
            if count and (size > self._together or gathered > most):
                return prompts[:count]
        return prompts

    def _read(self, prompts: Sequence[Sequence[int]]) -> tuple[Handles, torch.Tensor]:
        """Process prompts together, or one by one if a key or a value is not finite.

        A prompt with such a key or value shares its tokens with no other prompt.
        """
        rows = list[Slots]()
        for prompt in prompts:
            stem, depth = self._tree.find(prompt[:-1])  # the last token is read for its logits
            rows.append(self._tree.chain(stem, len(prompt) - depth))
            self._tree.remember(rows[-1], np.array(prompt[depth:]))
        longest, handles = max(map(len, rows)), np.array([slots[-1] for slots in rows])
        places = np.full((len(rows), longest), PADDING)
        ids = np.zeros_like(places)
        for row, (slots, prompt) in enumerate(zip(rows, prompts, strict=True)):
            places[row, -len(slots) :], ids[row, -len(slots) :] = slots, prompt[-len(slots) :]
        try:
            logits = self._forward(ids, places)
            finite = self._cache.is_finite(np.concatenate(rows))
        except BaseException:
            self._tree.drop(handles)
            raise
        if not finite and len(prompts) > 1:
            self._tree.drop(handles)
            ends, after = zip(*(self._read([prompt]) for prompt in prompts), strict=True)
            return np.concatenate(ends), torch.cat(after)
        if not finite:
            self._tree.forget(rows[0])
        return handles, logits

    @torch.inference_mode()
    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        slots = self._tree.add(parents)
        self.live += len(slots)
        self.release(parents[takes_over])
        if self.cascade is not None:
            by_prompt = self._tree.by_prompt(slots)
            longest = int(self._tree.length[by_prompt.prompts].max())
            if self.cascade.pays(longest, len(slots), len(by_prompt.prompts)):
                return slots, self._cascade(tokens, slots, by_prompt)
        longest = int(self._tree.length[slots].max())
        gathers = len(slots) * longest * max(self._cache.bytes_of_a_token, default=1)
        if self.block is not None and gathers > self.block:
            return slots, self._forward(tokens[:, None], slots[:, None], self.block)
        parts = min(len(slots), -(-4 * gathers // self._memory))
        rows = np.array_split(np.arange(len(slots)), parts)
        logits = [self._forward(tokens[part, None], slots[part, None]) for part in rows]
        return slots, torch.cat(logits) if len(logits) > 1 else logits[0]

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        self._tree.drop(handles)
        self.live -= len(handles)

    def _forward(
        self, tokens: NDArray[np.int64], slots: Slots, block: int | None = None
    ) -> torch.Tensor:
        """Return the logits after new tokens, rows × new; store keys and values in `slots`."""
        inputs, (filled, seen) = self._inputs(tokens, slots, self._tree.paths(slots[:, -1]))
        self._cache.point(filled, seen, self._tree.size)
        shared = None if block is None else self._cache.share(Shared(block))
        with attending(self._config, shared) if shared else nullcontext():
            return self._logits(inputs, self._cache.unseen, self.dtype)

    def _cascade(
        self, tokens: NDArray[np.int64], slots: Slots, by_prompt: ByPrompt
    ) -> torch.Tensor:
        """Return the logits after one new token per row; each prompt's keys are read once."""
        tokens, slots = tokens[by_prompt.order, None], slots[by_prompt.order, None]
        strips, whole = Strips.of(by_prompt.sizes), self._tree.prompt_slots(by_prompt.prompts)
        sizes = np.repeat(self._tree.length[by_prompt.prompts], by_prompt.sizes)
        own = self._tree.generated(slots[:, 0])
        laid = own, whole[strips.prompts], strips.rows, strips.places, sizes
        inputs, (filled, paths, prompts, rows, places, ends) = self._inputs(tokens, slots, *laid)
        self._cache.point(filled, paths, self._tree.size, prompts)

        def unseen(window: int | None) -> torch.Tensor:
            column = torch.arange(prompts.shape[1], device=prompts.device)
            hidden = column >= ends[:, None, None]
            if window is not None:
                hidden = hidden | (column <= inputs["position_ids"][:, :, None] - window)
            return torch.cat([hidden, self._cache.unseen(window)], dim=-1)

        shared = Shared(self.block, strips.starts.tolist(), rows, places)
        with attending(self._config, self._cache.share(shared)):
            logits = self._logits(inputs, unseen, torch.promote_types(self.dtype, torch.float32))
        back = by_prompt.back
        return logits if back is None else logits[torch.as_tensor(back, device=logits.device)]

    def _inputs(
        self, tokens: NDArray[np.int64], slots: Slots, *others: NDArray[np.int64]
    ) -> tuple[dict[str, Any], list[torch.Tensor]]:
        """Return the model's inputs, and the slots and other arrays on its device."""
        positions = self._tree.length[slots] - 1
        arrays = (tokens, positions, slots, *others)  # arrays of integers, moved in one transfer
        joined = np.concatenate([array.ravel() for array in arrays])
        whole = torch.as_tensor(joined, device=self._model.device)
        parts = zip(torch.split(whole, [array.size for array in arrays]), arrays, strict=True)
        ids, places, *tensors = (part.view(array.shape) for part, array in parts)
        return {
            "input_ids": ids,
            "position_ids": places,
            "past_key_values": self._cache,
            "use_cache": True,
        }, tensors

    def _logits(
        self,
        inputs: dict[str, Any],
        unseen: Callable[[int | None], torch.Tensor],
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Return the logits of a forward pass with additive masks.

        The masks have the type `dtype`, and rows × 1 × new tokens × key columns.
        """

        def mask(window: int | None) -> torch.Tensor:
            hidden = unseen(window)
            added = torch.zeros(hidden.shape, dtype=dtype, device=hidden.device)
            return added.masked_fill_(hidden, torch.finfo(self.dtype).min)[:, None]

        masks = layer_masks(self._config, mask)
        with self._products.applied():
            return _last_logits(self._model, attention_mask=masks, **inputs)


class RecomputedModel(WholePrefixes):
    """A model that forwards each prefix from its first token, without a cache: slow, exact."""

    def __init__(self, model: Any, eos_token_ids: frozenset[int]) -> None:
        super().__init__(self._read)
        self.eos_token_ids = eos_token_ids
        self.dtype: torch.dtype = model.dtype  # of the weights
        self._products = Products(model)
        self._model = model
        self.vocab_size = int(model.config.get_text_config().vocab_size)

    @torch.inference_mode()
    def _read(self, prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        sizes = np.array([len(p) for p in prefixes])
        logits: list[torch.Tensor] = [torch.empty(0)] * len(prefixes)
        for size in np.unique(sizes):  # no padding, which would change recurrent states
            mine = np.flatnonzero(sizes == size).tolist()
            ids = torch.tensor([prefixes[i] for i in mine], device=self._model.device)
            with self._products.applied():
                batch = _last_logits(self._model, input_ids=ids)
            for i, row in zip(mine, batch, strict=True):
                logits[i] = row
        return torch.stack(logits)


class _Gathered(Cache):  # type: ignore[misc]
    """Keys and values by slot. A forward pass uses only the slots on the paths of its rows.

    Each layer has an array (pool), slots × width, with the key and the value of a token next to
    each other. Slot 0 contains zeros, so the columns before a short row are finite; otherwise 0 ·
    NaN would be NaN. Padding writes to slot 1, which is never read. Every other slot is written
    before it is read, so earlier contents are never used.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._pools: list[torch.Tensor] = []
        self._scratch = [torch.empty(0)] * 2  # one for rows, one for prompts

    @property
    def bytes_of_a_token(self) -> list[int]:
        """The bytes per token in each layer."""
        return [pool.shape[1] * pool.itemsize for pool in self._pools]

    def point(
        self,
        slots: torch.Tensor,
        paths: torch.Tensor,
        size: int,
        prompts: torch.Tensor | None = None,
    ) -> None:
        """Set the slots that the next forward pass fills, and the slots that it uses.

        `slots` has rows × new tokens, to fill. `paths` has rows × columns, to use; the new tokens
        are the last columns. If `paths` has only generated tokens, `prompts` has the slots of
        prompts, strips × tokens, padded at the end. The pools are enlarged to at least `size`
        slots.
        """
        self._slots, self._paths, self._size = slots, paths, size
        self._prompts = slots[:0] if prompts is None else prompts
        self._ahead = 0 if prompts is None else prompts.shape[1]
        self._shared: Shared | None = None

    def share(self, shared: Shared) -> Shared:
        """Let the layers offer their keys and values in the next forward pass."""
        self._shared = shared
        return shared

    def unseen(self, window: int | None) -> torch.Tensor:
        """Return the columns that a new token must not attend to, rows × new tokens × columns."""
        column = torch.arange(self._paths.shape[1], device=self._paths.device)
        own = column[-self._slots.shape[1] :, None]  # the columns of the new tokens
        hidden = (self._paths == NOTHING)[:, None] | (column > own)
        return hidden if window is None else hidden | (column <= own - window)

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store the new tokens' keys and values; return or offer the keys and values of all tokens.

        With an offer, only the keys and values of the new tokens are returned.
        """
        pair = (x.transpose(1, 2).flatten(2) for x in (key_states, value_states))
        new = torch.cat([*pair], dim=2).flatten(0, 1)  # tokens × width
        pool = self._pool(layer_idx, new)
        pool[self._slots.flatten()] = new

        def gather(which: int, some: slice) -> KeysValues:
            slots = (self._paths, self._prompts)[which][some]
            room = self._room(which, (slots.numel(), pool.shape[1]), pool)
            gathered = torch.index_select(pool, 0, slots.flatten(), out=room)
            return _unpacked(gathered, key_states, value_states, slots.shape)

        if self._shared is None:
            return gather(0, slice(None))
        self._shared.offer(
            Offered(
                new=(key_states, value_states),
                columns=self._paths.shape[1],
                bytes=self._paths.shape[1] * pool.shape[1] * pool.itemsize,
                rows=partial(gather, 0),
                ahead=self._ahead,
                prompts=partial(gather, 1),
            )
        )
        return key_states, value_states

    def is_finite(self, slots: Slots) -> bool:
        """Return whether no key and no value in these slots is NaN or infinite."""
        written = torch.as_tensor(slots, device=self._pools[0].device)
        return bool(torch.stack([pool[written].isfinite().all() for pool in self._pools]).all())

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return the number of key columns before the new tokens, including the longest prompt."""
        return self._ahead + self._paths.shape[1] - self._slots.shape[1]

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Return the number of key columns, including the new tokens, and the columns' offset."""
        return self._paths.shape[1], 0

    def _pool(self, layer: int, new: torch.Tensor) -> torch.Tensor:
        """Return the layer's pool, made at its first use and enlarged if it is too small."""
        if layer == len(self._pools):
            self._pools.append(new.new_zeros(2, new.shape[1]))
        pool = self._pools[layer]
        if len(pool) < self._size:
            self._pools[layer] = pool.new_empty(self._size, pool.shape[1])
            self._pools[layer][: len(pool)] = pool
        return self._pools[layer]

    def _room(self, which: int, shape: tuple[int, int], like: torch.Tensor) -> torch.Tensor:
        """Return scratch memory, which all layers and steps share."""
        size, kept = shape[0] * shape[1], self._scratch[which]
        if kept.numel() < size or kept.dtype != like.dtype:
            kept = self._scratch[which] = like.new_empty(size + size // 2)
        return kept[:size].view(shape)


def layer_masks(
    config: Any, mask: Callable[[int | None], torch.Tensor]
) -> torch.Tensor | dict[str, torch.Tensor]:
    """Return a model's mask: `mask(window)`, or one for each kind of layer if it has several.

    `window`: the number of tokens that a layer attends to; None: all. Raises ValueError for other
    kinds of layers.
    """
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if kinds is None:
        return mask(window)
    unknown = set(kinds) - {_FULL, _SLIDING}
    if unknown:
        raise ValueError(f"unsupported layers of kind {sorted(unknown)}")
    windows = {_FULL: None, _SLIDING: window}
    return {kind: mask(windows[kind]) for kind in set(kinds)}


def _unpacked(
    seen: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, shape: Sequence[int]
) -> KeysValues:
    """Unpack keys and values of slots; `shape` is the shape of the slots."""
    packed = seen.tensor_split([keys.shape[1] * keys.shape[3]], dim=1)
    pairs = zip(packed, (keys, values), strict=True)
    first, second = (
        part.view(*shape, like.shape[1], like.shape[3]).transpose(-3, -2) for part, like in pairs
    )
    return first, second


def _last_logits(model: Any, **inputs: Any) -> torch.Tensor:
    """Return the logits after the last input token, rows × vocabulary, at least float32."""
    if _leaves_out(type(model).forward):
        inputs["logits_to_keep"] = 1
    with sdpa_kernel(_BACKENDS):
        logits: torch.Tensor = model(**inputs).logits[:, -1]
    return logits if logits.dtype == torch.float64 else logits.float()


@cache
def _leaves_out(forward: Any) -> bool:
    """Return whether a model's forward function can compute only the logits of the last tokens."""
    return "logits_to_keep" in inspect.signature(forward).parameters
