"""Engines: what draws completions. A new one joins by its module and one row of `ENGINES`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from residua.engines.prompting import Prompting as Prompting
from residua.errors import InputError
from residua.types import Generate


def _transformers(location: str, prompting: Prompting, **loading: Any) -> Generate:
    from residua.engines.hf import TransformersEngine  # torch loads when a model does

    return TransformersEngine.open(location, prompting, **loading)


ENGINES: dict[str, Callable[..., Generate]] = {"transformers": _transformers}


def open_engine(location: str, prompting: Prompting, **loading: Any) -> Generate:
    """The engine for `location`: `NAME:where` for a named engine, else a transformers model."""
    name, colon, where = location.partition(":")
    if not location:
        raise InputError("the model's name is empty. Give a folder, a hub name or engine:location.")
    if colon and name in ENGINES:
        return ENGINES[name](where, prompting, **loading)
    try:
        return ENGINES["transformers"](location, prompting, **loading)
    except ModuleNotFoundError as error:
        raise InputError(
            f"running a model needs {error.name}, which is not installed. "
            "Install it with `pip install 'residua[models]'`."
        ) from error
