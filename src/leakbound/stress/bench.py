"""The base class of every stress, and `Bench`: all inputs of a stress except the model."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from leakbound.benchmarks import Benchmark
from leakbound.engines import engine_of, location_of
from leakbound.engines.addresses import server_of
from leakbound.errors import InputError, LeakboundError
from leakbound.store.files import read_json, write_json
from leakbound.study import ModelSettings
from leakbound.types import Generate, JsonObject, Progress, Query, silent
from leakbound.types.records import spec_of

MADE = "stress.json"
"""The file in a stressed model's folder that records how it was made."""
Subject = str | Path | Generate
"""The stressed model: a folder or hub name, or an engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """The inputs of a stress, except the model.

    Attributes:
        task: the benchmark whose questions are queried.
        settings: how models are loaded and prompted.
        seed: the seed of a stress's random choices.
        progress: called during long computations.
    """

    task: Benchmark
    settings: ModelSettings
    seed: int = 0
    progress: Progress = silent


class Stress(ABC):
    """A change of a model or of its queries before the model is evaluated.

    A stress is a frozen dataclass of its settings. Its text is `name:setting=value,...`. A stress
    is deterministic: equal stresses of equal models on equal benches make equal models and queries.
    """

    name: ClassVar[str]
    """Its key in `STRESSES`."""
    drawn_only: ClassVar[bool] = False
    """Whether models under this stress have draws only, and no exact masses."""

    @property
    def spec(self) -> str:
        """The text of the stress: its name, and the settings that differ from their defaults.

        The first setting is written without its name.
        """
        return spec_of(self.name, self, first=True)

    @property
    def each(self) -> Sequence[Stress]:
        """The stresses that this stress consists of; each has one arm. By default only itself."""
        return (self,)

    def require(self, bench: Bench, model: Subject) -> None:  # noqa: B027
        """Raise InputError, before anything is drawn, if the stress does not fit this model."""

    def model(self, bench: Bench, model: Subject, out: Path) -> Subject:
        """Return the model to query: this model, or a changed model made in the folder `out`.

        A model that already exists is not made again.
        """
        return model

    def queries(self, bench: Bench) -> tuple[Query, ...]:
        """Return one query per prompt, with the prompt's id; empty if no question changes."""
        return ()

    def engine(self, bench: Bench, engine: Generate) -> Generate:
        """Return the engine that draws: the model's engine, or an engine that wraps it."""
        return engine


class OfWeights(Stress):
    """A stress that writes a changed model into a separate folder."""

    def require(self, bench: Bench, model: Subject) -> None:
        """Refuse an engine, a served model and a .gguf file; their weights cannot be changed."""
        why = None
        if not isinstance(model, str | Path):
            why = f"is an engine, {type(model).__name__}"
        elif server_of(str(model)) is not None:
            why = "is on a server, where weights cannot be changed"
        elif str(model).lower().endswith(".gguf"):
            why = "is a .gguf file, whose weights are packed"
        if why is not None:
            raise InputError(
                f"the stress {self.spec!r} changes weights, but `{model}` {why}. Use a folder with "
                "the model's weights, or omit this stress."
            )

    def model(self, bench: Bench, model: Subject, out: Path) -> Subject:
        """Return the changed model, with the same kind of engine."""
        engine, where = engine_of(str(model))
        if out.exists() and not self._made(where, out):
            shutil.rmtree(out)  # it is incomplete, of another model, or to be replaced
        if not out.exists():
            self.make(bench, where, out)
            write_json(out / MADE, self._record(where, out))
        return location_of(engine, str(out))

    def _made(self, model: str, out: Path) -> bool:
        """Return whether the folder contains the changed model that was made from `model`."""
        try:
            return read_json(out / MADE, "") == self._record(model, out)
        except LeakboundError:
            return False

    def _record(self, model: str, out: Path) -> JsonObject:
        from leakbound.engines.files import ModelFiles, files_digest

        folders = {"of": model, "weights": str(out)}
        digests = {name: files_digest(ModelFiles.find(at).weights) for name, at in folders.items()}
        return {"stress": self.spec, **digests}

    @abstractmethod
    def make(self, bench: Bench, model: str, out: Path) -> None:
        """Write the changed model into the folder `out`, completely or not at all."""
