"""The options that were said on the command line, and the values that they become."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leakbound.errors import InputError

if TYPE_CHECKING:
    from leakbound.store import Run
    from leakbound.study import Attack, Prove, Rewritings, SamplingPlan, Study
    from leakbound.types import Decoding, Workers

Value = TypeVar("Value")
_OF_RAY = ("ray_workers", "ray_gpus", "ray_threads")
_LISTED = {"temperature": "temperatures", "top_p": "top_ps"}
"""Fields of a decoding, and the options that list several: every combination is asked for."""
_OF_REWRITINGS = (
    "queries", "ids", "ids_draws", "ids_criterion", "design", "filters", "embedder", "similarity"
)  # fmt: skip


class Said:
    """The options of a command by the names of its parameters; None is what was not said."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._given = values

    def __getattr__(self, option: str) -> Any:
        try:
            return self._given[option]
        except KeyError:
            raise AttributeError(f"the command has no option {option!r}") from None

    def value(self, option: str) -> Any:
        """The value said for this option; None where none was, or there is no such option."""
        return self._given.get(option)

    def into(self, value: Value, /, *named: str, **renamed: str) -> Value:
        """The value with what was said in place of its own: of these options, or field=option."""
        options = {name: name for name in named} | renamed
        values = {name: self.value(option) for name, option in options.items()}
        stated = {name: v for name, v in values.items() if v not in (None, ())}
        return replace(value, **stated)  # type: ignore[type-var]

    def into_each(self, value: Value, /, **renamed: str) -> Value:
        """The same of every field, by the option of its name where no other is given for it."""
        own = (field.name for field in fields(value))  # type: ignore[arg-type]
        return self.into(value, *own, **renamed)


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


def study_from(options: Said) -> Study:
    """The study that a command asks: as was said, else as --study or the run of --like says.

    Raises InputError for options that say nothing without others, and for a profile that the
    base does not have.
    """
    from leakbound.engines.addresses import servers_of

    base = _base(options)
    _require_profile(options, base)
    settings = options.into_each(base.settings, template="prompt_template")
    study = replace(
        options.into_each(base),
        sampling=_sampling(options, base.sampling),
        rewritings=_rewritings(options, base),
        attack=_attack(options, base.attack),
        prove=_prove(options, base.prove),
        workers=workers_from(options),
        # Both are stated each time, never taken over from a file.
        allow_unmatched=bool(options.value("allow_unmatched")),
        settings=replace(settings, trust_remote_code=bool(options.trust_remote_code)),
    )
    # What a file names is somebody else's word: it sends nothing to a server.
    rewriters = study.rewritings.models if study.rewritings and options.value("inputs") else ()
    study = replace(study, servers=servers_of(options.value("scorers") or (), rewriters))
    if not any(options.value(option) not in (None, ()) for option in _of_decodings()):
        return study
    task = study.load()
    return replace(study, decodings=_varied(options, study.decodings or (task.decoding,)))


def _of_decodings() -> list[str]:
    """The options that say how is drawn from a distribution."""
    from leakbound.types import Decoding

    return [_LISTED.get(field.name, field.name) for field in fields(Decoding)]


def _base(options: Said) -> Study:
    """The study that --study or --like names, to which the rest is said."""
    from leakbound.store import Run
    from leakbound.study import Study

    if options.study is not None and options.like is not None:
        raise InputError("--study and --like both name a study. Leave one of them out.")
    if options.study is not None:
        return Study.read(options.study)
    return Study() if options.like is None else Run.open(options.like).study


def models_from(options: Said) -> tuple[str, str | None]:
    """The model and its control, which --like may name, each with the engine that was said.

    Raises UnnamedServerError for a control of that run on a server that the user does not name.
    """
    from leakbound.engines.addresses import require_named_control, servers_of
    from leakbound.store import Run

    named: str | None = options.control
    model = _served(options, _drawn_by(options.engine, options.model))
    if named is not None:
        return model, _served(options, _drawn_by(options.engine, named))
    control = None if options.like is None else Run.open(options.like).control
    if control is not None:
        require_named_control(control, options.model, servers_of(options.value("scorers") or ()))
    return model, control


def _served(options: Said, model: str) -> str:
    """The name of a model, at a server with the options that were given for servers."""
    from leakbound.engines.addresses import server_of

    given = [f"patience={options.patience}"] if options.patience is not None else []
    given += ["unlisted=on"] if options.unlisted else []
    if not given or server_of(model) is None:
        return model
    return f"{model}{'&' if '?' in model else '?'}{'&'.join(given)}"


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


def _require_profile(options: Said, base: Study) -> None:
    if base.benchmark and options.profile not in (None, base.profile):
        raise InputError(
            f"the study that --study or --like names has profile {base.profile!r}, which settles "
            f"what --profile {options.profile} would fill in. Leave one of them out."
        )


def _sampling(options: Said, base: SamplingPlan) -> SamplingPlan:
    """How is drawn: as was said, for the rest as the base has it.

    -n alone makes a fixed number of draws of an exploration.
    """
    from leakbound.study import FORWARDS, Explore, FixedN, Until

    n, until, explore, budget = map(options.value, ("n", "until", "explore", "budget"))
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
        return options.into(usual, mode="explore", forwards="budget")
    if until is not None and not isinstance(base, Until):
        base = Until(until, base.n if isinstance(base, FixedN) else None)
    if isinstance(base, Until):
        return options.into(base, claim="until", most="n")
    return FixedN(n if n is not None or not isinstance(base, FixedN) else base.n)


def _varied(options: Said, decodings: Sequence[Decoding]) -> tuple[Decoding, ...]:
    """The decodings with what was said in place of their own; every combination of what is listed.

    What one decoding has no list of stays as it is.
    """
    varied = [options.into_each(decoding) for decoding in decodings]
    if options.adaptive_mode and any(decoding.adaptive_temperature is None for decoding in varied):
        raise InputError(
            f"--adaptive-mode {options.adaptive_mode} says how a temperature adapts, and none "
            "does. Add --adaptive-temperature C, or leave it out."
        )
    for name, listed in _LISTED.items():
        if values := options.value(listed):
            bases = dict.fromkeys(replace(decoding, **{name: values[0]}) for decoding in varied)
            varied = [replace(decoding, **{name: value}) for decoding in bases for value in values]
    return tuple(varied)


def _rewritings(options: Said, study: Study) -> Rewritings | None:
    """The rewritings that are asked for; None where there are none."""
    from leakbound.benchmarks import PROFILES
    from leakbound.study import Rewritings

    source, base = options.value("inputs"), study.rewritings
    profile = PROFILES.get(options.value("profile") or study.profile or "")
    own = profile.rewritings if profile else {}
    if not own and (source == "none" or (source is None and base is None)):
        _refuse_idle(options, _OF_REWRITINGS, "inputs")
        return None
    plan = base or Rewritings(**{"source": source, **own})
    plan = options.into_each(plan, source="inputs", criterion="ids_criterion")
    if not plan.ids:
        _refuse_idle(options, ("ids_draws", "ids_criterion"), "ids")
    return plan


def workers_from(options: Said) -> Workers | None:
    """The workers that draw; None where this process does."""
    from leakbound.engines.ray_workers import RayWorkers

    if options.value("ray") is None:
        _refuse_idle(options, _OF_RAY, "ray")
        return None
    named = dict(zip(("most", "gpus", "threads"), _OF_RAY, strict=True))
    return options.into(RayWorkers(options.ray), **named)


def _refuse_idle(options: Said, idle: Iterable[str], needed: str) -> None:
    """Refuse options that have no meaning without one that is not there."""
    for option in idle:
        if (value := options.value(option)) is not None:
            name = f"{'no-' if value is False else ''}{option.replace('_', '-')}"
            shown = "" if isinstance(value, bool) else f" {value}"
            raise InputError(
                f"`--{name}`{shown} has no meaning without `--{needed}`. Add that, or leave it out."
            )


def _attack(options: Said, base: Attack | None) -> Attack | None:
    from leakbound.study import Attack

    budget = options.value("attack_budget")
    return base if budget is None else replace(base or Attack(budget), budget=budget)


def _prove(options: Said, base: Prove | None) -> Prove | None:
    from leakbound.study import Prove

    budget = options.value("prove_budget")
    if budget is None and base is None:
        if options.value("proposals"):
            raise InputError(
                f"`--proposal` {options.proposals[0]} has no meaning without `--prove`. Add that, "
                "or leave it out."
            )
        return None
    return options.into(base or Prove(budget), "proposals", forwards="prove_budget")
