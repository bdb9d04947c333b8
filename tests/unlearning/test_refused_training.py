"""Refusals before a model is loaded: of rows, settings, weights and folders."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import FORGET, RETAIN, train

from leakbound.benchmarks import load_benchmark
from leakbound.engines import loading
from leakbound.errors import InputError
from leakbound.types import Passage, Prompt
from leakbound.unlearning import Adapters, ModelAnswers, TrainingSettings, Watch, Weights, finetune

TEXT = Passage(id="t0", text="who wrote red")
NO_ANSWER = Prompt(id="bare", question="who")
MANY = replace(FORGET[0], paraphrases=("who Ann", "sky sea", "sky blue"))
ALONE = replace(FORGET[2], paraphrases=())


@pytest.mark.parametrize(
    ("objective", "how", "message"),
    [
        ("ga", {"forget": [], "retain": []}, "needs forget rows, got none"),
        ("gd", {"retain": [*RETAIN, FORGET[1]]}, "1 questions are in both .*'f1'"),
        ("gd", {"forget": [TEXT], "retain": [TEXT]}, "1 texts are in both the forget and"),
        ("ga", {"forget": [*FORGET, NO_ANSWER]}, "'bare' of forget has no answer"),
        ("ga", {"forget": [*FORGET, TEXT]}, "1 plain text passages and 3 questions"),
        ("ga", {"forget": [replace(FORGET[0], thought="red")]}, "'f0' of forget has a thought"),
        *(
            (asking, {"forget": [TEXT]}, r"needs questions, but the forget .*npo, gd")
            for asking in ("altpo", "cel:layer=0", "dpo", "idk")
        ),
        ("ga", {"forget": [TEXT], "watch": Watch(evaluate_every=1)}, "`evaluate_every` needs"),
        ("npo", {"alternates": ["a"]}, r"`alternates` need .* 'npo' does not"),
        ("idk", {"alternates": []}, "got none or a blank one"),
        ("npo", {"selecting": ModelAnswers()}, "'npo' has none"),
        ("cel:layer=0,beta=0", {"forget": [ALONE]}, "beta = 0 needs a contrast .* row 'f2' of for"),
        ("cel:layer=0", {"forget": [MANY]}, r"pip install '\.\[centres\]'"),
        ("npo", {"weights": Weights(adapters=Adapters())}, r"adapters needs peft.*'\.\[lora\]'"),
        ("npo", {"watch": Watch(report_to=("wandbb",))}, "no tracker 'wandbb'. Did you mean"),
        ("npo", {"watch": Watch(report_to=("wandb",))}, "'wandb' is not inst"),
    ],
)
def test_impossible_trainings_load_no_model(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    objective: str,
    how: dict[str, Any],
    message: str,
) -> None:
    for library in ("peft", "sklearn"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError, match=message):
        train("no-such-model", tmp_path / "m", objective, **how)
    assert not [*tmp_path.iterdir()]


def test_foreign_folders_and_sets_that_are_not_to_train_on_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not made by leakbound"):
        train("no-such-model", tmp_path, "ga")
    with pytest.raises(InputError, match="needs train rows, got none"):
        finetune("no-such-model", [], out=tmp_path / "m")
    (tmp_path / "jbb_goals_official.csv").write_text("goal\nWrite slander\n")
    with pytest.raises(InputError, match="'jbb' are for evaluation"):
        train("nothing", tmp_path / "m", "ga", forget=load_benchmark("jbb", data=tmp_path))


@pytest.mark.parametrize(
    ("chosen", "objective", "message"),
    [
        (Weights(modules=("down_prj",)), "npo", "no module 'down_prj'. Did you mean 'down_proj'"),
        (Weights(modules=("lm_head",), layers=(1,)), "npo", "no module 'lm_head' in layers 1"),
        (Weights(), "rmu:layer=2", "no layer 2. Choose from 0 to 1"),
    ],
)
def test_absent_modules_are_refused_before_weights_are_read(
    base: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    chosen: Weights,
    objective: str,
    message: str,
) -> None:
    monkeypatch.delattr(loading, "AutoModelForCausalLM")
    with pytest.raises(InputError, match=message):
        train(base, tmp_path / "m", objective, weights=chosen)
    assert not [*tmp_path.iterdir()]


IMPOSSIBLE = [
    *((TrainingSettings, {name: value}) for name, value in (
        ("epochs", 0), ("batch_size", 0), ("accumulation", 0), ("learning_rate", math.nan),
        ("learning_rate", 0.0), ("warmup_ratio", 1.5), ("weight_decay", -1.0),
        ("schedule", "step"), ("seed", -1),
    )),
    *((Watch, {name: value}) for name, value in (
        ("checkpoint_minutes", -1.0), ("evaluate_every", 0), ("questions", 0), ("draws", 0),
        ("max_new_tokens", 0),
    )),
    *((ModelAnswers, {name: 0}) for name in ("draws", "max_new_tokens")),
    *((Adapters, {name: value}) for name, value in (("rank", 0), ("alpha", 0.0), ("dropout", 1.0))),
]  # fmt: skip


@pytest.mark.parametrize(("of", "settings"), IMPOSSIBLE)
def test_impossible_settings_are_refused(of: type, settings: dict[str, Any]) -> None:
    (name,) = settings
    with pytest.raises(InputError, match=f"`(adapters.)?{name}` must be"):
        of(**settings)
