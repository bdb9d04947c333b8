"""Transformers models behind the forest's seam: branching prefixes over one key-value cache.

Every token, of prompts and completions, has its keys and values stored once, in a slot, however
many prefixes share it; of a prompt that begins as one that is held, only the rest is forwarded.
`_Tree` knows which slot comes after which; a prefix is the slot of its last token. `_Gathered`, a
transformers `Cache`, collects the slots of the current rows layer by layer, in a scratch buffer
that all layers share, so that any model which asks a cache for its keys and values works
unchanged. Rows end at the same key column and begin at different ones, so masks are made here:
causal, and sliding where the model's layers are.

Whether a model follows that contract is not assumed but tried: `prefix_model` compares a
branching probe with plain forwards, and falls back to `RecomputedModel` where they differ.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Cache

from leakbound.sampling.model import Handles, PrefixModel, WholePrefixes

Slots = NDArray[np.int64]

_NOTHING = 0  # the slot that stands before every prompt
_SLIDING, _FULL = "sliding_attention", "full_attention"


def prefix_model(model: Any, eos_token_ids: frozenset[int]) -> tuple[PrefixModel, str | None]:
    """The fastest exact seam for a causal LM, and a note where that is the slow one.

    The slow one forwards every prefix from its first token: state-space models and others
    whose cache cannot branch.
    """
    try:
        cached = CachedModel(model, eos_token_ids)
        difference = _probe(cached, RecomputedModel(model, eos_token_ids))
        reason = f"its cached logits differ by {difference:.1e}" if difference > 1e-3 else None
    except Exception as error:  # whatever an unusual architecture raises means: not this way
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:160]
    if reason is None:
        return CachedModel(model, eos_token_ids), None
    note = f"{type(model).__name__} cannot branch its cache ({reason}); every prefix is recomputed"
    return RecomputedModel(model, eos_token_ids), note


class CachedModel:
    """Branching prefixes over stored keys and values; see `PrefixModel` for the contract.

    A handle is the slot of a prefix's last token; `held` of them are not yet released.
    """

    def __init__(self, model: Any, eos_token_ids: frozenset[int]) -> None:
        self.eos_token_ids = eos_token_ids
        self.dtype: torch.dtype = model.dtype  # of the weights
        self.held = 0
        self._model = model
        self._config = model.config.get_text_config()
        self.vocab_size = int(self._config.vocab_size)
        self._tree = _Tree()
        self._cache = _Gathered()

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        stem, known = self._tree.find(prompt[:-1])  # one token at least gives the logits
        rest = np.array(prompt[known:])
        slots = self._tree.chain(stem, len(rest))
        logits = self._forward(rest[None], slots[None])
        if self._cache.is_finite(slots):  # one NaN, even of a later token, would spoil the others
            self._tree.remember(slots, rest)  # only now do they hold what others may read
        self.held += 1
        return int(slots[-1]), logits

    @torch.inference_mode()
    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        slots = self._tree.add(parents)
        self.held += len(slots)
        self.release(parents[takes_over])
        return slots, self._forward(tokens[:, None], slots[:, None])

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        self._tree.drop(handles)
        self.held -= len(handles)

    def _forward(self, tokens: NDArray[np.int64], slots: Slots) -> torch.Tensor:
        """Logits after the new tokens, rows × new, whose keys and values go into `slots`."""
        paths = self._tree.paths(slots[:, -1])
        on_device = partial(torch.as_tensor, device=self._model.device)
        self._cache.point(on_device(slots), on_device(paths), self._tree.size)
        return _last_logits(
            self._model,
            input_ids=on_device(tokens),
            position_ids=on_device(self._tree.length[slots] - 1),
            attention_mask=self._masks(paths, slots.shape[1]),
            past_key_values=self._cache,
            use_cache=True,
        )

    def _masks(self, paths: Slots, new: int) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks (rows × 1 × new tokens × key columns), as this model takes them."""
        return layer_masks(self._config, partial(self._mask, paths, new))

    def _mask(self, paths: Slots, new: int, window: int | None) -> torch.Tensor:
        column = np.arange(paths.shape[1])
        own = column[-new:, None]  # where the new tokens themselves stand
        unseen = (paths == _NOTHING)[:, None] | (column > own)
        if window is not None:
            unseen |= column <= own - window
        mask = torch.zeros(unseen.shape, dtype=self.dtype)
        mask.masked_fill_(torch.from_numpy(unseen), torch.finfo(self.dtype).min)
        return mask[:, None].to(self._model.device)


class RecomputedModel(WholePrefixes):
    """Every prefix forwarded from its first token, without a cache: slow, and always exact."""

    def __init__(self, model: Any, eos_token_ids: frozenset[int]) -> None:
        super().__init__(self._read)
        self.eos_token_ids = eos_token_ids
        self.dtype: torch.dtype = model.dtype  # of the weights
        self._model = model
        self.vocab_size = int(model.config.get_text_config().vocab_size)

    @torch.inference_mode()
    def _read(self, prefixes: Sequence[Sequence[int]]) -> torch.Tensor:
        sizes = np.array([len(p) for p in prefixes])
        logits: list[torch.Tensor] = [torch.empty(0)] * len(prefixes)
        for size in np.unique(sizes):  # equal lengths only: padding would enter recurrent states
            mine = np.flatnonzero(sizes == size).tolist()
            ids = torch.tensor([prefixes[i] for i in mine], device=self._model.device)
            for i, row in zip(mine, _last_logits(self._model, input_ids=ids), strict=True):
                logits[i] = row
        return torch.stack(logits)


class _Tree:
    """Tokens in slots, each under the one before it; slot 0 stands before every prompt.

    A slot is in use while a handle, or a slot under it, needs it. `length` is the number of
    tokens up to and with a slot's own.
    """

    def __init__(self) -> None:
        self.length = np.zeros(1, dtype=np.int64)
        self._parent = np.full(1, _NOTHING)
        self._users = np.ones(1, dtype=np.int64)
        self._free: list[int] = []
        self._prompts: dict[tuple[int, int], int] = {}  # (slot, prompt token after it) -> its slot
        self._entries: dict[int, tuple[int, int]] = {}  # the same, read backwards

    @property
    def size(self) -> int:
        """How many slots there are, free ones included."""
        return len(self.length)

    def find(self, prompt: Sequence[int]) -> tuple[int, int]:
        """The slot of the longest remembered beginning of a prompt, and its length."""
        slot = _NOTHING
        for known, token in enumerate(prompt):
            if (slot, token) not in self._prompts:
                return slot, known
            slot = self._prompts[slot, token]
        return slot, len(prompt)

    def chain(self, parent: int, count: int) -> Slots:
        """New slots under `parent`, one under the other; the last is a handle."""
        slots = self._take(count)
        self._parent[slots] = [parent, *slots[:-1]]
        self.length[slots] = self.length[parent] + np.arange(1, count + 1)
        self._users[slots] = 1
        self._users[parent] += 1
        return slots

    def remember(self, slots: Slots, tokens: NDArray[np.int64]) -> None:
        """Let other prompts find these tokens, until their slots are freed."""
        entries = zip(self._parent[slots].tolist(), tokens.tolist(), strict=True)
        for slot, entry in zip(slots.tolist(), entries, strict=True):
            if self._prompts.setdefault(entry, slot) == slot:
                self._entries[slot] = entry

    def add(self, parents: Handles) -> Slots:
        """One new slot under each parent, all of them handles."""
        slots = self._take(len(parents))
        self._parent[slots] = parents
        self.length[slots] = self.length[parents] + 1
        self._users[slots] = 1
        np.add.at(self._users, parents, 1)
        return slots

    def drop(self, handles: Handles) -> None:
        """Let handles go, and free every slot that nothing needs any more."""
        while len(handles):
            np.subtract.at(self._users, handles, 1)
            unused = np.unique(handles[self._users[handles] == 0])
            self._free += unused.tolist()
            for slot in self._entries.keys() & unused.tolist():
                del self._prompts[self._entries.pop(slot)]
            handles = self._parent[unused]

    def paths(self, slots: Slots) -> Slots:
        """Per slot, the slots from its prompt's first token to it, zeros before shorter ones."""
        columns = np.empty((int(self.length[slots].max()), len(slots)), dtype=np.int64)
        columns[-1] = slots
        for i in range(len(columns) - 1, 0, -1):  # "clip" spares a copy; all are within bounds
            np.take(self._parent, columns[i], out=columns[i - 1], mode="clip")
        return np.ascontiguousarray(columns.T)

    def _take(self, count: int) -> Slots:
        if count > len(self._free):
            more = max(count - len(self._free), self.size // 2)
            self._free += range(self.size + more - 1, self.size - 1, -1)
            self.length = np.pad(self.length, (0, more))
            self._parent = np.pad(self._parent, (0, more))
            self._users = np.pad(self._users, (0, more))
        left = len(self._free) - count
        slots = np.array(self._free[left:], dtype=np.int64)
        del self._free[left:]
        return slots


class _Gathered(Cache):  # type: ignore[misc]
    """Keys and values by slot; a forward sees those on the paths of its rows.

    Each layer has a pool, slots × width: a token's keys and values side by side. Slot 0 is zero,
    so what stands in the columns before a short row is finite: 0 · NaN would be NaN. A slot is
    written before it is read, so nothing of its former users is ever seen.
    """

    def __init__(self) -> None:
        super().__init__(layers=[])
        self._pools: list[torch.Tensor] = []
        self._scratch = torch.empty(0)

    def point(self, slots: torch.Tensor, paths: torch.Tensor, size: int) -> None:
        """Say which slots the next forward fills, rows × new tokens, and what it sees.

        `paths` is rows × columns, the new tokens last; the pools get at least `size` slots.
        """
        self._slots, self._paths, self._size = slots, paths, size

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """File the new tokens' keys and values; return each row's whole past."""
        new = _packed(key_states, value_states)
        pool = self._pool(layer_idx, new)
        pool[self._slots.flatten()] = new
        shape = (self._paths.numel(), pool.shape[1])
        seen = torch.index_select(pool, 0, self._paths.view(-1), out=self._buffer(shape, pool))
        keys, values = seen.tensor_split([key_states.shape[1] * key_states.shape[3]], dim=1)
        return self._unpacked(keys, key_states), self._unpacked(values, value_states)

    def is_finite(self, slots: Slots) -> bool:
        """True if no key and no value in these slots is NaN or infinite."""
        written = torch.as_tensor(slots, device=self._pools[0].device)
        return bool(torch.stack([pool[written].isfinite().all() for pool in self._pools]).all())

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Key columns before the new tokens'."""
        return self._paths.shape[1] - self._slots.shape[1]

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Key columns, the new tokens' included, and their offset."""
        return self._paths.shape[1], 0

    def _unpacked(self, seen: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
        """Rows × heads × columns × dim."""
        return seen.view(*self._paths.shape, like.shape[1], like.shape[3]).transpose(1, 2)

    def _pool(self, layer: int, new: torch.Tensor) -> torch.Tensor:
        """The layer's pool, made at its first use and enlarged where it is too small."""
        if layer == len(self._pools):
            self._pools.append(new.new_zeros(1, new.shape[1]))
        pool = self._pools[layer]
        if len(pool) < self._size:
            self._pools[layer] = pool.new_empty(self._size, pool.shape[1])
            self._pools[layer][: len(pool)] = pool
        return self._pools[layer]

    def _buffer(self, shape: tuple[int, int], like: torch.Tensor) -> torch.Tensor:
        """Scratch memory, kept between layers and steps."""
        size = shape[0] * shape[1]
        if self._scratch.numel() < size:
            self._scratch = like.new_empty(size + size // 2)
        return self._scratch[:size].view(shape)


def layer_masks(
    config: Any, mask: Callable[[int | None], torch.Tensor]
) -> torch.Tensor | dict[str, torch.Tensor]:
    """What a model takes as its mask: `mask(window)`, or that of each kind of layer it has.

    `window`: how many tokens a layer looks back; None: all. ValueError for layers that do not look.
    """
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if kinds is None:
        return mask(window)
    unknown = set(kinds) - {_FULL, _SLIDING}
    if unknown:
        raise ValueError(f"layers of kind {sorted(unknown)}")
    windows = {_FULL: None, _SLIDING: window}
    return {kind: mask(windows[kind]) for kind in set(kinds)}


def _packed(keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Tokens × width, from keys and values that are batch × heads × tokens × dim each."""
    return torch.cat([x.transpose(1, 2).flatten(2) for x in (keys, values)], dim=2).flatten(0, 1)


def _last_logits(model: Any, **inputs: Any) -> torch.Tensor:
    """Logits after the last input token: rows × vocabulary, at least float32."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs["logits_to_keep"] = 1
    logits: torch.Tensor = model(**inputs).logits[:, -1]
    return logits if logits.dtype == torch.float64 else logits.float()


def _probe(cached: CachedModel, plain: RecomputedModel) -> float:
    """Largest difference of logits between two seams, on two prompts that branch, at once.

    The second prompt branches off in the middle of the first. Relative to the largest logit.
    Half-precision models are compared in their own noise.
    """
    vocab = cached.vocab_size
    first, second = ([i % vocab for i in ids] for ids in ((1, 2, 3), (1, 2, 4, 5, 12)))
    worst = 0.0
    seams: tuple[PrefixModel, PrefixModel] = (cached, plain)
    roots = [[seam.prefill(p)[0] for p in (first, second)] for seam in seams]
    parents = [np.array([a, a, b]) for a, b in roots]
    over = np.array([False, True, True])
    for tokens in (np.array([6, 7, 8]) % vocab, np.array([9, 10, 11]) % vocab):
        results = [seam.extend(p, tokens, over) for seam, p in zip(seams, parents, strict=True)]
        a, b = (logits.double() for _, logits in results)
        worst = max(worst, float((a - b).abs().max() / (1 + b.abs().max())))
        parents, over = [handles for handles, _ in results], np.ones(3, dtype=bool)
    noise = {torch.bfloat16: 50.0, torch.float16: 10.0}.get(plain.dtype, 1.0)
    return worst / noise
