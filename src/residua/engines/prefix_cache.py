"""Transformers models behind the forest's seam: branching prefixes over one key-value cache.

A prompt's keys and values are stored once, however many rows grow from it. Each row stores only
what it generated. `_Joined`, a transformers `Cache`, puts the two together layer by layer, in
a scratch buffer that all layers share, so that any model which asks a cache for its keys and
values works unchanged. Key slots are no positions (there are gaps between a short prompt and its
rows), so masks are made here, from positions: causal, and sliding where the model's layers are.

Whether a model follows that contract is not assumed but tried: `prefix_model` compares a
branching probe with plain forwards, and falls back to `RecomputedModel` where they differ.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import Cache, DynamicCache

from residua.sampling.model import Handles, PrefixModel

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
    """Branching prefixes over stored keys and values; see `PrefixModel` for the contract."""

    def __init__(self, model: Any, eos_token_ids: frozenset[int]) -> None:
        self.eos_token_ids = eos_token_ids
        self._model = model
        self._config = model.config.get_text_config()
        self.vocab_size = int(self._config.vocab_size)
        self._cache = _Joined(model.device)
        self._prompts = np.zeros(0, dtype=np.int64)  # by handle: which prompt, and how many
        self._lengths = np.zeros(0, dtype=np.int64)  # generated tokens are stored
        self._free: list[int] = []
        self._users: Counter[int] = Counter()
        self._tainted: set[int] = set()  # handles whose stored keys may be NaN
        self._next_prompt = 0

    @torch.inference_mode()
    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        ids = torch.tensor([list(prompt)], device=self._model.device)
        cache = DynamicCache()
        logits = _last_logits(self._model, input_ids=ids, past_key_values=cache, use_cache=True)
        number, self._next_prompt = self._next_prompt, self._next_prompt + 1
        self._cache.prompts[number] = [
            (layer.keys.transpose(1, 2), layer.values.transpose(1, 2)) for layer in cache.layers
        ]
        (handle,) = self._take(1)
        self._prompts[handle], self._lengths[handle] = number, 0
        self._users[number] = 1
        return int(handle), logits

    @torch.inference_mode()
    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        handles = parents.copy()
        fresh = ~takes_over
        handles[fresh] = self._take(int(fresh.sum()))
        self._prompts[handles] = self._prompts[parents]
        lengths = self._lengths[parents]
        self._cache.reserve(len(self._prompts), int(lengths.max()) + 1)
        self._cache.copy(parents[fresh], handles[fresh], int(lengths.max()))
        self._lengths[handles] = lengths + 1
        self._users.update(self._prompts[handles[fresh]].tolist())

        prompts = self._prompts[handles]
        prompt_lengths = np.array([self._cache.prompt_length(p) for p in prompts])
        self._cache.point(handles, lengths, prompts)
        positions = torch.from_numpy(prompt_lengths + lengths).to(self._model.device)
        logits = _last_logits(
            self._model,
            input_ids=torch.from_numpy(tokens).to(self._model.device)[:, None],
            position_ids=positions[:, None],
            attention_mask=self._masks(prompt_lengths, lengths),
            past_key_values=self._cache,
            use_cache=True,
        )
        unusable = ~torch.isfinite(logits.amax(dim=-1)).cpu().numpy()
        self._tainted.update(handles[unusable].tolist())
        return handles, logits

    @torch.inference_mode()
    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        self._free += handles.tolist()
        if tainted := self._tainted.intersection(handles.tolist()):
            self._cache.wipe(np.array(sorted(tainted)))
            self._tainted -= tainted
        self._users.subtract(self._prompts[handles].tolist())
        for number in set(self._prompts[handles].tolist()):
            if self._users[number] == 0:
                del self._users[number], self._cache.prompts[number]

    @property
    def held(self) -> int:
        """Handles not yet released."""
        return len(self._prompts) - len(self._free)

    def _take(self, count: int) -> Handles:
        missing = count - len(self._free)
        if missing > 0:
            size = len(self._prompts)
            grown = max(size + missing, size + size // 2)
            self._prompts = np.resize(self._prompts, grown)
            self._lengths = np.resize(self._lengths, grown)
            self._free += range(grown - 1, size - 1, -1)
        return np.array([self._free.pop() for _ in range(count)], dtype=np.int64)

    def _masks(
        self, prompt_lengths: NDArray[np.int64], lengths: NDArray[np.int64]
    ) -> torch.Tensor | dict[str, torch.Tensor]:
        """Additive masks (rows × 1 × 1 × key slots), as this model takes them."""
        kinds = getattr(self._config, "layer_types", None)
        window = getattr(self._config, "sliding_window", None)
        if kinds is None:
            return self._mask(prompt_lengths, lengths, window)
        unknown = set(kinds) - {_FULL, _SLIDING}
        if unknown:
            raise ValueError(f"layers of kind {sorted(unknown)}")
        windows = {_FULL: None, _SLIDING: window}
        return {kind: self._mask(prompt_lengths, lengths, windows[kind]) for kind in set(kinds)}

    def _mask(
        self, prompt_lengths: NDArray[np.int64], lengths: NDArray[np.int64], window: int | None
    ) -> torch.Tensor:
        widest = int(prompt_lengths.max())
        slot = np.arange(widest + int(lengths.max()) + 1)[None, :]
        generated = slot - widest
        position = np.where(generated < 0, slot, prompt_lengths[:, None] + generated)
        seen = np.where(
            generated < 0, slot < prompt_lengths[:, None], generated <= lengths[:, None]
        )
        if window is not None:
            seen &= (prompt_lengths + lengths)[:, None] - position < window
        dtype = self._model.dtype
        mask = torch.zeros(seen.shape, dtype=dtype)
        mask.masked_fill_(torch.from_numpy(~seen), torch.finfo(dtype).min)
        return mask[:, None, None, :].to(self._model.device)


class RecomputedModel:
    """Every prefix forwarded from its first token, without a cache: slow, and always exact."""

    def __init__(self, model: Any, eos_token_ids: frozenset[int]) -> None:
        self.eos_token_ids = eos_token_ids
        self._model = model
        self.vocab_size = int(model.config.get_text_config().vocab_size)
        self._prefixes: dict[int, list[int]] = {}
        self._next = 0

    def prefill(self, prompt: Sequence[int]) -> tuple[int, torch.Tensor]:
        """See `PrefixModel.prefill`."""
        (handle,), logits = self._hold([list(prompt)])
        return int(handle), logits

    def extend(
        self, parents: Handles, tokens: NDArray[np.int64], takes_over: NDArray[np.bool_]
    ) -> tuple[Handles, torch.Tensor]:
        """See `PrefixModel.extend`."""
        pairs = zip(parents.tolist(), tokens.tolist(), strict=True)
        prefixes = [[*self._prefixes[parent], token] for parent, token in pairs]
        self.release(parents[takes_over])
        return self._hold(prefixes)

    def release(self, handles: Handles) -> None:
        """See `PrefixModel.release`."""
        for handle in handles.tolist():
            del self._prefixes[handle]

    @torch.inference_mode()
    def _hold(self, prefixes: list[list[int]]) -> tuple[Handles, torch.Tensor]:
        handles = np.arange(self._next, self._next + len(prefixes))
        self._next += len(prefixes)
        self._prefixes.update(zip(handles.tolist(), prefixes, strict=True))
        sizes = np.array([len(p) for p in prefixes])
        logits: list[torch.Tensor] = [torch.empty(0)] * len(prefixes)
        for size in np.unique(sizes):  # equal lengths only: padding would enter recurrent states
            mine = np.flatnonzero(sizes == size)
            ids = torch.tensor([prefixes[i] for i in mine], device=self._model.device)
            for i, row in zip(mine, _last_logits(self._model, input_ids=ids), strict=True):
                logits[i] = row
        return handles, torch.stack(logits)


class _Joined(Cache):  # type: ignore[misc]
    """Keys and values of the current rows: their prompt's, then their own, layer by layer."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(layers=[])
        self.prompts: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        self._device = device
        self._pools: list[tuple[torch.Tensor, torch.Tensor]] = []  # handles × length × heads × dim
        self._scratch: list[torch.Tensor] = []

    def prompt_length(self, number: int) -> int:
        return int(self.prompts[number][0][0].shape[1])

    def reserve(self, handles: int, length: int) -> None:
        """Make room for that many handles with that many generated tokens each."""
        if not self._pools:
            layers = next(iter(self.prompts.values()))
            self._pools = [
                (k.new_empty(0, 0, *k.shape[2:]), v.new_empty(0, 0, *v.shape[2:]))
                for k, v in layers
            ]
        have = self._pools[0][0].shape
        if handles <= have[0] and length <= have[1]:
            return
        size = (
            max(handles, have[0]),
            max(length + length // 2, 16) if length > have[1] else have[1],
        )
        self._pools = [(_grown(k, size), _grown(v, size)) for k, v in self._pools]

    def copy(self, sources: Handles, targets: Handles, length: int) -> None:
        """Give new handles the generated keys and values of others."""
        if not len(sources) or not length:
            return
        source, target = self._index(sources), self._index(targets)
        for pool in (tensor for pair in self._pools for tensor in pair):
            pool[target, :length] = pool[source, :length]

    def wipe(self, handles: Handles) -> None:
        """Zero what these handles stored: a masked NaN would still spoil their next user."""
        rows = self._index(handles)
        for pool in (tensor for pair in self._pools for tensor in pair):
            pool[rows] = 0

    def point(
        self, handles: Handles, lengths: NDArray[np.int64], prompts: NDArray[np.int64]
    ) -> None:
        """Say which rows the next forward is for; rows of one prompt stand together."""
        starts = np.flatnonzero(np.diff(prompts, prepend=-1))
        ends = [*starts[1:], len(prompts)]
        self._runs = [(int(prompts[a]), int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
        self._rows, self._last = self._index(handles), self._index(lengths)
        self._own = int(lengths.max()) + 1
        self._shared = max(self.prompt_length(p) for p, _, _ in self._runs)

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        layer_idx: int,
        *_: Any,
        **__: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """File the new token's keys and values; return each row's whole past."""
        joined = []
        for which, new in enumerate((key_states, value_states)):
            pool = self._pools[layer_idx][which]
            pool[self._rows, self._last] = new[:, :, 0]
            shape = (len(self._rows), self._shared + self._own, *pool.shape[2:])
            out = self._buffer(which, shape, pool)
            for prompt, start, end in self._runs:
                stored = self.prompts[prompt][layer_idx][which]
                out[start:end, : stored.shape[1]] = stored
                out[start:end, stored.shape[1] : self._shared] = 0  # 0 · NaN would be NaN
            out[:, self._shared :] = pool[:, : self._own].index_select(0, self._rows)
            joined.append(out.transpose(1, 2))
        return joined[0], joined[1]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Key slots before the new token's."""
        return self._shared + self._own - 1

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """Key slots, the new token's included, and their offset."""
        return self._shared + self._own, 0

    def _index(self, values: NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(values).to(self._device)

    def _buffer(self, which: int, shape: tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
        """Scratch memory, kept between layers and steps; stale values in it are finite."""
        size = int(np.prod(shape))
        while len(self._scratch) <= which:
            self._scratch.append(like.new_zeros(0))
        if self._scratch[which].numel() < size:
            self._scratch[which] = like.new_zeros(size + size // 2)
        return self._scratch[which][:size].view(shape)


def _grown(pool: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    larger = pool.new_zeros(*size, *pool.shape[2:])
    larger[: pool.shape[0], : pool.shape[1]] = pool
    return larger


def _last_logits(model: Any, **inputs: Any) -> torch.Tensor:
    """Logits after the last input token: rows × vocabulary, at least float32."""
    if "logits_to_keep" in inspect.signature(model.forward).parameters:
        inputs["logits_to_keep"] = 1
    logits: torch.Tensor = model(**inputs).logits[:, -1]
    return logits if logits.dtype == torch.float64 else logits.float()


def _probe(cached: CachedModel, plain: RecomputedModel) -> float:
    """Largest difference of logits between two seams, on two branching prompts at once.

    Relative to the largest logit. Half-precision models are compared in their own noise.
    """
    vocab = cached.vocab_size
    first, second = [1 % vocab, 2 % vocab, 3 % vocab], [4 % vocab, 5 % vocab]
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
    noise = {torch.bfloat16: 50.0, torch.float16: 10.0}.get(plain._model.dtype, 1.0)
    return worst / noise
