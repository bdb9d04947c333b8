"""The folder of a training that is under way is one command's at a time."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

import pytest

from leakbound.durable import place
from leakbound.errors import InputError, MixError
from leakbound.types import Prompt
from leakbound.unlearning import TrainingSettings, finetune
from leakbound.unlearning.work_folder import WorkFolder
from tiny import tiny_model_folder

ROWS = [Prompt(id="f0", question="who wrote red", answer="Ann blue sea")]
ONCE = TrainingSettings(epochs=1, batch_size=1)


def test_two_trainings_into_one_folder_are_refused(tmp_path: Path) -> None:
    base, out = str(tiny_model_folder(tmp_path / "base")), tmp_path / "model"
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with WorkFolder.beside(out).locked():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(60)
    try:
        with pytest.raises(MixError, match="is in use by `leakbound unlearn`"):
            finetune(base, ROWS, out=out, settings=ONCE)
    finally:
        leave.set()
        thread.join()
    assert not WorkFolder.beside(out).path.exists()
    finetune(base, ROWS, out=out, settings=ONCE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "model"]


def test_a_model_is_not_put_down_by_a_training_that_lost_its_lock(tmp_path: Path) -> None:
    kept = WorkFolder.beside(tmp_path / "model")
    (tmp_path / "partial").mkdir()
    with kept.locked():
        kept.path.with_name(f"{kept.path.name}.lock").unlink()
        with pytest.raises(MixError, match=r"\.model\.training` is no longer locked"):
            place(tmp_path / "partial", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.fixture(scope="module")
def finished(embeddings: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a model and what was finetuned of it."""
    folder = tmp_path_factory.mktemp("finished")
    base = str(tiny_model_folder(folder / "base"))
    finetune(base, ROWS, out=folder / "model", settings=ONCE)
    return folder


@pytest.mark.parametrize("name", ["recipe.json", "training.jsonl"])
@pytest.mark.parametrize(
    "text", ["", "{", "[]\n", "[" * 100_000, "\x80", "{}\n[]", "3"], ids=range(7)
)
def test_a_damaged_record_of_a_finished_model_is_named(
    finished: Path, tmp_path: Path, name: str, text: str
) -> None:
    out = Path(shutil.copytree(finished / "model", tmp_path / "model"))
    (out / name).write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=f"`{out / name}` is damaged"):
        finetune(str(finished / "base"), ROWS, out=out, settings=ONCE)
