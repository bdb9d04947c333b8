"""Options that several commands share, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from leakbound.cli.help import (
    ASKED,
    DRAWN,
    LOADED,
    REWRITTEN,
    SCORED,
    SPREAD,
    WRITTEN,
    Decorated,
    under,
)
from leakbound.errors import InputError

if TYPE_CHECKING:
    from leakbound.cli.said import Said
    from leakbound.store import Run
    from leakbound.study import Attack, Prove, Rewritings, SamplingPlan, Study
    from leakbound.types import Decoding, Workers

RUN = click.Path(path_type=Path, file_okay=False)
FILE = click.Path(path_type=Path, dir_okay=False)


def names(value: str) -> tuple[str, ...]:
    """Words separated by commas: a type of options."""
    return tuple(part.strip() for part in value.split(",") if part.strip())


def numbers(value: str) -> tuple[float, ...]:
    """Numbers separated by commas: a type of options."""
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError as error:
        said = f"{value!r} is no number, nor numbers separated by commas."
        raise click.BadParameter(said) from error


def removed(option: str, why: str) -> Callable[[Decorated], Decorated]:
    """An option that was taken out: it is refused, and `why` says what serves instead."""

    def refuse(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            raise InputError(f"`{option}` {value}: {why}")

    return click.option(option, hidden=True, expose_value=False, callback=refuse)


as_json = under(
    WRITTEN, click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
)
confidence = click.option(
    "--confidence", type=float, default=0.99, show_default=True, help="Of each estimate."
)
asking = under(
    ASKED,
    click.option(
        "--benchmark",
        metavar="SPEC",
        help="Such as tofu:forget10 or my.csv.",
    ),
    click.option(
        "--data", type=click.Path(path_type=Path), help="Folder of the benchmark's files."
    ),
    click.option("--limit", type=int, help="Only the first questions."),
    click.option(
        "--profile",
        metavar="NAME",
        help="Ask and draw as openunlearning, scholten, ...",
    ),
    click.option("--study", type=FILE, help="YAML: take what is not said from it."),
    click.option("--like", type=RUN, metavar="RUN", help="Take what is not said from this run."),
    click.option("--system", help="System message for chat models."),
    click.option("--prompt-template", help="Plain prompt, with {question}; no chat template."),
)
drawing = under(
    DRAWN,
    click.option("-n", "n", type=int, help="Draws per question.  [default: 1024]"),
    click.option(
        "--temperature",
        "temperatures",
        type=numbers,
        help="0 is greedy; a list: each.  [default: 1]",
    ),
    click.option("--top-p", "top_ps", type=numbers, help="A list: each.  [default: 1, keeps all]"),
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
    click.option("--seed", type=int, help="[default: 0]"),
)
steering = under(
    DRAWN,
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
inputs = under(
    REWRITTEN,
    click.option(
        "--inputs",
        metavar="SOURCE",
        help="Rewritings by a source: rules, file:F, model:NAME …",
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
attack = under(
    REWRITTEN,
    click.option(
        "--attack",
        "attack_budget",
        type=int,
        metavar="BUDGET",
        help="Search for the input that leaks most: draws per question, or proofs for as much.",
    ),
)
PROPOSAL = (
    "A finished run whose leaking answers are tried too, such as of the model before unlearning; "
    "repeatable."
)
proving = under(
    SCORED,
    click.option(
        "--prove",
        "prove_budget",
        type=int,
        metavar="BUDGET",
        help="Search for leaks too rare to be drawn: forwards per question.",
    ),
    click.option("--proposal", "proposals", multiple=True, metavar="RUN", help=PROPOSAL),
)
no_attack = click.option("--attack", "attack_budget", type=int, hidden=True)  # refused, and why
scorers = click.option(
    "--scorer",
    "scorers",
    multiple=True,
    metavar="NAME",
    help="How texts are scored in [0, 1]; repeatable. 'NAME>=t' is binary.",
)
calibration = click.option(
    "--calibration", type=FILE, help="Labelled items: allow for the scorer's errors."
)
metrics = click.option(
    "--metrics",
    type=names,
    help="Utility and memorisation: all, or names with commas.",
)
scoring = under(
    SCORED,
    scorers,
    calibration,
    click.option("--confidence", type=float, help="Of each estimate.  [default: 0.99]"),
    metrics,
)
precision = under(
    LOADED,
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
offline = under(LOADED, click.option("--offline", is_flag=True, help="Never ask the hub."))
models = under(
    LOADED,
    click.option(
        "--control",
        metavar="MODEL|RUN",
        help="A model that never saw the data, or its run: the excess over it is bounded.",
    ),
    click.option(
        "--engine",
        metavar="NAME",
        help="What draws, if not transformers.",
    ),
    precision,
    click.option("--trust-remote-code", is_flag=True, help="Run code that came with the model."),
    offline,
)
ray = under(
    SPREAD,
    click.option("--ray", metavar="ADDRESS|local", help="Let workers of a Ray cluster do it."),
    click.option("--ray-workers", type=int, help="At most.  [default: all there is room for]"),
    click.option("--ray-gpus", type=float, help="Of each; 0.5: two share one.  [default: 1 or 0]"),
    click.option("--ray-threads", type=int, help="Of each.  [default: 1]"),
)
reporting = under(
    SCORED,
    click.option("--report-to", type=names, help="Trackers, such as tensorboard,wandb."),
)
writing = under(
    WRITTEN,
    click.option("--out", type=RUN, help="The run directory."),
    click.option("--dry-run", is_flag=True, help="Probe, print what it would cost, and stop."),
    as_json,
)

_OF_RAY = ("ray_workers", "ray_gpus", "ray_threads")
_LISTED = {"temperature": "temperatures", "top_p": "top_ps"}
"""Fields of a decoding, and the options that list several: every combination is asked for."""
_OF_REWRITINGS = (
    "queries", "ids", "ids_draws", "ids_criterion", "design", "embedder", "similarity"
)  # fmt: skip


def hold(folder: Path, command: str) -> Path:
    """Take the lock of the run at `folder`, until the command that is running has ended."""
    from leakbound.store import locked

    click.get_current_context().with_resource(locked(folder, command))
    return folder


def held_run(folder: Path, command: str) -> Run:
    """The run at `folder`, opened under its lock."""
    from leakbound.store import Run

    if (folder / "run.json").is_file():
        hold(folder, command)
    return Run.open(folder)


def asked(said: Said) -> Study:
    """What a command asks: what was said, else what --study or the run of --like says.

    Raises InputError for options that say nothing without others, and for a profile that the
    base does not have.
    """
    from leakbound.engines.addresses import servers_of

    base = _base(said)
    _require_profile(said, base)
    settings = said.into_each(base.settings, template="prompt_template")
    study = replace(
        said.into_each(base),
        sampling=_sampling(said, base.sampling),
        rewritings=_rewritings(said, base.rewritings),
        attack=_attack(said, base.attack),
        prove=_prove(said, base.prove),
        workers=workers_of(said),
        # Running a model's own code is said each time, never taken over from a file.
        settings=replace(settings, trust_remote_code=bool(said.trust_remote_code)),
    )
    # What a file names is somebody else's word: it sends nothing to a server.
    rewriters = study.rewritings.models if study.rewritings and said.value("inputs") else ()
    study = replace(study, servers=servers_of(said.value("scorers") or (), rewriters))
    if not any(said.value(option) not in (None, ()) for option in _of_decodings()):
        return study
    task = study.load()
    return replace(study, decodings=_varied(said, study.decodings or (task.decoding,)))


def _of_decodings() -> list[str]:
    """The options that say how is drawn from a distribution."""
    from leakbound.types import Decoding

    return [_LISTED.get(field.name, field.name) for field in fields(Decoding)]


def _base(said: Said) -> Study:
    """The study that --study or --like names, to which the rest is said."""
    from leakbound.store import Run
    from leakbound.study import Study

    if said.study is not None and said.like is not None:
        raise InputError("--study and --like both name a study. Leave one of them out.")
    if said.study is not None:
        return Study.read(said.study)
    return Study() if said.like is None else Run.open(said.like).study


def models_of(said: Said) -> tuple[str, str | None]:
    """The model and its control, which --like may name, each with the engine that was said.

    Raises UnnamedServerError for a control of that run on a server that the user does not name.
    """
    from leakbound.engines.addresses import require_named_control, servers_of
    from leakbound.store import Run

    named: str | None = said.control
    if named is not None:
        return _drawn_by(said.engine, said.model), _drawn_by(said.engine, named)
    control = None if said.like is None else Run.open(said.like).control
    if control is not None:
        require_named_control(control, said.model, servers_of(said.value("scorers") or ()))
    return _drawn_by(said.engine, said.model), control


def _drawn_by(engine: str | None, model: str) -> str:
    """A model's name that asks for this engine; a run, which is drawn, as it is."""
    from leakbound.engines import engine_of, location_of

    if engine is None or (Path(model) / "run.json").is_file():
        return model
    own, where = engine_of(model)
    if where != model and own != engine:
        raise InputError(
            f"`{model}` names its engine, and `--engine {engine}` another. Leave one of them out."
        )
    return location_of(engine, where)


def _require_profile(said: Said, base: Study) -> None:
    if base.benchmark and said.profile not in (None, base.profile):
        raise InputError(
            f"the study that --study or --like names has profile {base.profile!r}, which settles "
            f"what --profile {said.profile} would fill in. Leave one of them out."
        )


def _sampling(said: Said, base: SamplingPlan) -> SamplingPlan:
    """How is drawn: as was said, for the rest as the base has it.

    -n alone makes a fixed number of draws of an exploration.
    """
    from leakbound.study import FORWARDS, Explore, FixedN, Until

    n, until, explore, budget = map(said.value, ("n", "until", "explore", "budget"))
    if until == "none":
        base, until = FixedN(), None
    if until is not None and explore is not None:
        raise InputError(
            f"`until` and `explore` {explore!r} are two ways of drawing. Choose one: `until` stops "
            "early, `explore` explores the likeliest outputs."
        )
    explores = explore is not None or (isinstance(base, Explore) and until is None and n is None)
    if (explores and n is not None) or (not explores and budget is not None):
        name, number, how = ("n", n, "with") if explores else ("budget", budget, "without")
        raise InputError(
            f"`{name}` {number} has no meaning {how} exploring: the draws of an exploration follow "
            "from its --explore and --budget, those of a sample are -n. Leave one out."
        )
    if explores:
        usual = base if isinstance(base, Explore) else Explore(explore, FORWARDS)
        return said.into(usual, mode="explore", forwards="budget")
    if until is not None and not isinstance(base, Until):
        base = Until(until, base.n if isinstance(base, FixedN) else None)
    if isinstance(base, Until):
        return said.into(base, claim="until", most="n")
    return FixedN(n if n is not None or not isinstance(base, FixedN) else base.n)


def _varied(said: Said, decodings: Sequence[Decoding]) -> tuple[Decoding, ...]:
    """The decodings with what was said in place of their own; every combination of what is listed.

    What one decoding has no list of stays as it is.
    """
    varied = [said.into_each(decoding) for decoding in decodings]
    if said.adaptive_mode and any(one.adaptive_temperature is None for one in varied):
        raise InputError(
            f"--adaptive-mode {said.adaptive_mode} says how a temperature adapts, and none does. "
            "Add --adaptive-temperature C, or leave it out."
        )
    for name, listed in _LISTED.items():
        if values := said.value(listed):
            rest = dict.fromkeys(replace(decoding, **{name: values[0]}) for decoding in varied)
            varied = [replace(decoding, **{name: value}) for decoding in rest for value in values]
    return tuple(varied)


def _rewritings(said: Said, base: Rewritings | None) -> Rewritings | None:
    """The rewritings that are asked for; None where there are none."""
    from leakbound.study import Rewritings

    source = said.value("inputs")
    if source == "none" or (source is None and base is None):
        _refuse_idle(said, _OF_REWRITINGS, "inputs")
        return None
    asked = said.into_each(base or Rewritings(source), source="inputs", criterion="ids_criterion")
    if not asked.ids:
        _refuse_idle(said, ("ids_draws", "ids_criterion"), "ids")
    return asked


def workers_of(said: Said) -> Workers | None:
    """The workers that draw; None where this process does."""
    from leakbound.study import RayWorkers

    if said.value("ray") is None:
        _refuse_idle(said, _OF_RAY, "ray")
        return None
    named = dict(zip(("most", "gpus", "threads"), _OF_RAY, strict=True))
    return said.into(RayWorkers(said.ray), **named)


def _refuse_idle(said: Said, idle: Iterable[str], needed: str) -> None:
    """Refuse options that have no meaning without one that is not there."""
    for option in idle:
        if (value := said.value(option)) is not None:
            shown = "" if value is True else f" {value}"
            raise InputError(
                f"`--{option.replace('_', '-')}`{shown} has no meaning without `--{needed}`. Add "
                "that, or leave it out."
            )


def _attack(said: Said, base: Attack | None) -> Attack | None:
    from leakbound.study import Attack

    budget = said.value("attack_budget")
    return base if budget is None else replace(base or Attack(budget), budget=budget)


def _prove(said: Said, base: Prove | None) -> Prove | None:
    from leakbound.study import Prove

    budget = said.value("prove_budget")
    if budget is None and base is None:
        if said.value("proposals"):
            raise InputError(
                f"`--proposal` {said.proposals[0]} has no meaning without `--prove`. Add that, or "
                "leave it out."
            )
        return None
    return said.into(base or Prove(budget), "proposals", forwards="prove_budget")
