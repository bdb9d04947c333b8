"""Engines: what draws completions. A new one joins by its module and one row of `ENGINES`.

A member is a function `open(location, prompting, **loading) -> Generate`: `location` is what
follows the colon of `NAME:location`. Third parties add theirs in the entry-point group
`leakbound.engines`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leakbound.engines.prompting import Prompting as Prompting
from leakbound.errors import InputError, needing
from leakbound.registry import find, opening, require_parts
from leakbound.types import Generate, Query


def _transformers(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from leakbound.engines.hf import TransformersEngine  # torch loads when a model does

    return TransformersEngine.open(location, prompting, **loading)


def _vllm(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from leakbound.engines.vllm import VllmEngine

    return VllmEngine.open(location, prompting, **loading)


def _openai(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from leakbound.engines.openai import ServedEngine

    return ServedEngine.open(location, prompting, **loading)


ENGINES: dict[str, Callable[..., Generate]] = {
    "transformers": _transformers,
    "vllm": _vllm,
    "openai": _openai,
}

LOCAL = {"transformers", "vllm"}
"""Engines that load a model by its name alone."""

# What installs an engine; "models" where it does not stand here.
_EXTRAS = {"vllm": "vllm", "openai": "judge"}


def engine_of(location: str) -> tuple[str, str]:
    """The engine that a model's name asks for, and the rest of it.

    `NAME:where` names one; anything else, and a folder that exists, is a transformers model.
    Raises InputError for `auto:where`, which names none.
    """
    name, colon, where = location.partition(":")
    if not colon or not re.fullmatch(r"[\w-]+", name) or Path(location).exists():
        return "transformers", location
    if name == "auto":
        raise InputError(
            f"`{location}` names no engine: `auto:MODEL` and `--engine auto`, which tried every "
            "engine on a few draws to choose one, were taken out. Name it, as in --engine "
            "transformers or --engine vllm; the table of docs/engines.md says which when."
        )
    return name, where


def location_of(engine: str, model: str) -> str:
    """A model's name that asks for this engine, as `engine_of` reads it."""
    return model if engine == "transformers" else f"{engine}:{model}"


def open_engine(
    location: str, prompting: Prompting, *, asked: Sequence[Query] = (), **loading: Any
) -> Generate:
    """The engine for `location`, as `engine_of` reads it.

    A chat template that cannot write the prompts of what is `asked` is told before weights are
    read, of a model that is loaded here.
    Raises InputError for an engine that is not known, and for what the engine refuses.
    """
    if not location:
        raise InputError("the model's name is empty. Give a folder, a hub name or engine:location.")
    name, where = engine_of(location)
    opens = find("engine", ENGINES, name)
    first = {"asked": asked} if name in LOCAL else {}
    with needing("running a model", _EXTRAS.get(name, "models")), opening("engine", name):
        engine = opens(where, prompting, **first, **loading)
    require_parts("engine", name, engine, ("usage", "fingerprint", "check", "generate"))
    return engine
