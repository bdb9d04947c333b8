"""One POST of JSON to a server that may be busy, broken or gone: tried again as long as that helps.

Redirects are not followed: what is sent goes to the server that the user named and no further.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any, TypeVar

import httpx2

from residua.errors import ModelError

_PASSING = {408, 409, 425, 429}  # and all from 500 on
_FAULTS = {
    401: "Set OPENAI_API_KEY to its key, and OPENAI_BASE_URL to its URL: no other server gets it.",
    402: "See to the account, then run the same command again: replies that came are kept.",
    403: "Check what the key in OPENAI_API_KEY may do, and that OPENAI_BASE_URL is this server's.",
    404: "Check the URL, which usually ends in /v1, and the model's name.",
}
_CONNECTING = 2  # attempts to connect to a server that never answered yet
_SHOWN = 300  # characters of what a server says
T = TypeVar("T")


class NoReplyError(Exception):
    """The server gave no usable answer, although it was asked as often as it helps."""


class RefusedError(NoReplyError):
    """The server does not take this request as it is put."""


class _PassingError(Exception):
    """Another attempt may bring an answer, `after` as many seconds as the server says."""

    def __init__(self, reason: str, after: float | None = None) -> None:
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer is tried for, in seconds and attempts, and how many are at once.

    Waits between attempts begin at `first_wait` and double, or are as long as the server says; one
    that says more than `longest_wait` is not waited for. `timeout` is that of each step of an
    attempt: to connect, to send, and between two pieces of the answer.
    """

    timeout: float = 120.0
    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 60.0
    concurrency: int = 8


class Server:
    """A connection pool to one address, open while the `with` lasts; threads may share it."""

    def __init__(self, url: str, key: str, patience: Patience) -> None:
        self.url, self.patience = url, patience
        self._key = key
        self._closing = Event()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._client = httpx2.Client(headers=headers, timeout=patience.timeout)
        self._answers = False  # whether it ever did

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def abandon(self) -> None:
        """Make no further attempt at what is under way."""
        self._closing.set()

    def post(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        """What `read` makes of the JSON answered, after as many attempts as patience allows.

        `read` raises ValueError for an answer that another attempt should replace. Raises
        RefusedError for a request that the server does not take, NoReplyError where it kept
        failing, ModelError where it cannot be reached at all or wants another key or address.
        """
        wait, attempts = self.patience.first_wait, 0
        while True:
            try:
                return self._attempt(path, body, read)
            except _PassingError as error:
                pause = wait if error.after is None else error.after
                failure = error
            wait, attempts = 2 * wait, attempts + 1
            nowhere = not self._answers and isinstance(failure.__cause__, httpx2.ConnectError)
            if nowhere and attempts >= _CONNECTING:
                raise ModelError(
                    f"`{self.url}` cannot be reached ({failure}). Start the server, or correct "
                    "the URL."
                ) from failure
            hopeless = attempts >= self.patience.attempts or pause > self.patience.longest_wait
            if hopeless or self._closing.wait(pause):
                raise NoReplyError(str(failure)) from failure

    def _attempt(self, path: str, body: Mapping[str, Any], read: Callable[[Any], T]) -> T:
        try:
            response = self._client.post(f"{self.url}/{path}", json=body)
        except httpx2.TransportError as error:
            raise _PassingError(f"{type(error).__name__}: {error}") from error
        self._answers = True
        status, said = response.status_code, self._shown(response)
        if status in _PASSING or status >= 500:
            raise _PassingError(said, _retry_after(response.headers.get("retry-after")))
        if status in _FAULTS or response.is_redirect:
            remedy = _FAULTS.get(status, "Name the address that it redirects to.")
            raise ModelError(f"`{self.url}` answers {said}. {remedy}")
        if not response.is_success:
            raise RefusedError(said)
        try:
            return read(response.json())
        except ValueError as error:
            raise _PassingError(f"an answer of another kind, {said}") from error

    def _shown(self, response: httpx2.Response) -> str:
        """Status and the beginning of a body, without the key that some servers repeat."""
        text = response.text.replace(self._key, "…") if self._key else response.text
        return f"{response.status_code} {json.dumps(text[:_SHOWN], ensure_ascii=False)}"


def _retry_after(header: str | None) -> float | None:
    """The seconds that the header asks to wait; None where it says none that can be read."""
    if header is None:
        return None
    try:
        return max(float(header), 0.0)
    except ValueError:
        pass
    try:
        until = parsedate_to_datetime(header)
    except ValueError:
        return None
    return max((until.astimezone(UTC) - datetime.now(UTC)).total_seconds(), 0.0)
