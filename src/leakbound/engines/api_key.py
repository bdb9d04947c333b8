"""The key that opens a server, and the one server that it is sent to: the one it belongs to."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from leakbound.errors import InputError

KEY_VARIABLE = "OPENAI_API_KEY"
HOME_VARIABLE = "OPENAI_BASE_URL"
_HOME = "https://api.openai.com"
_PORTS = {"http": 80, "https": 443}
_WRITE = "Write such as http://localhost:8000/v1."
ENDPOINT = "the URL in openai:URL#MODEL"


def key_for(url: str) -> str:
    """The key for the server at `url`; empty for every server that it does not belong to.

    The key in $OPENAI_API_KEY belongs to the server at $OPENAI_BASE_URL, by scheme, host and port:
    to api.openai.com where that is not set. Whatever else a command line or a file names is asked
    without a key. Raises InputError, which never shows it, for a key that no header can hold.
    """
    key = os.environ.get(KEY_VARIABLE, "").strip()
    home = os.environ.get(HOME_VARIABLE, "").strip() or _HOME
    if not key or origin(url, ENDPOINT) != origin(home, HOME_VARIABLE):
        return ""
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(
            f"{KEY_VARIABLE} holds a blank, a line break or another character that no key has. "
            "Set it to the key alone."
        )
    return key


def located(location: str) -> tuple[str, str]:
    """URL and model of `URL#MODEL`, the URL without a slash at its end.

    Raises InputError for a location that is none, or whose URL would show credentials in results.
    """
    url, _, model = location.partition("#")
    origin(url, ENDPOINT)
    if not model:
        raise InputError(
            "a chat endpoint is named openai:URL#MODEL, and after the URL there is no model. "
            "For example openai:http://localhost:8000/v1#my-model."
        )
    parts = urlsplit(url)
    if parts.username is not None or parts.query:
        raise InputError(
            f"the URL of the endpoint at {parts.hostname!r} must hold no credentials and no "
            f"query, as it stands in results. Remove them, and set {KEY_VARIABLE}."
        )
    return url.rstrip("/"), model


def origin(url: str, name: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL; InputError, saying by `name` which, for one that is none."""
    try:
        parts = urlsplit(url)
        found = parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)
    except ValueError as error:
        raise InputError(f"{name} cannot be read ({error}). {_WRITE}") from None
    if found[0] not in _PORTS or not found[1] or not url.isprintable() or " " in url:
        shown = repr(url) if "@" not in url else "one with credentials"
        raise InputError(f"{name} must have a scheme and a host, got {shown}. {_WRITE}")
    return found
