"""`leakbound unlearn` and `leakbound finetune`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from leakbound.cli import options as opt
from leakbound.cli.console import duration, print_json, progress_bar
from leakbound.cli.saying import say
from leakbound.errors import InputError, install


class Names(click.ParamType[tuple[str, ...]]):
    """Words separated by commas."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return tuple(part.strip() for part in value.split(",") if part.strip())


class Layers(click.ParamType[tuple[int, ...]]):
    """Layer numbers and ranges of them, `5-7,9`, separated by commas."""

    name = "layers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        layers: list[int] = []
        try:
            for part in value.split(","):
                first, _, last = part.partition("-")
                layers += range(int(first), int(last or first) + 1)
        except ValueError:
            self.fail(f"{value!r} is no layer, nor layers such as 5-7,9.", param, ctx)
        return tuple(layers)


settings = opt.options(
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
    opt.loading,
    click.option("--seed", type=int, help="[default: 0]"),
    click.option(
        "--trust-remote-code", is_flag=True, default=None, help="Run code of the model's own."
    ),
)
weights = opt.options(
    click.option("--modules", type=Names(), help="Train these alone, such as down_proj."),
    click.option("--layers", type=Layers(), help="Train these alone, such as 5-7."),
    click.option("--lora", type=int, metavar="RANK", help="Train adapters, and merge them."),
    click.option("--lora-alpha", type=float, help="[default: 16]"),
    click.option("--lora-dropout", type=float, help="[default: 0]"),
)
sampling = opt.options(
    click.option("--draws", type=int, help="Own answers a prompt in each pass.  [default: 16]"),
    click.option("--scorer", metavar="NAME", help="Of own answers.  [default: the benchmark's]"),
    click.option("--max-new-tokens", type=int, help="Of own answers.  [default: the benchmark's]"),
)
rewriting = opt.options(
    click.option(
        "--rewritings",
        metavar="FILE",
        type=click.Path(path_type=Path),
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
watching = opt.options(
    click.option("--evaluate-every", type=int, help="Steps between measurements of leakage."),
    click.option("--checkpoint-minutes", type=float, help="[default: 10]"),
    click.option("--report-to", type=Names(), help="Trackers, such as tensorboard,wandb."),
)


prompting = opt.options(
    click.option("--system", help="System message for chat models."),
    click.option("--prompt-template", help="Plain prompt, with {question}; no chat template."),
)
benchmark = opt.options(
    click.option("--benchmark", metavar="SPEC", help="Such as tofu:forget10, or a file."),
    click.option("--data", type=click.Path(path_type=Path), help="Folder of the data's files."),
    click.option("--limit", type=int, help="Only the first rows of what is named first."),
)


@click.command()
@click.argument("model")
@click.option("--objective", required=True, metavar="NAME|FILE", help="npo+entropy, or a .yaml.")
@benchmark
@click.option("--forget", metavar="TEXTS", help="Running texts: muse:news/forget, or a file.")
@click.option("--retain", metavar="TEXTS", help="Running texts: muse:news/retain1, or a file.")
@click.option("--out", required=True, type=opt.RUN, help="The new model's folder.")
@click.option(
    "--alternates",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="What idk and dpo teach to say instead, one a line.  [default: the rows', or ours]",
)
@prompting
@settings
@weights
@sampling
@rewriting
@watching
@click.option("--offline", is_flag=True, help="Never ask the hub.")
@opt.as_json
def unlearn(model: str, out: Path, as_json: bool, **given: Any) -> None:
    """Make MODEL forget the forget set of a benchmark or running texts; write the model to --out.

    The objective is one of the papers' by name, several joined by '+', or a YAML file. Stopped,
    the same command goes on from its last checkpoint. A model card, the recipe and a log with one
    JSON object a step stand beside the weights.
    """
    verbs = _verbs(given)
    from leakbound.objective import parse_objective
    from leakbound.unlearning.alternates import read_alternates

    objective = parse_objective(given["objective"])
    task = _task(given, "forget")
    forget, embedder = _forget(given, objective, task), _embedder(given)
    alternates = given["alternates"] and read_alternates(given["alternates"])
    with progress_bar(not as_json) as progress:
        done = verbs.unlearn(
            model,
            objective,
            forget=forget,
            retain=_retain(given, task) if "retain" in objective.splits else (),
            out=out,
            settings=_settings(given, _sampling(given, objective, task)),
            prompting=_prompting(given, task),
            embedder=embedder,
            selecting=_selecting(given, task),
            alternates=alternates,
            watch=_watch(given, task),
            progress=lambda step, steps, loss: progress("training", step, steps, "steps"),
        )
    _show(done, as_json)


@click.command()
@click.argument("model")
@benchmark
@click.option("--texts", metavar="TEXTS", help="Running texts in place of --benchmark.")
@click.option(
    "--split", type=Names(), help="Such as forget,retain.  [default: what the benchmark evaluates]"
)
@click.option("--out", required=True, type=opt.RUN, help="The new model's folder.")
@prompting
@settings
@weights
@watching
@click.option("--offline", is_flag=True, help="Never ask the hub.")
@opt.as_json
def finetune(model: str, out: Path, as_json: bool, **given: Any) -> None:
    """Teach MODEL the answers of a benchmark, or running texts; write the model to --out.

    It lowers the mean cross-entropy of the answers' tokens. Stopped, the same command goes on from
    its last checkpoint; recipe, log and card stand beside the weights.
    """
    verbs = _verbs(given)
    task = _task(given, "texts")
    with progress_bar(not as_json) as progress:
        done = verbs.finetune(
            model,
            _taught(given, task),
            out=out,
            settings=_settings(given, verbs.Sampling()),
            prompting=_prompting(given, task),
            watch=_watch(given, task),
            progress=lambda step, steps, loss: progress("training", step, steps, "steps"),
        )
    _show(done, as_json)


def _verbs(given: dict[str, Any]) -> Any:
    if given["offline"]:
        os.environ["HF_HUB_OFFLINE"] = "1"
    try:
        from leakbound import unlearning
    except ModuleNotFoundError as error:
        raise InputError(f"training needs {error.name}. {install('models')}.") from error
    return unlearning


def _task(given: dict[str, Any], texts: str) -> Any:
    """The benchmark, or None where all that is trained on are running texts."""
    from leakbound.benchmarks import load_benchmark

    if given["benchmark"] is None and given[texts] is None:
        raise InputError(
            f"there is nothing to train on. Name questions with --benchmark, or running texts with "
            f"--{texts}."
        )
    if given["benchmark"] is None:
        return None
    limit = None if given[texts] else given["limit"]
    return load_benchmark(given["benchmark"], data=given["data"], limit=limit)


def _forget(given: dict[str, Any], objective: Any, task: Any) -> Any:
    from leakbound.benchmarks import load_corpus

    _require_centres(given, objective)
    if given["forget"] is None:
        task.to_train(task.role)  # refused where its questions are for evaluation alone
        return _rewritten(given, task)
    return load_corpus(given["forget"], data=given["data"], limit=given["limit"])


def _retain(given: dict[str, Any], task: Any) -> Any:
    from leakbound.benchmarks import load_corpus

    if given["retain"] is not None:
        return load_corpus(given["retain"], data=given["data"])
    return () if task is None else task.to_train("retain")


def _taught(given: dict[str, Any], task: Any) -> Any:
    """The rows to learn, of one split or of several one after another."""
    from leakbound.benchmarks import load_corpus

    if given["texts"] is None:
        return [row for split in given["split"] or (task.role,) for row in task.to_train(split)]
    unused = next((name for name in ("benchmark", "split") if given[name] is not None), None)
    if unused:
        raise InputError(f"`--{unused}` is not used with --texts. Leave one of them out.")
    return load_corpus(given["texts"], data=given["data"], limit=given["limit"])


def _prompting(given: dict[str, Any], task: Any) -> Any:
    from leakbound.unlearning import prompting_of

    return prompting_of(task, template=given["prompt_template"], system=given["system"])


def _require_centres(given: dict[str, Any], objective: Any) -> None:
    if given["ids_draws"] is not None and not given["ids"]:
        raise InputError("`--ids-draws` is for --ids. Leave it out, or add --ids.")
    asked = [name for name in ("rewritings", "embedder", "ids") if given[name] is not None]
    if asked and not any("centres" in needs.parts for needs in objective.needs.values()):
        raise InputError(
            f"`--{asked[0]}` is for objectives with contrast centres, and {objective.name!r} has "
            "none. Leave it out, or use cel."
        )


def _selecting(given: dict[str, Any], task: Any) -> Any:
    from leakbound.unlearning import Selecting

    if not given["ids"]:
        return None
    usual = {"max_new_tokens": task.max_new_tokens} if task else {}
    return Selecting(**usual | _said(given, draws="ids_draws"))


def _rewritten(given: dict[str, Any], task: Any) -> Any:
    """The forget rows, with the rewritings of a file where one is given."""
    from leakbound.benchmarks import load_benchmark, with_rewritings

    if given["rewritings"] is None:
        return task.prompts
    whole = load_benchmark(given["benchmark"], data=given["data"])  # the file may be of all rows
    return with_rewritings(whole.prompts, given["rewritings"])[: given["limit"]]


def _embedder(given: dict[str, Any]) -> Any:
    from leakbound.engines.embedding import SentenceEmbedder

    if given["embedder"] is None:
        return None
    device = None if given["device"] == "auto" else given["device"]
    return SentenceEmbedder.open(given["embedder"], device)


def _sampling(given: dict[str, Any], objective: Any, task: Any) -> Any:
    """How the objective's own answers are drawn; what it would not use is refused."""
    from leakbound.unlearning import Sampling
    from leakbound.unlearning.own_answers import sampled_splits

    said = _said(given, draws="draws", scorer="scorer", max_new_tokens="max_new_tokens")
    if not sampled_splits(objective.needs):
        if said:
            option = next(iter(said)).replace("_", "-")
            raise InputError(
                f"`--{option}` is for objectives that draw from the model, and "
                f"{objective.name!r} does not. Leave it out, or add leakmin."
            )
        return Sampling()
    usual = {"max_new_tokens": task.max_new_tokens} if task else {}
    usual |= {"scorer": task.scorers[0]} if task and task.scorers else {}
    return Sampling(**usual | said)


def _settings(given: dict[str, Any], sampling: Any) -> Any:
    from leakbound.unlearning import Adapters, TrainingSettings, Weights

    alone = [name for name in ("lora_alpha", "lora_dropout") if given[name] is not None]
    if alone and given["lora"] is None:
        option = alone[0].replace("_", "-")
        raise InputError(f"`--{option}` needs --lora. Give the adapters a rank.")
    adapters = None
    if given["lora"] is not None:
        chosen = {"rank": "lora", "alpha": "lora_alpha", "dropout": "lora_dropout"}
        adapters = Adapters(**_said(given, **chosen))
    trained = Weights(
        modules=given["modules"] or (), layers=given["layers"] or (), adapters=adapters
    )
    names = (
        "epochs", "learning_rate", "batch_size", "accumulation", "schedule", "warmup_ratio",
        "weight_decay", "max_grad_norm", "max_length", "bf16", "checkpointing", "dtype", "device",
        "seed", "trust_remote_code",
    )  # fmt: skip
    said = _said(given, **{name: name for name in names})
    return TrainingSettings(weights=trained, sampling=sampling, **said)


def _watch(given: dict[str, Any], task: Any) -> Any:
    from leakbound.unlearning import Watch

    names = ("evaluate_every", "checkpoint_minutes", "report_to")
    said = _said(given, **{name: name for name in names})
    return Watch(**{"max_new_tokens": task.max_new_tokens} if task else {}, **said)


def _said(given: dict[str, Any], **options: str) -> dict[str, Any]:
    """What was said on the command line, under the names that take it."""
    return {name: given[option] for name, option in options.items() if given[option] is not None}


def _show(done: Any, as_json: bool) -> None:
    if done.process:  # of several processes the first one speaks
        return
    first, last = done.losses[0], done.losses[-1]
    if as_json:
        found = {"model": str(done.path), "steps": len(done.losses), "seconds": done.seconds}
        found["processes"] = done.processes
        print_json({**found, "objective": [first, last], "reused": done.reused})
        return
    if done.reused:
        say("this model was there already, made by the same command")
    together = f" on {done.processes} processes" if done.processes > 1 else ""
    say(
        f"{done.path}: {len(done.losses):,} steps in {duration(done.seconds)}{together}, objective "
        f"from {first:.4g} to {last:.4g}"
    )
    say(f"next: leakbound evaluate {done.path} --benchmark ...")
