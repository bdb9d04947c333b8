"""Options that several commands share, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leakbound.errors import InputError

if TYPE_CHECKING:
    from leakbound.benchmarks import Benchmark
    from leakbound.evaluation import Attack, Inputs, Study
    from leakbound.store import Run
    from leakbound.types import Decoding

Command = TypeVar("Command", bound=Callable[..., Any])

RUN = click.Path(path_type=Path, file_okay=False)


def options(*decorators: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several decorators as one, listed in the order --help shows."""

    def apply(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return apply


class Numbers(click.ParamType[tuple[float, ...]]):
    """Numbers separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple(float(part) for part in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is no number, nor numbers separated by commas.", param, ctx)


as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
confidence = click.option(
    "--confidence", type=float, default=0.99, show_default=True, help="Of each estimate."
)
own_confidence = click.option("--confidence", type=float, help="Of each estimate.  [default: 0.99]")
drawing = options(
    click.option(
        "--until", metavar="CLAIM", help="Stop where 'p<=0.02' is decided; -n is the most draws."
    ),
    click.option(
        "--explore",
        type=click.Choice(["exact", "hybrid", "auto"]),
        help="Explore the likeliest outputs: known masses. auto: as far as that pays.",
    ),
    click.option(
        "--budget", type=int, help="Forwards per question, with --explore.  [default: 2000]"
    ),
)
attack = click.option(
    "--attack", type=int, metavar="BUDGET", help="Search for worst-case inputs: draws per question."
)
metrics = click.option(
    "--metrics", metavar="NAMES", help="Utility and memorisation: all, or names with commas."
)
no_attack = click.option("--attack", type=int, hidden=True)  # where it is refused, and why
inputs = options(
    click.option(
        "--inputs", metavar="SOURCE", help="Rewritings: none, benchmark, rules, file:F, model:NAME."
    ),
    click.option("--queries", type=int, help="Rewritings tried per question.  [default: 20]"),
    click.option("--ids", is_flag=True, default=None, help="Keep those answered most surely."),
    click.option("--ids-draws", type=int, help="Answers per query for that.  [default: 64]"),
    click.option(
        "--ids-criterion",
        type=click.Choice(["mean_prob", "mean_logprob", "mean_logprob_per_token"]),
        help="What sure means.  [default: mean_prob]",
    ),
    click.option(
        "--design",
        type=click.Choice(["allocated", "fixed", "fresh"]),
        help="How -n is shared among queries.  [default: allocated]",
    ),
    click.option("--embedder", metavar="NAME", help="Keep rewritings that mean the same."),
    click.option("--similarity", type=float, help="The least cosine for that.  [default: 0.8]"),
)
loading = options(
    click.option(
        "--dtype",
        type=click.Choice(["float32", "bfloat16", "float16", "auto"]),
        help="Of the weights; auto: as they are stored.",
    ),
    click.option(
        "--device",
        type=click.Choice(["cpu", "cuda", "auto"]),
        help="auto: a GPU where there is one.",
    ),
)
calibration = click.option(
    "--calibration",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Labelled items: allow for the judge's errors.",
)
scorers = click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="NAME",
    help="How texts are scored in [0, 1]; repeatable. 'NAME>=t' is binary.",
)
sampling = options(
    click.argument("model"),
    click.option("--benchmark", metavar="SPEC", help="Such as tofu:forget10 or my.csv."),
    click.option("--out", type=RUN, help="The run directory."),
    click.option("--control", metavar="MODEL|RUN", help="A model that never saw the data."),
    click.option("-n", "n", type=int, help="Draws per question.  [default: 1024]"),
    click.option("--temperature", type=Numbers(), help="0 is greedy; a list: each.  [default: 1]"),
    click.option("--top-p", type=Numbers(), help="A list: each.  [default: 1, keeps all]"),
    click.option("--top-k", type=int, help="0 keeps all.  [default: 0]"),
    click.option("--max-new-tokens", type=int, help="[default: the benchmark's]"),
    click.option("--max-tokens", type=int, help="Of prompt and completion together."),
    click.option("--adaptive-temperature", type=float, metavar="C", help="Greedy above c_T = C."),
    click.option(
        "--adaptive-mode",
        type=click.Choice(["running", "two_pass"]),
        help="c_T: of the tokens so far, or of a greedy answer.  [default: running]",
    ),
    click.option("--stop", multiple=True, help="End a completion at this string."),
    click.option(
        "--data", type=click.Path(path_type=Path), help="Folder of the benchmark's files."
    ),
    click.option("--limit", type=int, help="Only the first questions."),
    click.option("--seed", type=int, help="[default: 0]"),
    click.option("--like", type=RUN, metavar="RUN", help="Take what is not said from this run."),
    click.option("--profile", metavar="NAME", help="Ask and draw as openunlearning, scholten, ..."),
    click.option("--system", help="System message for chat models."),
    click.option("--prompt-template", help="Plain prompt, with {question}; no chat template."),
    loading,
    click.option("--trust-remote-code", is_flag=True, help="Run code that came with the model."),
    click.option("--offline", is_flag=True, help="Never ask the hub."),
    click.option("--dry-run", is_flag=True, help="Probe, print what it would cost, and stop."),
)

_OF_INPUTS = {
    "queries": "queries", "ids": "ids", "ids_draws": "ids_draws", "ids_criterion": "criterion",
    "design": "design", "embedder": "embedder", "similarity": "similarity",
}  # fmt: skip
_OF_BENCHMARK = {"benchmark": "spec", "data": "data", "limit": "limit", "profile": "profile"}
_OF_SETTINGS = {
    "dtype": "dtype", "device": "device", "prompt_template": "template", "system": "system",
}  # fmt: skip
_OF_DECODING = (
    "top_k", "max_new_tokens", "max_tokens", "adaptive_temperature", "adaptive_mode", "stop",
)  # fmt: skip
_LISTED = ("temperature", "top_p")
_PLAIN = ("n", "until", "explore", "budget", "control", "seed", "confidence", "calibration")
NOT_OF_A_STUDY = ("model", "out", "like", "offline", "dry_run", "as_json")
"""Options that say where a command works and what it prints, not what is asked."""


def hold(folder: Path, command: str) -> None:
    """Take the lock of the run at `folder`, until the command that is running has ended."""
    from leakbound.store import locked

    click.get_current_context().with_resource(locked(folder, command))


def held_run(folder: Path, command: str) -> Run:
    """The run at `folder`, opened under its lock."""
    from leakbound.store import Run

    if (folder / "run.json").is_file():
        hold(folder, command)
    return Run.open(folder)


def asked(given: Mapping[str, Any]) -> tuple[Benchmark, Study]:
    """What a command asks for: what was given, else what the run of --like was asked.

    What neither says is left to the benchmark, its profile and the defaults. Raises InputError
    where that leaves no benchmark, or no folder for what is made, and for a profile that the run
    of --like does not have.
    """
    from leakbound.benchmarks import load_benchmark
    from leakbound.engines.servers import servers_of

    like = _of_like(given)
    task = load_benchmark(**_benchmark(given, like))
    said = {name: given[name] for name in _PLAIN if given.get(name) is not None}
    if scorers := given.get("scorers"):
        said["scorers"] = tuple(scorers)
    if metrics := given.get("metrics"):
        said["metrics"] = asked_metrics(metrics)
    settings = {field: given[name] for name, field in _OF_SETTINGS.items() if given[name]}
    # Running a model's own code is said each time, never taken over from a record.
    settings["trust_remote_code"] = given["trust_remote_code"]
    inputs = _inputs(given, like.inputs)
    # What --like names is somebody else's word: it sends nothing to a server.
    rewriters = inputs.models if inputs is not None and given["inputs"] else ()
    study = replace(
        like,
        inputs=inputs,
        attack=_attack(given, like.attack),
        decoding=_varied(like.decoding or (task.decoding,), given),
        settings=replace(like.settings, **settings),
        servers=servers_of(given.get("scorers") or (), rewriters),
        **said,
    )
    # What --like says of one way of drawing is nothing where another is asked for.
    if "n" in said and "explore" not in said:
        study = replace(study, explore=None)
    if study.explores and "n" not in said:
        study = replace(study, n=None)
    if not study.explores and "budget" not in said:
        study = replace(study, budget=None)
    return task, study


def _of_like(given: Mapping[str, Any]) -> Study:
    """The study of the run that --like names, without a control where another is given."""
    from leakbound.evaluation import STUDY_FIELDS, Study

    if given["like"] is None:
        return Study()
    from leakbound.store import Run

    names = [*STUDY_FIELDS]
    if given["control"] is not None:
        names.remove("control")
    return Study.of(Run.open(given["like"]), *names)


def _benchmark(given: Mapping[str, Any], like: Study) -> dict[str, Any]:
    """The arguments of `load_benchmark`."""
    if like.benchmark and given["profile"] not in (None, like.benchmark.profile):
        raise InputError(
            f"the run that --like names has profile {like.benchmark.profile!r}, which settles what "
            f"--profile {given['profile']} would fill in. Leave one of them out."
        )
    known = {} if like.benchmark is None else asdict(like.benchmark)
    named = {field: given[name] for name, field in _OF_BENCHMARK.items() if given[name] is not None}
    how = known | named
    needed = {"benchmark": how.get("spec"), "out": given["out"] or given["dry_run"]}
    for name, value in needed.items():
        if not value:
            raise InputError(f"`--{name}` is missing. Add it, see `leakbound evaluate --help`.")
    return how


def _varied(decodings: Sequence[Decoding], given: Mapping[str, Any]) -> tuple[Decoding, ...]:
    """The decodings with what was given in place of their own; every combination of what is listed.

    What one decoding has no list of stays as it is.
    """
    said = {name: given[name] for name in _OF_DECODING if given[name] not in (None, ())}
    varied = [replace(decoding, **said) for decoding in decodings]
    if given["adaptive_mode"] and any(one.adaptive_temperature is None for one in varied):
        raise InputError(
            f"--adaptive-mode {given['adaptive_mode']} says how a temperature adapts, and none "
            "does. Add --adaptive-temperature C, or leave it out."
        )
    for name in _LISTED:
        if values := given[name]:
            rest = dict.fromkeys(replace(decoding, **{name: values[0]}) for decoding in varied)
            varied = [replace(decoding, **{name: value}) for decoding in rest for value in values]
    return tuple(varied)


def _inputs(given: Mapping[str, Any], like: Inputs | None) -> Inputs | None:
    """The rewritings that are asked for; None where there are none."""
    from leakbound.evaluation import Inputs

    source = given["inputs"]
    named = {field: given[option] for option, field in _OF_INPUTS.items()}
    known = {field: value for field, value in named.items() if value is not None}
    if source == "none" or (source is None and like is None):
        _refuse_idle(given, dict.fromkeys(_OF_INPUTS, "inputs"))
        return None
    if like is None:
        asked = Inputs(source=source, **known)
    else:
        asked = replace(like, **known, **({} if source is None else {"source": source}))
    if not asked.ids:
        _refuse_idle(given, dict.fromkeys(("ids_draws", "ids_criterion"), "ids"))
    return asked


def _refuse_idle(given: Mapping[str, Any], idle: Mapping[str, str]) -> None:
    """Refuse options that have no meaning without one that is not there."""
    for option, needed in idle.items():
        if given.get(option) is not None:
            value = "" if given[option] is True else f" {given[option]}"
            raise InputError(
                f"`--{option.replace('_', '-')}`{value} has no meaning without "
                f"`--{needed}`. Add that, or leave it out."
            )


def _attack(given: Mapping[str, Any], like: Attack | None) -> Attack | None:
    from leakbound.evaluation import Attack

    budget = given.get("attack")
    if budget is None:
        return like
    return Attack(budget) if like is None else replace(like, budget=budget)


def asked_metrics(names: str | None) -> tuple[str, ...]:
    """The metrics that a list with commas names."""
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())


def labelled(calibration: Path | str | None, scorers: Sequence[Any]) -> Path | None:
    """The file of labelled items, once it has been read and the judge it is about is found."""
    if calibration is None:
        return None
    from leakbound.evaluation import judge_of, read_items

    judge_of(scorers)
    read_items(Path(calibration))
    return Path(calibration)
