"""A stopped or killed training resumes and ends the same; one process at a time."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from rows import StoppedError, changed, log, stop_at, train

from leakbound.engines.loading import load_model
from leakbound.errors import IncompleteError, InputError, MixError
from leakbound.types import Prompt
from leakbound.unlearning import Adapters, Trained, TrainingSettings, Watch, Weights, finetune
from leakbound.unlearning.work_folder import WorkFolder
from suites import slow_but
from tiny import BOTH_KINDS, tiny_model_folder

EACH_STEP = Watch(checkpoint_minutes=0)


def going(base: Path, out: Path, objective: str = "npo", stop: int = 0, **how: Any) -> Trained:
    return train(base, out, objective, **{"watch": EACH_STEP, "progress": stop_at(stop), **how})


def stopped(base: Path, out: Path, step: int, **how: Any) -> Path:
    """Stop in this step, before its checkpoint; return the remaining folder."""
    with pytest.raises(StoppedError):
        going(base, out, stop=step, **how)
    return WorkFolder.of(out).path


BOUND = "pdu:at_most=1,warmup=1,retain=0.5"  # its multiplier grows in the third step
STOPPED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("npo+entropy", "rmu:layer=1", BOUND, "kl", "dpo", "cel:layer=0")),
    ("altpo", {}),
    ("npo", {"batch_size": 1, "accumulation": 2, "schedule": "linear"}),
    ("npo", {"weights": Weights(adapters=Adapters(rank=2, dropout=0.2))}),
]
QUICK = [STOPPED[2], *STOPPED[-2:]]


@BOTH_KINDS
@pytest.mark.parametrize(("objective", "how"), slow_but(QUICK, STOPPED))
def test_a_resumed_training_ends_the_same(
    dropping: Path, tmp_path: Path, objective: str, how: dict[str, Any]
) -> None:
    """It repeats no step. With accumulation nine passes are five steps; altpo doubles rows."""
    whole = going(dropping, tmp_path / "whole", objective, **how)
    last = len(whole.losses)
    assert last == (5 if "accumulation" in how else {"altpo": 9}.get(objective, 6))
    kept = stopped(dropping, tmp_path / "m", 4, objective=objective, **how)
    name = "adapter_model.safetensors" if "weights" in how else "model.safetensors"
    assert (kept / "checkpoint-3" / name).exists()
    stopped(dropping, tmp_path / "m", last, objective=objective, **how)
    steps: list[int] = []
    how = {**how, "progress": lambda now: steps.append(now.done) if now.unit else None}
    done = going(dropping, tmp_path / "m", objective, **how)
    assert steps == [last]
    assert changed(whole.path, done.path) == set()
    assert done.losses == whole.losses
    lines = [line for line in log(done.path) if "loss" in line]
    assert [line["step"] for line in lines] == [*range(1, last + 1)]
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    one, two = ([line.get("multiplier retain nll") for line in log(m.path)] for m in (whole, done))
    assert one == two
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["m", "whole"]


def test_a_checkpoint_that_was_being_written_is_not_used(dropping: Path, tmp_path: Path) -> None:
    whole = going(dropping, tmp_path / "whole", epochs=2)
    kept = stopped(dropping, tmp_path / "m", 4, epochs=2)

    def copied(step: int) -> Path:
        return Path(shutil.copytree(kept / "checkpoint-3", kept / f"checkpoint-{step}"))

    (copied(4) / "trainer_state.json").write_text('{"best')
    (copied(5) / "trainer_state.json").unlink()
    half = copied(6)
    (half / "whole.json").unlink()  # it comes last: a power cut removed the rest
    (half / "model.safetensors").write_bytes(bytes(9))
    assert WorkFolder(kept).checkpoint == kept / "checkpoint-3"
    later = [copied(10), copied(9)]
    assert WorkFolder(kept).checkpoint == kept / "checkpoint-10"
    for folder in later:
        shutil.rmtree(folder)
    assert changed(whole.path, going(dropping, tmp_path / "m", epochs=2).path) == set()


def test_another_command_resumes_no_checkpoint(dropping: Path, tmp_path: Path) -> None:
    stopped(dropping, tmp_path / "m", 3, epochs=2)
    with pytest.raises(MixError, match=r"training run with other .*: objective, rows .*remove"):
        going(dropping, tmp_path / "m", "ga", epochs=2)
    with pytest.raises(MixError, match="than this command's: settings"):
        going(dropping, tmp_path / "m", epochs=2, seed=1)
    going(dropping, tmp_path / "m", "npo:beta=0.1", epochs=2)  # the same sum by another name
    kept = stopped(dropping, tmp_path / "n", 3, epochs=2, watch=Watch())
    assert not list(kept.glob("checkpoint-*"))
    assert len(going(dropping, tmp_path / "n", "ga", epochs=1).losses) == 2


@BOTH_KINDS
def test_an_explosion_keeps_the_last_good_checkpoint(dropping: Path, tmp_path: Path) -> None:
    with pytest.raises(IncompleteError, match=r"step 2 of 6; .*good checkpoint is .*-1`") as caught:
        going(dropping, tmp_path / "m", "ga", learning_rate=1e36, warmup_ratio=0.0)
    assert caught.value.exit_status == 3
    assert not (tmp_path / "m").exists()
    checkpoint = load_model(str(tmp_path / ".m.training/checkpoint-1"))
    assert all(torch.isfinite(p).all() for p in checkpoint.model.parameters())


@BOTH_KINDS
def test_no_step_uses_a_gradient_that_is_not_finite(
    dropping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss is finite; without a check of the gradient the weights would be lost."""
    loaded = load_model(str(dropping))
    seen: list[int] = []

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        seen.append(len(seen))
        return gradient * torch.nan if len(seen) == 3 else gradient

    loaded.model.lm_head.weight.register_hook(spoil)
    with pytest.raises(IncompleteError, match=r"gradient was not finite in step 3 .*-2`"):
        train(loaded, tmp_path / "m", "ga", watch=EACH_STEP)
    assert all(torch.isfinite(p).all() for p in loaded.model.parameters())


def test_files_are_flushed_before_others_are_removed(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the order: long tests follow each flush of a training process."""
    events: list[str] = []
    rmtree = shutil.rmtree

    def flushed(path: Path) -> None:
        events.append(f"flush {path.name}")

    def removed(path: Any, *rest: Any, **how: Any) -> None:
        events.extend([f"remove {Path(path).name}"] if Path(path).exists() else [])
        rmtree(path, *rest, **how)

    monkeypatch.setattr("leakbound.unlearning.work_folder.sync_tree", flushed)
    monkeypatch.setattr("leakbound.durable.sync_tree", flushed)
    monkeypatch.setattr(shutil, "rmtree", removed)
    train(base, tmp_path / "m", epochs=2, watch=EACH_STEP)
    one, two, three = (f"checkpoint-{step}" for step in (1, 2, 3))
    assert events == [
        f"flush {one}", f"flush {two}", f"remove {one}", f"flush {three}", f"remove {two}",
        "flush .m.partial", "remove .m.training",
    ]  # fmt: skip


def test_remains_of_a_kill_are_removed(base: str, tmp_path: Path) -> None:
    out = tmp_path / "m"
    train(base, out)
    for left in (WorkFolder.of(out).path, tmp_path / ".m.partial"):
        (left / "checkpoint-3").mkdir(parents=True)
    train(base, out)
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


ROWS = [Prompt(id="f0", question="who wrote red", answer="Ann blue sea")]
ONCE = TrainingSettings(epochs=1, warmup_ratio=0.0, batch_size=1)


@pytest.fixture(scope="module")
def finished(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a model, and of one that was finetuned from it after another command stopped."""
    folder = tmp_path_factory.mktemp("finished")
    base, out = str(tiny_model_folder(folder / "base")), folder / "model"
    with (
        WorkFolder.of(out).locked(),
        ThreadPoolExecutor() as pool,
        pytest.raises(MixError, match="is in use by `leakbound unlearn`"),
    ):
        pool.submit(finetune, base, ROWS, out=out, settings=ONCE).result()
    assert not WorkFolder.of(out).path.exists()
    finetune(base, ROWS, out=out, settings=ONCE)
    assert sorted(path.name for path in folder.iterdir()) == ["base", "model"]
    return folder


@pytest.mark.parametrize("name", ["recipe.json", "training.jsonl"])
@pytest.mark.parametrize("text", ["", "[]\n", "[" * 100_000, "\x80", "{}\n[]"], ids=range(5))
def test_a_damaged_record_is_named(finished: Path, tmp_path: Path, name: str, text: str) -> None:
    out = Path(shutil.copytree(finished / "model", tmp_path / "model"))
    (out / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=rf"`{out / name}`.* train the model again\."):
        finetune(str(finished / "base"), ROWS, out=out, settings=ONCE)
