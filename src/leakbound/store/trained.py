"""Read the folder of a trained model: its recipe, and the values logged during training."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leakbound.benchmarks import Coin
from leakbound.store.files import DamagedError, read_bytes, read_json, value_of
from leakbound.types import JsonObject

LOG, RECIPE, CENTRES = "training.jsonl", "recipe.json", "centres.json"
REMEDY = "Restore it from a copy, or train the model again."


@dataclass(frozen=True, slots=True)
class TrainedTerm:
    """A term of the objective in `recipe.json`."""

    loss: str
    split: str
    weight: float
    settings: JsonObject = field(default_factory=dict)
    reduce: str = "sequence"
    dual: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class TrainedFolder:
    """The folder of a trained model, with the model's objective and training log.

    Attributes:
        path: the folder.
        terms: the terms of the training objective.
        steps: the logged values of each step, by their names; `step` counts from 1.
    """

    path: Path
    terms: tuple[TrainedTerm, ...]
    steps: tuple[Mapping[str, float], ...]

    def curve(self, loss: str, split: str) -> tuple[tuple[int, float], ...]:
        """Return (step, mean loss over a split) pairs of a loss, without its weight.

        The result is empty unless the objective has exactly one such term. This term must have a
        constant weight, and a mean that is not joined with the means of other terms.
        """
        terms = [term for term in self.terms if (term.loss, term.split) == (loss, split)]
        if len(terms) != 1 or not terms[0].weight or terms[0].reduce == "joined" or terms[0].dual:
            return ()
        name, weight = f"{split} {loss}", terms[0].weight
        logged = ((int(row["step"]), row[name] / weight) for row in self.steps if name in row)
        return tuple((step, value) for step, value in logged if math.isfinite(value))


def is_trained(path: Path) -> bool:
    """Return whether a folder has the log of a training run."""
    return (path / LOG).is_file()


def read_trained(path: Path) -> TrainedFolder:
    """Return the log and the objective of a trained model.

    Raises DamagedError, with the line, if the log or the objective is damaged.
    """
    objective = read_object(path / RECIPE).get("objective")
    terms = objective.get("terms") if isinstance(objective, Mapping) else None
    return TrainedFolder(
        path,
        value_of(tuple[TrainedTerm, ...], path / RECIPE, terms, REMEDY),
        tuple(read_steps(path / LOG)),
    )


def has_recipe(model: Path) -> bool:
    """Return whether a folder has the recipe of its model."""
    return (model / RECIPE).is_file()


def coin_of(model: object) -> Coin | None:
    """Return the random choice of the subjects that a model was taught.

    None if the model has no recipe, or its recipe records no such choice.
    """
    folder = Path(model) if isinstance(model, str | Path) else None
    if folder is None or not has_recipe(folder):
        return None
    coin = read_object(folder / RECIPE).get("coin")
    return None if coin is None else value_of(Coin, folder / RECIPE, coin, REMEDY)


def read_object(file: Path) -> dict[str, Any]:
    """Read the object in a JSON file; raise DamagedError if the file contains no object."""
    return value_of(dict[str, Any], file, read_json(file, REMEDY), REMEDY)


def read_steps(log: Path) -> Iterator[Mapping[str, float]]:
    """Yield the steps of a training log; raise DamagedError for a line that is not a step."""
    for number, line in enumerate(read_bytes(log, REMEDY).splitlines(), 1):
        try:
            values = {name: float(value) for name, value in json.loads(line).items()}
            yield {**values, "step": values["step"]}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            fault = f"line {number} of `{log}` is not a training step. {REMEDY}"
            raise DamagedError(fault) from error
