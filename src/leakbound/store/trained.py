"""The folder of a trained model: what was logged as it was trained, and by which objective."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from leakbound.benchmarks import Coin
from leakbound.errors import InputError, require_no_fault
from leakbound.store.files import DamagedError, read_json
from leakbound.types import JsonObject, from_json

LOG, RECIPE, CENTRES = "training.jsonl", "recipe.json", "centres.json"
_REMEDY = "Restore it from a copy, or train the model again."


@dataclass(frozen=True, slots=True)
class TrainedTerm:
    """A term of the objective, as `recipe.json` holds it."""

    loss: str
    split: str
    weight: float
    settings: JsonObject = field(default_factory=dict)
    reduce: str = "sequence"
    dual: JsonObject | None = None

    @property
    def name(self) -> str:
        """Its name in the log; several terms may share it."""
        return f"{self.split} {self.loss}"


@dataclass(frozen=True, slots=True)
class TrainingStep:
    """Values logged at a step, by name; `step` counts from 1."""

    step: int
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class TrainedFolder:
    """A trained model in its folder: the objective's terms, and what was logged.

    Attributes:
        path: the folder.
        terms: of the objective.
        steps: values logged, by step.
    """

    path: Path
    terms: tuple[TrainedTerm, ...]
    steps: tuple[TrainingStep, ...]

    def curve(self, loss: str, split: str) -> tuple[tuple[int, float], ...]:
        """(step, mean of a loss over a split), without its weight.

        Empty unless one term of that name is in the objective, averaged by itself and under a
        weight that stays.
        """
        mine = [term for term in self.terms if (term.loss, term.split) == (loss, split)]
        if len(mine) != 1 or not mine[0].weight or mine[0].reduce == "joined" or mine[0].dual:
            return ()
        name, weight = mine[0].name, mine[0].weight
        points = ((row.step, row.values[name] / weight) for row in self.steps if name in row.values)
        return tuple((step, value) for step, value in points if math.isfinite(value))


def is_trained(path: Path) -> bool:
    """True for a folder that holds the log of a training."""
    return (path / LOG).is_file()


def read_trained(path: Path) -> TrainedFolder:
    """The log and the objective of a trained model; DamagedError, with the line, where either is
    not as training writes it."""
    recipe, file = read_json(path / RECIPE, _REMEDY), path / RECIPE
    objective = recipe.get("objective") if isinstance(recipe, Mapping) else None
    terms = objective.get("terms") if isinstance(objective, Mapping) else None
    if not isinstance(terms, list):
        raise DamagedError(f"`{file}` names no objective with terms. {_REMEDY}")
    try:
        trained_terms = tuple(from_json(TrainedTerm, term, f"`{file}`") for term in terms)
    except InputError as error:
        raise DamagedError(f"{error} {_REMEDY}") from error
    return TrainedFolder(path, trained_terms, tuple(_steps(path / LOG)))


def has_recipe(model: Path) -> bool:
    """True for a folder that says how its model was trained."""
    return (model / RECIPE).is_file()


def coin_of(model: object) -> Coin | None:
    """The coin by which the model in a folder was taught; None where no recipe tells of one."""
    file = Path(model) / RECIPE if isinstance(model, str | Path) else None
    if file is None or not file.is_file():
        return None
    recipe = read_json(file, _REMEDY)
    coin = recipe.get("coin") if isinstance(recipe, Mapping) else None
    try:
        return None if coin is None else from_json(Coin, coin, f"`{file}`")
    except InputError as error:
        raise DamagedError(f"{error} {_REMEDY}") from error


def _steps(file: Path) -> Iterator[TrainingStep]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        require_no_fault(file, error)
        raise DamagedError(f"`{file}` cannot be read ({error}). {_REMEDY}") from error
    for number, line in enumerate(lines, 1):
        try:
            values = json.loads(line)
            logged = {name: float(value) for name, value in values.items()}
            yield TrainingStep(int(logged.pop("step")), logged)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise DamagedError(
                f"`{file}`, line {number}, is no step of a training. {_REMEDY}"
            ) from error
