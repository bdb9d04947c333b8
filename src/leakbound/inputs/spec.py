"""An input source from its written form: `rules`, `benchmark`, `file:PATH`, `model:NAME`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from leakbound.errors import InputError
from leakbound.inputs.lists import BenchmarkInputs, FileInputs, RuleInputs
from leakbound.inputs.model import ModelInputs
from leakbound.inputs.source import InputSource
from leakbound.registry import find, opening, require_parts
from leakbound.types import Chat

OpenChat = Callable[[str], Chat]
"""Opens a chat model by name; it raises InputError for one that does not exist."""


def no_chat(name: str) -> Chat:
    """The `OpenChat` of a caller that has no engine."""
    raise InputError(f"no engine was given to open the chat model {name!r}. Pass `open_chat`.")


def _benchmark(argument: str, open_chat: OpenChat) -> InputSource:
    _refuse_argument("benchmark", argument)
    return BenchmarkInputs()


def _rules(argument: str, open_chat: OpenChat) -> InputSource:
    _refuse_argument("rules", argument)
    return RuleInputs()


def _file(argument: str, open_chat: OpenChat) -> InputSource:
    return FileInputs(Path(_need_argument("file", argument, "a path")))


def _model(argument: str, open_chat: OpenChat) -> InputSource:
    return ModelInputs(chat=open_chat(_need_argument("model", argument, "a model's name")))


INPUTS: dict[str, Callable[[str, OpenChat], InputSource]] = {
    "benchmark": _benchmark,
    "file": _file,
    "model": _model,
    "rules": _rules,
}


def parse_inputs(spec: str, *, open_chat: OpenChat = no_chat) -> InputSource | None:
    """The source that `spec` describes; None for `none`: the original questions alone.

    An unknown name or a wrong argument raises InputError.
    """
    name, _, argument = spec.strip().partition(":")
    if name == "none" and not argument:
        return None
    opens = find("input", INPUTS, name)
    with opening("input", name):
        source = opens(argument, open_chat)
    require_parts("input", name, source, ("name", "finite", "rewritings"))
    return source


def _refuse_argument(name: str, argument: str) -> None:
    if argument:
        raise InputError(f"inputs {name!r} take no argument, got {argument!r}. Write {name!r}.")


def _need_argument(name: str, argument: str, what: str) -> str:
    if not argument:
        raise InputError(f"inputs {name!r} need {what}. Write `{name}:...`.")
    return argument
