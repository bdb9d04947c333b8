"""A search for rare leaks that is killed at any moment goes on to the same proofs."""

from __future__ import annotations

import random
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from test_kill import finish, kill_when

from contents import contents
from leakbound.store import Run
from tiny import tiny_model_folder

QUESTIONS = 6
BUDGET = 300
COMMAND = [sys.executable, "-m", "leakbound"]
pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def evaluate(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`evaluate` with few draws, but for --out."""
    folder = tmp_path_factory.mktemp("kill-proving")
    model = tiny_model_folder(folder / "model")
    words = ["who", "wrote", "red", "blue", "green", "sky"]
    rows = [f"{word} {other},Ann" for word, other in zip(words, words[::-1], strict=True)]
    questions = folder / "mine.csv"
    questions.write_text("question,answer\n" + "\n".join(rows[:QUESTIONS]) + "\n")
    how = ["--benchmark", questions, "-n", 64, "--max-new-tokens", 8, "--scorer", "contains"]
    return [*COMMAND, "evaluate", *map(str, [model, *how])]


@pytest.fixture(scope="module")
def drawn(evaluate: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of which nothing is proved."""
    out = tmp_path_factory.mktemp("drawn") / "run"
    finish([*evaluate, "--out"], out)
    return out


def prove() -> list[str]:
    """`prove`, but for the run."""
    return [*COMMAND, "prove", "--budget", str(BUDGET)]


def found(run: Path) -> dict[str, Any]:
    """All that a run says, with what was proved; nothing of it is unfinished."""
    opened = Run.open(run)
    arm = opened.arms["target"]
    (slug,) = (file.stem for file in (arm.folder / "proofs").glob("*"))
    proofs = arm.proofs.stored.table(slug)
    assert proofs is not None
    assert not list(run.rglob("*.set-aside-*"))
    assert not list(arm.folder.rglob("*.jsonl"))
    return {
        **contents(opened),
        "proofs": proofs.to_pylist(),
        "digest": arm.proofs.stored.digest(slug),
    }


def reached(run: Path, questions: int) -> bool:
    """Whether so many questions are kept, or stored with all others."""
    kept = sum(file.read_bytes().count(b"\n") for file in run.glob("arms/target/proofs/*.jsonl"))
    return kept >= questions or bool(list(run.glob("arms/target/proofs/*.parquet")))


def moment(seed: int) -> float:
    """Seconds within which a question or two are done."""
    return random.Random(seed).uniform(0, 0.2)


@pytest.fixture(scope="module")
def proved(drawn: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What nothing interrupted proves of it."""
    run = shutil.copytree(drawn, tmp_path_factory.mktemp("proved") / "run")
    finish(prove(), run)
    assert len(found(run)["proofs"]) > QUESTIONS
    return found(run)


@pytest.mark.parametrize("questions", [1, 3, QUESTIONS])
def test_a_search_killed_once(
    questions: int, drawn: Path, proved: dict[str, Any], tmp_path: Path
) -> None:
    """After so many questions; with all of them it is bounding."""
    run = Path(shutil.copytree(drawn, tmp_path / "run"))
    kill_when(partial(reached, run, questions), moment(questions), prove(), run)
    finish(prove(), run)
    assert found(run) == proved


def test_killed_again_and_again(drawn: Path, proved: dict[str, Any], tmp_path: Path) -> None:
    """What was found of a question stays: it is kept in the same words."""
    run = Path(shutil.copytree(drawn, tmp_path / "run"))
    for questions in (2, 4):
        before = kept(run)
        kill_when(partial(reached, run, questions), 0, prove(), run)
        assert kept(run)[: len(before)] == before
    finish(prove(), run)
    assert found(run) == proved


def kept(run: Path) -> list[bytes]:
    """The questions that an unfinished search keeps, each as it is written."""
    files = sorted(run.glob("arms/target/proofs/*.jsonl"))
    return [line for file in files for line in file.read_bytes().splitlines() if line]


@pytest.mark.parametrize("questions", [1, 4])
def test_an_evaluation_that_proves_killed_once(
    questions: int, evaluate: list[str], proved: dict[str, Any], tmp_path: Path
) -> None:
    """It ends as `evaluate` and then `prove`."""
    run, command = tmp_path / "run", [*evaluate, "--prove", str(BUDGET), "--out"]
    kill_when(partial(reached, run, questions), 0, command, run)
    finish(command, run)
    assert found(run) == proved
