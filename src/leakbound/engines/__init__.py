"""Engines: what draws completions. A new one joins by its module and one row of `ENGINES`.

A member is a function `open(location, prompting, **loading) -> Generate`: `location` is what
follows the colon of `NAME:location`. Third parties add theirs in the entry-point group
`leakbound.engines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakbound.engines.prompting import Prompting as Prompting
from leakbound.errors import InputError, needing
from leakbound.registry import find, opening, require_parts
from leakbound.types import Generate


def _transformers(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from leakbound.engines.hf import TransformersEngine  # torch loads when a model does

    return TransformersEngine.open(location, prompting, **loading)


def _vllm(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from leakbound.engines.vllm import VllmEngine

    return VllmEngine.open(location, prompting, **loading)


ENGINES: dict[str, Callable[..., Generate]] = {"transformers": _transformers, "vllm": _vllm}

_EXTRAS = {"vllm": "vllm"}  # what installs an engine; "models" where it does not stand here


def open_engine(location: str, prompting: Prompting, **loading: Any) -> Generate:
    """The engine for `location`: `NAME:where` for a named engine, else a transformers model.

    A folder that exists is a model, colons in its name or not. Raises InputError for an engine
    that is not known, and for what the engine refuses.
    """
    name, colon, where = location.partition(":")
    if not location:
        raise InputError("the model's name is empty. Give a folder, a hub name or engine:location.")
    if not colon or not re.fullmatch(r"[\w-]+", name) or Path(location).exists():
        name, where = "transformers", location
    opens = find("engine", ENGINES, name)
    with needing("running a model", _EXTRAS.get(name, "models")), opening("engine", name):
        engine = opens(where, prompting, **loading)
    require_parts("engine", name, engine, ("usage", "fingerprint", "check", "generate"))
    return engine
