"""The training verbs: a model and rows in, a finished model folder out, or an error and nothing.

A folder that is there is complete: it was renamed to its name after the last byte. Its
`recipe.json` tells what made it, so the same command finds it again instead of training twice.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from residua.engines.loading import LoadedModel, load_model, save_model
from residua.engines.prompting import Prompting
from residua.errors import InputError, MixError
from residua.objective import Objective, parse_objective
from residua.types import Prompt
from residua.unlearning.examples import encode_rows
from residua.unlearning.settings import TrainingSettings
from residua.unlearning.training import Progress, fit

RECIPE = "recipe.json"
LOG = "training.json"
DEFAULTS = TrainingSettings()
PLAIN = Prompting()


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished model folder: the objective at each step, and the seconds training took.

    `reused` tells that the folder was there already, made by the same recipe.
    """

    path: Path
    losses: tuple[float, ...]
    seconds: float
    reused: bool


def unlearn(
    model: str | LoadedModel,
    objective: str | Objective,
    *,
    forget: Sequence[Prompt],
    retain: Sequence[Prompt] = (),
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting = PLAIN,
    progress: Progress | None = None,
) -> Trained:
    """Make `model` forget the answers of `forget`, and write the result to the folder `out`.

    A `LoadedModel` is trained in place. Refused before the model is loaded: an empty or missing
    split, a row without answer, a question on both sides. Raises MixError where `out` holds the
    model of another recipe, IncompleteError where the objective stops being finite.
    """
    parsed = parse_objective(objective) if isinstance(objective, str) else objective
    given = {"forget": forget, "retain": retain}
    _require_known(parsed, given)
    splits = {name: given[name] for name in parsed.splits}
    _require_apart(forget, retain)
    return _train(model, parsed, splits, Path(out), settings, prompting, progress)


def finetune(
    model: str | LoadedModel,
    rows: Sequence[Prompt],
    *,
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting = PLAIN,
    progress: Progress | None = None,
) -> Trained:
    """Teach `model` the answers of `rows`, and write the result to `out`; as `unlearn` else."""
    objective, splits = parse_objective("finetune"), {"train": rows}
    return _train(model, objective, splits, Path(out), settings, prompting, progress)


def _train(
    model: str | LoadedModel,
    objective: Objective,
    splits: Mapping[str, Sequence[Prompt]],
    out: Path,
    settings: TrainingSettings,
    prompting: Prompting,
    progress: Progress | None,
) -> Trained:
    _require_answers(splits)
    _require_recipe_folder(out)
    if isinstance(model, str):
        model = load_model(model, dtype=settings.dtype, device=settings.device)
    recipe = {
        "model": model.fingerprint,
        "objective": objective.to_dict(),
        "settings": settings.to_dict(),
        "prompting": prompting.to_dict(),
        "rows": {split: _digest(rows) for split, rows in splits.items()},
    }
    if out.exists():
        return _reuse(out, recipe)
    limit = settings.max_length or model.context_length
    examples = {
        split: encode_rows(rows, model.tokenizer, prompting, limit=limit)
        for split, rows in splits.items()
    }
    done = fit(model, objective, examples, settings, progress)
    log = {"losses": done.losses, "seconds": done.seconds}
    files = {RECIPE: json.dumps(recipe, indent=1), LOG: json.dumps(log)}
    save_model(model.model, model.tokenizer, out, files=files)
    return Trained(out, done.losses, done.seconds, reused=False)


def _reuse(out: Path, recipe: Mapping[str, Any]) -> Trained:
    """The model that `recipe` made; raises MixError where another one did."""
    found = json.loads((out / RECIPE).read_text(encoding="utf-8"))
    wanted = json.loads(json.dumps(recipe))
    differing = [key for key in wanted if found.get(key) != wanted[key]]
    if differing:
        raise MixError(
            f"`{out}` holds a model made from other {', '.join(differing)} (see its {RECIPE}). "
            "Choose another folder, or remove it."
        )
    log = json.loads((out / LOG).read_text(encoding="utf-8"))
    return Trained(out, tuple(log["losses"]), log["seconds"], reused=True)


def _require_known(objective: Objective, given: Mapping[str, Sequence[Prompt]]) -> None:
    for split in objective.splits:
        if split not in given:
            raise InputError(
                f"objective {objective.name!r} trains on {split!r}, which `unlearn` does not "
                f"have ({', '.join(given)}). Use `finetune` for plain training."
            )
        if not given[split]:
            raise InputError(
                f"objective {objective.name!r} needs {split} rows, got none. "
                f"Name a {split} set, or an objective without it."
            )


def _require_apart(forget: Sequence[Prompt], retain: Sequence[Prompt]) -> None:
    kept = {row.question.strip(): row.id for row in retain}
    both = [row for row in forget if row.question.strip() in kept]
    if both:
        raise InputError(
            f"{len(both)} questions are in both forget and retain, the first as "
            f"{both[0].id!r} and {kept[both[0].question.strip()]!r}. Take them out of one."
        )


def _require_answers(splits: Mapping[str, Sequence[Prompt]]) -> None:
    for split, rows in splits.items():
        if not rows:
            raise InputError(f"the {split} set is empty. Give it at least one row.")
        for row in rows:
            if not (row.answer or "").strip():
                raise InputError(
                    f"row {row.id!r} of {split} has no answer to train on. "
                    "Add one, or leave the row out."
                )


def _require_recipe_folder(out: Path) -> None:
    if out.exists() and not (out / RECIPE).is_file():
        raise InputError(
            f"`{out}` exists and was not made by residua (no {RECIPE}). Choose another folder."
        )


def _digest(rows: Sequence[Prompt]) -> str:
    texts = [[row.question, row.prefix, row.answer] for row in rows]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
