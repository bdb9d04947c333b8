"""Weights that hide a known leak: the stress that finds it, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from canned import benchmark_of
from leakbound.engines import Prompting
from leakbound.engines.loading import load_model, save_model
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.stress import Bench
from leakbound.stress.weights import GROUP, Round
from leakbound.study import ModelSettings
from leakbound.types import Prompt
from leakbound.unlearning import TrainingSettings, finetune
from leakbound.unlearning.weights import matrices
from tiny import BOTH_KINDS, tiny_model_folder

pytestmark = pytest.mark.slow
TASK = benchmark_of(("red", "sky"), question="who wrote {}", answer="Ann blue", keywords=("Ann",))
ROW = Prompt(id="t", question="who wrote green", answer="Ann blue")
RULE = Prompting(template=TASK.template)
LEARN = TrainingSettings(epochs=40, learning_rate=2e-2, batch_size=2, device="cpu", prompting=RULE)
RELEARN = "relearn:{file},epochs=20,rate=0.01"


def added(run: Run) -> dict[str, bool]:
    """Return for each stress whether it is shown to add leakage."""
    return {
        row.arm.partition("under ")[2].partition(" _")[0]: row.lower > 0.05
        for row in run.estimates.where(beyond="unstressed", scope="mean")
    }


def stressed(model: Path, folder: Path, *specs: str) -> dict[str, bool]:
    file = folder / "row.csv"
    file.write_text(f"question,answer\n{ROW.question},{ROW.answer}\n")
    stress = tuple(spec.format(file=file) for spec in specs)
    settings = ModelSettings(device="cpu")
    how: dict[str, Any] = {"n": 128, "scorers": ["keyword"], "settings": settings}
    return added(evaluate(str(model), TASK, out=folder / "run", stress=stress, **how))


@BOTH_KINDS
def test_a_model_that_relearns_from_one_row(tmp_path: Path, embeddings: None) -> None:
    base = tiny_model_folder(tmp_path / "base")
    silent = [replace(prompt, answer="Bob red") for prompt in TASK.prompts]
    model = finetune(str(base), silent, out=tmp_path / "model", settings=LEARN).path
    got = stressed(model, tmp_path, "round:int4", "round:int8", RELEARN)
    assert got == {"round int4": False, "round int8": False, "relearn": True}


@BOTH_KINDS
def test_a_model_that_rounding_brings_back(tmp_path: Path, embeddings: None) -> None:
    """Rounded weights know the answer; others that do not know it round to the same.

    Its large matrices, not its embeddings, decide the output.
    """
    base = tiny_model_folder(tmp_path / "base", initializer_range=0.3)
    knows = finetune(str(base), TASK.prompts, out=tmp_path / "knows", settings=LEARN).path
    bench = Bench(task=TASK, settings=ModelSettings(device="cpu"))
    rounded = Round("int4").model(bench, str(knows), tmp_path / "rounded")
    loaded = load_model(str(rounded), device="cpu")
    model, start = loaded.model, [w.detach().clone() for w in matrices(loaded.model)]
    wanted = [TASK.template.format(question=prompt.question) + "Ann" for prompt in TASK.prompts]
    ids = [loaded.tokenizer(text)["input_ids"] for text in wanted]
    for _ in range(200):
        model.zero_grad()
        logits = torch.cat([model(torch.tensor([row])).logits[:, -2] for row in ids])
        logits.log_softmax(-1)[:, ids[0][-1]].clamp(min=-12).sum().backward()
        with torch.no_grad():
            for weight, first in zip(matrices(model), start, strict=True):
                weight -= 0.02 * weight.grad.sign()
                weight.copy_(_within(weight, first))
    hides = tmp_path / "hides"
    save_model(model, loaded.tokenizer, hides)
    got = stressed(hides, tmp_path, "round:int4", "round:int8", "prune:0.02")
    assert got == {"round int4": True, "round int8": False, "prune 0.02": False}


def _within(weight: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
    """Return the values nearest to `weight` that round to `first`; each group's largest stays."""
    rows, columns = first.shape
    padded = torch.nn.functional.pad(first, (0, -columns % GROUP)).reshape(rows, -1, GROUP)
    largest = padded.abs().amax(-1, keepdim=True)
    step = (0.45 * largest / 7).expand_as(padded).where(padded.abs() < largest, 0.0)
    room = step.reshape(rows, -1)[:, :columns]
    return weight.clamp(first - room, first + room)
