"""A cluster in this process: workers that come, are lost and go on as a test says."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from leakbound.engines.crew import HiredCrew, Task, Worker, WorkerLostError
from leakbound.types import Crew


@dataclass
class FakeCluster:
    """What is sent to a worker, and what comes back, is pickled, as between processes.

    The task that was sent last is done first. `rooms`: how many workers there is room for, from
    one look to the next; the last holds on. `loses`: the numbers of the tasks, in the order in
    which they are sent, that take their worker with them; `stillborn` that of the workers that
    never stand.
    """

    rooms: Sequence[int] = (2,)
    loses: frozenset[int] = frozenset()
    stillborn: frozenset[int] = frozenset()
    sent: list[Task] = field(default_factory=list)
    by: list[int] = field(default_factory=list)
    hired: int = 0
    most_out: int = 0
    _looks: int = 0
    _workers: dict[int, Worker] = field(default_factory=dict)
    _out: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """Its crew: a cluster is where its workers are to be had."""
        crew = HiredCrew(self, look=0.0, patience=0.1)
        try:
            yield crew
        finally:
            crew.close()
            assert not self._workers

    def room(self) -> int:
        self._looks += 1
        return self.rooms[min(self._looks, len(self.rooms)) - 1]

    def hire(self) -> tuple[int, str]:
        self.hired += 1
        self._workers[self.hired] = Worker()
        return self.hired, f"hired {self.hired}"

    def send(self, worker: int, task: Task) -> int:
        assert worker not in [busy for busy, _ in self._out.values()]
        self.sent.append(task)
        self.by.append(worker)
        number = len(self.sent)
        self._out[number] = worker, pickle.dumps(task)
        self.most_out = max(self.most_out, len(self._out))
        return number

    def wait(self, tickets: Sequence[Any], seconds: float) -> Sequence[Any]:
        hired = [ticket for ticket in tickets if isinstance(ticket, str)]
        return hired or [max(tickets)] if tickets else []

    def fetch(self, ticket: Any) -> Any:
        if isinstance(ticket, str):
            if int(ticket.split()[-1]) in self.stillborn:
                raise WorkerLostError("it has no leakbound")
            return None
        worker, task = self._out.pop(ticket)
        if ticket in self.loses:
            raise WorkerLostError(f"worker {worker} ran out of memory")
        return pickle.loads(pickle.dumps(self._workers[worker].do(pickle.loads(task))))

    def dismiss(self, worker: int) -> None:
        del self._workers[worker]
        self._out = {n: sent for n, sent in self._out.items() if sent[0] != worker}
