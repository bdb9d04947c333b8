"""Find the server in a model's name; decide whether it may receive requests and the API key.

A run, a certificate or a study from another person may specify a judge on any server. Requests
contain questions, answers and outputs, so a server must not receive requests only because a file
specifies it. A command sends requests only to servers on its command line, and a Python call only
to servers in its arguments.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from leakbound.engines import ENGINES
from leakbound.errors import InputError
from leakbound.scorers import make_scorer, models_of


class UnnamedServerError(InputError):
    """Only a file, not the user, specifies this server; nothing was sent to it."""


def server_of(model: str) -> str | None:
    """Return the URL of the server in a model's name; None for a model that is not on a server."""
    engine, colon, location = model.partition(":")
    if not colon or engine not in ENGINES or ENGINES[engine].local:
        return None
    return location.partition("#")[0].rstrip("/")


def short_name(model: str) -> str:
    """Return a model's name for a progress line: its folder, or its name on its server."""
    if server_of(model) is None:
        return Path(model).name
    return model.partition("#")[2].partition("?")[0]


def servers_of(scorers: Iterable[str], models: Iterable[str] = ()) -> frozenset[str]:
    """Return the servers of scorers (given as specs) and of chat models (given as names).

    Raises InputError for an invalid spec.
    """
    judges = [model for spec in scorers for model in models_of(make_scorer(spec))]
    urls = (server_of(model) for model in (*judges, *models))
    return frozenset(url for url in urls if url is not None)


def require_named_control(control: str, model: str, servers: Collection[str]) -> None:
    """Raise UnnamedServerError for a control on a server that only a file specifies.

    `model` is the model that the user specified; the control may be on the same server.
    """
    url = server_of(control)
    if url is not None and url not in {*servers, server_of(model)}:
        raise UnnamedServerError(
            f"the server of the control {control!r} is known only from a stored run, so nothing "
            f"was sent to `{url}`. If you trust this server with the questions, pass --control."
        )


def require_named(model: str, servers: Collection[str]) -> None:
    """Raise UnnamedServerError for a chat model on a server outside `servers`."""
    url = server_of(model)
    if url is not None and url not in servers:
        raise UnnamedServerError(
            f"the server of the chat model {model!r} is known only from a stored file, so nothing "
            f"was sent to `{url}`. If you trust this server with questions, answers and outputs, "
            "pass --scorer or --inputs (in Python `scorers` or `rewritings`)."
        )


KEY_VARIABLE = "OPENAI_API_KEY"
HOME_VARIABLE = "OPENAI_BASE_URL"
_HOME = "https://api.openai.com"
_PORTS = {"http": 80, "https": 443}
_WRITE = "Write a URL such as http://localhost:8000/v1."
ENDPOINT = "the URL in openai:URL#MODEL"


def key_for(url: str) -> str:
    """Return the API key for the server at `url`, or "" if the key belongs to another server.

    The key in $OPENAI_API_KEY belongs to the server with the scheme, host and port of
    $OPENAI_BASE_URL, by default api.openai.com. Requests to any other server contain no key. Raises
    InputError for a key that no header can contain; the message never shows the key.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    home = os.environ.get(HOME_VARIABLE, "").strip() or _HOME
    if not key or origin(url, ENDPOINT) != origin(home, HOME_VARIABLE):
        return ""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(
            f"{KEY_VARIABLE} contains a blank, a line break or another character that is not "
            "allowed in a key. Set it to the key only."
        )
    return key


def located(location: str) -> tuple[str, str]:
    """Return the URL and the model in `URL#MODEL`; a slash at the end of the URL is removed.

    Raises InputError for an invalid location, or a URL with credentials, which results would show.
    """
    url, _, model = location.partition("#")
    origin(url, ENDPOINT)
    if not model:
        raise InputError(
            "the name of a chat endpoint must be openai:URL#MODEL, but #MODEL is missing. Write a "
            "name such as openai:http://localhost:8000/v1#my-model."
        )
    parts = urlsplit(url)
    if parts.username is not None or parts.query:
        raise InputError(
            f"the URL of the endpoint at {parts.hostname!r} must contain no credentials and no "
            f"query string, because results show the URL. Remove them, and set {KEY_VARIABLE}."
        )
    return url.rstrip("/"), model


def origin(url: str, name: str) -> tuple[str, str, int | None]:
    """Return scheme, host and port of a URL; if it is invalid, raise InputError with `name`."""
    try:
        parts = urlsplit(url)
        address = parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError as error:
        raise InputError(f"{name} cannot be parsed ({error}). {_WRITE}") from None
    if address[0] not in _PORTS or not address[1] or not url.isprintable() or " " in url:
        shown = repr(url) if "@" not in url else "a URL with credentials"
        raise InputError(f"{name} must have a scheme and a host, got {shown}. {_WRITE}")
    return address
