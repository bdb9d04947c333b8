"""The folder of an unfinished training, from which the training resumes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.durable import sync_names, sync_tree
from leakbound.errors import InputError, MixError
from leakbound.store.files import DamagedError, make_folder, write_json, write_text
from leakbound.store.lock import locked
from leakbound.store.trained import LOG, RECIPE, REMEDY, read_object, read_steps
from leakbound.text.shown import share
from leakbound.unlearning.recipe import Recipe

PUSHED, DISTANCE, MOVED = "rows pushed", "distance to centres", "weights moved"
"""Names of values in a training log from which `notes_of` makes sentences."""

_STATE = "trainer_state.json"  # the last file that Trainer writes into a checkpoint
_WHOLE = "whole.json"  # written once all other files are on disk


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """`path` contains the recipe, the frozen model's values, the log, and the last checkpoint."""

    path: Path

    @classmethod
    def of(cls, out: Path) -> WorkFolder:
        """Return the folder of a training whose model goes to `out`."""
        return cls(out.with_name(f".{out.name}.training"))

    def locked(self) -> AbstractContextManager[None]:
        """Keep other commands from training into this folder; raise MixError if one is training.

        The lock is next to the folder, because the folder may be replaced.
        """
        lock = self.path.with_name(f"{self.path.name}.lock")
        return locked(self.path, "unlearn", lock)

    def open(self, recipe: Recipe) -> None:
        """Begin or resume here; raise MixError if there is a checkpoint of another recipe."""
        file = self.path / RECIPE
        if file.exists():
            differing = recipe.departures(read_object(file))
            if not differing:
                return
            if self.checkpoint:
                raise MixError(
                    f"`{self.path}` keeps an unfinished training that differs in "
                    f"{', '.join(differing)} (see its {RECIPE}). Repeat that command to finish "
                    "it, choose another --out, or remove the folder."
                )
        shutil.rmtree(self.path, ignore_errors=True)
        make_folder(self.path)
        write_json(file, recipe.to_dict())

    @property
    def references(self) -> Path:
        """The folder of the frozen model's values."""
        return self.path / "reference"

    @property
    def checkpoint(self) -> Path | None:
        """The last complete checkpoint, which is a model folder."""
        folders = [folder for folder in self.path.glob("checkpoint-*") if _is_complete(folder)]
        return max(folders, key=_step, default=None)

    def keep(self, checkpoint: Path) -> None:
        """Flush a complete checkpoint, mark it as complete, and delete the earlier ones.

        After a power cut a complete checkpoint exists: the new one is on disk before it is marked.
        """
        sync_tree(checkpoint)
        write_json(checkpoint / _WHOLE, {"step": _step(checkpoint)})
        sync_names(self.path)
        for other in self.path.glob("checkpoint-*"):
            if other != checkpoint:
                shutil.rmtree(other, ignore_errors=True)

    def write_log(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Begin the log with these lines."""
        write_text(self.path / LOG, "".join(map(_line, lines)))

    def add_to_log(self, line: Mapping[str, float]) -> None:
        """Append a line to the log, which other programs may be reading."""
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(_line(line))


def stored_json(file: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Read the object in a file; make and write it if there is no such file."""
    if not file.exists():
        write_json(file, make())
    return read_object(file)


def read_log(file: Path) -> list[Mapping[str, float]]:
    """Read the log of a finished training, whose last line has the duration in seconds."""
    lines = [*read_steps(file)]
    if not lines or "seconds" not in lines[-1]:
        raise DamagedError(f"`{file}` does not state how long training took. {REMEDY}")
    return lines


def notes_of(lines: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return sentences about a training that follow from its log."""
    notes = []
    for line in lines:
        far = line.get(DISTANCE, 0.0)
        if line.get(PUSHED) == 0 and far > 0:
            notes.append(
                "the first term of CEL's loss is 0 for every question. Before training, the mean "
                f"distance of activations to their contrast centres is {far:.3g}, and tau is "
                f"below every question's distance. Set tau={2 * far:.2g}, twice the mean distance."
            )
        if MOVED in line:
            notes.append(
                f"training moved {share(line[MOVED])} of the trained weights; the steps of all "
                "other weights were 0 or too small for 16 bits. To keep small steps, store weights "
                "in float32 and only multiply in bfloat16: --dtype float32 --bf16."
            )
    return tuple(notes)


def _line(values: Mapping[str, float]) -> str:
    return json.dumps(values) + "\n"


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _is_complete(folder: Path) -> bool:
    with suppress(InputError):  # errors of the disk are still raised
        return bool(read_object(folder / _WHOLE) and read_object(folder / _STATE))
    return False
