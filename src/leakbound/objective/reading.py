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
from pathlib import Path
from typing import Any, cast

from leakbound.errors import InputError
from leakbound.losses import Setting, loss_named
from leakbound.losses.family import keywords
from leakbound.objective.recipes import OBJECTIVES, PRESETS, Terms
from leakbound.objective.terms import Objective, Reduce, Term
from leakbound.registry import find, opening, require_parts, suggestion
from leakbound.text.yaml_file import read_yaml

_SUFFIXES = (".yaml", ".yml")


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
        _number(fields.get("weight", 1.0), f"`weight` of {where}"),
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
    return {key: _as(known[key], value, where) for key, value in settings.items()}


def _as(parameter: inspect.Parameter, value: Any, where: str) -> Setting:
    what, default = f"`{parameter.name}` of {where}", parameter.default
    if isinstance(default, bool):
        return _truth(value, what)
    if isinstance(default, str):
        return str(value)
    number = _number(value, what)
    whole = parameter.name == "layer" and number.is_integer()
    return int(number) if whole else number


def _truth(value: Any, what: str) -> bool:
    words = {"true": True, "false": False}
    if str(value).lower() not in words:
        raise InputError(f"{what} must be true or false, got {value!r}. Change it.")
    return words[str(value).lower()]


def _number(value: Any, what: str) -> float:
    """A finite number; from text too, as YAML reads 1e-5 as text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{what} must be a finite number, got {value!r}. Change it.")
    return number
