"""Test, when a model is loaded, whether its key-value cache can be shared by branching prefixes.

Each candidate is a `PrefixModel`. It processes a batch of two prompts that begin with the same
tokens. Then it extends three rows by two tokens. The same sequences are also forwarded completely,
without a cache. In float32, the logits with and without the cache must agree. In half precision
they need not agree, because over thirty layers a difference in rounding may grow into a different
distribution. After the test's tokens, the logits of SmolLM2-135M in bfloat16 and in float32 differ
by more than half of the largest logit. So in half precision every layer is tested separately. A
layer receives the inputs that were recorded from the complete sequences, and its outputs must agree
with the recorded outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch

from leakbound.engines.prefix_cache import ALWAYS, BLOCK, CachedModel, Cascade, RecomputedModel
from leakbound.errors import InputError
from leakbound.sampling.model import PrefixModel

_PROMPTS = ((1, 2, 3), (1, 2, 4, 5, 12))
_AFTER = (0, 0, 1)  # the prompt that each row continues
_STEPS = ((6, 7, 8), (9, 10, 11))  # the tokens of each row
_ATTENTION = ("self_attn", "attn", "attention", "self_attention")  # names of attention in models
# a larger difference, relative to the largest number, means another distribution
_FAR = {torch.bfloat16: 0.05, torch.float16: 0.01}
_FAR_EXACT = 1e-3


def prefix_model(
    model: Any, eos_token_ids: frozenset[int]
) -> tuple[CachedModel | RecomputedModel, str | None]:
    """Return the fastest exact `PrefixModel` for a causal model, and a note if it has no cache.

    Without a cache, every prefix is computed from its first token, which is slow. This is the case
    for state-space models, and for all models whose cache cannot branch.
    """
    plain = RecomputedModel(model, eos_token_ids)
    layers = None if plain.dtype not in _FAR else FedLayers.of(model, _sequences(plain.vocab_size))
    want = _forwards(plain)
    reason = _differs(CachedModel(model, eos_token_ids), want, layers)
    if reason is None:
        joined = _differs(CachedModel(model, eos_token_ids, ALWAYS), want, layers)
        cascade = Cascade.on(model.device) if joined is None else None
        block = None  # None: all rows in one part, because a GPU waits for calls of the host
        if model.device.type == "cpu" and model.config._attn_implementation == "sdpa":
            by_one = CachedModel(model, frozenset(), block=1)
            block = BLOCK if _differs(by_one, want, layers) is None else None
        return CachedModel(model, eos_token_ids, cascade, block), None
    note = f"{type(model).__name__} cannot share a KV cache ({reason}); prefixes are recomputed"
    return RecomputedModel(model, eos_token_ids), note


class FedLayers:
    """The layers of a model, with inputs that were recorded from complete sequences.

    The recorded inputs can replace the layers' inputs in later forward passes.

    Attributes:
        far: the largest `distance` from the recorded values at the same tokens, over the embeddings
            and the outputs of each layer's attention.
    """

    def __init__(
        self, layers: Sequence[tuple[Any, Any]], model: Any, sequences: Sequence[Sequence[int]]
    ) -> None:
        self.far = 0.0
        self._layers = layers
        self._rows: Sequence[int] = ()
        self._ends: Sequence[int] = ()
        self._fed: list[list[torch.Tensor]] = [[] for _ in layers]
        self._attended: list[list[torch.Tensor]] = [[] for _ in layers]

        def record(record: list[list[torch.Tensor]], i: int, tensor: torch.Tensor) -> None:
            record[i].append(tensor[0])

        hooks = partial(record, self._fed), partial(record, self._attended)
        with self._hooks(*hooks), torch.inference_mode():
            for sequence in sequences:
                model(input_ids=torch.tensor([sequence], device=model.device), use_cache=False)

    @classmethod
    def of(cls, model: Any, sequences: Sequence[Sequence[int]]) -> FedLayers | None:
        """Return the layers of a transformers model; None if they have an unusual structure.

        In the usual structure, all layers are in one list. Each layer runs once, has hidden states
        as input, and has an attention module.
        """
        try:
            of = [next(getattr(x, n) for n in _ATTENTION if hasattr(x, n)) for x in blocks(model)]
            layers = cls(list(zip(blocks(model), of, strict=True)), model, sequences)
        except Exception:  # of any kind: an unusual architecture
            return None
        records = (*layers._fed, *layers._attended)
        return layers if all(len(record) == len(sequences) for record in records) else None

    def at(self, rows: Sequence[int], ends: Sequence[int]) -> None:
        """Set the sequences of the next forward's rows, and the number of tokens of each row."""
        self._rows, self._ends = rows, ends

    @contextmanager
    def feeding(self) -> Iterator[None]:
        """Inside this context, feed the recorded inputs to the layers, and compare the outputs."""
        self.far = 0.0
        with self._hooks(self._feed, self._compare_attended):
            yield

    @contextmanager
    def _hooks(
        self,
        before: Callable[[int, torch.Tensor], torch.Tensor | None],
        after: Callable[[int, torch.Tensor], None],
    ) -> Iterator[None]:
        """Call `before` with each layer's inputs, which may be replaced, and `after` with its
        outputs."""

        def enter(i: int, _: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
            fed = before(i, args[0] if args else kwargs["hidden_states"])
            if fed is None:
                return args, kwargs
            return ((fed, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": fed})

        def leave(i: int, _: Any, __: Any, output: Any) -> None:
            after(i, output[0] if isinstance(output, tuple) else output)

        handles = []
        for i, (layer, attention) in enumerate(self._layers):
            handles += [
                layer.register_forward_pre_hook(partial(enter, i), with_kwargs=True),
                attention.register_forward_hook(partial(leave, i)),
            ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _feed(self, i: int, hidden: torch.Tensor) -> torch.Tensor:
        fed = self._of(self._fed[i], hidden.shape[1])
        if i == 0:
            self._compare(hidden, fed)
        return fed

    def _compare_attended(self, i: int, attended: torch.Tensor) -> None:
        self._compare(attended, self._of(self._attended[i], attended.shape[1]))

    def _of(self, whole: Sequence[torch.Tensor], new: int) -> torch.Tensor:
        """Select rows × new tokens × width from tensors of complete sequences."""
        pairs = zip(self._rows, self._ends, strict=True)
        return torch.stack([whole[row][end - new : end] for row, end in pairs])

    def _compare(self, actual: torch.Tensor, want: torch.Tensor) -> None:
        self.far = max(self.far, distance(actual, want))


def distance(actual: torch.Tensor, want: torch.Tensor) -> float:
    """Return the largest difference relative to the largest number of `want`.

    The result is infinite if a number is not finite where `want` is finite, and 0 if `want` is not
    finite.
    """
    actual, want = actual.double(), want.double()
    if not want.isfinite().all():
        return 0.0
    largest = want.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float(((actual - want).abs().max() / largest).nan_to_num(math.inf, math.inf))


def blocks(model: Any) -> Sequence[torch.nn.Module]:
    """Return the model's blocks in order; raise InputError if the blocks are not found."""
    count = model.config.get_text_config().num_hidden_layers
    for module in model.get_decoder().modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == count:
            return list(module)
    raise InputError(
        f"{type(model).__name__} has no list of {count} blocks, so its layers cannot be selected. "
        "Use an objective and weights that do not depend on layers."
    )


def _sequences(vocab: int) -> list[list[int]]:
    """Return all tokens of the rows in the test."""
    return [
        [i % vocab for i in (*_PROMPTS[prompt], *new)]
        for prompt, *new in zip(_AFTER, *_STEPS, strict=True)
    ]


def _forwards(
    seam: PrefixModel, layers: FedLayers | None = None, at_once: bool = True
) -> list[torch.Tensor]:
    """Return the logits after each step of the test; with `at_once`, prompts are one batch.

    Set `at_once` to False if a key or value is not finite. The model then processes the prompts of
    a batch again, one by one, so the recorded inputs would be fed to the layers twice.
    """
    at = (lambda rows, ends: None) if layers is None else layers.at
    roots, numbers = np.zeros(len(_PROMPTS), dtype=np.int64), np.arange(len(_PROMPTS))
    for some in [numbers] if at_once else np.split(numbers, len(numbers)):
        at([_AFTER.index(i) for i in some], [len(_PROMPTS[i]) for i in some])
        prompts = [[token % seam.vocab_size for token in _PROMPTS[i]] for i in some]
        roots[some] = seam.prefill(prompts)[0]
    parents, over = np.array([roots[i] for i in _AFTER]), np.array([False, True, True])
    by_step = []
    for step, tokens in enumerate(_STEPS, start=1):
        at([*range(len(_AFTER))], [len(_PROMPTS[i]) + step for i in _AFTER])
        parents, logits = seam.extend(parents, np.array(tokens) % seam.vocab_size, over)
        by_step.append(logits.double())
        over = np.ones(len(parents), dtype=bool)
    return by_step


def _differs(
    seam: CachedModel, want: Sequence[torch.Tensor], layers: FedLayers | None
) -> str | None:
    """Return why the distribution differs from plain forward passes; None if it does not.

    The largest difference of logits is relative to the largest logit.
    """
    try:
        with nullcontext() if layers is None else layers.feeding():
            logits = _forwards(seam, layers, all(bool(x.isfinite().all()) for x in want))
    except Exception as error:  # of any kind: an unusual architecture
        return f"{type(error).__name__}: {error}".splitlines()[0][:160]
    most = _FAR.get(seam.dtype, _FAR_EXACT)
    if layers is not None and layers.far > most:
        return f"its attention with and without a cache differs by {layers.far:.1e}"
    worst = max(
        float((a - b).abs().max() / (1 + b.abs().max())) for a, b in zip(logits, want, strict=True)
    )
    return f"its logits with and without a cache differ by {worst:.1e}" if worst > most else None
