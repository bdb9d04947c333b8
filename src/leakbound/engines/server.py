"""A server of JSON that may be busy, broken or gone: requests repeat as long as that helps.

Redirects are not followed, and no proxy stands before this machine itself: what is sent goes to
the server that the user named and no further. Whatever it answers, time and memory are limited.
"""

from __future__ import annotations

import json
import math
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from threading import Event, Lock, Timer
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import httpx2

from leakbound.errors import IncompleteError, ModelError
from leakbound.types import Json, JsonObject

_PASSING = {408, 409, 425, 429}  # and all from 500 on
_REFUSING = {400, 413, 414, 422, 431, 451}  # this request, as it is put; no other says so of it
_TURNED_AWAY = {429, 503}  # before it was looked at: nothing was drawn for it
_FAULTS = {
    401: "Set OPENAI_API_KEY to its key, and OPENAI_BASE_URL to its URL: no other server gets it.",
    402: "See to the account, then run the same command again: replies that came are kept.",
    403: "Check what the key in OPENAI_API_KEY may do, and that OPENAI_BASE_URL is this server's.",
    404: "Check the URL, which usually ends in /v1, and the model's name.",
}
_CONNECTING = 2  # attempts to connect to a server that never answered yet
_SHOWN = 300  # characters of what a server says
_LARGEST = 8 << 20  # bytes of an answer
_CHECK = "Check the URL, which usually ends in /v1, and what listens there."
J = TypeVar("J")
T = TypeVar("T")


class NoReplyError(Exception):
    """The server gave no usable answer after as many attempts as help."""


class RefusedError(NoReplyError):
    """The server does not take this request as it is put."""


class LostError(NoReplyError):
    """The answer did not arrive whole, and its text may be the reason."""


class _PassingError(Exception):
    """Another attempt may bring an answer, `after` as many seconds as the server says.

    `turned_away`: the server never began to answer.
    """

    def __init__(
        self, reason: str, after: float | None = None, *, turned_away: bool = False
    ) -> None:
        super().__init__(reason)
        self.after, self.turned_away = after, turned_away


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an answer is tried for, in seconds and attempts, and how many are at once.

    Waits between attempts begin at `first_wait` and double. If the server states a wait
    (`Retry-After`), that wait replaces it, and the attempt does not count. Once a stated wait would
    end more than `longest_wait` after the last answer, nothing more is sent. `timeout` is that of
    each step of an attempt: to connect, to send, and between two pieces of the answer, all of which
    must be there `whole` seconds after it began. After `silence` requests in a row without one no
    other is sent.
    """

    timeout: float = 120.0
    whole: float = 300.0
    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 600.0
    concurrency: int = 8
    silence: int = 12


class Server:
    """A connection pool to one address, open while the `with` lasts; threads may share it.

    `waits` gets a sentence for each wait that the server states, one for waits that overlap.
    """

    waits: Callable[[str], None] | None = None

    def __init__(self, url: str, key: str, patience: Patience) -> None:
        self.url, self.patience = url, patience
        self._key = key
        self._closing, self._why_closing = Event(), ""
        headers = {"Accept-Encoding": "identity"}  # what is small when it is sent stays small
        if key:
            headers["Authorization"] = f"Bearer {key}"
        # One connection per attempt, which is cut when its time is up; this machine needs no proxy.
        host = urlsplit(url).hostname or ""
        try:
            is_here = ip_address(host).is_loopback or ip_address(host).is_unspecified
        except ValueError:
            is_here = host == "localhost" or host.endswith(".localhost")
        limits = httpx2.Limits(max_keepalive_connections=0)
        direct = httpx2.HTTPTransport(limits=limits) if is_here else None
        self._client = httpx2.Client(
            headers=headers, timeout=patience.timeout, limits=limits, transport=direct
        )
        self._answers = False  # whether it ever did
        self._answered = self._waiting = -math.inf  # the last answer; the end of a stated wait
        self._under_way: set[Callable[[], None]] = set()
        self._lock, self._lost = Lock(), 0  # requests in a row

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def abandon(self, why: str = "no further request is sent") -> None:
        """Make no further attempt at anything."""
        self._why_closing = self._why_closing or why
        self._closing.set()

    def cut(self) -> None:
        """Abandon, and wait for no answer that is still to come."""
        self.abandon()
        for hang_up in list(self._under_way):
            hang_up()

    def heard(self) -> None:
        """Count a request that was answered: what was lost before is no row any more."""
        with self._lock:
            self._lost = 0

    def lose(self, name: str, error: NoReplyError) -> None:
        """Count a request that was not answered; IncompleteError once too many were in a row.

        It names the model by `name`; nothing further is sent.
        """
        with self._lock:
            self._lost += 1
        if self._lost >= self.patience.silence:
            self.abandon()
            raise IncompleteError(
                f"{name!r} lost {self.patience.silence} requests in a row, the last one with "
                f"{error}. What came is kept: see to the server, then run the same command again."
            ) from error

    def each(
        self,
        do: Callable[[J], T],
        jobs: Iterable[J],
        take: Callable[[J, T], object],
        *,
        stop: Callable[[], None],
    ) -> None:
        """Do every job, as many at a time as patience says; `take` what comes, the first first.

        Where a job or `take` raises, `stop` is called, and jobs not begun are left.
        """
        with ThreadPoolExecutor(self.patience.concurrency) as pool:
            under_way = {pool.submit(do, job): job for job in jobs}
            try:
                for done in as_completed(under_way):
                    take(under_way[done], done.result())
            except BaseException:
                stop()
                pool.shutdown(cancel_futures=True)
                raise

    def post(
        self, path: str, body: JsonObject, read: Callable[[Any], T], *, again: bool = True
    ) -> T:
        """Return what `read` makes of the JSON answered, after as many attempts as patience allows.

        `read` raises ValueError for an answer that another attempt should replace. Unless `again`,
        only a request that was turned away is repeated: what was lost of another may have been lost
        for what it said, and LostError says so. Raises RefusedError for a request that the server
        does not take, NoReplyError where it kept failing, ModelError where it cannot be reached at
        all or wants another key or address.
        """
        return self._fetch(f"{self.url}/{path}", body, read, again)

    def get(self, url: str) -> Json:
        """The JSON at an address of this server; None where it has none there.

        Raises NoReplyError where it kept failing, ModelError where it cannot be reached.
        """
        try:
            return self._fetch(url, None, lambda value: cast("Json", value), True)
        except RefusedError:
            return None

    def _fetch(self, url: str, body: JsonObject | None, read: Callable[[Any], T], again: bool) -> T:
        """Read an answer to a POST of `body`, or to a GET where there is none."""
        if self._closing.is_set():
            raise NoReplyError(self._why_closing)
        wait, attempts, began = self.patience.first_wait, 0, time.monotonic()
        while True:
            try:
                return self._attempt(url, body, read)
            except _PassingError as error:
                if not (again or error.turned_away):
                    raise LostError(str(error)) from error
                failure = error
            stated = failure.after
            pause = wait if stated is None else max(stated, self.patience.first_wait)
            wait *= 2
            attempts += stated is None or not failure.turned_away
            nowhere = not self._answers and isinstance(failure.__cause__, httpx2.ConnectError)
            if nowhere and attempts >= _CONNECTING:
                raise ModelError(
                    f"`{self.url}` cannot be reached ({failure}). Start the server, or correct "
                    "the URL."
                ) from failure
            hopeless = attempts >= self.patience.attempts
            why = "" if stated is None else self._why_not_wait(str(failure), pause, began)
            if hopeless or why or self._closing.wait(pause):
                kind = NoReplyError if failure.turned_away else LostError
                raise kind(why or str(failure)) from failure

    def _why_not_wait(self, failure: str, pause: float, began: float) -> str:
        """Why a wait that the server states is too long; empty after announcing the wait.

        All requests share the time since the last answer: if it is used up, none is sent again.
        """
        with self._lock:
            now = time.monotonic()
            waited = now - max(self._answered, began)
            if waited + pause > self.patience.longest_wait:
                why = (
                    f"{failure}: it states a wait of {pause:,.4g} s after {waited:,.0f} s without "
                    f"an answer, and --patience is {self.patience.longest_wait:,g} s"
                )
                self.abandon(why)
                return why
            is_new, self._waiting = now >= self._waiting, max(self._waiting, now + pause)
        if is_new and self.waits:
            self.waits(f"{self.url} answers {failure}: waiting {pause:,.4g} s, as it states")
        return ""

    def _attempt(self, url: str, body: JsonObject | None, read: Callable[[Any], T]) -> T:
        method = "GET" if body is None else "POST"
        try:
            with (
                _cut_after(self.patience.whole, self._under_way) as traced,
                self._client.stream(method, url, json=body, extensions=traced) as response,
            ):
                answer = _whole(response)
        except httpx2.TransportError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            reason = f"{type(error).__name__}: {error}"
            raise _PassingError(reason, turned_away=unsent) from error
        self._answers = True
        status, shown = response.status_code, self._shown(response, answer)
        turned_away = status in _TURNED_AWAY
        if method == "GET" and not (response.is_success or turned_away):
            raise RefusedError(shown)
        if status in _PASSING or status >= 500:
            after = _retry_after(response.headers)
            raise _PassingError(shown, after, turned_away=turned_away)
        if status in _REFUSING:
            raise RefusedError(shown)
        if not response.is_success:
            remedy = "Name the address that it redirects to." if response.is_redirect else _CHECK
            raise ModelError(f"`{self.url}` answers {shown}. {_FAULTS.get(status, remedy)}")
        try:
            value = read(json.loads(answer))
            self._answered = time.monotonic()
            return value
        except (ValueError, RecursionError) as error:
            if method == "GET":
                raise RefusedError(shown) from error
            raise _PassingError(f"an answer of another kind, {shown}: {error}") from error

    def _shown(self, response: httpx2.Response, answer: bytes) -> str:
        """Status and the beginning of a body, without the key that some servers repeat."""
        text = answer[: _SHOWN * 8].decode(errors="replace")
        text = text.replace(self._key, "…") if self._key else text
        return f"{response.status_code} {json.dumps(text[:_SHOWN], ensure_ascii=False)}"


def _whole(response: httpx2.Response) -> bytes:
    """The body as it was sent; a _PassingError for one that is too long, or compressed."""
    coding = response.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise _PassingError(f"an answer compressed by {coding[:_SHOWN]!r}, which was not asked for")
    pieces, size = [], 0
    for piece in response.iter_raw():
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST:
            raise _PassingError(f"an answer of more than {_LARGEST >> 20} MiB")
    return b"".join(pieces)


@contextmanager
def _cut_after(
    seconds: float, under_way: set[Callable[[], None]]
) -> Iterator[dict[str, Callable[[str, Mapping[str, object]], None]]]:
    """Extensions of a request whose connection is cut when its time is up, drip as it may.

    What cuts it is among those `under_way` meanwhile. Time-outs restart with every byte, in
    headers too, so that they end no slow drip.
    """
    streams: list[Any] = []

    def trace(event: str, info: Mapping[str, object]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            streams.append(info["return_value"])

    def cut() -> None:
        for stream in streams:
            with suppress(OSError):
                # Not the method of an SSL socket, which another thread is reading from.
                socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    under_way.add(cut)
    try:
        yield {"trace": trace}
    finally:
        under_way.discard(cut)
        timer.cancel()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that `Retry-After` requests to wait; None where it states none that can be read.

    A date is compared with the server's own `Date`, without one with this machine's clock.
    """
    if (header := headers.get("retry-after")) is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        pass
    else:
        return None if math.isnan(seconds) else max(seconds, 0.0)
    until, now = _date(header), _date(headers.get("date", "")) or datetime.now(UTC)
    return None if until is None else max((until - now).total_seconds(), 0.0)


def _date(header: str) -> datetime | None:
    try:
        return parsedate_to_datetime(header).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
