"""Objectives as users write them: one line of text, or a YAML file.

`npo+entropy` joins two recipes. `npo:beta=0.05+entropy:retain=-0.1` also specifies settings of
these recipes. `cel:phi-1.5,tau=0.8` starts from the preset `phi-1.5`. A file has the keys of
`Objective.to_dict`:

    name: my objective
    terms:
      - {loss: npo, split: forget, settings: {beta: 0.05}}
      - {loss: kl, split: retain, weight: 2}
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from leakbound.errors import InputError
from leakbound.losses import Setting, loss_named
from leakbound.losses.family import keywords, require_kind
from leakbound.objective.recipes import OBJECTIVES, PRESETS, TRAINING, Terms
from leakbound.objective.terms import Dual, Objective, Reduce, Term
from leakbound.registry import find, opening, require_parts
from leakbound.text.rows import read_yaml
from leakbound.types import from_json

_SUFFIXES = (".yaml", ".yml")
_WEIGHT = inspect.signature(Term).parameters["weight"]


@dataclass(frozen=True, slots=True)
class _Term:
    """One entry of `terms` in an objective's YAML file."""

    loss: str
    split: str
    weight: object = _WEIGHT.default
    settings: Mapping[str, object] | None = None
    reduce: Reduce = "sequence"
    dual: Dual | None = None


@dataclass(frozen=True, slots=True)
class _File:
    """The content of an objective's YAML file."""

    terms: tuple[_Term, ...]
    name: str | None = None


def parse_objective(text: str) -> Objective:
    """Parse an objective: recipes joined by `+`, with settings after a colon, or a file's path.

    Terms of weight 0 are omitted. If several presets have training settings, the settings of the
    last one apply.

    Args:
        text: `npo:beta=0.05+entropy`, `cel:phi-1.5,tau=0.8`, or the path of a .yaml or .yml file.

    Returns:
        The objective. Its name is `text`, or the name in the file.

    Raises:
        InputError: an unknown recipe, preset or setting, a setting that its loss refuses, terms
            that all have weight 0, or a file that `load_objective` refuses.
    """
    if text.endswith(_SUFFIXES):
        return load_objective(text)
    terms, training = list[Term](), dict[str, Setting]()
    for part in text.split("+"):
        parsed, presets = _recipe(part.strip())
        terms += [term for term in parsed if term.trains]
        for preset in presets:
            training |= TRAINING.get(preset, {})
    return Objective(text, tuple(terms), training)


def load_objective(path: str | Path) -> Objective:
    """Load an objective from a YAML file; without `name`, the file's stem is the objective's name.

    Args:
        path: the file, which the safe YAML loader reads.

    Returns:
        The objective, without terms of weight 0.

    Raises:
        InputError: a file that is missing or not YAML, an unknown or missing key, a value that
            `Term` refuses, or terms that all have weight 0.
    """
    file = from_json(_File, read_yaml(Path(path)), f"`{path}`", by_hand=True)
    terms = [_term(term, f"term {i} of `{path}`") for i, term in enumerate(file.terms, 1)]
    name = Path(path).stem if file.name is None else file.name
    return Objective(name, tuple(term for term in terms if term.trains))


def _recipe(text: str) -> tuple[Terms, list[str]]:
    """Return the terms of a recipe with its settings, and its presets, such as `RECIPE:PRESET`."""
    name, _, written = text.partition(":")
    recipe = find("objective", OBJECTIVES, name)
    settings, presets = dict[str, object](), list[str]()
    for item in written.split(",") if written else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        if equals:
            settings[key] = value
            continue
        known = PRESETS.get(name, {})
        if key not in known:
            raise InputError(
                f"objective {name!r} has no preset {key!r}. Its presets are "
                f"{', '.join(known) or 'none'}. Write a setting as NAME=VALUE."
            )
        settings |= known[key]
        presets.append(f"{name}:{key}")
    with opening("objective", name):
        terms = tuple(recipe(**_converted(keywords(recipe), settings, f"objective {name!r}")))
    for term in terms:
        parts = ("loss", "split", "weight", "settings", "reduce", "trains")
        require_parts("objective", name, term, parts)
    return terms, presets


def _term(written: _Term, where: str) -> Term:
    parameters = keywords(loss_named(written.loss).function)
    settings = {str(name): value for name, value in (written.settings or {}).items()}
    return Term(
        written.loss,
        written.split,
        float(_setting(_WEIGHT, written.weight, where)),
        _converted(parameters, settings, where),
        written.reduce,
        written.dual,
    )


def _converted(
    parameters: Mapping[str, inspect.Parameter], settings: Mapping[str, object], where: str
) -> dict[str, Setting]:
    """Convert settings to the types of their defaults; raise InputError for an unknown setting."""
    if unknown := sorted(set(settings) - set(parameters)):
        raise InputError(
            f"{where} has no setting {unknown[0]!r}. Settings: {', '.join(parameters) or 'none'}."
        )
    return {key: _setting(parameters[key], value, where) for key, value in settings.items()}


def _setting(parameter: inspect.Parameter, value: Any, where: str) -> Setting:
    """Convert a setting, which may be text, to its type. For example, YAML parses 1e-5 as text."""
    if isinstance(parameter.default, str):
        return str(value)
    if isinstance(parameter.default, bool):
        value = {"true": True, "false": False}.get(str(value).lower(), value)
    elif not isinstance(value, bool):
        with suppress(TypeError, ValueError):
            value = float(value) if math.isfinite(float(value)) else value
    if parameter.name == "layer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    require_kind(parameter, value, where)
    return cast("Setting", value)
