"""Distribute jobs to workers of a Ray cluster; the only module that imports Ray."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from leakbound.errors import IncompleteError, InputError, needing
from leakbound.types import Crew, Opener

J = TypeVar("J")
R = TypeVar("R")
T = TypeVar("T")

LOCAL = "local"
_ANSWERS = 5.0  # seconds until a cluster must answer
_STORE = 128 << 20  # bytes of the object store of a cluster of only this machine
_SETTINGS = ("HF_HUB_OFFLINE",)  # environment variables for workers
_MOST_GPUS = 1 << 10  # the most GPUs of one machine
_SLACK = 1e-9  # rounding: three thirds of a GPU are one GPU
_MOST_LOSSES = 5  # workers that one job may lose; after that, the job is taken to be the cause
_PATIENCE = 600.0  # seconds without any worker
_LOOK = 1.0  # seconds between two searches for room


@dataclass(frozen=True, slots=True)
class Task:
    """A job for a worker, with the opener of the model that the job needs."""

    opener: Opener[Any]
    do: Callable[[Any, Any], Any]
    job: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerShare:
    """The resources of a machine that a worker needs."""

    cpus: int
    gpus: float

    def fits(self, machine: Mapping[str, float]) -> int:
        """Return the number of workers for which a machine with these resources has room."""
        fitting = machine.get("CPU", 0.0) / self.cpus
        if self.gpus:
            fitting = min(fitting, machine.get("GPU", 0.0) / self.gpus)
        return math.floor(fitting + _SLACK)

    def __str__(self) -> str:
        return f"{self.cpus} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")


@dataclass(frozen=True, slots=True)
class RayWorkers:
    """Workers of a Ray cluster; each worker is a process that opens the model.

    If a worker or a machine is lost, other workers repeat its current jobs. Workers are started on
    machines that join the cluster, as long as there is work. If Ray is already initialised, the
    existing connection is used.

    Attributes:
        address: the address of a running cluster, "auto" for the cluster of this machine, or
            "local" for a temporary cluster on this machine only.
        most: the maximum number of simultaneous workers (None: all that fit).
        gpus: GPUs per worker. With 0.5, two workers share a GPU. None: 1 if the cluster has GPUs,
            else 0.
        threads: CPU threads per worker. One process with the same number of threads draws the same
            completions.

    Raises:
        InputError: numbers that no worker can have.
    """

    address: str = LOCAL
    most: int | None = None
    gpus: float | None = None
    threads: int = 1

    def __post_init__(self) -> None:
        for name, value, least in (("most", self.most, 1), ("threads", self.threads, 1)):
            if value is not None and value < least:
                raise InputError(f"`{name}` of the workers must be at least {least}, got {value}.")
        if self.gpus is not None and not (0 <= self.gpus < 1 or self.gpus in range(1, _MOST_GPUS)):
            raise InputError(
                f"`gpus` of a worker must be a fraction below 1 or a whole number, got {self.gpus}."
            )

    @contextmanager
    def open(self) -> Iterator[Crew]:
        """Open the workers of the cluster; a cluster started here shuts down with the context.

        Returns:
            A context manager that returns the `Crew`.

        Raises:
            InputError: Ray is not installed, or the cluster does not answer or has no room for a
                worker.
        """
        with needing("Ray", "ray"):
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report to its makers
            import ray
        begun = not ray.is_initialized()
        if begun:
            _begin(ray, self.address)
        try:
            with closing(RayCrew(ray, self._need(ray), self.most)) as crew:
                yield crew
        finally:
            if begun:
                ray.shutdown()

    def _need(self, ray: Any) -> WorkerShare:
        """Return the resources of each worker; raise InputError if the cluster has too few."""
        machines = _machines(ray)
        gpus = self.gpus
        if gpus is None:
            gpus = 1.0 if any(machine.get("GPU") for machine in machines) else 0.0
        need = WorkerShare(cpus=self.threads, gpus=gpus)
        if not any(need.fits(machine) for machine in machines):
            resources = [f"{m.get('CPU', 0):g} CPU, {m.get('GPU', 0):g} GPU" for m in machines]
            raise InputError(
                f"no machine of the cluster has room for a worker with {need}. The machines have "
                f"{'; '.join(resources) or 'nothing'}. Request fewer resources, or add a machine."
            )
        return need


def _begin(ray: Any, address: str) -> None:
    """Connect to the cluster, or start one on this machine."""
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE}
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal() and "/" not in host:  # Ray would try to connect for minutes
            socket.create_connection((host.strip("[]"), int(port)), _ANSWERS).close()
        ray.init(
            address, log_to_driver=False, logging_level="ERROR", **(own if address == LOCAL else {})
        )
    except Exception as error:  # Ray raises a plain Exception if it starts too slowly
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"no Ray cluster answers at {address!r} ({reason}). Start a cluster with `ray start`, "
            "run this command on a machine of the cluster, or use the address 'local'."
        ) from error


def _machines(ray: Any) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


class Worker:
    """A worker process; it opens each model once."""

    def __init__(self) -> None:
        self._open: dict[Opener[Any], Any] = {}

    def do(self, tasks: Sequence[Task]) -> Any:
        """Run tasks in order.

        Args:
            tasks: the tasks; the call with an empty list returns when the worker has started.

        Returns:
            The result of the last task.
        """
        result = None
        for task in tasks:
            if task.opener not in self._open:
                self._open[task.opener] = task.opener.open()
            result = task.do(self._open[task.opener], task.job)
        return result


class RayCrew:
    """See `Crew`. Each worker is an actor of Ray; workers start while there is room.

    Another worker repeats the job of a lost worker. Ray's restarts and retries are off. Ray repeats
    an actor's job only on the same actor, and a restarting actor waits for room even if other
    actors are idle. Workers are not Ray's tasks, because a task reserves a GPU only while it runs.
    A later task of the same process could reserve a GPU that does not contain the model.

    Args:
        ray: the library, initialised.
        need: the resources that a worker needs.
        most: the maximum number of simultaneous workers (None: all that fit).
        look: seconds between two searches for room.
        patience: seconds without a worker after which IncompleteError is raised.
    """

    def __init__(
        self,
        ray: Any,
        need: WorkerShare,
        most: int | None = None,
        *,
        look: float = _LOOK,
        patience: float = _PATIENCE,
    ) -> None:
        self._ray, self._need, self._most = ray, need, most
        self._look, self._patience = look, patience
        settings = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
        self._actor = ray.remote(Worker).options(
            num_cpus=need.cpus,
            num_gpus=need.gpus,
            max_restarts=0,
            scheduling_strategy="SPREAD",
            runtime_env={"env_vars": {**settings, "OMP_NUM_THREADS": str(need.cpus)}},
        )
        self._starting: dict[Any, Any] = {}  # ticket -> worker
        self._idle: list[Any] = []
        self._prepared: dict[Any, int] = {}  # worker -> number of preparations sent to it
        self._preparations: dict[tuple[Opener[Any], Any], tuple[int, Task]] = {}
        self._count = 0  # of preparations
        self._looked = self._seen = -math.inf  # times: last search for room, last worker
        self._why = "the cluster is busy"

    def each(
        self, opener: Opener[T], do: Callable[[T, J], R], jobs: Iterable[J]
    ) -> Iterator[tuple[J, R]]:
        """See `Crew.each`."""
        self._seen = time.monotonic()
        new, again = ((job, 0) for job in jobs), list[tuple[J, int]]()  # with the workers it lost
        out: dict[Any, tuple[Any, tuple[J, int]]] = {}
        try:
            while True:
                self._hire()
                while self._idle and (sent := again.pop() if again else next(new, None)):
                    worker = self._idle.pop()
                    out[self._send(worker, Task(opener, do, sent[0]))] = worker, sent
                if self._idle and not out:
                    return
                for ticket in self._finished(out):
                    worker, (job, losses) = out.pop(ticket)
                    self._idle.append(worker)
                    try:
                        result = self._ray.get(ticket)
                    except self._ray.exceptions.RayTaskError as error:
                        raise (error.cause or error) from error
                    except self._ray.exceptions.RayError as error:  # the worker is gone
                        self._dismiss(worker, error)
                        if losses + 1 == _MOST_LOSSES:
                            raise IncompleteError(
                                f"{_MOST_LOSSES} workers were lost one after another at the same "
                                f"task, the last with the error: {self._why}. Finished work is "
                                "kept. Give workers more memory, or use fewer workers per machine, "
                                "and run the same command again."
                            ) from error
                        again.append((job, losses + 1))
                    else:
                        yield job, result
        finally:
            for worker, _ in out.values():  # their results are not needed
                self._dismiss(worker)

    def prepare(self, opener: Opener[T], do: Callable[[T, J], object], job: J) -> None:
        """See `Crew.prepare`."""
        self._count += 1
        self._preparations.pop((opener, do), None)
        self._preparations[opener, do] = self._count, Task(opener, do, job)

    def close(self) -> None:
        """End every worker."""
        for worker in list(self._prepared):
            self._dismiss(worker)

    def _hire(self) -> None:
        """Start workers until the cluster has no room, at most once per `look` seconds."""
        now = time.monotonic()
        if now - self._looked < self._look:
            return
        self._looked = now
        room = sum(map(self._need.fits, _machines(self._ray)))
        for _ in range(len(self._prepared), room if self._most is None else min(room, self._most)):
            worker = self._actor.remote()
            self._prepared[worker] = 0
            self._starting[worker.do.remote([])] = worker

    def _send(self, worker: Any, task: Task) -> Any:
        """Send a task, preceded by missing preparations; return its ticket."""
        done, self._prepared[worker] = self._prepared[worker], self._count
        first = [step for number, step in self._preparations.values() if number > done]
        return worker.do.remote([*first, task])

    def _finished(self, out: Mapping[Any, object]) -> list[Any]:
        """Return the finished tickets of jobs; add workers that have started to the idle workers.

        Wait at most `look` seconds.
        """
        tickets, done = [*out, *self._starting], list[Any]()
        if tickets:
            done, _ = self._ray.wait(tickets, timeout=self._look)
        else:
            time.sleep(self._look)
        for ticket in [ticket for ticket in done if ticket in self._starting]:
            worker = self._starting.pop(ticket)
            try:
                self._ray.get(ticket)
                self._idle.append(worker)
            except self._ray.exceptions.RayError as error:
                self._dismiss(worker, error)  # the next search for room replaces it
        if out or self._idle:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > self._patience:
            raise IncompleteError(
                f"no worker was available for {self._patience:.0f} seconds: {self._why}. Finished "
                "work is kept. Run the same command again on free machines, or without workers."
            )
        return [ticket for ticket in done if ticket in out]

    def _dismiss(self, worker: Any, why: Exception | None = None) -> None:
        """End a worker; `why`: the error with which it was lost."""
        if why is not None:
            self._why = str(why).strip().partition("\n")[0]
        del self._prepared[worker]
        if worker in self._idle:
            self._idle.remove(worker)
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(worker)
