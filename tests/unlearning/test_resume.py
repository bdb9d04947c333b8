"""A training that is stopped and started again ends as if nothing had happened."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rows import FORGET, RETAIN, changed

from leakbound.engines.loading import load_model
from leakbound.errors import IncompleteError, MixError
from leakbound.unlearning import Trained, TrainingSettings, Watch, unlearn
from leakbound.unlearning.work_folder import WorkFolder
from suites import slow_but
from tiny import BOTH_KINDS, tiny_model_folder

SETTINGS = TrainingSettings(epochs=3, learning_rate=1e-3, batch_size=2)  # six steps
EACH_STEP = Watch(checkpoint_minutes=0)
EXPLODING = replace(SETTINGS, learning_rate=1e36, warmup_ratio=0.0)


class StoppedError(Exception):
    """What a test stops training with."""


@pytest.fixture(scope="module")
def base(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With dropout, so that going on needs the random state too.
    return tiny_model_folder(tmp_path_factory.mktemp("base") / "model", attention_dropout=0.2)


def stop_at(step: int) -> Callable[[int, int, float], None]:
    def progress(done: int, steps: int, loss: float) -> None:
        if done == step:
            raise StoppedError

    return progress


def train(base: Path, out: Path, objective: str = "npo", stop: int = 0, **how: object) -> Trained:
    rest = {"settings": SETTINGS, "watch": EACH_STEP, "progress": stop_at(stop), **how}
    return unlearn(str(base), objective, forget=FORGET, retain=RETAIN, out=out, **rest)


def stopped(base: Path, out: Path, step: int, **how: object) -> Path:
    """Stop in this step, before its checkpoint; the folder that is left."""
    with pytest.raises(StoppedError):
        train(base, out, stop=step, **how)
    assert not out.exists()
    return out.with_name(f".{out.name}.training")


OBJECTIVES = ["npo+entropy", "kl", "dpo", "rmu:layer=1", "cel:layer=0"]


@BOTH_KINDS
@pytest.mark.parametrize("objective", slow_but(["npo+entropy", "rmu:layer=1"], OBJECTIVES))
def test_the_same_weights_as_uninterrupted(base: Path, tmp_path: Path, objective: str) -> None:
    whole = train(base, tmp_path / "whole", objective)
    stopped(base, tmp_path / "m", 4, objective=objective)
    stopped(base, tmp_path / "m", 6, objective=objective)
    done = train(base, tmp_path / "m", objective)
    assert changed(whole.path, done.path) == set()
    assert done.losses == whole.losses
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m", "whole"]


def test_steps_taken_are_not_taken_again(base: Path, tmp_path: Path) -> None:
    stopped(base, tmp_path / "m", 5)
    told: list[int] = []
    train(base, tmp_path / "m", progress=lambda step, *_: told.append(step))
    assert told == [5, 6]
    lines = [json.loads(line) for line in (tmp_path / "m/training.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)


def test_stopped_with_accumulation(base: Path, tmp_path: Path) -> None:
    settings = replace(SETTINGS, batch_size=1, accumulation=2, schedule="linear")
    whole = train(base, tmp_path / "whole", settings=settings)
    stopped(base, tmp_path / "m", 3, settings=settings)
    done = train(base, tmp_path / "m", settings=settings)
    assert changed(whole.path, done.path) == set()
    assert len(done.losses) == 5  # nine passes, the last of them alone


def test_a_checkpoint_that_was_being_written_is_not_used(base: Path, tmp_path: Path) -> None:
    whole = train(base, tmp_path / "whole")
    kept = stopped(base, tmp_path / "m", 4)
    shutil.copytree(kept / "checkpoint-3", kept / "checkpoint-4")
    (kept / "checkpoint-4/trainer_state.json").write_text('{"best')
    shutil.copytree(kept / "checkpoint-3", kept / "checkpoint-5")
    (kept / "checkpoint-5/trainer_state.json").unlink()
    assert WorkFolder(kept).checkpoint == kept / "checkpoint-3"
    assert changed(whole.path, train(base, tmp_path / "m").path) == set()


def test_ten_is_after_nine(tmp_path: Path) -> None:
    for step in (9, 10):
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text("{}")
        (folder / "whole.json").write_text("{}")
    assert WorkFolder(tmp_path).checkpoint == tmp_path / "checkpoint-10"


def test_another_command_does_not_go_on_with_it(base: Path, tmp_path: Path) -> None:
    stopped(base, tmp_path / "m", 3)
    with pytest.raises(MixError, match=r"unfinished training with other objective, rows .*remove"):
        train(base, tmp_path / "m", "ga")
    with pytest.raises(MixError, match="with other settings"):
        train(base, tmp_path / "m", settings=replace(SETTINGS, seed=1))
    train(base, tmp_path / "m", "npo:beta=0.1")  # the same sum under another name


def test_what_has_no_checkpoint_is_not_in_the_way(base: Path, tmp_path: Path) -> None:
    kept = stopped(base, tmp_path / "m", 1)
    assert [path.name for path in kept.glob("checkpoint-*")] == []
    assert len(train(base, tmp_path / "m", "ga").losses) == 6


def test_reference_values_are_computed_once(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(base, tmp_path / "m", 3)
    monkeypatch.setattr("leakbound.unlearning.reference._values", None)
    train(base, tmp_path / "m")
    with pytest.raises(TypeError):
        train(base, tmp_path / "anew")


def test_checkpoints_wait_for_their_time(base: Path, tmp_path: Path) -> None:
    kept = stopped(base, tmp_path / "m", 5, watch=Watch())
    assert not list(kept.glob("checkpoint-*"))


@BOTH_KINDS
def test_an_explosion_keeps_the_last_good_checkpoint(base: Path, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match=r"step 2 of 6; .*good checkpoint is .*-1`") as told:
        train(base, tmp_path / "m", "ga", settings=EXPLODING)
    assert told.value.exit_status == 3
    assert not (tmp_path / "m").exists()
    checkpoint = load_model(str(tmp_path / ".m.training/checkpoint-1"))
    assert all(torch.isfinite(p).all() for p in checkpoint.model.parameters())


@BOTH_KINDS
def test_a_gradient_that_is_not_finite_is_never_stepped_on(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is finite; without a look at the gradient the weights would be lost."""
    loaded = load_model(str(base))
    seen: list[int] = []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        return gradient * torch.nan if len(seen) == 3 else gradient

    loaded.model.lm_head.weight.register_hook(spoil)
    with pytest.raises(IncompleteError, match=r"gradient was not finite in step 3 .*-2`"):
        unlearn(loaded, "ga", forget=FORGET, out=tmp_path / "m", settings=SETTINGS, watch=EACH_STEP)
    assert all(torch.isfinite(p).all() for p in loaded.model.parameters())
