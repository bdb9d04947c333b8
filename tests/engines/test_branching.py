"""Models are tried in half precision layer by layer: roundings pass, faults do not."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import transformers as tf
from test_cascade import JOINED, OTHERWISE
from test_prefix_cache import BRANCHING, GROUPED, STATE_SPACE, VOCAB, build

from leakbound.engines import branching, cascade
from leakbound.engines.branching import FedLayers, distance, prefix_model
from leakbound.engines.prefix_cache import CachedModel, Cascade, RecomputedModel
from tiny import BOTH_KINDS

QUICK = {"llama", "gpt2", "gemma2", "gpt-oss"}
HALF = [torch.bfloat16, torch.float16]
EVERY = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.thorough)
    for name in {**BRANCHING, **JOINED, **OTHERWISE}
]


def sharp(layers: int) -> Any:
    """A model whose attention is nearly hard; roundings of a deep one become other tokens."""
    model = build(tf.LlamaConfig(**{**GROUPED, "num_hidden_layers": layers}))
    with torch.no_grad():
        for layer in model.model.layers:
            for linear in (layer.self_attn.q_proj, layer.self_attn.k_proj):
                linear.weight.mul_(40)
            for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
                linear.weight.mul_(20)
        model.lm_head.weight.mul_(20)
    return model


@BOTH_KINDS
@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("name", EVERY)
def test_half_precision_branches_and_joins_what_float_does(name: str, dtype: torch.dtype) -> None:
    model = build({**BRANCHING, **JOINED, **OTHERWISE}[name]).to(dtype)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert note is None
    assert seam.cascade == (None if name in OTHERWISE else Cascade())


def test_what_many_layers_make_of_a_rounding_does_not_tell_against_a_model() -> None:
    """The logits are of another distribution by another kernel's roundings, the layers are not."""
    model = sharp(24).to(torch.bfloat16)
    plain = branching._forwards(RecomputedModel(model, frozenset()))
    joined = CachedModel(model, frozenset(), branching._ALWAYS)
    apart = [
        float((a.softmax(-1) - b.softmax(-1)).abs().sum(-1).max() / 2)
        for a, b in zip(branching._forwards(joined), plain, strict=True)
    ]
    assert max(apart) > 0.2
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert (note, seam.cascade) == (None, Cascade())


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("fault", ["forgets the past", "doubles its output", "is a token behind"])
def test_a_layer_that_misuses_the_cache_is_found_in_half_precision(
    fault: str, dtype: torch.dtype
) -> None:
    model = sharp(2).to(dtype)
    layer = model.model.layers[1].self_attn
    original = layer.forward

    def forward(*args: Any, past_key_values: Any = None, **kwargs: Any) -> Any:
        if fault == "forgets the past":
            return original(*args, past_key_values=None, **kwargs)
        if fault == "is a token behind" and past_key_values is not None:
            kwargs["position_embeddings"] = tuple(x.flip(-1) for x in kwargs["position_embeddings"])
        out, *rest = original(*args, past_key_values=past_key_values, **kwargs)
        return (2 * out if fault == "doubles its output" and out.shape[1] == 1 else out, *rest)

    layer.forward = forward
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert note is not None
    assert seam.held == 0


@BOTH_KINDS
@pytest.mark.parametrize("where", ["embeddings", "head"])
def test_a_fault_outside_the_layers_is_found_in_half_precision(where: str) -> None:
    model = sharp(2).to(torch.bfloat16)
    part = model.model.embed_tokens if where == "embeddings" else model.lm_head
    part.register_forward_hook(lambda _, __, out: out * 1.2 if out.shape[:2] == (3, 1) else out)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert note is not None
    assert ("attention" in note) == (where == "embeddings")


@pytest.mark.parametrize(("name", "ignored"), [("gemma2", "softcap"), ("gpt-oss", "s_aux")])
def test_a_part_of_attention_that_is_ignored_is_found_in_half_precision(
    name: str, ignored: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = build(JOINED[name])
    with torch.no_grad():
        for layer in model.model.layers:  # scores that a cap of 50 changes
            layer.self_attn.q_proj.weight.mul_(3000)
            layer.self_attn.k_proj.weight.mul_(30)
    model = model.to(torch.bfloat16)
    joined = cascade.cascade_attention

    def without(*args: Any, **kwargs: Any) -> Any:
        return joined(*args, **{**kwargs, ignored: None})

    seam, _ = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert seam.cascade == Cascade()
    monkeypatch.setitem(cascade.AttentionInterface._global_mapping, cascade.NAME, without)
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, CachedModel)
    assert (seam.cascade, note) == (None, None)


def test_layers_are_left_as_they_were() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    ids = torch.tensor([[1, 2, 3]])
    with torch.inference_mode():
        before = model(ids).logits
        prefix_model(model, frozenset())
        assert torch.equal(model(ids).logits, before)
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_a_model_without_known_layers_is_told_by_its_logits() -> None:
    model = build(STATE_SPACE["mamba"]).to(torch.bfloat16)
    assert FedLayers.of(model, [[1, 2]]) is None
    seam, note = prefix_model(model, frozenset())
    assert isinstance(seam, RecomputedModel)
    assert note is not None


def test_layers_that_run_twice_are_told_by_their_logits() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    for layer in model.model.layers:
        once = layer.forward
        layer.forward = lambda hidden, once=once, **named: once(once(hidden, **named), **named)
    assert FedLayers.of(model, [[1, 2]]) is None


def test_attention_that_gives_something_else_is_told_by_logits() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    model.model.layers[0].self_attn.register_forward_hook(lambda *_: (None, None))
    assert FedLayers.of(model, [[1, 2]]) is None
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_a_model_that_is_broken_is_no_other_law() -> None:
    model = build(BRANCHING["llama"]).to(torch.bfloat16)
    with torch.no_grad():
        model.model.norm.weight.fill_(torch.nan)
    assert isinstance(prefix_model(model, frozenset())[0], CachedModel)


@pytest.mark.parametrize(
    ("found", "want", "far"),
    [
        ([1.0, 2.0], [1.0, 4.0], 0.5),
        ([0.0], [0.0], 0.0),
        ([math.nan], [1.0], math.inf),
        ([math.inf], [1.0], math.inf),
        ([1.0], [math.nan], 0.0),
    ],
)
def test_a_distance_is_relative_to_the_largest(
    found: list[float], want: list[float], far: float
) -> None:
    assert distance(torch.tensor(found), torch.tensor(want)) == far


def test_the_probe_tells_tokens_apart_in_a_small_vocabulary() -> None:
    assert len({tuple(one) for one in branching._sequences(VOCAB)}) == 3
