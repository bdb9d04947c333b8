"""The training verbs: a model and rows in, a finished model folder out, or an error and nothing.

A folder that is there is complete: it was renamed to its name after the last byte. Its
`recipe.json` tells what made it, so the same command finds it again instead of training twice.
What is under way stands in a hidden folder beside it, from which the same command goes on.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import PartialState

from residua.engines.loading import LoadedModel, load_model, save_model
from residua.engines.prompting import Prompting
from residua.errors import InputError, MixError
from residua.losses import Needs
from residua.objective import Objective, parse_objective
from residua.types import Prompt
from residua.unlearning.card import model_card
from residua.unlearning.checks import check_before_loading
from residua.unlearning.examples import Encoder, Rows
from residua.unlearning.leakage import Leakage
from residua.unlearning.settings import TrainingSettings, Watch
from residua.unlearning.trainer import Following, Progress
from residua.unlearning.training import fit
from residua.unlearning.work_folder import LOG, RECIPE, WorkFolder, differences, read_json, read_log

DEFAULTS = TrainingSettings()
PLAIN = Prompting()
WATCH = Watch()
CARD = "README.md"
Splits = Mapping[str, Sequence[Prompt]]


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished model folder: the objective at each step, and the seconds training took.

    `reused` tells that the folder was there already, made by the same recipe.
    """

    path: Path
    losses: tuple[float, ...]
    seconds: float
    reused: bool

    @classmethod
    def read(cls, path: Path, *, reused: bool) -> Trained:
        """What the folder's own log tells."""
        lines = read_log(path / LOG)
        losses = tuple(line["loss"] for line in lines if "loss" in line)
        return cls(path, losses, lines[-1]["seconds"], reused)


def unlearn(
    model: str | LoadedModel,
    objective: str | Objective,
    *,
    forget: Sequence[Prompt],
    retain: Sequence[Prompt] = (),
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting = PLAIN,
    watch: Watch = WATCH,
    progress: Progress | None = None,
) -> Trained:
    """Make `model` forget the answers of `forget`, and write the result to the folder `out`.

    A `LoadedModel` is trained in place. Stopped, the same call goes on from its last checkpoint
    and ends with the weights that it would have had. Refused before the model is loaded: an empty
    or missing split, a row without the answers it needs, a question on both sides, and, for a
    model on disk, a layer or module that it does not have. Raises MixError where `out` holds the
    model of another recipe or an unfinished one, IncompleteError where the objective stops being
    finite.
    """
    parsed = parse_objective(objective) if isinstance(objective, str) else objective
    given = {"forget": forget, "retain": retain}
    _require_known(parsed, given)
    splits = {name: given[name] for name in parsed.splits}
    _require_apart(forget, retain)
    return _train(model, _Task(parsed, splits, Path(out), settings, prompting), watch, progress)


def finetune(
    model: str | LoadedModel,
    rows: Sequence[Prompt],
    *,
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting = PLAIN,
    watch: Watch = WATCH,
    progress: Progress | None = None,
) -> Trained:
    """Teach `model` the answers of `rows`, and write the result to `out`; as `unlearn` else."""
    objective, splits = parse_objective("finetune"), {"train": rows}
    return _train(model, _Task(objective, splits, Path(out), settings, prompting), watch, progress)


@dataclass(frozen=True, slots=True)
class _Task:
    """All that decides the weights, but for the model: which rows, to what end, and how."""

    objective: Objective
    splits: Splits
    out: Path
    settings: TrainingSettings
    prompting: Prompting

    def recipe(self, model: LoadedModel) -> dict[str, Any]:
        """What `recipe.json` holds."""
        return {
            "name": self.objective.name,
            "model": model.fingerprint,
            "objective": self.objective.to_dict(),
            "settings": self.settings.to_dict(),
            "prompting": self.prompting.to_dict(),
            "rows": {
                split: {"number": len(rows), "sha256": _digest(rows)}
                for split, rows in self.splits.items()
            },
        }

    def data(self, model: LoadedModel) -> dict[str, Rows]:
        """The splits as tokens."""
        limit = self.settings.max_length or model.context_length
        encoder = Encoder(model.tokenizer, self.prompting, limit)
        needs = self.objective.needs
        return {s: self._rows(encoder, rows, needs[s]) for s, rows in self.splits.items()}

    def _rows(self, encoder: Encoder, rows: Sequence[Prompt], needs: Needs) -> Rows:
        seed = self.settings.seed
        return Rows(
            encoder.rows(rows),
            encoder.alternates(rows, seed) if "alternate" in needs.parts else (),
            [encoder.centres(row) for row in rows] if "centres" in needs.parts else (),
        )


def _train(
    model: str | LoadedModel, task: _Task, watch: Watch, progress: Progress | None
) -> Trained:
    _require_answers(task.splits, task.objective.needs)
    _require_recipe_folder(task.out)
    check_before_loading(model, task.objective.needs, task.settings, watch)
    settings = task.settings
    processes = PartialState(cpu=settings.device == "cpu")  # also gives each process its device
    if isinstance(model, str):
        model = load_model(
            model,
            dtype=settings.dtype,
            device=settings.device,
            trust_remote_code=settings.trust_remote_code,
        )
    recipe = task.recipe(model)
    if task.out.exists():
        return _reuse(task.out, recipe)
    data, kept = task.data(model), WorkFolder.beside(task.out)
    with processes.main_process_first():
        kept.open(recipe)
    measure = Leakage(model, task.prompting, task.splits, data, watch, settings.seed)
    following = Following(
        watch=watch, progress=progress, measure=measure if watch.evaluate_every else None
    )
    fit(model, task.objective, data, settings, kept, following)
    if processes.is_main_process:
        _save(model, task.out, recipe, kept)
    processes.wait_for_everyone()
    return Trained.read(task.out, reused=False)


def _save(model: LoadedModel, out: Path, recipe: Mapping[str, Any], kept: WorkFolder) -> None:
    made = Trained.read(kept.path, reused=False)
    files = {
        RECIPE: json.dumps(recipe, indent=1),
        LOG: (kept.path / LOG).read_text(encoding="utf-8"),
        CARD: model_card(recipe, made.losses, made.seconds),
    }
    save_model(model.model, model.tokenizer, out, files=files)
    kept.remove()


def _reuse(out: Path, recipe: Mapping[str, Any]) -> Trained:
    """The model that `recipe` made; raises MixError where another one did."""
    differing = differences(read_json(out / RECIPE), recipe)
    if differing:
        raise MixError(
            f"`{out}` holds a model made from other {', '.join(differing)} (see its {RECIPE}). "
            "Choose another folder, or remove it."
        )
    return Trained.read(out, reused=True)


def _require_known(objective: Objective, given: Splits) -> None:
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


def _require_answers(splits: Splits, needs: Mapping[str, Needs]) -> None:
    for split, rows in splits.items():
        if not rows:
            raise InputError(f"the {split} set is empty. Give it at least one row.")
        for row in rows:
            if not (row.answer or "").strip():
                raise InputError(
                    f"row {row.id!r} of {split} has no answer to train on. "
                    "Add one, or leave the row out."
                )
            if "alternate" in needs[split].parts and not row.alternate_answers:
                raise InputError(
                    f'the objective needs another answer for each row, such as "I don\'t know", '
                    f"and row {row.id!r} of {split} has no `alternate_answers`. TOFU's come with "
                    "its file idontknow.jsonl: name its folder with --data."
                )


def _require_recipe_folder(out: Path) -> None:
    if out.exists() and not (out / RECIPE).is_file():
        raise InputError(
            f"`{out}` exists and was not made by residua (no {RECIPE}). Choose another folder."
        )


def _digest(rows: Sequence[Prompt]) -> str:
    texts = [
        [row.question, row.prefix, row.answer, row.alternate_answers, row.paraphrases]
        for row in rows
    ]
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
