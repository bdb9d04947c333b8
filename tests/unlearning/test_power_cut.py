"""What a power cut leaves: a model that was said to be done, and a checkpoint that counts as whole.

A cut loses what was not flushed. So the order is observed in which files are flushed, renamed and
removed, and each file is looked at again when that is relied on: had it changed since?
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rows import FORGET, RETAIN

from leakbound.engines.loading import save_model
from leakbound.unlearning import TrainingSettings, Watch, unlearn
from leakbound.unlearning.work_folder import WorkFolder
from tiny import BOTH_KINDS, tiny_llama, tiny_model_folder, tiny_tokenizer

SETTINGS = TrainingSettings(epochs=2, learning_rate=1e-3, batch_size=2)

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names no open files")


@dataclass
class Disk:
    """What is on the disk for certain, by what was flushed; and what relied on more than that."""

    files: dict[Path, tuple[int, int]] = field(default_factory=dict)  # as they were flushed
    names: dict[Path, set[str]] = field(default_factory=dict)
    events: list[tuple[str, Path]] = field(default_factory=list)

    def flushed(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.names[path] = set(os.listdir(path))
        else:
            self.files[path] = _state(path)
        self.events.append(("sync", path))

    def renamed(self, old: Path, new: Path) -> None:
        for path in [path for path in self.files if path.is_relative_to(old)]:
            self.files[new / path.relative_to(old)] = self.files.pop(path)
        for path in [path for path in self.names if path.is_relative_to(old)]:
            self.names[new / path.relative_to(old)] = self.names.pop(path)
        self.events.append(("rename", new))

    def holds(self, folder: Path) -> bool:
        """True if a cut would leave this folder as it is now, and under its name."""
        whole = all(self.files.get(f) == _state(f) for f in folder.rglob("*") if f.is_file())
        named = all(self.names.get(d) == set(os.listdir(d)) for d in (folder, *_below(folder)))
        return whole and named and folder.name in self.names.get(folder.parent, ())


def _state(path: Path) -> tuple[int, int]:
    return path.stat().st_size, path.stat().st_mtime_ns


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_dir()]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    seen = Disk()
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def watched_fsync(descriptor: int) -> None:
        fsync(descriptor)
        seen.flushed(descriptor)

    def watched(move: Any) -> Any:
        def call(old: Any, new: Any, **how: Any) -> None:
            move(old, new, **how)
            seen.renamed(Path(old), Path(new))

        return call

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "rename", watched(rename))
    monkeypatch.setattr(os, "replace", watched(replace))
    return seen


@pytest.fixture
def base(tmp_path: Path) -> str:
    return str(tiny_model_folder(tmp_path / "base"))


def train(base: str, out: Path, **how: Any) -> None:
    rest: dict[str, Any] = {"settings": SETTINGS, "watch": Watch(checkpoint_minutes=0), **how}
    unlearn(base, "npo", forget=FORGET, retain=RETAIN, out=out, **rest)


@BOTH_KINDS
def test_a_model_is_on_the_disk_before_its_training_is_forgotten(
    base: str, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, rmtree = tmp_path / "deep" / "m", shutil.rmtree
    kept, relied = WorkFolder.beside(out).path, list[bool]()

    def removes(path: Any, *rest: Any, **how: Any) -> None:
        if Path(path) == kept and kept.exists():
            relied.append(disk.holds(out))
        rmtree(path, *rest, **how)

    monkeypatch.setattr(shutil, "rmtree", removes)
    train(base, out)
    assert relied == [True]
    assert "deep" in disk.names[tmp_path]
    assert disk.events.index(("rename", out)) > max(
        i for i, (event, path) in enumerate(disk.events) if event == "sync" and ".m." in str(path)
    )


def test_a_model_saved_where_no_folder_was_is_found_again(tmp_path: Path, disk: Disk) -> None:
    tokenizer = tiny_tokenizer()
    out = tmp_path / "deep" / "down" / "m"
    save_model(tiny_llama(len(tokenizer)), tokenizer, out)
    assert disk.holds(out)
    assert "down" in disk.names[tmp_path / "deep"]
    assert "deep" in disk.names[tmp_path]


@BOTH_KINDS
def test_a_checkpoint_is_on_the_disk_before_it_replaces_another(
    base: str, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, rmtree = WorkFolder.beside(tmp_path / "m"), shutil.rmtree
    relied = list[tuple[str, bool]]()

    def removes(path: Any, *rest: Any, **how: Any) -> None:
        last = kept.checkpoint
        if Path(path).name.startswith("checkpoint-") and last is not None:
            relied.append((last.name, Path(path) != last and disk.holds(last)))
        rmtree(path, *rest, **how)

    monkeypatch.setattr(shutil, "rmtree", removes)
    train(base, tmp_path / "m")
    assert relied == [(f"checkpoint-{step}", True) for step in (2, 3)]


@BOTH_KINDS
def test_a_checkpoint_that_a_cut_took_half_of_is_not_used(base: str, tmp_path: Path) -> None:
    class CutError(Exception):
        pass

    def cut(step: int, *_: Any) -> None:
        if step == 3:
            raise CutError

    with pytest.raises(CutError):
        train(base, tmp_path / "m", progress=cut)
    kept = WorkFolder.beside(tmp_path / "m")
    assert kept.checkpoint is not None
    half = Path(shutil.copytree(kept.checkpoint, kept.path / "checkpoint-3"))
    (half / "whole.json").unlink(missing_ok=True)  # it comes last
    weights = half / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    assert kept.checkpoint.name == "checkpoint-2"
    train(base, tmp_path / "m")


def test_what_a_kill_left_beside_a_finished_model_is_removed(base: str, tmp_path: Path) -> None:
    out = tmp_path / "m"
    train(base, out)
    for left in (WorkFolder.beside(out).path, tmp_path / ".m.partial"):
        (left / "checkpoint-3").mkdir(parents=True)
    train(base, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["base", "m"]
