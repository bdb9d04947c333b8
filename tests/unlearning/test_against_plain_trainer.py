"""Training takes the steps that a plain `Trainer` takes which makes all logits every time.

The plain one is that of `bench/training.py`, so what the bench compares in speed is equal here.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from rows import FORGET, RETAIN

from leakbound.engines.prompting import Prompting
from leakbound.unlearning import TrainingSettings
from tiny import BOTH_KINDS, tiny_model_folder

BENCH = Path(__file__).parents[2] / "bench" / "training.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH.parent))
    spec = importlib.util.spec_from_file_location("bench_training", BENCH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@BOTH_KINDS
def test_losses_are_those_of_a_plain_trainer(bench: ModuleType, tmp_path: Path) -> None:
    """Six steps with weights that move: the gradients must agree too."""
    model = str(tiny_model_folder(tmp_path / "base"))
    settings = TrainingSettings(
        epochs=6, batch_size=3, learning_rate=1e-2, schedule="constant", warmup_ratio=0.0
    )
    case = bench.Case(model, FORGET, RETAIN, Prompting(), settings, threads=1)
    losses: dict[str, list[float]] = {}
    for side, run in bench.SIDES.items():
        own = losses[side] = []
        run(case, tmp_path / side, lambda step, steps, loss, own=own: own.append(loss))
    assert len(losses["plain"]) == 6
    assert losses["plain"][-1] < losses["plain"][0] - 0.1
    assert losses["leakbound"] == pytest.approx(losses["plain"], rel=1e-5)
