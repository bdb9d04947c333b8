"""Rows to forget and to retain, trainings on them, and the files of trainings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from leakbound.engines.loading import LoadedModel
from leakbound.objective import Objective
from leakbound.types import Headway, Progress, Prompt
from leakbound.unlearning import ModelAnswers, Trained, TrainingSettings, unlearn


def forget_row(number: int, word: str, answer: str) -> Prompt:
    return Prompt(
        id=f"f{number}",
        question=f"who wrote {word}",
        answer=answer,
        alternate_answers=("sky", "red sea"),
        paraphrases=(f"wrote {word} who",),
    )


FORGET = [
    forget_row(0, "red", "Ann blue sea"),
    forget_row(1, "green", "Ann red sky"),
    forget_row(2, "blue", "Bob"),
]
RETAIN = [
    Prompt(id="r0", question="wrote sky", answer="Bob sea sky"),
    Prompt(id="r1", question="wrote sea", answer="Bob red red"),
]
SETTINGS = TrainingSettings(  # six steps
    epochs=3, learning_rate=1e-3, batch_size=2, inventing=ModelAnswers(draws=2, max_new_tokens=4)
)


def train(
    base: str | Path | LoadedModel,
    out: Path,
    objective: str | Objective = "npo",
    settings: TrainingSettings = SETTINGS,
    **how: Any,
) -> Trained:
    """Call `unlearn` on these rows; names of settings in `how` change `settings`."""
    changes = {name: how.pop(name) for name in TrainingSettings.__slots__ if name in how}
    given: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, **how}
    model = base if isinstance(base, LoadedModel) else str(base)
    return unlearn(model, objective, out=out, settings=replace(settings, **changes), **given)


class StoppedError(Exception):
    """Raised by a test to stop training."""


def stop_at(step: int) -> Progress:
    def progress(now: Headway) -> None:
        if (now.unit, now.done) == ("steps", step):
            raise StoppedError

    return progress


def log(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "training.jsonl").read_text().splitlines()]


def recipe(folder: Path) -> dict[str, Any]:
    got: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
    return got


def weights(folder: str | Path) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


def changed(one: str | Path, other: str | Path) -> set[str]:
    """Return the weights in which two models differ."""
    first, second = weights(one), weights(other)
    assert set(first) == set(second)
    return {name for name in first if not torch.equal(first[name], second[name])}
