"""A run that is killed at any moment and started again ends as if nothing had happened."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from contents import contents
from leakbound.store import Run
from tiny import tiny_model_folder

QUESTIONS = 5
DRAWS = 4100  # so that no part holds two questions; the first has two parts, as parts begin small
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
    return [sys.executable, "-m", "leakbound", "evaluate", *map(str, [model, *how]), "--out"]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(command, out)
    return Run.open(out)


def finish(command: list[str], out: Path) -> None:
    done = subprocess.run([*command, str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def parts_done(out: Path) -> int:
    return len(list(out.glob("arms/*/completions/part-*.parquet")))


def kill_when(ready: Callable[[], bool], seconds: float, command: list[str], out: Path) -> int:
    """Start the command, and kill it so many seconds after `ready`; gives its process's number.

    Where it is done by then, as on a fast machine or a busy one, it is started again from the same
    files and killed sooner: it is never let through alive.
    """
    before = out.with_name(f"{out.name}-before")
    if out.exists():
        shutil.copytree(out, before)
    for wait in (seconds, seconds / 4, 0, 0, 0, 0):
        with subprocess.Popen(
            [*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as process:
            while not ready() and process.poll() is None:
                time.sleep(0.001)
            time.sleep(wait)
            process.kill()
        if process.returncode == -signal.SIGKILL:
            shutil.rmtree(before, ignore_errors=True)
            return process.pid
        assert process.returncode == 0
        shutil.rmtree(out)
        if before.exists():
            shutil.copytree(before, out)
    raise AssertionError("the command was always done before it was killed")


def test_the_run_has_a_part_for_every_question_and_two_for_the_first(whole: Run) -> None:
    sizes = [part.draws for part in whole.arms["target"].parts]
    assert sizes == [1024, DRAWS - 1024] + [DRAWS] * (QUESTIONS - 1)


@pytest.mark.parametrize("parts", [0, 3, 7])
def test_killed_once(parts: int, command: list[str], whole: Run, tmp_path: Path) -> None:
    """At a random moment after that many parts; with all seven it is scoring or bounding."""
    out = tmp_path / "run"
    moment = random.Random(parts).uniform(0, 0.5)
    kill_when(lambda: parts_done(out) >= parts, moment, command, out)
    finish(command, out)
    assert contents(Run.open(out)) == contents(whole)
    assert not list(out.rglob("*.set-aside-*"))


def test_killed_again_and_again(command: list[str], whole: Run, tmp_path: Path) -> None:
    """Five times in one run; what was finished stays finished."""
    out, chance = tmp_path / "run", random.Random(0)
    for parts in (0, 1, 2, 4, 7):
        before = parts_done(out)
        kill_when(lambda n=parts: parts_done(out) >= n, chance.uniform(0, 0.5), command, out)
        assert parts_done(out) >= max(parts, before)
    finish(command, out)
    assert contents(Run.open(out)) == contents(whole)


def test_killed_as_the_run_begins(command: list[str], whole: Run, tmp_path: Path) -> None:
    """As a rule the first files are there and run.json is not: the command begins anew."""
    out = tmp_path / "run"
    kill_when((out / "prompts.parquet").exists, 0, command, out)
    finish(command, out)
    assert contents(Run.open(out)) == contents(whole)
