"""How a step is shared by processes, and what its line in the log says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import FORGET, RETAIN

from residua.engines.prompting import Prompting
from residua.objective import parse_objective
from residua.unlearning import TrainingSettings, unlearn
from residua.unlearning.batches import Assembly
from residua.unlearning.examples import Encoder, Rows
from residua.unlearning.forward import Forward
from residua.unlearning.reference import References
from residua.unlearning.trainer import Batches
from tiny import tiny_llama, tiny_model_folder, tiny_tokenizer

OBJECTIVE = parse_objective("gd")
ENCODER = Encoder(tiny_tokenizer(), Prompting())
DATA = {"forget": Rows(ENCODER.rows(FORGET)), "retain": Rows(ENCODER.rows(RETAIN))}
STEPS = [{"forget": [0, 1, 2], "retain": [1, 0, 1]}, {"forget": [2], "retain": [0]}]


def loss(batch: Any, assembly: Assembly, forward: Forward) -> torch.Tensor:
    logits, hidden = forward(batch.padded, batch.places.nonzero(as_tuple=True))
    return batch.share * OBJECTIVE(assembly.cut(batch, logits, hidden, lambda ends: ends))


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("step", [0, 1])
def test_the_mean_over_processes_is_the_step(tmp_path: Path, processes: int, step: int) -> None:
    """Equal gradients follow: what averages is linear. Of one row, all but one process has none."""
    assembly = Assembly(DATA, OBJECTIVE.needs)
    references = References(tmp_path, assembly, STEPS, chunk=2)
    forward = Forward(tiny_llama(14), narrow=True)
    whole = loss(Batches(assembly, references, STEPS, 0, 1)[step]["batch"], assembly, forward)
    each = [
        loss(Batches(assembly, references, STEPS, i, processes)[step]["batch"], assembly, forward)
        for i in range(processes)
    ]
    torch.testing.assert_close(torch.stack(each).mean(), whole)


def test_each_line_tells_the_terms_of_its_own_step(tmp_path: Path) -> None:
    base = tiny_model_folder(tmp_path / "base")
    settings = TrainingSettings(epochs=3, learning_rate=1e-2, batch_size=1, accumulation=3)
    out = tmp_path / "m"
    unlearn(str(base), "gd", forget=FORGET, retain=RETAIN, out=out, settings=settings)
    lines = [json.loads(line) for line in (out / "training.jsonl").read_text().splitlines()]
    assert len(lines) == 3
    for line in lines:
        assert line["forget ga"] + line["retain nll"] == pytest.approx(line["loss"], abs=1e-5)
        assert {"step", "seconds", "learning_rate", "grad_norm"} <= set(line)
        assert "epoch" not in line
    assert lines[-1]["forget ga"] < lines[0]["forget ga"] - 0.01
