"""Options that several commands share, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import click

from residua.errors import InputError

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
drawing = options(
    click.option(
        "--until", metavar="CLAIM", help="Stop where 'p<=0.02' is decided; -n is the most draws."
    ),
    click.option(
        "--certify",
        type=click.Choice(["exact", "hybrid", "sampled", "auto"]),
        help="Explore the likeliest outputs: certain masses. auto: as far as that pays.",
    ),
    click.option(
        "--budget", type=int, help="Forwards per question, with --certify.  [default: 2000]"
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
    click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16", "auto"])),
    click.option("--device", type=click.Choice(["cpu", "cuda", "auto"])),
)
calibration = click.option(
    "--calibration",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Labelled items: allow for the judge's errors.",
)
scorers = click.option(
    "--scorer", "scorers", multiple=True, metavar="NAME", help="h; repeatable. 'NAME>=t' is binary."
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

SETTINGS = (
    "benchmark", "profile", "n", "until", "certify", "budget", "attack", "metrics", "temperature",
    "top_p", "top_k", "max_new_tokens", "max_tokens", "adaptive_temperature", "stop", "data",
    "limit", "seed", "system", "prompt_template", "dtype", "device", "control", "scorers",
    "calibration", "inputs", "queries", "ids", "ids_draws", "ids_criterion", "design", "embedder",
    "similarity",
)  # fmt: skip
_DEFAULTS = {
    "n": 1024,
    "budget": 2000,
    "temperature": (1.0,),
    "top_p": (1.0,),
    "top_k": 0,
    "seed": 0,
    "dtype": "float32",
    "device": "auto",
}
_OF_INPUTS = {
    "queries": "queries", "ids": "ids", "ids_draws": "ids_draws", "ids_criterion": "criterion",
    "design": "design", "embedder": "embedder", "similarity": "similarity",
}  # fmt: skip


def resolve(given: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON can hold them: what was given, else --like's, --profile's, the default.

    Raises InputError where that leaves no benchmark, or no folder for what is made, and for a
    profile that the run of --like does not have.
    """
    like: dict[str, Any] = {}
    if given["like"] is not None:
        from residua.store import Run

        like = Run.open(given["like"]).record.get("settings", {})
    defaults = {**_DEFAULTS, **_of_profile(given, like)}
    settings: dict[str, Any] = {}
    for name in SETTINGS:
        value = given.get(name)
        if value in (None, ()):
            value = like.get(name, defaults.get(name))
        settings[name] = str(value.resolve()) if isinstance(value, Path) else value
    source, _, path = (settings["inputs"] or "").partition(":")
    if source == "file" and path:
        settings["inputs"] = f"file:{Path(path).resolve()}"
    _refuse_idle(given, settings)
    idle, says = ("n", "with") if explores(settings) else ("budget", "without")
    if given.get(idle) is not None:
        raise InputError(
            f"`{idle}` {given[idle]} has no meaning {says} exploring: the draws of an exploration "
            "follow from its --certify and --budget, those of a sample are -n. Leave one out."
        )
    needed = {"benchmark": settings["benchmark"], "out": given["out"] or given["dry_run"]}
    for name, value in needed.items():
        if not value:
            raise InputError(f"`--{name}` is missing. Add it, see `residua evaluate --help`.")
    return settings


def _of_profile(given: dict[str, Any], like: dict[str, Any]) -> Mapping[str, Any]:
    """What the profile that was asked for fills in."""
    asked = given.get("profile")
    if asked is None:
        return {}
    if like and like.get("profile") != asked:
        raise InputError(
            f"the run that --like names has profile {like.get('profile')!r}, which settles what "
            f"--profile {asked} would fill in. Leave one of them out."
        )
    from residua.benchmarks import PROFILES
    from residua.registry import find

    return find("profile", PROFILES, asked).settings


def asked_inputs(settings: dict[str, Any]) -> Any:
    """The rewritings that the settings ask for; None where they ask for none."""
    from residua.evaluation import Inputs

    if settings["inputs"] in (None, "none"):
        return None
    named = {field: settings[option] for option, field in _OF_INPUTS.items()}
    known = {field: value for field, value in named.items() if value is not None}
    return Inputs(source=settings["inputs"], **known)


def asked_metrics(settings: dict[str, Any]) -> tuple[str, ...]:
    """The metrics that the settings name."""
    names = (settings["metrics"] or "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def asked_attack(settings: dict[str, Any]) -> Any:
    """The search for worst-case inputs that the settings ask for; None where they ask for none."""
    from residua.evaluation import Attack

    return None if settings["attack"] is None else Attack(settings["attack"])


def labelled(calibration: Path | str | None, scorers: Sequence[Any]) -> Path | None:
    """The file of labelled items, once it has been read and the judge it is about is found."""
    if calibration is None:
        return None
    from residua.evaluation import judge_of, read_items

    judge_of(scorers)
    read_items(Path(calibration))
    return Path(calibration)


def _refuse_idle(given: dict[str, Any], settings: dict[str, Any]) -> None:
    """Refuse options that have no meaning without one that is not there."""
    idle = {option: "ids" for option in ("ids_draws", "ids_criterion") if not settings["ids"]}
    if settings["inputs"] in (None, "none"):
        idle = dict.fromkeys(_OF_INPUTS, "inputs")
    for option, needed in idle.items():
        if given.get(option) is not None:
            value = "" if given[option] is True else f" {given[option]}"
            raise InputError(
                f"`--{option.replace('_', '-')}`{value} has no meaning without "
                f"`--{needed}`. Add that, or leave it out."
            )


def explores(settings: dict[str, Any]) -> bool:
    """True if distributions are to be explored, not only drawn from."""
    return settings["certify"] not in (None, "sampled")


def decodings(settings: dict[str, Any], task: Any) -> Sequence[Any]:
    """Every combination of the temperatures and top-p listed; the rest as the benchmark has it."""
    from residua.types import Decoding

    length = settings["max_new_tokens"]
    return [
        Decoding(
            temperature=temperature,
            top_p=top_p,
            top_k=settings["top_k"],
            max_new_tokens=task.max_new_tokens if length is None else length,
            max_tokens=settings["max_tokens"],
            adaptive_temperature=settings["adaptive_temperature"],
            stop=tuple(settings["stop"] or task.stop),
        )
        for temperature, top_p in product(settings["temperature"], settings["top_p"])
    ]
