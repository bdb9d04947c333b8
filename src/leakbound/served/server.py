"""Exchange JSON with a server that may be busy, broken or absent, and repeat failed requests.

Requests go only to the server that the user specified. Redirects are not followed, and requests to
this machine use no proxy. Time and memory are limited for every reply.
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

_PASSING = {408, 409, 425, 429}  # another attempt may succeed, as after all statuses >= 500
_REFUSING = {400, 413, 414, 422, 431, 451}  # statuses that refuse this request only
_REJECTED = {429, 503}  # statuses of requests for which nothing was drawn
_FAULTS = {
    401: "Set OPENAI_BASE_URL to the server's URL and OPENAI_API_KEY to the key for that URL only.",
    402: "Check the account, then run the same command again. Received replies are kept.",
    403: "Check the rights of the key in OPENAI_API_KEY, and the server's URL in OPENAI_BASE_URL.",
    404: "Check the URL, which usually ends in /v1, and the model's name.",
}
_CONNECTING = 2  # attempts to connect to a server that has not answered yet
_SHOWN = 300  # number of characters of a reply that messages show
_LARGEST = 8 << 20  # largest size of a reply, in bytes
_CHECK = "Check the URL, which usually ends in /v1, and the program that listens there."
J = TypeVar("J")
T = TypeVar("T")


class NoReplyError(Exception):
    """The server sent no usable reply."""


class RefusedError(NoReplyError):
    """The server does not accept this request."""


class LostError(NoReplyError):
    """The reply did not arrive completely, and its text may be the reason."""


class _PassingError(Exception):
    """A failure after which another attempt may succeed.

    `after`: the wait in seconds that the server states. `rejected`: nothing was drawn for the
    request.
    """

    def __init__(self, reason: str, after: float | None = None, *, rejected: bool = False) -> None:
        super().__init__(reason)
        self.after, self.rejected = after, rejected


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits on waits and attempts, and the number of simultaneous requests.

    The first wait between attempts is `first_wait` seconds, and each next wait is twice as long. A
    wait that the server states (`Retry-After`) replaces such a wait, and the attempt does not count
    towards the limit on attempts. If a stated wait would end more than `longest_wait` seconds after
    the last reply, no more requests are sent. `timeout` limits each step of an attempt: to connect,
    to send, and to receive the next piece of the reply. The reply must be complete at most `whole`
    seconds after the attempt began. After `silence` unanswered requests in a row, no more requests
    are sent.
    """

    timeout: float = 120.0
    whole: float = 300.0
    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 600.0
    concurrency: int = 8
    silence: int = 12


class Server:
    """A client of one server, which is open inside its `with` block; threads may share it.

    An error that leaves the `with` block ends the requests in flight. If the server requests a
    wait, `report` is called with a sentence that states the wait. If several waits overlap, only
    the first one is reported.
    """

    def __init__(
        self, url: str, key: str, patience: Patience, report: Callable[[str], None]
    ) -> None:
        self.url, self.patience, self._report = url, patience, report
        self._key = key
        self._closing, self._why_closing = Event(), ""
        headers = {"Accept-Encoding": "identity"}  # no compression: a small reply cannot expand
        if key:
            headers["Authorization"] = f"Bearer {key}"
        # One connection per attempt, so that it can be closed. Servers on this machine need no
        # proxy.
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
        self._pool = ThreadPoolExecutor(patience.concurrency)
        self._answers = False  # whether the server ever answered
        self._answered = self._waiting = -math.inf  # the last reply; the end of a stated wait
        self._in_flight: set[Callable[[], None]] = set()
        self._lock, self._lost = Lock(), 0  # number of lost requests in a row

    def __enter__(self) -> Server:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is not None:
            self.abandon()
            for hang_up in list(self._in_flight):
                hang_up()
        self._pool.shutdown(cancel_futures=True)
        self._client.close()

    def abandon(self, why: str = "no further request is sent") -> None:
        """Send no more requests."""
        self._why_closing = self._why_closing or why
        self._closing.set()

    def count_reply(self) -> None:
        """Record an answered request, which resets the number of unanswered requests in a row."""
        with self._lock:
            self._lost = 0

    def count_loss(self, name: str, error: NoReplyError) -> None:
        """Count an unanswered request; raise IncompleteError after too many in a row.

        No more requests are sent after this error, which mentions the model's `name`.
        """
        with self._lock:
            self._lost += 1
        if self._lost >= self.patience.silence:
            self.abandon()
            raise IncompleteError(
                f"{name!r} lost {self.patience.silence} requests in a row, the last with {error}. "
                "Received draws are kept. Fix the server, then run the same command again."
            ) from error

    def each(self, do: Callable[[J], T], jobs: Iterable[J]) -> Iterator[tuple[J, T]]:
        """Run jobs, several of them simultaneously; yield (job, result) pairs as jobs finish."""
        submitted = {self._pool.submit(do, job): job for job in jobs}
        for done in as_completed(submitted):
            yield submitted[done], done.result()

    def post(
        self, path: str, body: JsonObject, read: Callable[[Any], T], *, again: bool = True
    ) -> T:
        """Send `body`, and return `read` of the JSON reply, within the limits of `patience`.

        `read` raises ValueError for an unusable reply. Without `again`, only a rejected request is
        repeated. Any other failure raises LostError, because the text of the reply may be the
        reason. Raises RefusedError for a request that the server does not accept, and NoReplyError
        if all attempts failed. Raises ModelError if the server cannot be reached or needs a
        different key or address.
        """
        return self._fetch(f"{self.url}/{path}", body, read, again)

    def get(self, url: str) -> Json:
        """Return the JSON at an address of this server; None if there is none.

        Raises NoReplyError if all attempts failed, and ModelError if the server cannot be reached.
        """
        try:
            return self._fetch(url, None, lambda value: cast("Json", value), True)
        except RefusedError:
            return None

    def _fetch(self, url: str, body: JsonObject | None, read: Callable[[Any], T], again: bool) -> T:
        """Send a POST of `body`, or a GET if there is no body, and read the reply."""
        if self._closing.is_set():
            raise NoReplyError(self._why_closing)
        wait, attempts, began = self.patience.first_wait, 0, time.monotonic()
        while True:
            try:
                return self._attempt(url, body, read)
            except _PassingError as error:
                if not (again or error.rejected):
                    raise LostError(str(error)) from error
                failure = error
            stated = failure.after
            pause = wait if stated is None else max(stated, self.patience.first_wait)
            wait *= 2
            attempts += stated is None or not failure.rejected
            nowhere = not self._answers and isinstance(failure.__cause__, httpx2.ConnectError)
            if nowhere and attempts >= _CONNECTING:
                raise ModelError(
                    f"`{self.url}` cannot be reached ({failure}). Start the server or fix the URL."
                ) from failure
            hopeless = attempts >= self.patience.attempts
            why = "" if stated is None else self._why_not_wait(str(failure), pause, began)
            if hopeless or why or self._closing.wait(pause):
                raise NoReplyError(why or str(failure)) from failure

    def _why_not_wait(self, failure: str, pause: float, began: float) -> str:
        """Return why a stated wait is too long; if it is not, report the wait and return "".

        All requests share the limit on the time since the last reply. Once this time is reached, no
        request is repeated.
        """
        with self._lock:
            now = time.monotonic()
            waited = now - max(self._answered, began)
            if waited + pause > self.patience.longest_wait:
                why = (
                    f"{failure}: the server requests a wait of {pause:,.4g} s after "
                    f"{waited:,.0f} s without a reply, more than --patience allows "
                    f"({self.patience.longest_wait:,g} s)"
                )
                self.abandon(why)
                return why
            is_new, self._waiting = now >= self._waiting, max(self._waiting, now + pause)
        if is_new:
            self._report(f"{self.url} answers {failure} and requests a wait of {pause:,.4g} s")
        return ""

    def _attempt(self, url: str, body: JsonObject | None, read: Callable[[Any], T]) -> T:
        method = "GET" if body is None else "POST"
        try:
            with (
                _cut_after(self.patience.whole, self._in_flight) as traced,
                self._client.stream(method, url, json=body, extensions=traced) as response,
            ):
                content = _content(response)
        except httpx2.TransportError as error:
            unsent = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            reason = f"{type(error).__name__}: {error}"
            raise _PassingError(reason, rejected=unsent) from error
        self._answers = True
        status, shown = response.status_code, self._shown(response, content)
        rejected = status in _REJECTED
        if method == "GET" and not (response.is_success or rejected):
            raise RefusedError(shown)
        if status in _PASSING or status >= 500:
            after = _retry_after(response.headers)
            raise _PassingError(shown, after, rejected=rejected)
        if status in _REFUSING:
            raise RefusedError(shown)
        if not response.is_success:
            remedy = "Use the URL to which it redirects." if response.is_redirect else _CHECK
            raise ModelError(f"`{self.url}` answers {shown}. {_FAULTS.get(status, remedy)}")
        try:
            value = read(json.loads(content))
            self._answered = time.monotonic()
            return value
        except (ValueError, RecursionError) as error:
            if method == "GET":
                raise RefusedError(shown) from error
            raise _PassingError(f"an invalid reply, {shown}: {error}") from error

    def _shown(self, response: httpx2.Response, content: bytes) -> str:
        """Return the status and the beginning of a reply, with "…" in place of an API key."""
        text = content[: _SHOWN * 8].decode(errors="replace")
        text = text.replace(self._key, "…") if self._key else text
        return f"{response.status_code} {json.dumps(text[:_SHOWN], ensure_ascii=False)}"


def _content(response: httpx2.Response) -> bytes:
    """Return the body as it was sent; raise _PassingError if it is too long or compressed."""
    coding = response.headers.get("content-encoding", "identity")
    if coding != "identity":
        raise _PassingError(f"a reply with the forbidden compression {coding[:_SHOWN]!r}")
    pieces, size = [], 0
    for piece in response.iter_raw():
        pieces.append(piece)
        size += len(piece)
        if size > _LARGEST:
            raise _PassingError(f"a reply of more than {_LARGEST >> 20} MiB")
    return b"".join(pieces)


@contextmanager
def _cut_after(
    seconds: float, in_flight: set[Callable[[], None]]
) -> Iterator[dict[str, Callable[[str, Mapping[str, object]], None]]]:
    """Return the extensions of a request whose connection is closed after some seconds.

    Time-outs restart with every byte, so they do not end a slow reply. During the request,
    `in_flight` contains the function that closes the connection.
    """
    streams: list[Any] = []

    def trace(event: str, info: Mapping[str, object]) -> None:
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            streams.append(info["return_value"])

    def cut() -> None:
        for stream in streams:
            with suppress(OSError):
                # The method of an SSL socket is not used, because another thread is reading from
                # the socket.
                socket.socket.shutdown(stream.get_extra_info("socket"), socket.SHUT_RDWR)

    timer = Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    in_flight.add(cut)
    try:
        yield {"trace": trace}
    finally:
        in_flight.discard(cut)
        timer.cancel()


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds in `Retry-After`; None if it is absent or invalid.

    A date is compared with the `Date` of the same reply or, without one, with the local clock.
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
