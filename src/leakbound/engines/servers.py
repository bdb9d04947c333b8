"""Which servers may be asked: those that the user named now, never those that only a file names.

A run, a certificate or another person's study may name a judge anywhere. What is sent there quotes
questions, answers and outputs, so a name in a file gives no leave: a command may ask the servers
that stand on its own command line, a call those in its own arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from leakbound.errors import InputError
from leakbound.scorers import make_scorer, models_of

_SERVED = ("openai",)  # engines of `ENGINES` and `CHATS` that run elsewhere


class UnnamedServerError(InputError):
    """A server that a file names and the user does not; nothing was sent there."""


def server_of(model: str) -> str | None:
    """The URL of the server that a model's name points to; None for one that runs here."""
    engine, colon, location = model.partition(":")
    if not colon or engine not in _SERVED:
        return None
    return location.partition("#")[0].rstrip("/")


def short_name(model: str) -> str:
    """A model's name for a line of progress: its folder, or what it is called at its server."""
    if server_of(model) is None:
        return Path(model).name
    return model.partition("#")[2].partition("?")[0]


def servers_of(scorers: Iterable[str], models: Iterable[str] = ()) -> frozenset[str]:
    """The servers that scorers, by their specs, and chat models, by their names, would ask.

    Raises InputError for a spec that describes no scorer.
    """
    asked = [model for spec in scorers for model in models_of(make_scorer(spec))]
    found = (server_of(model) for model in (*asked, *models))
    return frozenset(url for url in found if url is not None)


def require_named_control(control: str, model: str, servers: Collection[str]) -> None:
    """Raise UnnamedServerError for a control that a file names on a server that nobody else does.

    `model` is the one that the user named: where that one is asked, the control may be too.
    """
    url = server_of(control)
    if url is not None and url not in {*servers, server_of(model)}:
        raise UnnamedServerError(
            f"the control {control!r} runs on a server that only a run names, so nothing was sent "
            f"to `{url}`. If you trust it with the questions, name it yourself with --control."
        )


def require_named(model: str, servers: Collection[str]) -> None:
    """Raise UnnamedServerError for a chat model on a server that is not among these."""
    url = server_of(model)
    if url is not None and url not in servers:
        raise UnnamedServerError(
            f"the chat model {model!r} runs on a server that only a file names, so nothing was "
            f"sent to `{url}`. If you trust it with questions, answers and outputs, name it "
            "yourself: write the scorer with --scorer, or the rewritings with --inputs; from "
            "Python pass `scorers` or `rewritings`."
        )
