"""Engines draw completions. To add an engine, add a module and a row of `ENGINES`.

Each row specifies a class with a function `open(location, prompting, **loading) -> Generate`, and
the extra (optional dependencies) of leakbound that installs the engine's library. `location` is the
part after the colon of `NAME:location`. Other packages add such a function in the entry-point group
`leakbound.engines`.
"""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from leakbound.engines.prompting import Prompting as Prompting
from leakbound.errors import InputError, needing
from leakbound.registry import find, opening, require_parts
from leakbound.types import Generate, Query


@dataclass(frozen=True, slots=True)
class Engine:
    """A row of `ENGINES`: a class of leakbound, imported when the first model is opened.

    Attributes:
        module: the module of the class.
        kind: the name of the class, which has the function `open`.
        extra: the extra (optional dependencies) of leakbound that installs the engine's library.
        chats: the module with the function `open_served_chat`; empty if the engine loads the model
            in this process.
    """

    module: str
    kind: str
    extra: str = "models"
    chats: str = ""

    @property
    def local(self) -> bool:
        """Whether the engine loads the model in this process; if not, the model is on a server."""
        return not self.chats

    def __call__(self, location: str, prompting: Prompting, **loading: Any) -> Generate:
        # Exclude a million permanent objects from garbage collection.
        name, collects = f"leakbound.{self.module}", gc.isenabled()
        imported = name in sys.modules
        gc.disable()
        try:
            module = import_module(name)
        finally:
            if not imported and not gc.get_freeze_count():  # objects that others froze stay frozen
                gc.freeze()
                gc.unfreeze()  # the objects are then in the oldest generation
            if collects:
                gc.enable()
        engine: Generate = getattr(module, self.kind).open(location, prompting, **loading)
        return engine


ENGINES: dict[str, Engine] = {
    "transformers": Engine("engines.hf", "TransformersEngine"),
    "vllm": Engine("engines.vllm", "VllmEngine", extra="vllm"),
    "openai": Engine("served.openai", "ServedEngine", extra="judge", chats="served.endpoint"),
}


def engine_of(location: str) -> tuple[str, str]:
    """Split a model's name into the name of its engine and its location.

    Args:
        location: the model's name, `NAME:where`. Any other text, and the path of an existing
            folder, is the name of a transformers model.

    Returns:
        The engine's name, which may be unknown, and the location.
    """
    name, colon, where = location.partition(":")
    if not colon or not re.fullmatch(r"[\w-]+", name) or Path(location).exists():
        return "transformers", location
    return name, where


def location_of(engine: str, model: str) -> str:
    """Return the name of a model of this engine; the inverse of `engine_of`.

    Args:
        engine: the engine's name.
        model: the location of the model: a folder, a hub name, or `URL#MODEL`.

    Returns:
        `NAME:model`, or only the model for transformers.
    """
    return model if engine == "transformers" else f"{engine}:{model}"


def absolute(name: str) -> str:
    """Return a name that points to the same files from any working directory.

    Args:
        name: a path, or a model's name as for `engine_of`.

    Returns:
        The name with the absolute path of its files, if they exist; any other name unchanged.
    """
    engine, where = engine_of(name)
    path = Path(where).expanduser()
    return location_of(engine, str(path.resolve())) if path.exists() else name


def open_engine(
    location: str, prompting: Prompting, *, queries: Sequence[Query] = (), **loading: Any
) -> Generate:
    """Open the model at `location` with its engine.

    Args:
        location: the model's name: a folder, a hub name, or `NAME:where` for another engine.
        prompting: how questions become prompts.
        queries: queries whose prompts are made before the weights of a local model are loaded. So
            an error in the chat template is raised early.
        loading: `dtype`, `device` and `trust_remote_code`, see `load_model`; a server ignores them.

    Returns:
        The engine, ready to draw.

    Raises:
        InputError: an empty name, an unknown engine, a library that is not installed, or an error
            of the engine.
        ModelError: a model that cannot be used.
    """
    if not location:
        raise InputError("the model's name is empty. Pass a folder, a hub name or engine:location.")
    name, where = engine_of(location)
    opens, row = find("engine", ENGINES, name), ENGINES.get(name)
    first = {"queries": queries} if row and row.local else {}
    if prompting.end_token is not None and row and not row.local:
        raise InputError(
            f"the server of `{location}` decides where outputs end, got `end_token` "
            f"{prompting.end_token!r}. Omit --end-token, or set the token on the server."
        )
    with needing("running a model", row.extra if row else "models"), opening("engine", name):
        engine = opens(where, prompting, **first, **loading)
    require_parts("engine", name, engine, ("usage", "fingerprint", "check", "generate"))
    return engine
