"""Objectives as users write them: one line of text, or a YAML file.

`npo+entropy` joins two recipes; `npo:beta=0.05+entropy:retain=-0.1` gives them settings;
`cel:phi-1.5,tau=0.8` starts from a preset. A file has the keys of `Objective.to_dict`:

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
from pathlib import Path
from typing import Any, cast

from leakbound.errors import InputError
from leakbound.losses import Setting, loss_named
from leakbound.losses.family import keywords, require_kind
from leakbound.objective.recipes import OBJECTIVES, PRESETS, Terms
from leakbound.objective.terms import Objective, Reduce, Term
from leakbound.registry import find, opening, require_parts, suggestion
from leakbound.text.yaml_file import read_yaml

_SUFFIXES = (".yaml", ".yml")
_WEIGHT = inspect.signature(Term).parameters["weight"]


def parse_objective(text: str) -> Objective:
    """The objective that `text` names: recipes joined by `+`, settings after a colon, or a file.

    Terms of weight 0 are left out. Raises InputError for an unknown recipe, preset or setting,
    for a setting its loss refuses, and where nothing is left to train.
    """
    if text.endswith(_SUFFIXES):
        return load_objective(text)
    terms = [term for part in text.split("+") for term in _recipe(part.strip())]
    return Objective(text, tuple(term for term in terms if term.weight != 0))


def load_objective(path: str | Path) -> Objective:
    """The objective in a YAML file, named after it if it has no name of its own.

    Read by the safe loader. Raises InputError for a file that is missing or no YAML, for an
    unknown or missing key, and for what a `Term` refuses.
    """
    content = _fields(read_yaml(Path(path)), {"terms"}, {"name"}, f"`{path}`")
    if not isinstance(content["terms"], list):
        raise InputError(
            f"`terms` of `{path}` must be a list, got {content['terms']!r}. "
            "Write one term a line, each after a dash."
        )
    terms = [_term(each, f"term {i} of `{path}`") for i, each in enumerate(content["terms"], 1)]
    name = str(content.get("name", Path(path).stem))
    return Objective(name, tuple(term for term in terms if term.weight != 0))


def _recipe(text: str) -> Terms:
    name, _, rest = text.partition(":")
    recipe = find("objective", OBJECTIVES, name)
    settings: dict[str, object] = {}
    for item in rest.split(",") if rest else ():
        key, equals, value = (part.strip() for part in item.partition("="))
        settings |= {key: value} if equals else _preset(name, key)
    with opening("objective", name):
        terms = tuple(recipe(**_converted(keywords(recipe), settings, f"objective {name!r}")))
    for term in terms:
        require_parts("objective", name, term, ("loss", "split", "weight", "settings", "reduce"))
    return terms


def _preset(recipe: str, name: str) -> Mapping[str, Setting]:
    presets = PRESETS.get(recipe, {})
    if name not in presets:
        raise InputError(
            f"objective {recipe!r} has no preset {name!r}, it has: {', '.join(presets) or 'none'}. "
            "A setting is written NAME=VALUE."
        )
    return presets[name]


def _term(content: object, where: str) -> Term:
    fields = _fields(content, {"loss", "split"}, {"weight", "settings", "reduce"}, where)
    loss = loss_named(str(fields["loss"]))
    settings = _mapping(fields.get("settings") or {}, f"`settings` of {where}")
    return Term(
        str(fields["loss"]),
        str(fields["split"]),
        float(_setting(_WEIGHT, fields.get("weight", _WEIGHT.default), where)),
        _converted(keywords(loss.function), settings, where),
        cast("Reduce", fields.get("reduce", "sequence")),
    )


def _fields(content: object, needed: set[str], others: set[str], where: str) -> dict[str, object]:
    """`content` as a mapping with all the needed keys, perhaps the others, and no more."""
    fields = _mapping(content, where)
    if unknown := sorted(set(fields) - needed - others):
        hint = suggestion(unknown[0], needed | others)
        raise InputError(f"{where} has an unknown key {unknown[0]!r}. {hint}")
    if missing := sorted(needed - set(fields)):
        raise InputError(f"{where} lacks the key {missing[0]!r}. Add it.")
    return fields


def _mapping(content: object, where: str) -> dict[str, object]:
    if not isinstance(content, dict):
        raise InputError(
            f"{where} must be a mapping of names to values, got {content!r}. Write NAME: VALUE."
        )
    return {str(key): value for key, value in content.items()}


def _converted(
    known: Mapping[str, inspect.Parameter], settings: Mapping[str, object], where: str
) -> dict[str, Setting]:
    """Settings as the kinds of those that are known; raises InputError for any other."""
    if unknown := sorted(set(settings) - set(known)):
        raise InputError(
            f"{where} has no setting {unknown[0]!r}. It takes: {', '.join(known) or 'none'}."
        )
    return {key: _setting(known[key], value, where) for key, value in settings.items()}


def _setting(parameter: inspect.Parameter, value: Any, where: str) -> Setting:
    """A setting as its kind; from text too, as lines are text and YAML reads 1e-5 as text."""
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
