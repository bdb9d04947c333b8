"""The forward pass only at labels, with two rows per line, gives the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rows import train
from transformers import (
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
)

from leakbound.engines.loading import load_model
from leakbound.losses import labelled
from leakbound.unlearning.examples import Example, pad
from leakbound.unlearning.forward import Forward, Lines, forward_for
from tiny import BOTH_KINDS, tiny_gpt2, tiny_llama, tiny_model_folder

EXAMPLES = [Example((3, 4, 5), (6, 7, 2)), Example((3, 8), (2,)), Example((9,), (4, 4, 4, 4, 2))]


def logits(forward: Forward, examples: list[Example]) -> torch.Tensor:
    batch = pad(examples)
    return forward(batch, labelled(batch.labels))[0]


def headless() -> LlamaForCausalLM:
    model = tiny_llama(12)
    model.get_output_embeddings = lambda: None
    return model


def gemma2(cap: float | None) -> Gemma2ForCausalLM:
    size = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 12}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4}
    settings = {**size, **heads, "initializer_range": 2.0, "final_logit_softcapping": cap}
    return Gemma2ForCausalLM(Gemma2Config(**settings)).eval()


@BOTH_KINDS
@pytest.mark.parametrize(
    ("make", "narrow"),
    [
        (lambda: tiny_llama(12), True),
        (tiny_gpt2, True),
        (lambda: gemma2(None), True),
        (lambda: gemma2(5.0), False),
        (headless, False),
    ],
    ids=["llama", "gpt2", "gemma2 uncapped", "gemma2 capped", "no plain head"],
)
def test_narrow_is_taken_where_it_is_exact(make, narrow: bool) -> None:
    torch.manual_seed(0)
    model = make()
    forward = forward_for(model, pad(EXAMPLES))
    assert forward.narrow is narrow
    assert forward.paired, "positions tell rows apart"
    with torch.no_grad():
        ours = logits(forward, EXAMPLES)
        full = logits(Forward(model, narrow=False), EXAMPLES)
    torch.testing.assert_close(ours, full)
    assert ours.shape == (9, 12)


@BOTH_KINDS
@pytest.mark.parametrize("make", [lambda: tiny_llama(12), tiny_gpt2, lambda: gemma2(5.0)])
@pytest.mark.parametrize("narrow", [True, False])
def test_outputs_of_layers_are_those_of_the_blocks(make, narrow: bool) -> None:
    model, batch, got = make(), pad(EXAMPLES), []
    stack = model.model.layers if hasattr(model, "model") else model.transformer.h
    _, hidden = Forward(model, narrow, layers=(0,))(batch, labelled(batch.labels))
    stack[0].register_forward_hook(lambda *call: got.append(call[2]))
    model(input_ids=batch.input_ids, attention_mask=batch.attention_mask)
    theirs = got[0] if isinstance(got[0], torch.Tensor) else got[0][0]
    torch.testing.assert_close(hidden[0], theirs)
    assert hidden[0].requires_grad
    assert len(stack[0]._forward_hooks) == 1  # the hook of the test


LENGTHS = [(4,), (3, 5), (7, 2, 2), (1, 1, 1), (9, 4, 4, 6), (2, 8, 3, 5, 5), (6, 1, 7, 3, 9, 2)]


def mask(lengths: tuple[int, ...]) -> torch.Tensor:
    return (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()


def pairings(lengths: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield every way to put an even number of rows two per line, as the lengths of the lines."""
    if not lengths:
        yield []
        return
    first, *rest = lengths
    for i, other in enumerate(rest):
        for lines in pairings((*rest[:i], *rest[i + 1 :])):
            yield [first + other, *lines]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_no_pairing_is_narrower_and_no_two_tokens_overlap(lengths: tuple[int, ...]) -> None:
    even = lengths + (0,) * (len(lengths) % 2)
    lines = Lines.of(mask(lengths))
    assert lines.width == min(max(each) for each in pairings(even))
    assert sorted(set(lines.line.tolist())) == [*range(len(even) // 2)]
    tokens = mask(lengths).nonzero(as_tuple=True)
    places = list(zip(*(part.tolist() for part in lines.at(tokens)), strict=True))
    assert len(set(places)) == sum(lengths)
    assert max(column for _, column in places) == lines.width - 1


@BOTH_KINDS
@pytest.mark.parametrize("make", [lambda: tiny_llama(12), tiny_gpt2, lambda: gemma2(None)])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("narrow", [True, False])
def test_pairs_change_neither_outputs_nor_gradients(make, rows: int, narrow: bool) -> None:
    torch.manual_seed(0)
    model, batch = make().double(), pad(EXAMPLES[:rows])
    tokens = batch.attention_mask.bool()
    got = []
    for paired in (True, False):
        forward = Forward(model, narrow, layers=(0,), paired=paired)
        logits, hidden = forward(batch, labelled(batch.labels))
        values = [logits, hidden[0][tokens]]
        model.zero_grad()
        sum((value * value).sum() for value in values).backward()
        got.append(values + [p.grad.clone() for p in model.parameters() if p.grad is not None])
        assert hidden[0].shape[:2] == batch.input_ids.shape
    for ours, plain in zip(*got, strict=True):
        torch.testing.assert_close(ours, plain, rtol=1e-5, atol=1e-5)  # norms are in float32


@pytest.mark.parametrize("rows", [1, 3])
def test_pairs_are_not_taken_where_a_state_runs_on(rows: int) -> None:
    """One row in the probe is enough to detect it."""
    size = {"hidden_size": 8, "state_size": 4, "num_hidden_layers": 1, "vocab_size": 12}
    model = MambaForCausalLM(MambaConfig(**size, use_mambapy=False)).eval()
    forward = forward_for(model, pad(EXAMPLES[:rows]))
    assert not forward.paired
    batch = pad(EXAMPLES)
    with torch.no_grad():
        assert len(forward(batch, labelled(batch.labels))[0]) == 9


def test_training_runs_in_pairs(tmp_path: Path) -> None:
    """Three rows to forget and three to retain are three lines."""
    loaded = load_model(str(tiny_model_folder(tmp_path / "base")))
    shapes: list[torch.Size] = []

    def see(module: torch.nn.Module, inputs: object, named: dict[str, torch.Tensor]) -> None:
        if module.training:
            shapes.append(named["input_ids"].shape)

    loaded.model.get_decoder().register_forward_pre_hook(see, with_kwargs=True)
    train(loaded, tmp_path / "m", "gd", epochs=1, warmup_ratio=0.0, batch_size=3)
    assert [lines for lines, _ in shapes] == [3]
