"""How the models of an evaluation are loaded and prompted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbound.benchmarks import Benchmark
from leakbound.engines import Prompting, open_engine
from leakbound.store import ArmKey, QueryShares
from leakbound.types import (
    Decoding,
    Generate,
    Progress,
    Query,
    silent,
)


@dataclass(frozen=True, slots=True)
class ModelArm:
    """An arm to be: its key, its decoding, and the model that draws it, named and open.

    `sharing`: how it shares draws among each question's queries, where it asks rewritings;
    `found`: what a search found to ask instead of the questions, under their ids.
    """

    key: ArmKey
    decoding: Decoding
    model: str
    engine: Generate
    sharing: QueryShares | None = None
    found: tuple[Query, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSettings:
    """How models are loaded and prompted; None leaves the benchmark's or the model's own way."""

    dtype: str = "float32"
    device: str = "auto"
    trust_remote_code: bool = False
    template: str | None = None
    system: str | None = None

    def open(self, model: str, benchmark: Benchmark) -> Generate:
        """The engine for `model`, prompting as the benchmark says where the user did not."""
        prompting = Prompting(
            template=self.template or benchmark.template,
            system=self.system,
            default_system=benchmark.system,
            chat=False if self.template else benchmark.chat,
            compat=benchmark.compat,
        )
        return open_engine(model, prompting, **self.loading)

    @property
    def loading(self) -> dict[str, Any]:
        """How the weights of a model are loaded, whatever its job."""
        return {
            "dtype": self.dtype,
            "device": self.device,
            "trust_remote_code": self.trust_remote_code,
        }

    def jobs(
        self,
        model: str | Path | Generate,
        arms: Mapping[ArmKey, Decoding],
        benchmark: Benchmark,
        progress: Progress = silent,
    ) -> list[ModelArm]:
        """A job for each of the model's arms, the model opened once where it is only named."""
        if isinstance(model, str | Path):
            progress(f"loading {Path(model).name}", 0, 1, "models")
            name, engine = str(model), self.open(str(model), benchmark)
            progress(f"loading {Path(model).name}", 1, 1, "models")
        else:
            name, engine = type(model).__name__, model
        return [ModelArm(key, decoding, name, engine) for key, decoding in arms.items()]
