"""A training that is killed at any moment and started again ends with the same weights."""

from __future__ import annotations

import hashlib
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tiny import BOTH_KINDS, tiny_model_folder

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def command(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`unlearn` in 120 steps with a checkpoint after each, but for --out."""
    folder = tmp_path_factory.mktemp("kill")
    model = tiny_model_folder(folder / "model", attention_dropout=0.1)
    questions = folder / "mine.csv"
    rows = [f"{a} {b},Ann {b},{role}" for a, b, role in ROWS]
    questions.write_text("question,answer,role\n" + "\n".join(rows) + "\n")
    how = ["--objective", "npo+entropy", "--benchmark", questions, "--device", "cpu"]
    how += ["--epochs", 60, "--batch-size", 1, "--checkpoint-minutes", 0]
    return [sys.executable, "-m", "leakbound", "unlearn", *map(str, [model, *how]), "--out"]


ROWS = [("who", "red", "forget"), ("wrote", "blue", "forget"), ("who", "sky", "retain")]


def digest(out: Path) -> str:
    return hashlib.sha256((out / "model.safetensors").read_bytes()).hexdigest()


def finish(command: list[str], out: Path) -> str:
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return digest(out)


def kill_after(steps: int, seconds: float, command: list[str], out: Path) -> None:
    """Kill the command so many seconds after a checkpoint of that step, or of a later one."""
    kept = out.with_name(f".{out.name}.training")
    with subprocess.Popen(
        [*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while process.poll() is None and last_step(kept) < steps:
            time.sleep(0.001)
        time.sleep(seconds)
        process.kill()
    assert process.returncode == -signal.SIGKILL  # half of its steps were left
    assert not out.exists()


def last_step(kept: Path) -> int:
    return max((int(p.name.rpartition("-")[2]) for p in kept.glob("checkpoint-*")), default=0)


@BOTH_KINDS
def test_killed_again_and_again(command: list[str], tmp_path: Path) -> None:
    whole = finish(command, tmp_path / "whole")
    out, chance = tmp_path / "m", random.Random(0)
    for steps in (0, 6, 18, 36, 60):
        kill_after(steps, chance.uniform(0, 0.2), command, out)
    assert finish(command, out) == whole
    lines = (out / "training.jsonl").read_text().splitlines()
    assert len(lines) == 120
