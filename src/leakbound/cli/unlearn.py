"""The commands that train a model: `leakbound unlearn` and `leakbound finetune`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar, say_notes
from leakbound.cli.output import say
from leakbound.cli.parsed import Parsed
from leakbound.errors import InputError, needing

if TYPE_CHECKING:
    from leakbound.benchmarks import Benchmark
    from leakbound.objective import Objective
    from leakbound.unlearning import ModelAnswers, Trained, TrainingSettings, Watch
    from leakbound.unlearning.rows import Given

    Asking = TypeVar("Asking", ModelAnswers, Watch)


@opt.command
def unlearn(options: Parsed) -> None:
    """Train MODEL to forget a benchmark's forget set, or plain texts; write the model to --out.

    --objective is a YAML file, or names of objectives from papers, joined by '+'. The command
    writes the weights, a model card, the recipe and a log to --out. The log has one JSON object per
    step. If the command is stopped, run it again to resume from its last checkpoint.

    Examples:
        leakbound unlearn my-model --objective npo+entropy --benchmark tofu:forget10 \\
            --out unlearned
        leakbound unlearn my-model --objective npo --lora 16 --out unlearned \\
            --forget muse:news/forget --retain muse:news/retain1
    """
    verbs = _verbs()
    from leakbound.benchmarks import load_corpus
    from leakbound.objective import parse_objective

    objective = parse_objective(options.objective)
    task = _task(options, "forget")
    retain: Benchmark | Given | None = task
    if "retain" in objective.splits and options.retain is not None:
        retain = load_corpus(options.retain, data=options.data)
    train = partial(
        verbs.unlearn,
        options.model,
        objective,
        forget=_forget(options, objective, task),
        retain=retain,
        out=options.out,
        settings=_unlearning(options, objective, task),
    )
    _show(train, _watch(options, task), options.as_json)


@opt.command
def finetune(options: Parsed) -> None:
    """Train MODEL on the answers of a benchmark, or on plain texts; write the model to --out.

    Training minimises the mean cross-entropy of the answers' tokens. The command writes the
    weights, a model card, the recipe and a log to --out. If the command is stopped, run it again to
    resume from its last checkpoint.

    Examples:
        leakbound finetune base-model --benchmark tofu:full --epochs 5 --out my-model
        leakbound finetune base-model --texts my-texts.txt --lora 16 --out my-model
    """
    verbs = _verbs()
    from leakbound.benchmarks import Coin, load_corpus

    task = _task(options, "texts")
    rows: Given
    if task is not None and options.texts is None:  # the name of one split, or of several
        rows = [row for split in options.split or (task.role,) for row in task.to_train(split)]
    else:
        options.refuse(("benchmark", "split"), "has no effect with `--texts`. Omit one of the two.")
        rows = load_corpus(options.texts, data=options.data, limit=options.limit)
    settings, coin = _settings(options, task), task and Coin.of(task)
    train = partial(
        verbs.finetune, options.model, rows, out=options.out, settings=settings, coin=coin
    )
    _show(train, _watch(options, task), options.as_json)


def _verbs() -> ModuleType:
    with needing("training", "models"):
        from leakbound import unlearning
    return unlearning


def _task(options: Parsed, texts: str) -> Benchmark | None:
    """Load the benchmark, with --coin only the taught half; None if only texts are trained on."""
    from leakbound.benchmarks import load_benchmark

    seed, is_text = options.value("coin"), options.value(texts) is not None
    if is_text and seed is not None:
        raise InputError(f"`--coin` {seed} chooses subjects, but texts have none. Omit `--coin`.")
    if options.benchmark is None:
        if not is_text:
            raise InputError(
                "there is nothing to train on. Name questions with --benchmark, or texts with "
                f"--{texts}."
            )
        return None
    spec = options.benchmark if seed is None else f"taught:{seed},{options.benchmark}"
    task = load_benchmark(spec, data=options.data, limit=None if is_text else options.limit)
    say_notes(task.notes)
    return task


def _forget(options: Parsed, objective: Objective, task: Benchmark | None) -> Benchmark | Given:
    """Return the texts or questions to forget, with rewritings if --rewritings is given."""
    from leakbound.benchmarks import load_benchmark, load_corpus, with_rewritings

    if not any("centres" in needs.parts for needs in objective.needs.values()):
        why = _unfit(objective, "with contrast centres", "use cel")
        options.refuse(("rewritings", "embedder", "ids"), why)
    if options.forget is not None or task is None:
        return load_corpus(options.forget, data=options.data, limit=options.limit)
    if options.rewritings is None:
        return task
    full, ids = load_benchmark(options.benchmark, data=options.data), {p.id for p in task.prompts}
    every = with_rewritings(full.prompts, options.rewritings)  # the file may have all rows
    return replace(task, prompts=tuple(prompt for prompt in every if prompt.id in ids))


def _unfit(objective: Objective, kind: str, instead: str) -> str:
    return f"is only for objectives {kind}, not {objective.name!r}. Omit the option, or {instead}."


def _unlearning(options: Parsed, objective: Objective, task: Benchmark | None) -> TrainingSettings:
    """Return the settings of unlearning: training, replacement answers and contrast centres."""
    from leakbound.engines.models import OpenModels
    from leakbound.types.decoding import require
    from leakbound.unlearning import ModelAnswers, defaults_of
    from leakbound.unlearning.rows import read_alternates, splits_with
    from leakbound.unlearning.settings import MADE_UP

    inventing, names = MADE_UP, ("draws", "max_new_tokens")
    if splits_with("invented", objective.needs):
        inventing = options.into(_as_long(inventing, task), *names)
    else:
        options.refuse(names, _unfit(objective, "that prefer made-up answers", "use altpo"))
    models, ids = OpenModels(device=options.device or "auto"), options.ids
    require(ids is None or ids >= 1, "--ids", ids, "at least 1", "To select none, omit `--ids`.")
    return replace(
        _settings(options, task, defaults_of(objective)),
        alternates=options.alternates and read_alternates(options.alternates),
        embedder=options.embedder and models.embed(options.embedder),
        selecting=None if ids is None else replace(_as_long(ModelAnswers(), task), draws=ids),
        inventing=inventing,
    )


def _settings(
    options: Parsed, task: Benchmark | None, defaults: TrainingSettings | None = None
) -> TrainingSettings:
    """Return the settings of training; omitted options have the values of `defaults`."""
    from leakbound.unlearning import Adapters, TrainingSettings, Weights, prompting_of

    adapters = None
    if options.lora is None:
        options.refuse_without("lora", ("lora_alpha", "lora_dropout"))
    else:
        adapters = options.into(Adapters(), rank="lora", alpha="lora_alpha", dropout="lora_dropout")
    trained = Weights(modules=options.modules or (), layers=options.layers or (), adapters=adapters)
    prompting = prompting_of(
        task,
        template=options.prompt_template,
        system=options.system,
        thinking=options.thinking or "auto",
    )
    defaults = replace(defaults or TrainingSettings(), weights=trained, prompting=prompting)
    return options.into_each(defaults)


def _watch(options: Parsed, task: Benchmark | None) -> Watch:
    from leakbound.unlearning import Watch

    names = ("evaluate_every", "checkpoint_minutes", "report_to", "dry_run")
    return options.into(_as_long(Watch(), task), *names)


def _as_long(value: Asking, task: Benchmark | None) -> Asking:
    """Return a copy of the value with the benchmark's token limit for answers."""
    return value if task is None else replace(value, max_new_tokens=task.max_new_tokens)


def _show(train: Callable[..., Trained], watch: Watch, as_json: bool) -> None:
    """Train with progress, then print the result."""
    with progress_bar(not as_json) as progress:
        done = train(progress=progress, watch=watch)
    if done.process:  # only the first of several processes prints
        return
    losses = [done.losses[0], done.losses[-1]] if done.losses else []
    if as_json:
        result = {"model": str(done.path), "steps": len(done.losses), "seconds": done.seconds}
        result |= {"processes": done.processes, "notes": done.notes}
        print_json({**result, "objective": losses, "reused": done.reused})
        return
    if done.reused:
        say("nothing to do: an identical command has trained this model")
        say_notes(done.notes)
    if not losses:  # the result of a dry run
        for note in done.notes:
            say(note)
        return
    where = f" on {done.processes} processes" if done.processes > 1 else ""
    say(
        f"{done.path}: {len(done.losses):,} steps in {duration(done.seconds)}{where}, objective "
        f"from {losses[0]:.4g} to {losses[1]:.4g}"
    )
    say(f"next: leakbound evaluate {done.path} --benchmark ...")
