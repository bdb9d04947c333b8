"""An exploration that is killed at any moment and started again ends as if nothing had happened."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

import pytest
from test_kill import finish, kill_when

from leakbound.store import Run
from tiny import tiny_model_folder

QUESTIONS = 10  # three parts
FILES = 2 * 3 + 1  # masses and draws of each, and the greedy answers
pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`evaluate --explore` with several parts, but for --out."""
    folder = tmp_path_factory.mktemp("kill-exploring")
    model = tiny_model_folder(folder / "model")
    words = ["who", "wrote", "red", "blue", "green", "sky", "sea", "Ann", "Bob", "Answer:"]
    questions = folder / "mine.csv"
    rows = [f"{word} {other},Ann" for word, other in zip(words, words[::-1], strict=True)]
    questions.write_text("question,answer\n" + "\n".join(rows[:QUESTIONS]) + "\n")
    how = ["--benchmark", questions, "--max-new-tokens", 8, "--scorer", "contains"]
    how += ["--explore", "hybrid", "--budget", 600]
    return [sys.executable, "-m", "leakbound", "evaluate", *map(str, [model, *how]), "--out"]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole-exploring") / "run"
    finish(command, out)
    return Run.open(out)


def found(run: Run) -> dict[str, Any]:
    """Masses, draws, and the estimates that are made of them."""
    arm = run.arms["target"]
    return {
        "masses": [table.to_pylist() for table in arm.masses.tables()],
        "remainders": arm.masses.remainders(),
        "forwards": arm.masses.forwards(),
        "draws": [arm.completions(part).to_pylist() for part in arm.parts],
        "estimates": run.estimates,
    }


def files_done(out: Path) -> int:
    """Files of masses and of draws that are there, whole."""
    return len(list(out.glob("arms/*/masses/part-*"))) + len(
        list(out.glob("arms/*/completions/part-*"))
    )


@pytest.mark.parametrize("files", [0, 2, FILES])
def test_killed_once(files: int, command: list[str], whole: Run, tmp_path: Path) -> None:
    """As soon as that many files are there, or a little later."""
    out = tmp_path / "run"
    moment = random.Random(files).choice([0, 0.1])
    kill_when(lambda: files_done(out) >= files, moment if files else 3.0, command, out)
    finish(command, out)
    assert found(Run.open(out)) == found(whole)
    assert not list(out.rglob("*.set-aside-*"))
