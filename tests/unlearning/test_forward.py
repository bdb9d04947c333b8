"""Logits where the labels are: the same numbers by either way."""

from __future__ import annotations

import pytest
import torch
from transformers import Gemma2Config, Gemma2ForCausalLM, GPT2Config, GPT2LMHeadModel

from residua.losses import sequence_nll
from residua.unlearning.examples import Example, pad
from residua.unlearning.forward import Forward, forward_for, reference_nll
from tiny import tiny_llama

EXAMPLES = [Example((3, 4, 5), (6, 7, 2)), Example((3, 8), (2,)), Example((9,), (4, 4, 4, 4, 2))]


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
        ours = forward(pad(EXAMPLES))
        full = Forward(model, narrow=False)(pad(EXAMPLES))
    torch.testing.assert_close(ours.logits, full.logits)
    assert ours.labels.tolist() == [6, 7, 2, 2, 4, 4, 4, 4, 2]


def test_model_without_a_plain_head_falls_back() -> None:
    model = tiny_llama(12)
    model.get_output_embeddings = lambda: None
    assert not forward_for(model, pad(EXAMPLES)).narrow


def test_padding_does_not_reach_the_answer() -> None:
    forward = Forward(tiny_llama(12), narrow=True)
    with torch.no_grad():
        together = sequence_nll(forward(pad(EXAMPLES)))
        alone = torch.cat([sequence_nll(forward(pad([example]))) for example in EXAMPLES])
    torch.testing.assert_close(together, alone)


def test_reference_is_that_of_each_row_whatever_the_batch() -> None:
    forward = Forward(tiny_llama(12), narrow=True)
    cpu = torch.device("cpu")
    one = reference_nll(forward, EXAMPLES, batch_size=1, device=cpu)
    assert not one.requires_grad
    torch.testing.assert_close(reference_nll(forward, EXAMPLES, batch_size=2, device=cpu), one)
    torch.testing.assert_close(one, sequence_nll(forward(pad(EXAMPLES))).detach())
