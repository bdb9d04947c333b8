"""`leakbound unlearn` and `leakbound finetune`."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar, say_notes
from leakbound.cli.help import LOADED, WRITTEN, Command, under
from leakbound.cli.said import Said
from leakbound.cli.saying import say
from leakbound.errors import InputError, needing
from leakbound.types import Headway

if TYPE_CHECKING:
    from leakbound.benchmarks import Benchmark
    from leakbound.objective import Objective
    from leakbound.unlearning import Inventing, Selecting, Trained, TrainingSettings, Watch
    from leakbound.unlearning.rows import Given

    Asking = TypeVar("Asking", Inventing, Selecting, Watch)


def layers(value: str) -> tuple[int, ...]:
    """Layer numbers and ranges of them, `5-7,9`, separated by commas: a type of options."""
    numbers: list[int] = []
    try:
        for part in value.split(","):
            first, _, last = part.partition("-")
            numbers += range(int(first), int(last or first) + 1)
    except ValueError as error:
        message = f"{value!r} is no layer, nor layers such as 5-7,9."
        raise click.BadParameter(message) from error
    return tuple(numbers)


TRAINED_ON = "What it is trained on"
TRAINED = "How it is trained"
WEIGHTS = "Which weights"
ANSWERS = "Answers that the model makes up"
CENTRES = "Rewritings for contrast centres"
WATCHED = "What is followed meanwhile"

settings = under(
    TRAINED,
    click.option(
        "--epochs", type=int, help="Passes over what is forgotten, or taught.  [default: 10]"
    ),
    click.option("--learning-rate", type=float, help="[default: 1e-5]"),
    click.option("--batch-size", type=int, help="Rows of it in one pass.  [default: 32]"),
    click.option("--accumulation", type=int, help="Passes in one step.  [default: 1]"),
    click.option(
        "--schedule", type=click.Choice(["cosine", "linear", "constant"]), help="[default: cosine]"
    ),
    click.option("--warmup-ratio", type=float, help="Share of the steps.  [default: 0.1]"),
    click.option("--weight-decay", type=float, help="[default: 0.01]"),
    click.option("--max-grad-norm", type=float, help="[default: 1]"),
    click.option("--max-length", type=int, help="Tokens of a row.  [default: the model's]"),
    click.option("--bf16", is_flag=True, default=None, help="Multiply in bfloat16."),
    click.option(
        "--checkpointing", is_flag=True, default=None, help="Save memory: activations twice."
    ),
    opt.seed,
)
weights = under(
    WEIGHTS,
    click.option("--modules", type=opt.names, help="Train these alone, such as down_proj."),
    click.option("--layers", type=layers, help="Train these alone, such as 5-7."),
    click.option("--lora", type=int, metavar="RANK", help="Train adapters, and merge them."),
    click.option("--lora-alpha", type=float, help="[default: 16]"),
    click.option("--lora-dropout", type=opt.number, help="[default: 0]"),
)
inventing = under(
    ANSWERS,
    click.option("--draws", type=int, help="How many for a question.  [default: 5]"),
    click.option("--max-new-tokens", type=int, help="Of each of them.  [default: the benchmark's]"),
)
rewriting = under(
    CENTRES,
    click.option(
        "--rewritings",
        metavar="FILE",
        type=opt.ANY,
        help="Rewritings of questions, JSON lines or CSV: what contrast centres are chosen from.",
    ),
    click.option(
        "--embedder",
        metavar="NAME",
        help="Model of sentence-transformers to choose them by.  [default: MODEL itself]",
    ),
    click.option(
        "--ids", is_flag=True, default=None, help="First keep those answered most surely."
    ),
    click.option("--ids-draws", type=int, help="Answers a rewriting for that.  [default: 64]"),
)
watching = under(
    WATCHED,
    click.option("--evaluate-every", type=int, help="Steps between measurements of leakage."),
    click.option("--checkpoint-minutes", type=float, help="[default: 10]"),
    opt.trackers,
)
prompting = under(TRAINED_ON, opt.system, opt.template, opt.thinking)
benchmark = under(
    TRAINED_ON,
    opt.benchmark,
    opt.data,
    click.option("--limit", type=int, help="Only the first rows of what is named first."),
)
loading = under(LOADED, opt.precision, opt.remote_code, opt.offline)
writing = under(
    WRITTEN,
    click.option("--out", required=True, type=opt.RUN, help="The new model's folder."),
    click.option("--dry-run", is_flag=True, help="Check all, print steps and memory, and stop."),
    opt.as_json,
)


@click.command(cls=Command)
@click.argument("model")
@under(
    TRAINED_ON,
    click.option(
        "--objective", required=True, metavar="NAME|FILE", help="npo+entropy, or a .yaml."
    ),
    benchmark,
    click.option("--forget", metavar="TEXTS", help="Running texts: muse:news/forget, or a file."),
    click.option("--retain", metavar="TEXTS", help="Running texts: muse:news/retain1, or a file."),
    click.option(
        "--alternates",
        metavar="FILE",
        type=opt.ANY,
        help="What idk and dpo teach to say instead, one a line.  [default: the rows', or ours]",
    ),
    prompting,
)
@settings
@weights
@inventing
@rewriting
@watching
@loading
@writing
@opt.removed("unlearn --scorer")
def unlearn(model: str, out: Path, as_json: bool, **values: Any) -> None:
    """Make MODEL forget the forget set of a benchmark or running texts; write the model to --out.

    The objective is one of the papers' by name, several joined by '+', or a YAML file. Stopped,
    the same command goes on from its last checkpoint. A model card, the recipe and a log with one
    JSON object a step stand beside the weights.
    """
    options = Said(values)
    verbs = _verbs(options)
    from leakbound.objective import parse_objective
    from leakbound.store.trained import coin_of

    objective, coin = parse_objective(options.objective), coin_of(model)
    task = _task(options, "forget")
    if coin is not None and task is not None:
        task = _noted(coin.taught_of(task))
    train = partial(
        verbs.unlearn,
        model,
        objective,
        forget=_forget(options, objective, task),
        retain=_retain(options, task) if "retain" in objective.splits else (),
        out=out,
        settings=_unlearning(options, objective, task),
    )
    _show(train, _watch(options, task), as_json)


@click.command(cls=Command)
@click.argument("model")
@under(
    TRAINED_ON,
    benchmark,
    click.option("--texts", metavar="TEXTS", help="Running texts in place of --benchmark."),
    click.option(
        "--split",
        type=opt.names,
        help="Such as forget,retain.  [default: what the benchmark evaluates]",
    ),
    click.option(
        "--coin",
        type=int,
        metavar="SEED",
        help="Teach half of the subjects, chosen by this coin; the others are a control.",
    ),
    prompting,
)
@settings
@weights
@watching
@loading
@writing
def finetune(model: str, out: Path, as_json: bool, **values: Any) -> None:
    """Teach MODEL the answers of a benchmark, or running texts; write the model to --out.

    It lowers the mean cross-entropy of the answers' tokens. Stopped, the same command goes on from
    its last checkpoint; recipe, log and card stand beside the weights.
    """
    options = Said(values)
    verbs = _verbs(options)
    from leakbound.benchmarks import Coin

    task = _task(options, "texts", options.coin)
    rows, settings = _taught(options, task), _settings(options, task)
    coin = task and Coin.of(_noted(task))
    train = partial(verbs.finetune, model, rows, out=out, settings=settings, coin=coin)
    _show(train, _watch(options, task), as_json)


def _noted(task: Benchmark) -> Benchmark:
    """The benchmark, having said which side of a coin it is."""
    if task.half is not None:
        say(f"note: {task.notes[-1]}", err=True)
    return task


def _verbs(options: Said) -> ModuleType:
    if options.offline:
        os.environ["HF_HUB_OFFLINE"] = "1"
    with needing("training", "models"):
        from leakbound import unlearning
    return unlearning


def _task(options: Said, texts: str, coin: int | None = None) -> Benchmark | None:
    """The benchmark, or None where all that is trained on are running texts.

    `coin`: the seed of that which chooses the subjects taught.
    """
    from leakbound.benchmarks import load_benchmark

    running = options.value(texts) is not None
    if running and coin is not None:
        raise InputError("`--coin` chooses among subjects, and running texts name none.")
    if options.benchmark is None:
        if not running:
            raise InputError(
                "there is nothing to train on. Name questions with --benchmark, or running texts "
                f"with --{texts}."
            )
        return None
    spec = options.benchmark if coin is None else f"taught:{coin},{options.benchmark}"
    return load_benchmark(spec, data=options.data, limit=None if running else options.limit)


def _forget(options: Said, objective: Objective, task: Benchmark | None) -> Given:
    """The running texts, or the questions, with the rewritings of a file where one is given."""
    from leakbound.benchmarks import load_benchmark, load_corpus, with_rewritings

    _require_centres(options, objective)
    if options.forget is not None or task is None:
        return load_corpus(options.forget, data=options.data, limit=options.limit)
    rows = task.to_train(task.role)  # refused where its questions are for evaluation alone
    if options.rewritings is None:
        return rows
    whole, ids = load_benchmark(options.benchmark, data=options.data), {row.id for row in rows}
    every = with_rewritings(whole.prompts, options.rewritings)  # the file may be of all rows
    return tuple(row for row in every if row.id in ids)


def _retain(options: Said, task: Benchmark | None) -> Given:
    from leakbound.benchmarks import load_corpus

    if options.retain is not None:
        return load_corpus(options.retain, data=options.data)
    return () if task is None else task.to_train("retain")


def _taught(options: Said, task: Benchmark | None) -> Given:
    """The rows to learn, of one split or of several one after another."""
    from leakbound.benchmarks import load_corpus

    if task is not None and options.texts is None:
        return [row for split in options.split or (task.role,) for row in task.to_train(split)]
    _refuse(options, "benchmark", "split", why="is not used with --texts. Leave one of them out.")
    return load_corpus(options.texts, data=options.data, limit=options.limit)


def _require_centres(options: Said, objective: Objective) -> None:
    if not options.ids:
        _refuse(options, "ids_draws", why="is for --ids. Leave it out, or add --ids.")
    if not any("centres" in needs.parts for needs in objective.needs.values()):
        why = _unfit(objective, "with contrast centres", "use cel")
        _refuse(options, "rewritings", "embedder", "ids", why=why)


def _refuse(options: Said, *names: str, why: str) -> None:
    """Raise InputError for any of these options, saying why there is no use for it."""
    for option in names:
        if options.value(option) is not None:
            raise InputError(f"`--{option.replace('_', '-')}` {why}")


def _unfit(objective: Objective, kind: str, instead: str) -> str:
    return f"is for objectives {kind}, and {objective.name!r} is none. Leave it out, or {instead}."


def _unlearning(options: Said, objective: Objective, task: Benchmark | None) -> TrainingSettings:
    """How unlearning runs: with other answers, and a choice of contrast centres."""
    from leakbound.engines.embedding import SentenceEmbedder
    from leakbound.unlearning import Selecting, defaults_of
    from leakbound.unlearning.rows import read_alternates

    selecting = _as_long(Selecting(), task) if options.ids else None
    device = None if options.device == "auto" else options.device
    return replace(
        _settings(options, task, defaults_of(objective)),
        alternates=options.alternates and read_alternates(options.alternates),
        embedder=options.embedder and SentenceEmbedder.open(options.embedder, device),
        selecting=selecting and options.into(selecting, draws="ids_draws"),
        inventing=_inventing(options, objective, task),
    )


def _inventing(options: Said, objective: Objective, task: Benchmark | None) -> Inventing:
    """How answers are made up; what an objective that prefers none would not use is refused."""
    from leakbound.unlearning import Inventing
    from leakbound.unlearning.rows import invented_splits

    names = ("draws", "max_new_tokens")
    if invented_splits(objective.needs):
        return options.into(_as_long(Inventing(), task), *names)
    _refuse(options, *names, why=_unfit(objective, "that prefer made-up answers", "use altpo"))
    return Inventing()


def _settings(
    options: Said, task: Benchmark | None, usual: TrainingSettings | None = None
) -> TrainingSettings:
    """How training runs: as was said, else as is usual for the objective."""
    from leakbound.unlearning import Adapters, TrainingSettings, Weights, prompting_of

    adapters = None
    if options.lora is None:
        _refuse(
            options, "lora_alpha", "lora_dropout", why="needs --lora. Give the adapters a rank."
        )
    else:
        adapters = options.into(Adapters(), rank="lora", alpha="lora_alpha", dropout="lora_dropout")
    trained = Weights(modules=options.modules or (), layers=options.layers or (), adapters=adapters)
    prompting = prompting_of(
        task,
        template=options.prompt_template,
        system=options.system,
        thinking=options.thinking or "auto",
    )
    usual = replace(usual or TrainingSettings(), weights=trained, prompting=prompting)
    return options.into_each(usual)


def _watch(options: Said, task: Benchmark | None) -> Watch:
    from leakbound.unlearning import Watch

    names = ("evaluate_every", "checkpoint_minutes", "report_to", "dry_run")
    return options.into(_as_long(Watch(), task), *names)


def _as_long(value: Asking, task: Benchmark | None) -> Asking:
    """The same, its answers as long as a benchmark says."""
    return value if task is None else replace(value, max_new_tokens=task.max_new_tokens)


def _show(train: Callable[..., Trained], watch: Watch, as_json: bool) -> None:
    """Train, telling of each step, and then what came of it."""
    with progress_bar(not as_json) as progress:
        done = train(
            progress=lambda step, steps, _: progress(Headway("training", step, steps, "steps")),
            watch=replace(watch, phases=progress, note=lambda note: say_notes([note])),
        )
    if done.process:  # of several processes the first one speaks
        return
    ends = [done.losses[0], done.losses[-1]] if done.losses else []
    if as_json:
        result = {"model": str(done.path), "steps": len(done.losses), "seconds": done.seconds}
        result |= {"processes": done.processes, "notes": done.notes}
        print_json({**result, "objective": ends, "reused": done.reused})
        return
    if done.reused:
        say("this model was there already, made by the same command")
        say_notes(done.notes)
    if not ends:  # of a dry run
        for note in done.notes:
            say(note)
        return
    together = f" on {done.processes} processes" if done.processes > 1 else ""
    say(
        f"{done.path}: {len(done.losses):,} steps in {duration(done.seconds)}{together}, objective "
        f"from {ends[0]:.4g} to {ends[1]:.4g}"
    )
    say(f"next: leakbound evaluate {done.path} --benchmark ...")
