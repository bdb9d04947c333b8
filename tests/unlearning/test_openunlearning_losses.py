"""Each `NAME:openunlearning` beside the code that it names, where a checkout of it is named.

`LEAKBOUND_OPENUNLEARNING=CHECKOUT` names one, in an environment with what it imports. What does not
need it is elsewhere: the losses by hand, and each preset as the sum that it is.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from leakbound.objective import PRESETS, parse_objective
from leakbound.unlearning import defaults_of

CHECKOUT = Path(os.environ.get("LEAKBOUND_OPENUNLEARNING", ""))
BENCH = Path(__file__).parents[2] / "bench" / "losses.py"
METHODS = sorted(name for name, presets in PRESETS.items() if "openunlearning" in presets)
beside_theirs = pytest.mark.skipif(
    Path() == CHECKOUT, reason="LEAKBOUND_OPENUNLEARNING names no checkout"
)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(CHECKOUT / "src"))
    spec = importlib.util.spec_from_file_location("bench_losses", BENCH)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_bench_has_every_method(bench: ModuleType) -> None:
    assert sorted(bench.METHODS) == METHODS


@beside_theirs
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("method", METHODS)
def test_value_and_gradient_are_theirs(bench: ModuleType, method: str, tied: bool) -> None:
    found = bench.compare(method, CHECKOUT, tied)
    assert max(found.value, found.gradient, found.multiplier) < 1e-6


@beside_theirs
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("method", sorted({*METHODS} - {"altpo"}))  # whose script says the rest
def test_it_trains_as_they_do(bench: ModuleType, method: str) -> None:
    from hydra import compose, initialize_config_dir

    experiment = "idk" if method == "dpo" else "default"
    named = [f"experiment=unlearn/tofu/{experiment}", f"trainer={bench.METHODS[method]}"]
    with initialize_config_dir(str(CHECKOUT / "configs"), version_base=None):
        theirs = compose("unlearn", overrides=[*named, "task_name=x"]).trainer.args
    ours = defaults_of(parse_objective(f"{method}:openunlearning"))
    assert (ours.epochs, ours.learning_rate) == (theirs.num_train_epochs, theirs.learning_rate)
    assert ours.batch_size == theirs.per_device_train_batch_size
    assert ours.accumulation == theirs.gradient_accumulation_steps
    assert ours.weight_decay == theirs.weight_decay
    assert ours.warmup_ratio == theirs.warmup_epochs / theirs.num_train_epochs
    unsaid = theirs.get("lr_scheduler_type"), theirs.get("max_grad_norm")
    assert unsaid == (None, None)  # then transformers' own, which are
    assert (ours.schedule, ours.max_grad_norm) == ("linear", 1.0)
