"""Bounds during training with transformers: the trainer's log, and unchanged training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Trainer, TrainingArguments

from leakbound.benchmarks import Benchmark
from leakbound.bounding.drawn import Drawn
from leakbound.errors import InputError
from leakbound.plugins.trainer import LeakBounds
from leakbound.types import Prompt
from tiny import BOTH_KINDS, tiny_llama, tiny_tokenizer

TASK = Benchmark(
    name="two",
    prompts=tuple(
        Prompt(id=f"q{i}", question=f"who wrote {what}", answer=who)
        for i, (what, who) in enumerate((("red", "Ann"), ("blue", "Bob")))
    ),
    scorers=("contains",),
    max_new_tokens=3,
    template="Question: {question} Answer:",
    origin="here",
)


def training(tmp_path: Path, steps: int, **given: Any) -> Trainer:
    """A trainer whose model is taught one answer."""
    tokenizer = tiny_tokenizer()
    model = tiny_llama(len(tokenizer), attention_dropout=0.1)
    ids = tokenizer("Question: who wrote red Answer: Ann")["input_ids"] + [tokenizer.eos_token_id]
    arguments = TrainingArguments(
        output_dir=str(tmp_path), max_steps=steps, learning_rate=3e-2, logging_steps=1000,
        report_to=[], disable_tqdm=True, save_strategy="no", use_cpu=True, seed=3,
    )  # fmt: skip
    rows = [{"input_ids": ids, "labels": ids, "attention_mask": [1] * len(ids)}] * 8
    return Trainer(model, arguments, train_dataset=rows, processing_class=tokenizer, **given)


def looked(trainer: Trainer) -> list[dict[str, float]]:
    return [row for row in trainer.state.log_history if "leak" in row]


@BOTH_KINDS
@pytest.mark.usefixtures("embeddings")
def test_every_look_is_logged_with_its_bounds(tmp_path: Path) -> None:
    trainer = training(tmp_path, 25)
    bounds = LeakBounds(trainer, TASK, every=10, n=64)
    trainer.add_callback(bounds)
    trainer.train()
    rows = looked(trainer)
    assert [row["step"] for row in rows] == [10, 20, 25]
    assert all(row["leak_lower"] <= row["leak"] <= row["leak_upper"] for row in rows)
    assert {row["leak_seed"] for row in rows} == {bounds.seed}
    assert rows[-1]["leak"] >= 0.4  # one of two answers is taught
    assert rows[-1]["worst_lower"] > rows[-1]["leak_lower"]
    assert trainer.model.training


def test_a_look_has_its_alpha_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    levels, usual = [], Drawn.bound

    def spy(evidence: Drawn, quantity: Any, *, confidence: float, side: Any) -> Any:
        levels.append(confidence)
        return usual(evidence, quantity, confidence=confidence, side=side)

    monkeypatch.setattr(Drawn, "bound", spy)
    bounds = LeakBounds(training(tmp_path, 1), TASK, n=40, confidence=0.9)
    drawn = []
    for look in (1, 2, 3):
        bounds.looks = look
        bounds._bounds()
        drawn.append(bounds._drawn())
    shares = [0.1 / 4, 0.1 / 12, 0.1 / 24]
    assert [1 - level for level in levels] == pytest.approx([x for x in shares for _ in range(2)])
    assert drawn[0] != drawn[1]
    again = LeakBounds(training(tmp_path, 1), TASK, n=40, confidence=0.9, seed=bounds.seed)
    again.looks = bounds.looks = 1
    assert again._bounds() == bounds._bounds()
    assert again._drawn() == drawn[0]


def test_training_is_the_same_with_and_without(tmp_path: Path) -> None:
    """Dropout draws the same masks."""
    got = []
    for with_bounds in (False, True):
        trainer = training(tmp_path, 2)
        if with_bounds:
            trainer.add_callback(LeakBounds(trainer, TASK, every=1, n=8))
        trainer.train()
        got.append([p.detach().clone() for p in trainer.model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*got, strict=True))


def test_wrong_settings_are_refused_before_training(tmp_path: Path) -> None:
    trainer = training(tmp_path, 1)
    for given in ({"every": 0}, {"n": 1}):
        with pytest.raises(InputError, match="`every` >= 1 and `n` >= 2 are needed"):
            LeakBounds(trainer, TASK, **given)
    trainer.processing_class = None
    with pytest.raises(InputError, match="processing_class=TOKENIZER"):
        LeakBounds(trainer, TASK)
