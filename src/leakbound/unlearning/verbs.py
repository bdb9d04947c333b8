"""`unlearn` and `finetune`: train a model on rows, and write a complete model folder or no folder.

A model folder that exists is complete, because it is renamed to its name after the last byte is
written. Its `recipe.json` states how the model was made, so the same command reuses the model. An
unfinished training run is stored in a hidden folder next to the model folder. The same command
resumes from this folder.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelerate import PartialState

from leakbound.benchmarks import Benchmark, Coin
from leakbound.engines.embedding import TransformersEmbedder
from leakbound.engines.hf import TransformersEngine
from leakbound.engines.loading import LoadedModel, load_model, partial_of, save_model
from leakbound.engines.prompting import Prompting
from leakbound.errors import InputError, MixError
from leakbound.losses import Needs
from leakbound.objective import Objective, parse_objective
from leakbound.store.trained import CENTRES, LOG, RECIPE, coin_of, read_object
from leakbound.study.settings import prompting_of
from leakbound.types import Progress, Thinking, during, silent
from leakbound.unlearning.batches import Assembly
from leakbound.unlearning.centres import (
    choose_centres,
    clusters,
    numbers,
    require_candidates,
)
from leakbound.unlearning.examples import Encoder, ExampleRows
from leakbound.unlearning.inventing import INVENTED, invented_answers, request_of
from leakbound.unlearning.probe import LeakageProbe
from leakbound.unlearning.recipe import Base, Recipe, model_card
from leakbound.unlearning.rows import (
    Given,
    Row,
    Source,
    opened,
    passages,
    prompts,
    require_apart,
    require_known,
    require_no_thoughts,
    require_rows,
    rows_of,
    splits_with,
    with_alternates,
)
from leakbound.unlearning.settings import TrainingSettings, Watch
from leakbound.unlearning.trainer import Following, check_before_loading, fit, on_cpu
from leakbound.unlearning.weights import trained
from leakbound.unlearning.work_folder import WorkFolder, notes_of, read_log

DEFAULTS = TrainingSettings()
WATCH = Watch()
CARD = "README.md"
CHUNK = 2048  # default maximum of tokens in a chunk of running text


@dataclass(frozen=True, slots=True)
class Trained:
    """A finished model folder.

    Attributes:
        path: the folder.
        losses: the value of the objective at each step.
        seconds: the duration of the training.
        reused: whether an earlier call with the same recipe made the folder.
        notes: sentences about the training run, derived from its log; after a dry run, sentences
            about the steps and memory that training needs.
        processes: the number of processes that trained it.
        process: the number of this process, from 0.
    """

    path: Path
    losses: tuple[float, ...]
    seconds: float
    reused: bool
    notes: tuple[str, ...] = ()
    processes: int = 1
    process: int = 0

    @classmethod
    def read(cls, path: Path, *, reused: bool) -> Trained:
        """Return the description of a finished model folder, from the folder's log."""
        lines, state = read_log(path / LOG), PartialState()
        losses = tuple(line["loss"] for line in lines if "loss" in line)
        processes = state.num_processes, state.process_index
        return cls(path, losses, lines[-1]["seconds"], reused, notes_of(lines), *processes)


def unlearn(
    model: str | LoadedModel,
    objective: str | Objective,
    forget: Source,
    retain: Source | None = None,
    *,
    out: str | Path,
    settings: TrainingSettings | None = None,
    watch: Watch = WATCH,
    progress: Progress = silent,
) -> Trained:
    """Train a model to forget answers or plain text passages, and write the new model to a folder.

    If training is interrupted, the same call resumes from the last checkpoint and gives the same
    weights.

    Args:
        model: a folder or hub name, or a `LoadedModel`, which is trained in place.
        objective: the name of a paper's objective, several names joined by "+", or an `Objective`.
        forget: rows or passages to forget, or a benchmark whose evaluated questions are forgotten.
            Passages are cut into chunks of `settings.max_length` tokens (None: the context, at most
            2,048).
        retain: rows or passages to keep, or a benchmark whose retain split is kept (None: the
            retain split of the benchmark `forget`, if the objective needs one).
        out: the new model's folder, with its recipe, log and card.
        settings: the settings of training and of prompts (None: the settings of the preset's
            authors, or else the defaults).
        watch: the settings of checkpoints, measurements and reports; none changes the weights.
        progress: called for each phase and step, and immediately for each note.

    Returns:
        A description of the finished folder, with the objective's value at each step. `reused` is
            True if an earlier call with the same recipe made the folder.

    Raises:
        InputError: an unknown objective, an empty or missing split, a row that lacks an answer that
            the objective needs, a question in both the forget set and the retain set, an `out` that
            leakbound did not make, or a layer or module that the model lacks. All of this is
            checked before a model on disk is loaded. After loading: a row that is too long.
        ModelError: a model that cannot be loaded.
        MixError: `out` contains the model or the unfinished training run of another recipe, or
            another command is writing to it.
        IncompleteError: the objective or a gradient is no longer finite, or the model cannot be
            queried.
    """
    parsed = parse_objective(objective) if isinstance(objective, str) else objective
    coin, forgotten = coin_of(model), opened(forget)
    if coin is not None and isinstance(forgotten, Benchmark):
        forgotten = coin.taught_of(forgotten)
    kept: Benchmark | Given = forgotten if isinstance(forgotten, Benchmark) else ()
    if retain is not None:
        kept = opened(retain)
    needed = "retain" in parsed.splits or not isinstance(kept, Benchmark)
    rows = {"forget": rows_of(forgotten), "retain": rows_of(kept, "retain") if needed else ()}
    require_known(parsed, rows)
    settings = settings or defaults_of(parsed)
    _require_used(settings, parsed)
    splits = {name: _rows(rows[name], parsed.needs[name], settings) for name in parsed.splits}
    require_apart(rows["forget"], rows["retain"])
    require_no_thoughts(splits)
    recipe = Recipe(
        objective=parsed,
        settings=settings,
        prompting=_prompting(settings, forgotten, kept),
        rows=splits,
        coin=coin,
    )
    return _train(model, recipe, Path(out), watch, progress)


def defaults_of(objective: Objective) -> TrainingSettings:
    """Return the training settings of an objective that apply if the user specifies none.

    Args:
        objective: any objective.

    Returns:
        The settings of the preset's authors, and the defaults for all other settings.
    """
    return replace(DEFAULTS, **objective.training)  # type: ignore[arg-type]


def finetune(
    model: str | LoadedModel,
    rows: Source,
    *,
    out: str | Path,
    settings: TrainingSettings = DEFAULTS,
    watch: Watch = WATCH,
    progress: Progress = silent,
    coin: Coin | None = None,
) -> Trained:
    """Train a model on answers or plain text passages, and write the new model to a folder.

    Rows with a thought teach the thought and the answer. Such rows turn thinking on; `settings`
    that turn thinking off raise InputError. If training is interrupted, the same call resumes from
    its last checkpoint.

    Args:
        model: a folder or hub name, or a `LoadedModel`, which is trained in place.
        rows: rows or passages to learn, or a benchmark whose evaluated questions are taught.
        out: the new model's folder, with its recipe, log and card.
        settings: the settings of training and of prompts (default: `TrainingSettings()`).
        watch: the settings of checkpoints, measurements and reports; none changes the weights.
        progress: called for each phase and step, and immediately for each note.
        coin: the coin that chose the taught subjects. None: the coin of `rows` if their spec is
            `taught:SEED,SPEC`, or else the coin of the model.

    Returns:
        A description of the finished folder, with the mean loss at each step. `reused` is True if
            an earlier call with the same recipe made the folder.

    Raises:
        InputError: a model whose taught subjects another coin has chosen, or inputs that `unlearn`
            refuses.
        ModelError: a model that cannot be loaded.
        MixError: `out` contains the model or the unfinished training run of another recipe, or
            another command is writing to it.
        IncompleteError: the loss or a gradient is no longer finite, or the model cannot be queried
            during training.
    """
    taught, before = opened(rows), coin_of(model)
    if coin is None and isinstance(taught, Benchmark):
        coin = Coin.of(taught)
    if coin is not None and before is not None and coin != before:
        raise InputError(
            f"`{model}` was already trained on a random half of the subjects, chosen with --coin "
            f"{before.seed}. Use the same --coin, or a model that was trained without --coin."
        )
    splits = {"train": rows_of(taught)}
    thoughts = any(row.thought is not None for row in prompts(splits["train"]))
    recipe = Recipe(
        objective=parse_objective("finetune"),
        settings=settings,
        prompting=_prompting(settings, taught, thoughts=thoughts),
        rows=splits,
        coin=coin or before,
    )
    return _train(model, recipe, Path(out), watch, progress)


def _train(
    model: str | LoadedModel, recipe: Recipe, out: Path, watch: Watch, progress: Progress
) -> Trained:
    settings, rows = recipe.settings, recipe.rows
    require_rows(rows, recipe.objective, watch)
    if recipe.coin is not None:
        recipe.coin.require_withheld(row for split in rows.values() for row in split)
    if out.exists() and not (out / RECIPE).is_file():
        raise InputError(
            f"`{out}` exists and was not made by leakbound (no {RECIPE}). Choose another folder."
        )
    require_candidates(recipe.objective, recipe.questions)
    objective = check_before_loading(model, recipe.objective, settings, watch)
    processes = PartialState(cpu=on_cpu(settings))  # also gives each process its device
    if isinstance(model, str):
        with during(progress, f"loading {Path(model).name}"):
            model = load_model(
                model,
                dtype=settings.dtype,
                device=settings.device,
                trust_remote_code=settings.trust_remote_code,
                before=lambda tokenizer: [  # refuses invalid rows before weights are loaded
                    Encoder(tokenizer, recipe.prompting).rows(rows)
                    for rows in recipe.questions.values()
                ],
            )
    prompting, recipe = recipe.prompting, _loaded(replace(recipe, objective=objective), model)
    work = WorkFolder.of(out)
    if out.exists():
        done = _reuse(out, recipe)
        if processes.is_main_process and not watch.dry_run:
            _clear(out, work)
        return done
    encoder = Encoder(model.tokenizer, prompting, settings.max_length or model.context_length)
    engine = partial(TransformersEngine, model, prompting)
    data = _encoded(recipe, encoder, engine)  # refused before a folder is begun
    settings.steps_of(len(next(iter(data.values())).examples))  # refuses a rate of 0
    if watch.dry_run:
        return Trained(out, (), 0.0, reused=False, notes=_plan(model, data, settings))
    with work.locked() if processes.is_main_process else nullcontext():
        if out.exists():  # another command has just finished it
            return _reuse(out, recipe)
        with processes.main_process_first():
            work.open(recipe)
            data = _completed(data, recipe, encoder, engine, work.path)
        probe = LeakageProbe(model, prompting, recipe.questions, data, watch, settings.seed)
        measure = probe if watch.evaluate_every else None
        following = Following(watch=watch, progress=progress, measure=measure)
        assembly = Assembly(data, objective.needs, settings.seed)
        fit(model, objective, assembly, settings, work, following)
        if processes.is_main_process:
            with during(progress, f"saving {out.name}"):
                _save(model, out, recipe, work)
        processes.wait_for_everyone()
    return Trained.read(out, reused=False)


def _loaded(recipe: Recipe, model: LoadedModel) -> Recipe:
    """Return the recipe with all parts that depend on the loaded model."""
    prompting, embedder = recipe.prompting, None
    if clusters(recipe.objective, recipe.questions):
        embedder = recipe.settings.embedder or TransformersEmbedder(model, prompting)
    if "thinking" not in prompting.describe(model.tokenizer):
        prompting = replace(prompting, thinking="auto")
    return replace(recipe, model=model.fingerprint, prompting=prompting, embedder=embedder)


def _encoded(
    recipe: Recipe, encoder: Encoder, engine: Callable[[], TransformersEngine]
) -> dict[str, ExampleRows]:
    """Return the splits as tokens; raise InputError if needed answers cannot be made up."""
    settings, data = recipe.settings, dict[str, ExampleRows]()
    for split, rows in recipe.rows.items():
        if not (questions := prompts(rows)):
            most = settings.max_length or min(encoder.limit or CHUNK, CHUNK)
            data[split] = ExampleRows(encoder.passages(passages(rows), most))
            continue
        others = {}
        if "alternate" in recipe.objective.needs[split].parts:
            others["alternate"] = encoder.alternates(questions, settings.seed)
        data[split] = ExampleRows(encoder.rows(questions), others)
    for inventive in recipe.inventive.values():
        engine().check([*dict.fromkeys(map(request_of, inventive))], settings.inventing.decoding)
    return data


def _completed(
    data: Mapping[str, ExampleRows],
    recipe: Recipe,
    encoder: Encoder,
    engine: Callable[[], TransformersEngine],
    folder: Path,
) -> dict[str, ExampleRows]:
    """Return the data with made-up answers and contrast centres, which are stored in `folder`."""
    completed = dict(data)
    for split, answers in invented_answers(recipe, engine, folder).items():
        examples = encoder.rows(recipe.questions[split], answers)
        others = {**data[split].others, "invented": examples}
        completed[split] = replace(data[split], others=others)
    for split, centres in choose_centres(recipe, engine, folder).items():
        pairs = zip(recipe.questions[split], centres, strict=True)
        made = [encoder.centres(row, texts) for row, texts in pairs]
        completed[split] = replace(completed[split], centres=made)
    return completed


def _plan(
    model: LoadedModel, data: Mapping[str, ExampleRows], settings: TrainingSettings
) -> tuple[str, str]:
    """Return sentences about the rows, steps and memory of a training run that has not begun."""
    rows = {split: len(encoded.examples) for split, encoded in data.items()}
    count = settings.steps_of(next(iter(rows.values())))
    with trained(model.model, settings.weights, settings.seed) as training:
        sizes = [(p.nbytes, p.requires_grad) for p in training.parameters()]
    memory = sum(size * (4 if moves else 1) for size, moves in sizes)
    of_each = ", ".join(f"{number:,} {split} rows" for split, number in rows.items())
    return (
        f"{of_each}; {count.steps:,} steps, {count.warmup:,} of them warm-up, from "
        f"{count.passes:,} forward passes, {count.accumulation} per step"
    ), (
        f"memory: {math.ceil(memory / 1e6):,} MB for weights, gradients and AdamW's two moments, "
        "and more for activations; time is not measured"
    )


def _save(model: LoadedModel, out: Path, recipe: Recipe, work: WorkFolder) -> None:
    done = Trained.read(work.path, reused=False)
    base = Base.of(str(getattr(model.model.config, "_name_or_path", "")))
    ends = sorted(recipe.prompting.ends(model.tokenizer, model.eos_token_ids))
    model.model.generation_config.eos_token_id = ends[0] if len(ends) == 1 else ends or None
    recipe.prompting.record(model.tokenizer)
    stored = (work.path / name for name in (CENTRES, INVENTED, LOG))
    files = {file.name: file.read_text(encoding="utf-8") for file in stored if file.exists()} | {
        RECIPE: recipe.text(),
        CARD: model_card(
            recipe,
            done.losses,
            done.seconds,
            centres=numbers(work.path),
            base=base,
            notes=done.notes,
        ),
    }
    save_model(model.model, model.tokenizer, out, files=files)
    shutil.rmtree(work.path, ignore_errors=True)


def _clear(out: Path, work: WorkFolder) -> None:
    """Remove files that a command left next to a finished model if it was killed while ending."""
    folders = [folder for folder in (work.path, partial_of(out)) if folder.exists()]
    if folders:
        with suppress(MixError), work.locked():  # if locked, another command removes them
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)


def _reuse(out: Path, recipe: Recipe) -> Trained:
    """Return the model that `recipe` made; raise MixError if another recipe made it."""
    differing = recipe.departures(read_object(out / RECIPE))
    if differing:
        raise MixError(
            f"`{out}` has a model that was trained with other settings than this command's: "
            f"{', '.join(differing)} (see its {RECIPE}). Choose another folder, or remove it."
        )
    return Trained.read(out, reused=True)


def _prompting(
    settings: TrainingSettings, *sources: Benchmark | Given, thoughts: bool = False
) -> Prompting:
    """Return the prompting of the settings, or of the first benchmark among the sources.

    A chat model that can think is trained without thinking, unless rows have `thoughts` or the
    settings turn thinking on.
    """
    tasks = (source for source in sources if isinstance(source, Benchmark))
    prompting = settings.prompting or prompting_of(next(tasks, None))
    mode: Thinking = "on" if thoughts else "off"
    return replace(prompting, thinking=mode) if prompting.thinking == "auto" else prompting


def _rows(rows: Sequence[Row], needs: Needs, settings: TrainingSettings) -> Sequence[Row]:
    """Return a split's rows with needed alternate answers, and one copy for each made-up answer."""
    if "invented" in needs.parts:
        rows = [*rows] * settings.inventing.draws
    if "alternate" not in needs.parts or passages(rows):
        return rows
    return with_alternates(prompts(rows), settings.alternates)


def _require_used(settings: TrainingSettings, objective: Objective) -> None:
    """Raise InputError for settings that the objective does not use."""
    alternates, needs = settings.alternates, objective.needs
    if settings.selecting is not None and not splits_with("centres", needs):
        raise InputError(
            f"input selection needs an objective with contrast centres, but {objective.name!r} has "
            "none. Omit the selection, or use `cel`."
        )
    if alternates is None:
        return
    if not splits_with("alternate", needs):
        raise InputError(
            f"`alternates` need an objective that trains on them, but {objective.name!r} does not. "
            "Omit them, or use `idk` or `dpo`."
        )
    if not alternates or not all(map(str.strip, alternates)):
        raise InputError("`alternates` must be sentences, got none or a blank one. Add sentences.")
