"""An experiment that was stopped goes on where it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import common
import pytest
from common import UTILITY, Lab
from sizes import FEWER, PLAIN, SIZES, Asked, Method

from leakbound.unlearning import TrainingSettings

ONCE = TrainingSettings(epochs=1, learning_rate=1e-3, batch_size=16)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The built-in benchmark with four authors, a model that learns next to nothing."""
    size = replace(
        SIZES["builtin"],
        benchmark="fictitious:authors=4,forget=1",
        learn=ONCE,
        forget=ONCE,
        methods={"NPO": Method("npo:beta=1.5"), "GA": Method("ga")},
        ablations={},
        more={},
        rates=(1e-3,),
        utility={"R_r": ("retain", 8)},
        asked={PLAIN: Asked(16), FEWER: Asked(8)},
    )
    task = common.load_benchmark(size.benchmark)
    return Lab(size, task, tmp_path / "lab", None, None, "cpu", replicated=True)


def contents(folder: Path) -> dict[str, int]:
    files = (file for file in folder.rglob("*") if file.is_file() and "lock" not in file.name)
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in files}


@pytest.mark.slow
def test_what_is_finished_is_not_made_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.run("NPO", 0)
    made = contents(lab.folder)
    assert lab.path("NPO", 0).joinpath(UTILITY).exists()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(common, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            lab.run("GA", 0)
    assert (lab.folder / "models" / "ga-0").exists()
    assert not lab.path("GA", 0).exists()

    trained: list[Path] = []
    kept = common.unlearn

    def watched(*args: Any, **how: Any) -> Any:
        found = kept(*args, **how)
        if not found.reused:
            trained.append(how["out"])
        return found

    monkeypatch.setattr(common, "unlearn", watched)
    for name in ("NPO", "GA"):
        lab.run(name, 0)
    assert trained == []  # both models were there
    now = contents(lab.folder)
    models = [name for name in made if name.startswith(("models/", "trials/", "rates/"))]
    assert models
    assert {name: now[name] for name in models} == {name: made[name] for name in models}
    draws = [name for name in made if "completions" in name]
    assert draws
    assert {name: now[name] for name in draws} == {name: made[name] for name in draws}
    lab.run("GA", 1)
    assert trained == [lab.folder / "models" / "ga-1"]  # another seed is another model
