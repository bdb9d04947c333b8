"""Half precision, and activations that are computed twice instead of kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import FORGET, RETAIN, changed, weights

from leakbound.engines.loading import load_model
from leakbound.errors import InputError
from leakbound.unlearning import Trained, TrainingSettings, unlearn
from leakbound.unlearning.forward import Forward
from tiny import BOTH_KINDS

SETTINGS = TrainingSettings(epochs=2, learning_rate=1e-3, batch_size=2)


def train(base: str, out: Path, objective: str, **how: Any) -> Trained:
    settings = replace(SETTINGS, **how)
    return unlearn(base, objective, forget=FORGET, retain=RETAIN, out=out, settings=settings)


@BOTH_KINDS
@pytest.mark.parametrize("objective", ["npo", "kl", "rmu:layer=1"])
def test_bf16_multiplies_in_half_and_keeps_whole_weights(
    base: str, tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[torch.dtype] = set()
    run = Forward.run

    def spy(self: Forward, *given: Any) -> Any:
        if torch.is_grad_enabled():
            seen.add(self.model.model.layers[0].mlp.up_proj(torch.zeros(1, 16)).dtype)
        return run(self, *given)

    plain = train(base, tmp_path / "plain", objective)
    monkeypatch.setattr(Forward, "run", spy)
    half = train(base, tmp_path / "half", objective, bf16=True)
    assert seen == {torch.bfloat16}
    assert {tensor.dtype for tensor in weights(half.path).values()} == {torch.float32}
    assert half.losses == pytest.approx(plain.losses, rel=0.01)
    assert half.losses != plain.losses


@BOTH_KINDS
def test_weights_may_be_held_in_half(base: str, tmp_path: Path) -> None:
    done = train(base, tmp_path / "m", "npo", dtype="bfloat16")
    assert {tensor.dtype for tensor in weights(done.path).values()} == {torch.bfloat16}


@BOTH_KINDS
@pytest.mark.parametrize("objective", ["npo", "rmu:layer=1"])
def test_checkpointing_computes_twice_and_changes_nothing(
    base: str, tmp_path: Path, objective: str
) -> None:
    def passes(checkpointing: bool) -> tuple[Trained, int]:
        loaded, count = load_model(base), 0

        def counting(*_: Any) -> None:
            nonlocal count
            count += 1

        loaded.model.model.layers[0].mlp.register_forward_pre_hook(counting)
        settings = replace(SETTINGS, checkpointing=checkpointing)
        given: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "settings": settings}
        return unlearn(loaded, objective, out=tmp_path / f"{checkpointing}", **given), count

    kept, once = passes(False)
    again, twice = passes(True)
    assert twice == once + len(kept.losses)
    assert changed(kept.path, again.path) == set()


def test_a_model_that_cannot_is_refused(base: str, tmp_path: Path) -> None:
    loaded = load_model(base)
    loaded.model.supports_gradient_checkpointing = False
    settings = replace(SETTINGS, checkpointing=True)
    with pytest.raises(InputError, match="LlamaForCausalLM cannot compute activations again"):
        unlearn(loaded, "ga", forget=FORGET, out=tmp_path / "m", settings=settings)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25]),
        ("cosine", [0, 0.5, 1, 0.853553, 0.5, 0.146447]),
        ("constant", [0, 0.5, 1, 1, 1, 1]),
    ],
)
def test_the_learning_rate_rises_and_falls_as_asked(
    base: str, tmp_path: Path, schedule: Any, rates: list[float]
) -> None:
    import json

    how = {"epochs": 3, "warmup_ratio": 1 / 3, "schedule": schedule, "learning_rate": 1e-3}
    done = train(base, tmp_path / "m", "ga", **how)
    lines = (done.path / "training.jsonl").read_text().splitlines()
    found = [json.loads(line)["learning_rate"] for line in lines]
    assert found == pytest.approx([1e-3 * rate for rate in rates], rel=1e-5)
