"""The folder of a training that is under way: it may be stopped at any moment and gone on with."""

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
from leakbound.store.files import DamagedError, make_folder, read_json, write_json, write_text
from leakbound.store.lock import locked
from leakbound.store.trained import LOG, RECIPE, REMEDY, read_steps
from leakbound.text.shown import share
from leakbound.unlearning.recipe import Recipe

PUSHED, DISTANCE, MOVED = "rows pushed", "distance to centres", "weights moved"
"""Values in a training log, from which `notes_of` makes sentences."""

_STATE = "trainer_state.json"  # the last file that Trainer gives a checkpoint
_WHOLE = "whole.json"  # ours, once all of these are on the disk


@dataclass(frozen=True, slots=True)
class WorkFolder:
    """`path` holds the recipe, the frozen model's values, the log, and the last checkpoint."""

    path: Path

    @classmethod
    def of(cls, out: Path) -> WorkFolder:
        """The folder for a training whose model goes to `out`."""
        return cls(out.with_name(f".{out.name}.training"))

    def locked(self) -> AbstractContextManager[None]:
        """Keep every other command from training into the same folder; MixError where one does.

        The lock lies beside the folder, which may be begun anew.
        """
        lock = self.path.with_name(f"{self.path.name}.lock")
        return locked(self.path, "unlearn", lock)

    def open(self, recipe: Recipe) -> None:
        """Begin here, or go on; raises MixError where a checkpoint of another recipe is kept."""
        file = self.path / RECIPE
        if file.exists():
            differing = recipe.departures(read_object(file))
            if not differing:
                return
            if self.checkpoint:
                raise MixError(
                    f"`{self.path}` keeps an unfinished training with other "
                    f"{', '.join(differing)} (see its {RECIPE}). Repeat that command to finish "
                    "it, choose another --out, or remove the folder."
                )
        shutil.rmtree(self.path, ignore_errors=True)
        make_folder(self.path)
        write_json(file, recipe.to_dict())

    @property
    def references(self) -> Path:
        """Where the frozen model's values are kept."""
        return self.path / "reference"

    @property
    def checkpoint(self) -> Path | None:
        """The last checkpoint that was written to its end; a model folder of its own."""
        folders = [folder for folder in self.path.glob("checkpoint-*") if _is_whole(folder)]
        return max(folders, key=_step, default=None)

    def keep(self, checkpoint: Path) -> None:
        """Settle a checkpoint that was written to its end, and then forget those before it.

        A power cut leaves the one or the other: it is on the disk before it counts as whole.
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
        """Add a line, for whoever follows the file."""
        with (self.path / LOG).open("a", encoding="utf-8") as log:
            log.write(_line(line))

    def remove(self) -> None:
        """Forget the training, finished as it is."""
        shutil.rmtree(self.path, ignore_errors=True)


def read_object(file: Path) -> dict[str, Any]:
    """The object in a JSON file; DamagedError where it has none."""
    value = read_json(file, REMEDY)
    if not isinstance(value, dict):
        raise DamagedError(f"`{file}` must have an object, got {type(value).__name__}. {REMEDY}")
    return value


def kept_json(file: Path, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The object in a file; made and written there where there is no such file yet."""
    if not file.exists():
        write_json(file, make())
    return read_object(file)


def read_log(file: Path) -> list[Mapping[str, float]]:
    """The lines of the log of a finished training, the last of which has the seconds it took."""
    lines = [*read_steps(file)]
    if not lines or "seconds" not in lines[-1]:
        raise DamagedError(f"`{file}` does not state how long training took. {REMEDY}")
    return lines


def notes_of(lines: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Sentences about a training that its log gives reason for."""
    notes = []
    for line in lines:
        far = line.get(DISTANCE, 0.0)
        if line.get(PUSHED) == 0 and far > 0:
            notes.append(
                "CEL's push acts on no row: before training, the activations at a question are "
                f"{far:.3g} from those at its contrast centres, and tau is below that distance on "
                f"every row. Set tau={2 * far:.2g}, twice the mean distance."
            )
        if MOVED in line:
            notes.append(
                f"training moved {share(line[MOVED])} of the trained weights; the steps of the "
                "others were 0 or too small for 16 bits. To keep small steps, hold the weights in "
                "float32 and only multiply in bfloat16: --dtype float32 --bf16."
            )
    return tuple(notes)


def _line(values: Mapping[str, float]) -> str:
    return json.dumps(values) + "\n"


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


def _is_whole(folder: Path) -> bool:
    with suppress(InputError):  # a disk that fails is no such error
        return bool(read_object(folder / _WHOLE) and read_object(folder / _STATE))
    return False
