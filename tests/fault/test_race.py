"""Two commands with one --out: one of them makes the run, the other is refused; never a mixture."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from test_kill import kill_when

from leakbound.store import LOCK, Run
from tiny import tiny_model_folder

pytestmark = pytest.mark.fault
ROWS = "question,answer,keywords\nwho wrote red,Ann,Ann\nwho wrote blue,Bob,Bob\n"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("race")
    return [tiny_model_folder(folder / name, seed=i) for i, name in enumerate(("full", "npo"))]


def command_of(model: Path, questions: Path, n: int) -> list[str]:
    """`evaluate`, but for where to."""
    how = ["--benchmark", questions, "-n", n, "--max-new-tokens", 8, "--out"]
    return [sys.executable, "-m", "leakbound", "evaluate", *map(str, [model, *how])]


def start(model: Path, out: Path, questions: Path, n: int) -> subprocess.Popen[str]:
    command = [*command_of(model, questions, n), str(out)]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    )


def made_by(run: Run) -> set[Any]:
    """The weights that all arms of a run were drawn from."""
    return {json.dumps(arm.spec.fingerprint["weights"]) for arm in run.arms.values()}


@pytest.mark.parametrize("delay", [0.0, 1.0])
def test_of_two_commands_with_one_folder_one_is_refused(
    delay: float, models: list[Path], tmp_path: Path
) -> None:
    questions, out = tmp_path / "mine.csv", tmp_path / "race"
    questions.write_text(ROWS)
    first = start(models[0], out, questions, 2_000)
    time.sleep(delay)
    second = start(models[1], out, questions, 2_000)
    ends = [process.communicate()[1] for process in (first, second)]
    statuses = [process.returncode for process in (first, second)]
    assert sorted(statuses) == [0, 2], ends
    won, lost = statuses.index(0), statuses.index(2)
    told = ends[lost]
    # who holds it is written just after it is taken, so the name may not be there yet
    assert "is in use by " in told or "fingerprint" in told
    assert "Traceback" not in told
    run = Run.open(out)
    assert len(made_by(run)) == 1
    models_named = {arm.spec.model for arm in run.arms.values()}
    assert models_named == {str(models[won])}
    assert f"models/{models[won].name}" in (out / "report.html").read_text() or (
        models[won].name in (out / "report.html").read_text()
    )
    assert not (out / LOCK).exists()


def test_a_killed_commands_lock_is_gone_with_it(models: list[Path], tmp_path: Path) -> None:
    questions, out = tmp_path / "mine.csv", tmp_path / "run"
    questions.write_text(ROWS)
    parts = "arms/*/completions/part-*.parquet"
    command = command_of(models[0], questions, 2_000)
    pid = kill_when(lambda: bool(list(out.glob(parts))), 0, command, out)
    assert json.loads((out / LOCK).read_text())["pid"] == pid
    again = start(models[0], out, questions, 2_000)
    said = again.communicate()[1]
    assert again.returncode == 0, said
    assert len(Run.open(out).estimates) > 0
