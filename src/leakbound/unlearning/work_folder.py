"""The folder of an unfinished training run, from which the run resumes."""

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
"""Names of values in a training log that `notes_of` turns into sentences."""

_STATE = "trainer_state.json"  # the last file that Trainer writes into a checkpoint
_WHOLE = "whole.json"  # written once all other files are on disk


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """The folder of a training run: recipe, frozen model's values, log, and the last checkpoint."""

    path: Path

    @classmethod
    def of(cls, out: Path) -> WorkFolder:
        """Return the folder of the training run that writes its model to `out`."""
        return cls(out.with_name(f".{out.name}.training"))

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder against other commands; raise MixError if another command is training.

        The lock file is next to the folder, because the folder may be replaced.
        """
        lock = self.path.with_name(f"{self.path.name}.lock")
        return locked(self.path, "unlearn", lock)

    def open(self, recipe: Recipe) -> None:
        """Begin or resume a run; raise MixError if a checkpoint here has another recipe."""
        file = self.path / RECIPE
        if file.exists():
            differing = recipe.departures(read_object(file))
            if not differing:
                return
            if self.checkpoint:
                raise MixError(
                    f"`{self.path}` has an unfinished training run with other settings than this "
                    f"command's: {', '.join(differing)} (see its {RECIPE}). Finish that run with "
                    "its command, choose another --out, or remove the folder."
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
        """Flush a new checkpoint, mark it as complete, and delete earlier checkpoints.

        The new checkpoint is on disk before it is marked and before earlier checkpoints are
        deleted. So a complete checkpoint exists after a power cut.
        """
        sync_tree(checkpoint)
        write_json(checkpoint / _WHOLE, {"step": _step(checkpoint)})
        sync_names(self.path)
        for other in self.path.glob("checkpoint-*"):
            if other != checkpoint:
                shutil.rmtree(other, ignore_errors=True)

    def write_log(self, lines: Sequence[Mapping[str, float]]) -> None:
        """Replace the log by these lines."""
        write_text(self.path / LOG, "".join(map(_line, lines)))

    def add_to_log(self, line: Mapping[str, float]) -> None:
        """Append a line to the log, which other programs may be reading."""
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(_line(line))


def stored_json(file: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON object in a file; if there is no such file, make the object and write it."""
    if not file.exists():
        write_json(file, make())
    return read_object(file)


def read_log(file: Path) -> list[Mapping[str, float]]:
    """Return the lines of the log of a finished run; the last line has the duration in seconds."""
    lines = [*read_steps(file)]
    if not lines or "seconds" not in lines[-1]:
        raise DamagedError(f"`{file}` does not state how long training took. {REMEDY}")
    return lines


def notes_of(lines: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return sentences about a training run, derived from the lines of its log."""
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
                f"training changed {share(line[MOVED])} of the trained weights. For the other "
                "weights, the steps were 0 or too small for 16 bits. To keep small steps, store "
                "weights in float32 and multiply in bfloat16 (--dtype float32 --bf16)."
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
