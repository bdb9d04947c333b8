"""Choose the weights to train: all weights, the weights of some modules, or low-rank adapters."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from leakbound.engines.branching import blocks
from leakbound.errors import InputError
from leakbound.registry import suggestion
from leakbound.types.decoding import require


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapters:
    """Low-rank adapters (Hu et al. 2022), added by peft: W + (alpha / rank) B A, B = 0 at first.

    Attributes:
        rank: the rank of the matrices A and B, at least 1.
        alpha: the scale of B A, times `rank`; above 0.
        dropout: the dropout probability of the adapters' inputs, in [0, 1).

    Raises:
        InputError: a setting out of its range.
    """

    rank: int = 8
    alpha: float = 16.0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        require(self.rank >= 1, "adapters.rank", self.rank, "at least 1")
        require(self.alpha > 0, "adapters.alpha", self.alpha, "a positive number")
        require(0 <= self.dropout < 1, "adapters.dropout", self.dropout, "in [0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights to train: modules in layers, or adapters on them; all weights by default.

    Attributes:
        modules: suffixes of the modules' names, such as `down_proj` (empty: all).
        layers: blocks, counted from 0 (empty: all).
        adapters: adapters to train on the chosen modules (by default on every linear layer except
            the head). The adapters are merged into the weights when training ends. None: the
            weights themselves are trained.
    """

    modules: tuple[str, ...] = ()
    layers: tuple[int, ...] = ()
    adapters: Adapters | None = None

    @property
    def everything(self) -> bool:
        return not (self.modules or self.layers or self.adapters)


EVERYTHING = Weights()


def require_layers(model: Any, layers: Sequence[int]) -> None:
    """Raise InputError for a layer that the model does not have."""
    if not layers:
        return
    count = len(blocks(model))
    for layer in layers:
        if not 0 <= layer < count:
            raise InputError(f"the model has no layer {layer}. Choose from 0 to {count - 1}.")


def chosen_modules(model: Any, weights: Weights) -> dict[str, nn.Module]:
    """Return the modules that `weights` selects; keys are their full names.

    Raises InputError for a layer or a module that the model does not have.
    """
    require_layers(model, weights.layers)
    named = {n: m for n, m in model.named_modules() if n and any(True for _ in m.parameters())}
    if weights.layers:
        stack = blocks(model)
        inside = {id(m) for layer in weights.layers for m in stack[layer].modules()}
        named = {name: module for name, module in named.items() if id(module) in inside}
    if weights.modules:
        for ending in weights.modules:
            if not any(_ends(name, ending) for name in named):
                names = {last for n in named if not (last := n.rpartition(".")[2]).isdigit()}
                where = f" in layers {', '.join(map(str, weights.layers))}" * bool(weights.layers)
                raise InputError(f"no module {ending!r}{where}. {suggestion(ending, names)}")
        named = {n: m for n, m in named.items() if any(_ends(n, w) for w in weights.modules)}
    return named


@contextmanager
def trained(model: Any, weights: Weights, seed: int) -> Iterator[Any]:
    """Freeze all weights except `weights`; when the context ends, merge adapters and unfreeze all.

    Yields the model, or the model in peft's wrapper if there are adapters.
    """
    if weights.everything:
        yield model
        return
    chosen = chosen_modules(model, weights)
    before = {name: parameter.requires_grad for name, parameter in model.named_parameters()}
    adapted = None
    if weights.adapters:
        adapted = _adapted(model, _adaptable(chosen, model, weights), weights.adapters, seed)
    else:
        model.requires_grad_(False)
        for module in chosen.values():
            module.requires_grad_(True)
    try:
        yield adapted or model
    finally:
        if adapted is not None:
            adapted.merge_and_unload()
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(before[name])


_COMPARED = 1 << 20  # largest number of compared weights of a tensor


def rounded_weights(model: Any, weights: Weights) -> list[torch.Tensor]:
    """Copy the trained 16-bit weights; from a large tensor, copy only evenly spaced weights."""
    modules = {"": model} if weights.everything else chosen_modules(model, weights)
    if weights.adapters:
        modules = {name: modules[name] for name in _adaptable(modules, model, weights)}
    parameters = {id(p): p for part in modules.values() for p in part.parameters()}
    return [
        p.detach().flatten()[:: 1 + p.numel() // _COMPARED].cpu().clone()
        for p in parameters.values()
        if p.element_size() == 2
    ]


def fraction_moved(before: Sequence[torch.Tensor], after: Sequence[torch.Tensor]) -> float:
    """Return the fraction of weights that differ between two results of `rounded_weights`."""
    moved = sum(int((old != new).sum()) for old, new in zip(before, after, strict=True))
    return moved / sum(map(len, before))


_LINEAR = (nn.Linear, Conv1D)  # the second is GPT-2's


def matrices(model: Any) -> Iterator[torch.Tensor]:
    """Yield each linear layer's weights except the head's, [outputs, inputs], to change in place.

    Raises InputError for a model with several experts whose matrices are stacked in one tensor.
    """
    for name, parameter in model.named_parameters():
        if "experts" in name and parameter.ndim > 2:
            raise InputError(
                f"{type(model).__name__} stores all experts in one tensor, {name!r}, whose input "
                "axes are unknown. Use a model without experts, or another stress."
            )
    head = model.get_output_embeddings()
    for module in model.modules():
        if isinstance(module, _LINEAR) and module is not head:
            yield module.weight.T if isinstance(module, Conv1D) else module.weight


def _adaptable(chosen: dict[str, nn.Module], model: Any, weights: Weights) -> list[str]:
    head = model.get_output_embeddings()
    fitting = [n for n, m in chosen.items() if isinstance(m, _LINEAR) and m is not head]
    if not fitting:
        raise InputError(
            f"there is no linear layer among {', '.join(weights.modules) or 'the chosen layers'}. "
            "Choose linear layers for adapters, such as q_proj."
        )
    return fitting


def _adapted(model: Any, names: list[str], adapters: Adapters, seed: int) -> Any:
    from peft import LoraConfig, get_peft_model

    settings = LoraConfig(
        r=adapters.rank,
        lora_alpha=adapters.alpha,
        lora_dropout=adapters.dropout,
        target_modules=names,
        task_type="CAUSAL_LM",
    )
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft uses a renamed function
        torch.manual_seed(seed)
        return get_peft_model(model, settings)


def _ends(name: str, ending: str) -> bool:
    return name == ending or name.endswith("." + ending)
