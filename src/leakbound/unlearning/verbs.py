"""The training verbs: a model and rows in, a finished model folder out, or an error and nothing.

A folder that is there is complete: it was renamed to its name after the last byte. Its
`recipe.json` tells what made it, so the same command finds it again instead of training twice.
What is under way stands in a hidden folder beside it, from which the same command goes on.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from accelerate import PartialState

from leakbound.benchmarks import Benchmark
from leakbound.engines.embedding import TransformersEmbedder
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel, load_model, partial_of, save_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, MixError
from leakbound.losses import Needs
from leakbound.objective import Objective, parse_objective
from leakbound.scorers import check_prompts
from leakbound.types import Embed, Prompt
from leakbound.unlearning.alternates import with_alternates
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.card import model_card
from leakbound.unlearning.checks import check_before_loading
from leakbound.unlearning.choosing import (
    centred_splits,
    choose_centres,
    clusters,
    files_of,
    numbers,
    require_candidates,
)
from leakbound.unlearning.examples import Encoder, Rows
from leakbound.unlearning.leakage import Leakage
from leakbound.unlearning.own_answers import OwnAnswers, sampled_splits
from leakbound.unlearning.rows import (
    Questions,
    Row,
    Splits,
    digest,
    passages,
    prompts,
    require_apart,
    require_known,
    require_rows,
    sha256,
)
from leakbound.unlearning.selecting import selected
from leakbound.unlearning.settings import Selecting, TrainingSettings, Watch
from leakbound.unlearning.taken import Given, loaded, prompting_of, rows_of
from leakbound.unlearning.trainer import Following, Progress
from leakbound.unlearning.training import fit, on_cpu
from leakbound.unlearning.work_folder import (
    LOG,
    RECIPE,
    WorkFolder,
    differences,
    read_json,
    read_log,
)

DEFAULTS = TrainingSettings()
WATCH = Watch()
CARD = "README.md"
CHUNK = 2048  # the most tokens of a chunk of running text, unless said otherwise


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished model folder: the objective at each step, and the seconds training took.

    `reused` tells that the folder was there already, made by the same recipe; of the `processes`
    that made it just now each has a `process` number, from 0.
    """

    path: Path
    losses: tuple[float, ...]
    seconds: float
    reused: bool
    processes: int = 1
    process: int = 0

    @classmethod
    def read(cls, path: Path, *, reused: bool) -> Trained:
        """What the folder's own log tells."""
        lines, state = read_log(path / LOG), PartialState()
        losses = tuple(line["loss"] for line in lines if "loss" in line)
        of = {"processes": state.num_processes, "process": state.process_index}
        return cls(path, losses, lines[-1]["seconds"], reused, **of)


def unlearn(
    model: str | LoadedModel,
    objective: str | Objective,
    *,
    benchmark: str | Benchmark | None = None,
    forget: Given | None = None,
    retain: Given | None = None,
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting | None = None,
    embedder: Embed | None = None,
    selecting: Selecting | None = None,
    alternates: Sequence[str] | None = None,
    watch: Watch = WATCH,
    progress: Progress | None = None,
) -> Trained:
    """Make `model` forget the answers of `forget`, and write the result to the folder `out`.

    Sets that are not given are those of `benchmark`, the questions that it evaluates and its retain
    split, and questions are asked as `evaluate` asks them of it, unless `prompting` says otherwise.
    Either set may be of running texts: they are cut into chunks of `settings.max_length` tokens
    (None: the model's context, at most 2,048), and all of them is forgotten or kept.
    Where the objective prefers another answer, it is one of `alternates`, or (None) of the row's
    own, or of ours where it has none. Contrast centres are chosen among a row's paraphrases, by
    `embedder` (None: the model itself) where there are many; with `selecting`, among those that the
    model answers at least as surely as the question. A `LoadedModel` is trained in place.
    Stopped, the same call goes on from its last checkpoint and ends with the weights that it would
    have had.

    Refused before the model is loaded: an empty or missing split, a row without the answer it needs
    or that the scorer of `settings.sampling` could never score, a question on both sides, and, for
    a model on disk, a layer or module that it does not have. Raises MixError where `out` holds the
    model of another recipe or an unfinished one, IncompleteError where the objective stops being
    finite or the model cannot be asked.
    """
    parsed = parse_objective(objective) if isinstance(objective, str) else objective
    task_named = loaded(benchmark)
    if forget is None:
        forget = rows_of(task_named, None, "forget")
    if retain is None:
        wanted = task_named is not None and "retain" in parsed.splits
        retain = rows_of(task_named, "retain", "retain") if wanted else ()
    given = {"forget": forget, "retain": retain}
    require_known(parsed, given)
    _require_used(alternates, parsed)
    _require_centred(selecting, parsed)
    splits = {name: _rows(given[name], parsed.needs[name], alternates) for name in parsed.splits}
    require_apart(forget, retain)
    asked = prompting or prompting_of(task_named)
    task = _Task(parsed, splits, Path(out), settings, asked, embedder, selecting)
    return _train(model, task, watch, progress)


def finetune(
    model: str | LoadedModel,
    rows: Given | None = None,
    *,
    benchmark: str | Benchmark | None = None,
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    prompting: Prompting | None = None,
    watch: Watch = WATCH,
    progress: Progress | None = None,
) -> Trained:
    """Teach `model` the answers of `rows`, or running texts, and write the result to `out`.

    As `unlearn` else.
    """
    task_named = loaded(benchmark)
    if rows is None:
        rows = rows_of(task_named, None, "rows")
    objective, splits = parse_objective("finetune"), {"train": rows}
    asked = prompting or prompting_of(task_named)
    return _train(model, _Task(objective, splits, Path(out), settings, asked), watch, progress)


@dataclass(frozen=True, slots=True)
class _Task:
    """All that decides the weights, but for the model: which rows, to what end, and how."""

    objective: Objective
    splits: Splits
    out: Path
    settings: TrainingSettings
    prompting: Prompting
    embedder: Embed | None = None
    selecting: Selecting | None = None

    @property
    def questions(self) -> Questions:
        """The splits that ask something."""
        return {split: asked for split, rows in self.splits.items() if (asked := prompts(rows))}

    def recipe(self, model: LoadedModel) -> dict[str, Any]:
        """What `recipe.json` holds."""
        recipe = {
            "name": self.objective.name,
            "model": model.fingerprint,
            "objective": self.objective.to_dict(),
            "settings": self.settings.to_dict(),
            "prompting": self.prompting.to_dict(),
            "rows": {
                split: {"number": len(rows), "sha256": digest(rows)}
                for split, rows in self.splits.items()
            },
        }
        if self.asked:  # a scorer may read more of a prompt than its texts
            scored = {split: [*map(asdict, rows)] for split, rows in self.asked.items()}
            recipe["sampling"] = self.settings.sampling.to_dict() | {"sha256": sha256(scored)}
        if clusters(self.objective, self.questions):
            embedder = self.embedder_for(model)
            told = getattr(embedder, "fingerprint", {})  # the model itself is told already
            recipe["centres"] = {"embedder": embedder.name, "fingerprint": told}
        if self.selecting:
            recipe["selecting"] = asdict(self.selecting)
        return recipe

    def embedder_for(self, model: LoadedModel) -> Embed:
        """What tells how near to one another texts are."""
        return self.embedder or TransformersEmbedder(model, self.prompting)

    @property
    def asked(self) -> dict[str, Sequence[Prompt]]:
        """The splits whose prompts the model in training is asked."""
        return {split: self.questions[split] for split in sampled_splits(self.objective.needs)}

    def assembly(self, model: LoadedModel) -> Assembly:
        """The splits as tokens, and a way to ask the model itself where the objective needs it."""
        data, needs, seed = self._data(model), self.objective.needs, self.settings.seed
        if not self.asked:
            return Assembly(data, needs, seed)
        engine = TransformersEngine(model, self.prompting)
        draw = OwnAnswers(engine, self.asked, data, self.settings.sampling, seed)
        draw.check()
        return Assembly(data, needs, seed, draw)

    def with_centres(self, assembly: Assembly, model: LoadedModel, folder: Path) -> Assembly:
        """The same, with the contrast centres of its rows; the choice is kept in `folder`."""
        embedder, seed = self.embedder_for(model), self.settings.seed

        def select(rows: Sequence[Prompt]) -> Sequence[Prompt]:
            if self.selecting is None:
                return rows
            engine = TransformersEngine(model, self.prompting)
            return selected(rows, engine, self.selecting, seed)

        chosen = choose_centres(
            self.objective, self.questions, embedder, seed=seed, folder=folder, select=select
        )
        encoder, data = self._encoder(model), dict(assembly.data)
        for split, found in chosen.items():
            pairs = zip(self.questions[split], found, strict=True)
            prompts = [encoder.centres(row, each.centres) for row, each in pairs]
            data[split] = replace(data[split], centres=prompts)
        return replace(assembly, data=data)

    def _encoder(self, model: LoadedModel) -> Encoder:
        limit = self.settings.max_length or model.context_length
        return Encoder(model.tokenizer, self.prompting, limit)

    def _data(self, model: LoadedModel) -> dict[str, Rows]:
        encoder, needs = self._encoder(model), self.objective.needs
        return {s: self._rows(encoder, rows, needs[s]) for s, rows in self.splits.items()}

    def _rows(self, encoder: Encoder, rows: Sequence[Row], needs: Needs) -> Rows:
        seed, asked = self.settings.seed, prompts(rows)
        if not asked:
            most = self.settings.max_length or min(encoder.limit or CHUNK, CHUNK)
            return Rows(encoder.passages(passages(rows), most))
        return Rows(
            encoder.rows(asked),
            encoder.alternates(asked, seed) if "alternate" in needs.parts else (),
        )


def _train(
    model: str | LoadedModel, task: _Task, watch: Watch, progress: Progress | None
) -> Trained:
    require_rows(task.splits, task.objective, watch)
    _require_recipe_folder(task.out)
    for rows in task.asked.values():
        check_prompts(task.settings.sampling.make_scorer(), rows)
    require_candidates(task.objective, task.questions)
    check_before_loading(model, task.objective.needs, task.settings, watch)
    settings = task.settings
    processes = PartialState(cpu=on_cpu(settings))  # also gives each process its device
    if isinstance(model, str):
        model = load_model(
            model,
            dtype=settings.dtype,
            device=settings.device,
            trust_remote_code=settings.trust_remote_code,
        )
    recipe, kept = task.recipe(model), WorkFolder.beside(task.out)
    if task.out.exists():
        found = _reuse(task.out, recipe)
        if processes.is_main_process:
            _clear(task.out, kept)
        return found
    assembly = task.assembly(model)  # refused before a folder is begun
    with kept.locked() if processes.is_main_process else nullcontext():
        if task.out.exists():  # another command has just ended
            return _reuse(task.out, recipe)
        with processes.main_process_first():
            kept.open(recipe)
        _fit(model, task, assembly, kept, watch, progress)
        if processes.is_main_process:
            _save(model, task.out, recipe, kept)
        processes.wait_for_everyone()
    return Trained.read(task.out, reused=False)


def _fit(
    model: LoadedModel,
    task: _Task,
    assembly: Assembly,
    kept: WorkFolder,
    watch: Watch,
    progress: Progress | None,
) -> None:
    """Train `model` in place, from wherever `kept` stands."""
    with PartialState().main_process_first():
        assembly = task.with_centres(assembly, model, kept.path)
    asked, seed = task.questions, task.settings.seed
    measure = Leakage(model, task.prompting, asked, assembly.data, watch, seed)
    following = Following(
        watch=watch, progress=progress, measure=measure if watch.evaluate_every else None
    )
    fit(model, task.objective, assembly, task.settings, kept, following)


def _save(model: LoadedModel, out: Path, recipe: Mapping[str, Any], kept: WorkFolder) -> None:
    made = Trained.read(kept.path, reused=False)
    files = files_of(kept.path) | {
        RECIPE: json.dumps(recipe, indent=1),
        LOG: (kept.path / LOG).read_text(encoding="utf-8"),
        CARD: model_card(recipe, made.losses, made.seconds, numbers(kept.path)),
    }
    save_model(model.model, model.tokenizer, out, files=files)
    kept.remove()


def _clear(out: Path, kept: WorkFolder) -> None:
    """Remove what was left beside a finished model by a command that was killed at its end."""
    left = [folder for folder in (kept.path, partial_of(out)) if folder.exists()]
    if left:
        with suppress(MixError), kept.locked():  # else another command is about to
            for folder in left:
                shutil.rmtree(folder, ignore_errors=True)


def _reuse(out: Path, recipe: Mapping[str, Any]) -> Trained:
    """The model that `recipe` made; raises MixError where another one did."""
    differing = differences(read_json(out / RECIPE), recipe)
    if differing:
        raise MixError(
            f"`{out}` holds a model made from other {', '.join(differing)} (see its {RECIPE}). "
            "Choose another folder, or remove it."
        )
    return Trained.read(out, reused=True)


def _rows(rows: Sequence[Row], needs: Needs, alternates: Sequence[str] | None) -> Sequence[Row]:
    """The rows of a split with all that the objective needs of them."""
    if "alternate" not in needs.parts or passages(rows):
        return rows
    return with_alternates(prompts(rows), alternates)


def _require_used(alternates: Sequence[str] | None, objective: Objective) -> None:
    if alternates is None:
        return
    if not any("alternate" in needs.parts for needs in objective.needs.values()):
        raise InputError(
            f"`alternates` are for objectives that prefer another answer, and {objective.name!r} "
            "does not. Leave them out, or use idk or dpo."
        )
    if not alternates or not all(map(str.strip, alternates)):
        raise InputError("`alternates` must be sentences, got none or a blank one. Give some.")


def _require_centred(selecting: Selecting | None, objective: Objective) -> None:
    if selecting is not None and not centred_splits(objective.needs):
        raise InputError(
            f"input selection is for objectives with contrast centres, and {objective.name!r} has "
            "none. Leave it out, or use cel."
        )


def _require_recipe_folder(out: Path) -> None:
    if out.exists() and not (out / RECIPE).is_file():
        raise InputError(
            f"`{out}` exists and was not made by leakbound (no {RECIPE}). Choose another folder."
        )
