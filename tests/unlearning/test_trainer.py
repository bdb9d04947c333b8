"""One step: its line in the log, its precision, its learning rate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from rows import RETAIN, changed, log, train, weights

from leakbound.engines.loading import load_model
from leakbound.errors import InputError
from leakbound.store.trained import read_trained
from leakbound.unlearning import Trained
from leakbound.unlearning.forward import Forward
from leakbound.unlearning.trainer import _are_finite
from tiny import BOTH_KINDS


@pytest.mark.parametrize("objective", ["gd", "ga+gd:forget=0.5,retain=2"])
def test_each_line_has_the_terms_of_one_step(base: str, tmp_path: Path, objective: str) -> None:
    """A term that occurs twice is one value."""
    how = {"learning_rate": 1e-2, "batch_size": 1, "accumulation": 3}
    lines = log(train(base, tmp_path / "m", objective, **how).path)
    assert len(lines) == 3
    for line in lines:
        assert line["forget ga"] + line["retain nll"] == pytest.approx(line["loss"], abs=1e-5)
        assert {"step", "seconds", "learning_rate", "grad_norm"} <= set(line)
        assert "epoch" not in line
    assert lines[-1]["forget ga"] < lines[0]["forget ga"] - 0.01


def test_a_warm_multiplier_moves_by_the_excess_over_its_bound(base: str, tmp_path: Path) -> None:
    """One pass per epoch over all rows; the same row is retained each time."""
    how: dict[str, Any] = {"epochs": 4, "batch_size": 3, "warmup_ratio": 0.0}
    how |= {"retain": RETAIN[:1], "learning_rate": 1e-9}
    done = train(base, tmp_path / "m", "pdu:retain=3,at_most=2,step=0.5,warmup=2", **how)
    lines = log(done.path)
    nll = lines[0]["retain nll"] / 3 + 2
    assert nll > 2
    multipliers = [line["multiplier retain nll"] for line in lines]
    warm = 3 + (nll - 2) / 2
    assert multipliers == pytest.approx([3, 3, warm, 3 + (nll - 2)], rel=1e-5)
    # The pass uses the multiplier before its update.
    assert lines[3]["retain nll"] == pytest.approx(warm * (nll - 2), rel=1e-5)
    trained = read_trained(done.path)
    assert trained.curve("nll", "retain") == ()  # no single weight applies
    assert len(trained.curve("margin", "forget")) == 4
    card = (done.path / "README.md").read_text()
    assert "| nll | retain | 3 | at_most 2.0, step 0.5, warmup 2.0 |" in card
    loose = train(base, tmp_path / "n", "pdu:retain=3,at_most=99,step=1,warmup=0", **how)
    assert [line["multiplier retain nll"] for line in log(loose.path)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("numbers", "finite"),
    [
        ([0.0, -1e38], True),
        ([3e38, 3e38], True),  # their sum is not
        ([3e38, 3e38, -torch.inf], False),
        ([torch.inf, -torch.inf], False),
        ([torch.nan, 0.0], False),
    ],
)
def test_gradients_are_finite_if_every_number_is(numbers: list[float], finite: bool) -> None:
    some = torch.ones(2, 3)
    assert _are_finite([some, torch.tensor(numbers), some]) is finite


@BOTH_KINDS
@pytest.mark.parametrize("objective", ["npo", "rmu:layer=1"])
def test_bf16_keeps_weights_in_float32(
    base: str, tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: set[torch.dtype] = set()
    run = Forward.run

    def spy(self: Forward, *given: Any) -> Any:
        if torch.is_grad_enabled():
            seen.add(self.model.model.layers[0].mlp.up_proj(torch.zeros(1, 16)).dtype)
        return run(self, *given)

    plain = train(base, tmp_path / "plain", objective, epochs=1)
    monkeypatch.setattr(Forward, "run", spy)
    half = train(base, tmp_path / "half", objective, bf16=True, epochs=1)
    assert seen == {torch.bfloat16}
    assert {tensor.dtype for tensor in weights(half.path).values()} == {torch.float32}
    assert half.losses == pytest.approx(plain.losses, rel=0.01)
    assert half.losses != plain.losses


@BOTH_KINDS
@pytest.mark.parametrize("objective", ["npo", "rmu:layer=1"])
def test_checkpointing_changes_no_weight(base: str, tmp_path: Path, objective: str) -> None:
    def passes(checkpointing: bool) -> tuple[Trained, int]:
        loaded, count = load_model(base), 0

        def counting(*_: Any) -> None:
            nonlocal count
            count += 1

        loaded.model.model.layers[0].mlp.register_forward_pre_hook(counting)
        out = tmp_path / f"{checkpointing}"
        return train(loaded, out, objective, epochs=1, checkpointing=checkpointing), count

    kept, once = passes(False)
    again, twice = passes(True)
    assert twice == once + len(kept.losses)
    assert changed(kept.path, again.path) == set()
    unable = load_model(base)
    unable.model.supports_gradient_checkpointing = False
    with pytest.raises(InputError, match="LlamaForCausalLM cannot recompute activations"):
        train(unable, tmp_path / "m", objective, checkpointing=True)


@pytest.mark.parametrize(
    ("schedule", "rates"),
    [
        ("linear", [0, 0.5, 1, 0.75, 0.5, 0.25]),
        ("cosine", [0, 0.5, 1, 0.853553, 0.5, 0.146447]),
        ("constant", [0, 0.5, 1, 1, 1, 1]),
    ],
)
def test_learning_rate_schedules(
    base: str, tmp_path: Path, schedule: Any, rates: list[float]
) -> None:
    how = {"epochs": 3, "warmup_ratio": 1 / 3, "schedule": schedule, "learning_rate": 1e-3}
    done = train(base, tmp_path / "m", "ga", **how)
    got = [line["learning_rate"] for line in log(done.path)]
    assert got == pytest.approx([1e-3 * rate for rate in rates], rel=1e-5)
