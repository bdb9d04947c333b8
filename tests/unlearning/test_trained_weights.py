"""Training changes the chosen weights and no others; absent ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from rows import changed, train, weights

from leakbound.engines.branching import blocks
from leakbound.errors import InputError
from leakbound.unlearning import Adapters, Weights
from leakbound.unlearning.weights import chosen_modules, trained
from tiny import BOTH_KINDS, are_tied, tiny_gpt2, tiny_llama

DOWN = {f"model.layers.{layer}.mlp.down_proj.weight" for layer in (0, 1)}


@BOTH_KINDS
@pytest.mark.parametrize(
    ("chosen", "wanted"),
    [
        (Weights(modules=("down_proj",)), DOWN),
        (Weights(modules=("mlp.down_proj",), layers=(1,)), {max(DOWN)}),
        (Weights(modules=("down_proj", "lm_head")), DOWN | {"lm_head.weight"}),
    ],
)
@pytest.mark.parametrize("objective", ["npo", "rmu:layer=1"])
def test_only_chosen_modules_change(
    base: str, tmp_path: Path, chosen: Weights, wanted: set[str], objective: str
) -> None:
    done = train(base, tmp_path / "m", objective, weights=chosen, epochs=1)
    if are_tied():  # one matrix under the name it has in files, which steering reaches from below
        wanted = {"model.embed_tokens.weight" if "lm_head" in name else name for name in wanted}
    elif objective != "npo":
        wanted = wanted - {"lm_head.weight"}  # above the steered layer
    assert changed(base, done.path) == wanted


@BOTH_KINDS
def test_only_chosen_layers_change(base: str, tmp_path: Path) -> None:
    got = changed(base, train(base, tmp_path / "m", weights=Weights(layers=(0,)), epochs=1).path)
    assert got
    assert all(name.startswith("model.layers.0.") for name in got)


@BOTH_KINDS
def test_the_model_is_left_as_it_was_but_for_its_weights() -> None:
    model = tiny_llama(12)
    model.model.embed_tokens.weight.requires_grad_(False)  # if tied, the head's too
    with trained(model, Weights(modules=("q_proj",)), 0):
        free = {name for name, p in model.named_parameters() if p.requires_grad}
        assert free == {f"model.layers.{i}.self_attn.q_proj.weight" for i in (0, 1)}
    kept = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert kept == {"model.embed_tokens.weight"}


def test_blocks_are_located_by_their_number() -> None:
    model = tiny_gpt2(layers=3)
    assert list(blocks(model)) == list(model.transformer.h)
    assert set(chosen_modules(model, Weights(modules=("c_proj",), layers=(2,)))) == {
        "transformer.h.2.attn.c_proj",
        "transformer.h.2.mlp.c_proj",
    }


@BOTH_KINDS
class TestAdapters:
    """Low-rank adapters."""

    def test_peft_gets_the_settings_and_the_seed(self) -> None:
        where = Weights(modules=("q_proj",), adapters=Adapters(rank=3, alpha=5.0, dropout=0.25))

        def first(seed: int) -> torch.Tensor:
            model, before = tiny_llama(12), torch.get_rng_state()
            with trained(model, where, seed) as adapted:
                assert torch.equal(torch.get_rng_state(), before)
                made = adapted.peft_config["default"]
                assert (made.r, made.lora_alpha, made.lora_dropout) == (3, 5.0, 0.25)
                layers = {f"model.layers.{i}.self_attn.q_proj" for i in (0, 1)}
                assert made.target_modules == layers
                return next(p.clone() for n, p in adapted.named_parameters() if "lora_A" in n)

        assert torch.equal(first(1), first(1))
        assert not torch.equal(first(1), first(2))

    def test_the_change_is_of_low_rank(self, base: str, tmp_path: Path) -> None:
        where = Weights(modules=("up_proj",), layers=(1,), adapters=Adapters(rank=2, alpha=64.0))
        done = train(base, tmp_path / "m", "gd", weights=where, learning_rate=1e-2, epochs=1)
        (name,) = changed(base, done.path)
        assert name == "model.layers.1.mlp.up_proj.weight"
        sizes = torch.linalg.svdvals(weights(done.path)[name] - weights(base)[name])
        assert sizes[1] > 100 * sizes[2]

    def test_adapters_are_on_all_linear_layers_but_the_head(
        self, base: str, tmp_path: Path
    ) -> None:
        where = Weights(adapters=Adapters(rank=2))
        adapted = train(base, tmp_path / "m", "rmu:layer=1", weights=where, epochs=1)
        got = changed(base, adapted.path)
        assert got == {name for name in got if name.endswith("_proj.weight")}
        assert len({name.split(".")[-2] for name in got}) == 7
        plain = train(base, tmp_path / "n", "rmu:layer=1", epochs=1)
        assert adapted.losses[0] == plain.losses[0]  # B = 0: no change at first

    def test_adapters_need_linear_layers(self, base: str, tmp_path: Path) -> None:
        where = Weights(modules=("input_layernorm",), adapters=Adapters())
        with pytest.raises(InputError, match="no linear layer among input_layernorm"):
            train(base, tmp_path / "m", weights=where)
