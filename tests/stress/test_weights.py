"""Weights rounded and pruned: to the specified values, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from canned import benchmark_of
from leakbound.engines.loading import load_model
from leakbound.errors import InputError
from leakbound.stress import Bench, stresses_of
from leakbound.stress.weights import GROUP, NF4, Prune, Round
from leakbound.study import ModelSettings
from leakbound.unlearning.weights import matrices
from tiny import BOTH_KINDS, tiny_gpt2, tiny_llama, tiny_model_folder

BENCH = Bench(task=benchmark_of(("0",), question="Who?"), settings=ModelSettings(device="cpu"))


def plainly(weight: list[float], values: str) -> list[float]:
    """Round one row, number by number."""
    if values == "nf4":
        known = list(NF4)
    else:
        levels = {"int8": 127, "int4": 7}[values]
        known = [i / levels for i in range(-levels, levels + 1)]
    got: list[float] = []
    for start in range(0, len(weight), GROUP):
        group = weight[start : start + GROUP]
        scale = max(map(abs, group)) or 1.0
        got += [min(known, key=lambda k: abs(k - w / scale)) * scale for w in group]
    return got


@pytest.mark.parametrize("values", ["int8", "int4", "nf4"])
@pytest.mark.parametrize("columns", [1, 64, 150])
def test_each_weight_goes_to_the_nearest_value(values: Any, columns: int) -> None:
    torch.manual_seed(columns)
    weight = torch.randn(3, columns)
    weight[1] = 0.0
    made = Round(values).changed(weight)
    expected = [plainly(row, values) for row in weight.double().tolist()]
    assert torch.allclose(made, torch.tensor(expected, dtype=torch.float32), atol=1e-6)
    assert torch.equal(Round(values).changed(made), made), "rounding twice changes more"


def test_the_smallest_weights_are_pruned() -> None:
    weight = torch.tensor([[1.0, -0.5, 0.5, 2.0], [-0.5, 3.0, 0.5, -4.0]])
    made = Prune(0.25).changed(weight)
    assert (made == 0).sum() == 2
    assert torch.equal(made.flatten()[made.flatten() != 0].abs().sort().values[-4:],
                       torch.tensor([1.0, 2.0, 3.0, 4.0]))  # fmt: skip
    assert torch.equal(Prune(0.1).changed(weight), weight)


@BOTH_KINDS
def test_linear_layers_change_and_nothing_else(tmp_path: Path, embeddings: None) -> None:
    model = tiny_model_folder(tmp_path / "model")
    (stress,) = stresses_of(["round:int4"])
    made = stress.model(BENCH, str(model), tmp_path / "out")
    before, after = (load_model(str(path), device="cpu") for path in (model, made))
    assert before.fingerprint["weights"] != after.fingerprint["weights"]
    changed = {
        name
        for name, weight in before.model.state_dict().items()
        if not torch.equal(weight, after.model.state_dict()[name])
    }
    assert changed == {
        name for name in before.model.state_dict() if "proj" in name and name.endswith("weight")
    }


def test_a_folder_with_another_model_is_rewritten(tmp_path: Path) -> None:
    model, other = (tiny_model_folder(tmp_path / name, i) for i, name in enumerate("mo"))
    (stress,) = stresses_of(["prune:0.5"])
    out = tmp_path / "out"
    stress.model(BENCH, str(model), out)
    weights, when = (out / "model.safetensors").read_bytes(), (out / "config.json").stat()
    stress.model(BENCH, str(model), out)
    assert (out / "config.json").stat() == when, "what was made is not made again"
    shutil.copy(other / "model.safetensors", out)
    for subject, same in ((model, True), (other, False)):
        stress.model(BENCH, str(subject), out)
        assert ((out / "model.safetensors").read_bytes() == weights) == same


def test_a_convolution_of_gpt2_is_rounded_along_its_inputs() -> None:
    shapes = [tuple(weight.shape) for weight in matrices(tiny_gpt2())]
    assert shapes == [(24, 8), (8, 8), (32, 8), (8, 32)]


def test_experts_in_one_tensor_are_refused() -> None:
    model = tiny_llama(9)
    model.experts = torch.nn.Parameter(torch.zeros(2, 3, 4))
    with pytest.raises(InputError, match="'experts'"):
        list(matrices(model))
