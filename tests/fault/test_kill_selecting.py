"""A run that is killed while inputs are selected, or rewritings asked, ends as if it were not."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest
from test_kill import finish, kill_when

from contents import contents
from leakbound.store import Run
from tiny import tiny_model_folder

pytestmark = pytest.mark.fault


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`evaluate` with rewritings, some of which are selected, but for --out."""
    folder = tmp_path_factory.mktemp("kill")
    model = tiny_model_folder(folder / "model")
    questions = folder / "mine.csv"
    questions.write_text(
        "question,answer\n" + "".join(f"who wrote {w}?,Ann\n" for w in ("red", "sky", "sea"))
    )
    how = ["--benchmark", questions, "-n", 2048, "--max-new-tokens", 8, "--scorer", "contains"]
    inputs = ["--inputs", "rules", "--queries", 6, "--ids", "--ids-draws", 1500]
    return [
        sys.executable,
        "-m",
        "leakbound",
        "evaluate",
        *map(str, [model, *how, *inputs]),
        "--out",
    ]


@pytest.fixture(scope="module")
def whole(command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The run that nothing interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(command, out)
    return Run.open(out)


@pytest.mark.parametrize("parts", [0, 3, 9])
def test_killed_once(parts: int, command: list[str], whole: Run, tmp_path: Path) -> None:
    """At a random moment after that many parts, those of the selection among them."""
    out = tmp_path / "run"
    moment = random.Random(parts).uniform(0, 0.3)

    def ready() -> bool:
        return len(list(out.rglob("completions/part-*.parquet"))) >= parts

    kill_when(ready, moment, command, out)
    finish(command, out)
    run = Run.open(out)
    assert run.queries == whole.queries
    assert contents(run) == contents(whole)
    kept = [(path / "selection" / "ids.json").read_text() for path in (out, whole.path)]
    assert kept[0] == kept[1]
