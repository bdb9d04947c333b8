"""What takes a while, made once for each key and on a thread of its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Maker(Generic[T]):
    """Makes values by key, one after the other, and keeps the last ones.

    keep: how many. The thread ends with the process, whatever it is at: it writes nothing.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._made: OrderedDict[Hashable, Future[T]] = OrderedDict()
        self._lock = Lock()
        self._jobs: SimpleQueue[tuple[Future[T], Callable[[], T]] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, key: Hashable, make: Callable[[], T], wait: float) -> T | None:
        """The value of this key; None where it is not there after so many seconds.

        Raises what `make` raised.
        """
        with self._lock:
            if key not in self._made:
                future: Future[T] = Future()
                self._made[key] = future
                self._jobs.put((future, make))
            self._made.move_to_end(key)
            asked = self._made[key]
            while len(self._made) > self._keep:
                self._made.popitem(last=False)
        try:
            return asked.result(timeout=max(wait, 0.0))
        except NotYet:
            return None

    def close(self) -> None:
        """Begin nothing more, and wait a moment for what is being made."""
        with self._lock:
            for future in self._made.values():
                future.cancel()
        self._jobs.put(None)
        self._thread.join(timeout=2)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, make = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
