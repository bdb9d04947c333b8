"""Workers of a Ray cluster, from a laptop to many machines; the only place that imports Ray."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from leakbound.engines.crew import HiredCrew, Task, Worker, WorkerLostError
from leakbound.errors import InputError, needing
from leakbound.types import Crew

LOCAL = "local"
_ANSWERS = 5.0  # seconds until a cluster is taken to be not there
_STORE = 128 << 20  # bytes of the object store that a cluster of this machine alone gets
_SETTINGS = ("HF_HUB_OFFLINE",)  # of the environment, that workers take over
_MOST_GPUS = 1 << 10  # of one machine
_SLACK = 1e-9  # thirds of a GPU make a whole one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Need:
    """The share of a machine that a worker takes."""

    cpus: int
    gpus: float

    def fits(self, machine: Mapping[str, float]) -> int:
        """How many workers a machine with these resources has room for."""
        fitting = machine.get("CPU", 0.0) / self.cpus
        if self.gpus:
            fitting = min(fitting, machine.get("GPU", 0.0) / self.gpus)
        return math.floor(fitting + _SLACK)

    def __str__(self) -> str:
        return f"{self.cpus} CPU" + (f" and {self.gpus:g} GPU" if self.gpus else "")


@dataclass(frozen=True, slots=True)
class RayWorkers:
    """Workers of a Ray cluster, each a process with the model open.

    A worker that is lost, with its machine or alone, loses no more than what it was doing, which
    another does again; machines that join the cluster get workers while there is work.
    Where Ray is initialised already, that cluster is taken.

    Attributes:
        address: of a running cluster, "auto" for the one that this machine is in, or "local":
            one that lasts as long as the call, on this machine alone.
        most: workers at a time (None: all that there is room for).
        gpus: of each worker; with 0.5, two share one (None: 1 where the cluster has any).
        threads: of each worker on its CPUs. The same number gives the same completions as one
            process with as many.

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
        """Open the cluster's crew, to be left when all is done; what was begun here ends with it.

        Returns:
            A context manager that gives the `Crew`.

        Raises:
            InputError: Ray is not installed, or a cluster that does not answer or has no room for a
                worker.
        """
        with needing("Ray", "ray"):
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
            import ray
        begun = not ray.is_initialized()
        if begun:
            _begin(ray, self.address)
        try:
            crew = HiredCrew(_RayCluster(ray, self._need(ray)), most=self.most)
            try:
                yield crew
            finally:
                crew.close()
        finally:
            if begun:
                ray.shutdown()

    def _need(self, ray: Any) -> _Need:
        """The share that each worker takes; InputError where the cluster has no room for one."""
        machines = _machines(ray)
        gpus = self.gpus
        if gpus is None:
            gpus = 1.0 if any(machine.get("GPU") for machine in machines) else 0.0
        need = _Need(cpus=self.threads, gpus=gpus)
        if not any(need.fits(machine) for machine in machines):
            raise InputError(
                f"no machine of the Ray cluster has room for a worker of {need}: they have "
                f"{'; '.join(map(_described, machines)) or 'nothing'}. Ask for less, or add a "
                "machine."
            )
        return need


def _begin(ray: Any, address: str) -> None:
    """Connect to the cluster, or start one on this machine."""
    own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _STORE}
    host, colon, port = address.rpartition(":")
    try:
        if colon and port.isdecimal() and "/" not in host:  # Ray itself would ask for minutes
            socket.create_connection((host.strip("[]"), int(port)), _ANSWERS).close()
        ray.init(
            address, log_to_driver=False, logging_level="ERROR", **(own if address == LOCAL else {})
        )
    except Exception as error:  # Ray raises a bare one where it starts too slowly
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"no Ray cluster answers at {address!r} ({reason}). Start one there with `ray start`, "
            "run this command on one of its machines, or say 'local'."
        ) from error


def _machines(ray: Any) -> list[Mapping[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _described(machine: Mapping[str, float]) -> str:
    return f"{machine.get('CPU', 0):g} CPU, {machine.get('GPU', 0):g} GPU"


class _Actor(Worker):
    """A worker as Ray starts it, in a process of its own."""

    def __init__(self, threads: int, settings: Mapping[str, str]) -> None:
        super().__init__()
        os.environ.update(settings)
        os.environ["OMP_NUM_THREADS"] = str(threads)  # read when torch loads, with the model

    def stand(self) -> None:
        """Done once the worker can be asked."""


class _RayCluster:
    """See `Cluster`: a worker is a handle of an actor, a ticket the reference of a result."""

    def __init__(self, ray: Any, need: _Need) -> None:
        self._ray, self._need = ray, need
        self._actor = ray.remote(_Actor).options(
            num_cpus=need.cpus,
            num_gpus=need.gpus,
            max_restarts=0,  # whoever gives out the work hires another, and does it again
            scheduling_strategy="SPREAD",
        )
        self._settings = {name: os.environ[name] for name in _SETTINGS if name in os.environ}
        errors = ray.exceptions
        self._losses = (
            errors.RayActorError,
            errors.WorkerCrashedError,
            errors.NodeDiedError,
            errors.ObjectLostError,
            errors.OutOfMemoryError,
        )

    def room(self) -> int:
        return sum(map(self._need.fits, _machines(self._ray)))

    def hire(self) -> tuple[Hashable, Hashable]:
        worker = self._actor.remote(self._need.cpus, self._settings)
        return worker, worker.stand.remote()

    def send(self, worker: Any, task: Task) -> Hashable:
        ticket: Hashable = worker.do.remote(task)
        return ticket

    def wait(self, tickets: Sequence[Any], seconds: float) -> Sequence[Hashable]:
        if not tickets:
            time.sleep(seconds)
            return []
        done, _ = self._ray.wait([*tickets], timeout=seconds)
        finished: Sequence[Hashable] = done
        return finished

    def fetch(self, ticket: Any) -> Any:
        try:
            return self._ray.get(ticket)
        except self._losses as error:
            raise WorkerLostError(str(error).strip().partition("\n")[0]) from error
        except self._ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from error

    def dismiss(self, worker: Any) -> None:
        with suppress(self._ray.exceptions.RayError, ValueError):
            self._ray.kill(worker)
