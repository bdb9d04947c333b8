"""A run that is killed at any moment and started again ends as if nothing had happened."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from residua.store import Run
from tiny import tiny_model_folder

QUESTIONS = 5
DRAWS = 4100  # above 4,096, so that every part is one question
pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`evaluate` with many parts, but for --out."""
    folder = tmp_path_factory.mktemp("kill")
    model = tiny_model_folder(folder / "model")
    words = ["who", "wrote", "red", "blue", "green", "sky"]
    rows = [f"{word} {other},Ann" for word, other in zip(words, words[::-1], strict=True)]
    questions = folder / "mine.csv"
    questions.write_text("question,answer\n" + "\n".join(rows[:QUESTIONS]) + "\n")
    how = ["--benchmark", questions, "-n", DRAWS, "--max-new-tokens", 8, "--scorer", "contains"]
    return [sys.executable, "-m", "residua", "evaluate", *map(str, [model, *how]), "--out"]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, float]:
    """The uninterrupted run, and how many seconds it took."""
    out = tmp_path_factory.mktemp("whole") / "run"
    started = time.monotonic()
    finish(command, out)
    return Run.open(out), time.monotonic() - started


def finish(command: list[str], out: Path) -> None:
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def kill_after(seconds: float, command: list[str], out: Path) -> None:
    """Start the command and kill it, process group and all, unless it ends before."""
    with subprocess.Popen(
        [*command, str(out)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def contents(run: Run) -> dict[str, Any]:
    """All that a run says: completions and scores of every arm, and the estimates."""
    found: dict[str, Any] = {"estimates": run.estimates()}
    for name, arm in run.arms.items():
        found[name, "completions"] = [arm.completions(part).to_pylist() for part in arm.parts]
        found[name, "failures"] = arm.failures
        for file in sorted((arm.folder / "scores").glob("*.parquet")):
            scores = arm.scores(file.stem)
            found[name, file.name] = (
                scores.query_ids,
                scores.scores.tolist(),
                scores.counts.tolist(),
                scores.missing.tolist(),
            )
    return found


def parts_done(out: Path) -> int:
    return len(list(out.glob("arms/*/completions/part-*.parquet")))


def test_the_run_has_a_part_for_every_question(whole: tuple[Run, float]) -> None:
    target = whole[0].arms["target"]
    assert [part.draws for part in target.parts] == [DRAWS] * QUESTIONS


@pytest.mark.parametrize("seed", range(5))
def test_killed_once_anywhere(
    seed: int, command: list[str], whole: tuple[Run, float], tmp_path: Path
) -> None:
    run, seconds = whole
    out = tmp_path / "run"
    kill_after(random.Random(seed).uniform(0.1, 0.9) * seconds, command, out)
    finish(command, out)
    assert contents(Run.open(out)) == contents(run)
    assert not list(out.rglob("*.set-aside-*"))


def test_killed_again_and_again(
    command: list[str], whole: tuple[Run, float], tmp_path: Path
) -> None:
    """Five times in one run, from before run.json is there; what was finished stays finished."""
    run, seconds = whole
    out, done = tmp_path / "run", 0
    chance = random.Random(0)
    for share in (0.05, 0.4, 0.6, 0.6, 0.8):
        kill_after(share * seconds * chance.uniform(0.8, 1.2), command, out)
        assert parts_done(out) >= done
        done = parts_done(out)
    finish(command, out)
    assert contents(Run.open(out)) == contents(run)


def test_killed_while_the_run_begins(
    command: list[str], whole: tuple[Run, float], tmp_path: Path
) -> None:
    """The first files are there and run.json is not: the command begins anew."""
    out = tmp_path / "run"
    with subprocess.Popen(
        [*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        while not (out / "prompts.parquet").exists() and process.poll() is None:
            time.sleep(0.001)
        process.kill()
    assert not (out / "run.json").exists()
    finish(command, out)
    assert contents(Run.open(out)) == contents(whole[0])
