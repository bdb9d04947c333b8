"""Logits where the labels are: the same numbers by either way."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

from leakbound.losses import labelled
from leakbound.unlearning.examples import Example, pad
from leakbound.unlearning.forward import Forward, forward_for
from tiny import BOTH_KINDS, tiny_llama

EXAMPLES = [Example((3, 4, 5), (6, 7, 2)), Example((3, 8), (2,)), Example((9,), (4, 4, 4, 4, 2))]


def logits(forward: Forward, examples: list[Example]) -> torch.Tensor:
    batch = pad(examples)
    return forward(batch, labelled(batch.labels))[0]


def gpt2() -> GPT2LMHeadModel:
    size = {"n_embd": 8, "n_layer": 1, "n_head": 2, "vocab_size": 12, "n_positions": 16}
    return GPT2LMHeadModel(GPT2Config(**size, bos_token_id=0, eos_token_id=2)).eval()


def gemma2(cap: float | None) -> Gemma2ForCausalLM:
    config = Gemma2Config(
        vocab_size=12,
        hidden_size=8,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=4,
        final_logit_softcapping=cap,
        initializer_range=2.0,
    )
    return Gemma2ForCausalLM(config).eval()


@BOTH_KINDS
@pytest.mark.parametrize(
    ("make", "narrow"),
    [
        (lambda: tiny_llama(12), True),
        (gpt2, True),
        (lambda: gemma2(None), True),
        (lambda: gemma2(5.0), False),
    ],
    ids=["llama", "gpt2", "gemma2 uncapped", "gemma2 capped"],
)
def test_narrow_is_taken_where_it_is_exact(make, narrow: bool) -> None:
    torch.manual_seed(0)
    model = make()
    forward = forward_for(model, pad(EXAMPLES))
    assert forward.narrow is narrow
    with torch.no_grad():
        ours = logits(forward, EXAMPLES)
        full = logits(Forward(model, narrow=False), EXAMPLES)
    torch.testing.assert_close(ours, full)
    assert ours.shape == (9, 12)


def test_model_without_a_plain_head_falls_back() -> None:
    model = tiny_llama(12)
    model.get_output_embeddings = lambda: None
    assert not forward_for(model, pad(EXAMPLES)).narrow


@BOTH_KINDS
def test_padding_does_not_reach_the_answer() -> None:
    forward = Forward(tiny_llama(12), narrow=True)
    with torch.no_grad():
        together = logits(forward, EXAMPLES)
        alone = torch.cat([logits(forward, [example]) for example in EXAMPLES])
    torch.testing.assert_close(together, alone)


@BOTH_KINDS
@pytest.mark.parametrize("make", [lambda: tiny_llama(12), gpt2, lambda: gemma2(5.0)])
@pytest.mark.parametrize("narrow", [True, False])
def test_outputs_of_layers_are_those_of_the_blocks(make, narrow: bool) -> None:
    model, batch = make(), pad(EXAMPLES)
    forward = Forward(model, narrow, layers=(0,))
    _, hidden = forward(batch, labelled(batch.labels))
    given = {"input_ids": batch.input_ids, "attention_mask": batch.attention_mask}
    stack = model.model.layers if hasattr(model, "model") else model.transformer.h
    found: list[torch.Tensor] = []
    stack[0].register_forward_hook(lambda *call: found.append(call[2]))
    model(**given)
    ours, theirs = hidden[0], found[0]
    torch.testing.assert_close(ours, theirs if isinstance(theirs, torch.Tensor) else theirs[0])
    assert ours.requires_grad
    assert len(stack[0]._forward_hooks) == 1  # the test's own
