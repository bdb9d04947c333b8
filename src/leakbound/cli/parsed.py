"""Parsed options of a command, and the values that they become."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from leakbound.errors import InputError

if TYPE_CHECKING:
    from leakbound.store import Run
    from leakbound.study import Rewritings, SamplingPlan, Study
    from leakbound.types import Decoding, Workers

Value = TypeVar("Value")
_LISTED = {"temperature": "temperatures", "top_p": "top_ps"}
"""Fields of a decoding, and the options that list several values: all combinations are drawn."""


class Parsed:
    """The options of a command by the names of its parameters; None if one was not given."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._given = values

    def __getattr__(self, option: str) -> Any:
        try:
            return self._given[option]
        except KeyError:
            raise AttributeError(f"the command has no option {option!r}") from None

    def value(self, option: str) -> Any:
        """Return the value of an option; None if it was not given, or the command has none such."""
        return self._given.get(option)

    def into(self, value: Value, /, *named: str, **renamed: str) -> Value:
        """Return the value with the given ones of these options, or of field=option, in place."""
        options = {name: name for name in named} | renamed
        values = {name: self.value(option) for name, option in options.items()}
        stated = {name: v for name, v in values.items() if v not in (None, ())}
        return replace(value, **stated)  # type: ignore[type-var]

    def into_each(self, value: Value, /, **renamed: str) -> Value:
        """Do the same for every field; its option has its name unless another is named."""
        own = (field.name for field in fields(value))  # type: ignore[arg-type]
        return self.into(value, *own, **renamed)

    def refuse(self, options: Iterable[str], why: str) -> None:
        """Refuse any of these options that was given, for the reason."""
        for option in options:
            if (value := self.value(option)) not in (None, ()):
                if isinstance(value, tuple):  # of a repeatable option, whose name is in the plural
                    option, value = option.removesuffix("s"), value[0]
                shown = "" if isinstance(value, bool) else f" {value}"
                raise InputError(f"`--{option.replace('_', '-')}`{shown} {why}")

    def refuse_without(self, needed: str, options: Iterable[str]) -> None:
        """Refuse options that have no effect without another one, which was not given."""
        why = f"has no meaning without `--{needed}`. Add that, or leave it out."
        self.refuse(options, why)


def hold(folder: Path, command: str) -> Path:
    """Take the lock of the run at `folder`, until the command that is running has ended."""
    from leakbound.store import locked

    click.get_current_context().with_resource(locked(folder, command))
    return folder


def locked_run(folder: Path, command: str) -> Run:
    """Open the run at `folder` under its lock."""
    from leakbound.store import Run

    if (folder / "run.json").is_file():
        hold(folder, command)
    return Run.open(folder)


def study_from(options: Parsed) -> Study:
    """Return the study of a command: as its options state, else as --study or --like has it.

    Raises InputError for options that have no effect without others, and for a profile that the
    base does not have.
    """
    from leakbound.engines.addresses import servers_of
    from leakbound.store import Run
    from leakbound.study import Attack, Prove, Study
    from leakbound.types import Decoding

    if options.study is not None and options.like is not None:
        raise InputError("--study and --like both name a study. Leave one of them out.")
    base = Study() if options.like is None else Run.open(options.like).study
    base = base if options.study is None else Study.read(options.study)
    if base.benchmark and options.profile not in (None, base.profile):
        raise InputError(
            f"the study that --study or --like names has profile {base.profile!r}, which settles "
            f"what --profile {options.profile} would fill in. Leave one of them out."
        )
    if options.value("prove_budget") is None and base.prove is None:
        options.refuse_without("prove", ["proposals"])
    settings = options.into_each(base.settings, template="prompt_template")
    study = replace(
        options.into_each(base),
        sampling=_sampling(options, base.sampling),
        rewritings=_rewritings(options, base),
        attack=_search(options, base.attack, Attack, budget="attack_budget"),
        prove=_search(options, base.prove, Prove, forwards="prove_budget", proposals="proposals"),
        workers=workers_from(options),
        # Both are stated each time, never taken over from a file.
        allow_unmatched=bool(options.value("allow_unmatched")),
        settings=replace(settings, trust_remote_code=bool(options.trust_remote_code)),
    )
    # A file may be anybody's: the names in it send nothing to a server.
    rewriters = study.rewritings.models if study.rewritings and options.value("inputs") else ()
    study = replace(study, servers=servers_of(options.value("scorers") or (), rewriters))
    own = [_LISTED.get(field.name, field.name) for field in fields(Decoding)]
    if not any(options.value(option) not in (None, ()) for option in own):
        return study
    task = study.load()
    return replace(study, decodings=_varied(options, study.decodings or (task.decoding,)))


def models_from(options: Parsed) -> tuple[str, str | None]:
    """Return the model and its control, which --like may name, each with the stated engine.

    Raises UnnamedServerError for a control of that run on a server that the user does not name.
    """
    from leakbound.engines.addresses import require_named_control, servers_of
    from leakbound.store import Run

    model = _located(options, options.model)
    if options.control is not None:
        return model, _located(options, options.control)
    control = None if options.like is None else Run.open(options.like).control
    if control is not None:
        require_named_control(control, options.model, servers_of(options.value("scorers") or ()))
    return model, control


def _located(options: Parsed, model: str) -> str:
    """Return a model's name with the stated engine, and at a server with the options for servers.

    A run, whose model was drawn already, keeps its name.
    """
    from leakbound.engines import engine_of, location_of
    from leakbound.engines.addresses import server_of

    engine: str | None = options.engine
    if engine is not None and not (Path(model) / "run.json").is_file():
        own, where = engine_of(model)
        if where != model and own != engine:
            raise InputError(
                f"`{model}` names its engine, and `--engine {engine}` another. Leave one of them "
                "out."
            )
        model = location_of(engine, where)
    given = [f"patience={options.patience}"] if options.patience is not None else []
    given += ["unlisted=on"] if options.unlisted else []
    if not given or server_of(model) is None:
        return model
    return f"{model}{'&' if '?' in model else '?'}{'&'.join(given)}"


def _sampling(options: Parsed, base: SamplingPlan) -> SamplingPlan:
    """Return the way of drawing: as the options state, else as the base has it.

    Only -n turns an exploration into a fixed number of draws.
    """
    from leakbound.study import Explore, FixedN, Until

    n, until, explore = map(options.value, ("n", "until", "explore"))
    if until == "none":
        base, until = FixedN(), None
    if until is not None and explore is not None:
        raise InputError(
            f"`until` and `explore` {explore!r} are two ways of drawing. Choose one: `until` stops "
            "early, `explore` explores the likeliest outputs."
        )
    if explore is not None or (isinstance(base, Explore) and until is None and n is None):
        if n is not None:
            raise InputError(
                f"`n` {n} has no meaning with exploring: the draws of an exploration follow from "
                "`--explore` and its `forwards`. Leave one out."
            )
        return base if explore is None else _with_settings(Explore, "explore", explore)
    if until is not None and not isinstance(base, Until):
        base = Until(until, base.n if isinstance(base, FixedN) else None)
    if isinstance(base, Until):
        return options.into(base, claim="until", most="n")
    return FixedN(n if n is not None or not isinstance(base, FixedN) else base.n)


def _varied(options: Parsed, decodings: Sequence[Decoding]) -> tuple[Decoding, ...]:
    """Return the decodings with the stated settings, in every combination of listed values."""
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


def _with_settings(kind: type[Value], option: str, text: str, **usual: Any) -> Value:
    """Return the value that an option names by `FIRST,field=value,...`, over the usual fields."""
    import yaml

    from leakbound.types import from_json

    first, *settings = re.split(r",(?=\w+=)", text)
    pairs = (setting.split("=", 1) for setting in settings)
    stated = {name: yaml.safe_load(value) for name, value in pairs}
    named = {fields(kind)[0].name: first}  # type: ignore[arg-type]
    return from_json(kind, {**usual, **named, **stated}, f"`--{option}`", by_hand=True)


def _rewritings(options: Parsed, study: Study) -> Rewritings | None:
    """Return the rewritings that are requested; None if there are none but those of a profile."""
    from leakbound.benchmarks import profiles
    from leakbound.study import Rewritings

    text = options.value("inputs")
    if text is None:
        return study.rewritings
    profile = profiles().get(options.value("profile") or study.profile or "")
    own = profile.rewritings if profile else {}
    if text == "none" and not own:
        return None
    plan = _with_settings(Rewritings, "inputs", text, **own)
    if not plan.ids and re.search(",(ids_draws|criterion)=", text):
        raise InputError(
            f"`--inputs` {text} says how inputs are selected, and selects none. Add `ids=yes`, or "
            "leave it out."
        )
    return plan


def workers_from(options: Parsed) -> Workers | None:
    """Return the workers that draw; None if this process does."""
    from leakbound.engines.ray_workers import RayWorkers

    ray = options.value("ray")
    return None if ray is None else _with_settings(RayWorkers, "ray", ray)


def _search(options: Parsed, base: Value | None, kind: Any, **named: str) -> Value | None:
    """Return a search as the options state it, else as the base has it; the first is its budget."""
    budget = options.value(next(iter(named.values())))
    if budget is None and base is None:
        return None
    return options.into(base or kind(budget), **named)
