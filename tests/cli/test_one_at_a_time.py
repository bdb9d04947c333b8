"""Every command that writes into a run locks it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from commands import Words, done, leakbound, refused, tree

from leakbound.cli import COMMANDS
from leakbound.evaluation import verbs
from leakbound.reporting import page
from leakbound.store import LOCK, Arm, locked

WRITES = {
    "evaluate": "evaluate {model} --like {run} --out {run}",
    "evaluate --only sample": "evaluate {model} --like {run} --out {run} --only sample",
    "merge": "merge {run} --out {run}",
    "stress": "stress {model} --like {run} --out {run}",
    "score": "score {run}",
    "bound": "bound {run}",
    "prove": "prove {run} --budget 20",
    "evaluate --only metrics": "evaluate {run} --only metrics --metrics all",
    "import": "import {samples} --out {run}",
    "certify": "certify {run} --max-leak 0.1 --scorer keyword",
}
# They write elsewhere: a page, files, a model's folder, runs by `evaluate`.
OTHERS = {
    "verify", "report", "export", "plan", "unlearn", "demo", "finetune", "compare",
    "figures", "show", "more",
}  # fmt: skip


def elsewhere(action: Callable[[], object]) -> None:
    """Call a function in another thread, which counts as another command."""
    with ThreadPoolExecutor(1) as threads:
        threads.submit(action).result()


def test_every_command_is_in_one_table() -> None:
    assert set(COMMANDS) <= {*WRITES, *OTHERS}


@pytest.mark.parametrize("name", WRITES)
def test_writers_are_refused(name: str, run: Path, model: Path, tmp_path: Path) -> None:
    samples = tmp_path / "samples.jsonl"
    row = '{"id": "a", "question": "who", "answer": "Ann", "completion": "%s"}\n'
    samples.write_text(row % "Ann" + row % "Bob")
    before = tree(run)
    command = WRITES[name].format(run=run, model=model, samples=samples).split()
    named = (f"`{run}` is in use by `leakbound evaluate` (pid ", "Wait until it has ended")
    with locked(run, "evaluate"):
        elsewhere(lambda: refused(leakbound(*command), *named))
    assert tree(run) == before
    assert not (run / LOCK).exists()


def test_every_step_is_locked(
    evaluating: Words, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another command is refused from the first draw to the report."""
    out, steps = tmp_path / "run", []

    def meanwhile(step: str, function: Callable[..., object]) -> Callable[..., object]:
        def watched(*args: object, **kwargs: object) -> object:
            steps.append(step)
            meant = "is in use by `leakbound evaluate`"
            elsewhere(lambda: refused(leakbound("bound", out), meant))
            return function(*args, **kwargs)

        return watched

    with monkeypatch.context() as patched:
        patched.setattr(Arm, "write_part", meanwhile("draw", Arm.write_part))
        patched.setattr(verbs, "score_run", meanwhile("score", verbs.score_run))
        patched.setattr(verbs, "bound_run", meanwhile("bound", verbs.bound_run))
        patched.setattr(page, "write_report", meanwhile("report", page.write_report))
        done(*evaluating, out)
    assert list(dict.fromkeys(steps)) == ["draw", "score", "bound", "report"]
    assert not (out / LOCK).exists()
