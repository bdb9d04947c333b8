"""Convert the parsed options of a command to values such as a `Study`."""

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
"""Fields of a decoding whose options accept a list of values. All combinations are drawn."""


class Parsed:
    """The options of a command, by parameter name. An omitted option is None."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self._values = dict(values)

    def __getattr__(self, option: str) -> Any:
        try:
            return self._values[option]
        except KeyError:
            raise AttributeError(f"the command has no option {option!r}") from None

    def value(self, option: str) -> Any:
        """Return the value of an option; None if it was left out or the command lacks it."""
        return self._values.get(option)

    @property
    def given(self) -> frozenset[str]:
        """The parameters that have a value."""
        return frozenset(name for name, v in self._values.items() if v not in (None, ()))

    def with_default(self, **values: object) -> Parsed:
        """Return a copy of the options in which these values replace the previous ones."""
        return Parsed(self._values | values)

    def stated(self, *named: str, **renamed: str) -> dict[str, Any]:
        """Return the values of these options by name; options that the user omitted are left out.

        `renamed` maps a name in the result to the option with another name.
        """
        options = {name: name for name in named} | renamed
        return {
            name: self.value(option) for name, option in options.items() if option in self.given
        }

    def into(self, value: Value, /, *named: str, **renamed: str) -> Value:
        """Return a copy of `value` with the values of these options, if given, as its fields."""
        return replace(value, **self.stated(*named, **renamed))  # type: ignore[type-var]

    def into_each(self, value: Value, /, **renamed: str) -> Value:
        """Return a copy of `value` with the values of all given options that are its fields."""
        own = (field.name for field in fields(value))  # type: ignore[arg-type]
        return self.into(value, *own, **renamed)

    def refuse(self, options: Iterable[str], why: str) -> None:
        """Raise InputError if the user passed one of these options; `why` ends the message."""
        refused = self.given.intersection(options)
        for name in (name for name in self._values if name in refused):
            params = click.get_current_context().command.params
            (written,) = (param.opts[-1] for param in params if param.name == name)
            value = self.value(name)
            value = value[0] if isinstance(value, tuple) else value
            shown = "" if isinstance(value, bool) else f" {value}"
            raise InputError(f"`{written}`{shown} {why}")

    def refuse_without(self, needed: str, options: Iterable[str]) -> None:
        """Raise InputError for an option that has no effect because `needed` was left out."""
        why = f"has no effect without `--{needed}`. Add `--{needed}`, or omit this option."
        self.refuse(options, why)


def hold(folder: Path, command: str) -> Path:
    """Lock the run at `folder` until the command ends."""
    from leakbound.store import locked

    click.get_current_context().with_resource(locked(folder, command))
    return folder


def locked_run(folder: Path, command: str) -> Run:
    """Lock the run at `folder` until the command ends, and open it."""
    from leakbound.store import Run

    if (folder / "run.json").is_file():
        hold(folder, command)
    return Run.open(folder)


def study_from(options: Parsed) -> Study:
    """Return the study of a command. Omitted options get the values of --study or --like.

    Raises InputError if both --study and --like are given, or if --profile differs from the profile
    of --study or --like.
    """
    from leakbound.engines.addresses import servers_of
    from leakbound.store import Run
    from leakbound.study import Attack, Prove, Study
    from leakbound.types import Decoding

    if options.study is not None and options.like is not None:
        raise InputError(
            f"--study {options.study} and --like {options.like} both specify a study. Omit one."
        )
    base = Study() if options.like is None else Run.open(options.like).study
    base = base if options.study is None else Study.read(options.study)
    if base.benchmark and options.profile not in (None, base.profile):
        raise InputError(
            f"`--profile` {options.profile} differs from {base.profile!r}, the profile of --study "
            "or --like. Omit one of the two options."
        )
    settings = options.into_each(base.settings, template="prompt_template")
    attack, prove = options.value("attack_budget"), options.value("prove_budget")
    study = replace(
        options.into_each(base),
        sampling=_sampling(options, base.sampling),
        rewritings=_rewritings(options, base),
        attack=base.attack if attack is None else with_settings(Attack, "--attack", attack),
        prove=base.prove if prove is None else with_settings(Prove, "--prove", prove),
        workers=workers_from(options),
        # Never read from a file: the user states these two in each command.
        allow_unmatched=bool(options.value("allow_unmatched")),
        settings=replace(settings, trust_remote_code=bool(options.trust_remote_code)),
    )
    # A file may come from a stranger: no server named in it gets requests.
    rewriters = study.rewritings.models if study.rewritings and options.value("inputs") else ()
    study = replace(study, servers=servers_of(options.value("scorers") or (), rewriters))
    own = [_LISTED.get(field.name, field.name) for field in fields(Decoding)]
    if options.given.isdisjoint(own):
        return study
    task = study.load()
    return replace(study, decodings=_varied(options, study.decodings or (task.decoding,)))


def models_from(options: Parsed) -> tuple[str, str | None]:
    """Return the model and its control, each with its engine.

    Without --control, the control is the control of the run in --like. Raises UnnamedServerError if
    this control is on a server that the user does not name in an option.
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
    """Return a model's name with the chosen engine, and with the options for its server.

    The name of a run is returned unchanged.
    """
    from leakbound.engines import engine_of, location_of
    from leakbound.engines.addresses import server_of

    engine: str | None = options.engine
    if engine is not None and not (Path(model) / "run.json").is_file():
        own, where = engine_of(model)
        if where != model and own != engine:
            raise InputError(
                f"`{model}` begins with its engine, but `--engine` names a different engine, "
                f"{engine}. Omit one of the two."
            )
        model = location_of(engine, where)
    given = [f"patience={options.patience}"] if options.patience is not None else []
    given += ["unlisted=on"] if options.unlisted else []
    if not given or server_of(model) is None:
        return model
    return f"{model}{'&' if '?' in model else '?'}{'&'.join(given)}"


def _sampling(options: Parsed, base: SamplingPlan) -> SamplingPlan:
    """Return the sampling plan of the options. Omitted options have the values of `base`.

    If `base` explores, the option -n replaces the exploration by a fixed number of draws.
    """
    from leakbound.study import Explore, FixedN, Until

    n, until, explore = map(options.value, ("n", "until", "explore"))
    if until == "none":
        base, until = FixedN(), None
    if until is not None and explore is not None:
        raise InputError(
            f"`--until` {until} and `--explore` {explore} are two sampling plans. Use --until to "
            "stop early, or --explore for probabilities of the likeliest outputs."
        )
    if explore is not None or (isinstance(base, Explore) and until is None and n is None):
        if n is not None:
            raise InputError(
                f"`-n` {n} has no effect with `--explore`, because its setting `forwards` "
                "determines the number of draws. Omit one of the two."
            )
        return base if explore is None else with_settings(Explore, "--explore", explore)
    if until is not None and not isinstance(base, Until):
        base = Until(until, base.n if isinstance(base, FixedN) else None)
    if isinstance(base, Until):
        return options.into(base, claim="until", most="n")
    return FixedN(n if n is not None or not isinstance(base, FixedN) else base.n)


def _varied(options: Parsed, decodings: Sequence[Decoding]) -> tuple[Decoding, ...]:
    """Return a decoding for each combination of the values that the options list."""
    from leakbound.types.decoding import AdaptiveMode

    if (text := options.adaptive_temperature) is not None:
        types = {"adaptive_temperature": float, "mode": AdaptiveMode}
        adaptive = _settings("--adaptive-temperature", text, types)
        options = options.with_default(adaptive_mode=adaptive.pop("mode", None), **adaptive)
    varied = [options.into_each(decoding) for decoding in decodings]
    for name, listed in _LISTED.items():
        if values := options.value(listed):
            bases = dict.fromkeys(replace(decoding, **{name: values[0]}) for decoding in varied)
            varied = [replace(decoding, **{name: value}) for decoding in bases for value in values]
    return tuple(varied)


def with_settings(kind: type[Value], option: str, text: str, **usual: Any) -> Value:
    """Parse an option `FIRST,field=value,...` into a `kind`; `usual` sets defaults of fields."""
    from leakbound.registry import setting_types

    types = setting_types("option", option, kind)
    values = usual | _settings(option, text, types)
    try:
        return kind(**values)
    except InputError as error:  # the first field has no name in the option
        raise InputError(str(error).replace(f"`{next(iter(types))}`", f"`{option}`")) from error


def _settings(option: str, text: str, types: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings in `FIRST,setting=value,...` by name; FIRST sets the first setting."""
    from leakbound.registry import read_settings, read_value, split_settings

    (name, first), (text, *others) = next(iter(types.items())), split_settings(text)
    stated = read_settings("option", option, ",".join(others), types)
    return {name: read_value(f"`{option}`", text, first), **stated}


def _rewritings(options: Parsed, study: Study) -> Rewritings | None:
    """Return the requested rewritings; None if there are none, or if only the profile has some."""
    from leakbound.benchmarks import profiles
    from leakbound.study import Rewritings

    text = options.value("inputs")
    if text is None:
        return study.rewritings
    profile = profiles().get(options.value("profile") or study.profile or "")
    own = profile.rewritings if profile else {}
    if text == "none" and not own:
        return None
    plan = with_settings(Rewritings, "--inputs", text, **own)
    if not plan.ids and re.search(",(ids_draws|criterion)=", text):
        raise InputError(
            f"`--inputs` {text} has settings for selecting rewritings, but selection is off. Add "
            "`ids=yes`, or omit `ids_draws` and `criterion`."
        )
    return plan


def workers_from(options: Parsed) -> Workers | None:
    """Return the Ray workers that draw; None if this process draws."""
    from leakbound.engines.ray_workers import RayWorkers

    ray = options.value("ray")
    return None if ray is None else with_settings(RayWorkers, "--ray", ray)
