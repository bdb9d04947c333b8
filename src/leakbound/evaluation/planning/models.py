"""The models of an evaluation, open, each with the arms that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.store import ArmKey, QueryShares
from leakbound.study import ModelSettings
from leakbound.types import Decoding, Generate, Progress, Query, silent


@dataclass(frozen=True, slots=True)
class ModelArm:
    """An arm to be: its key, its decoding, and the model that draws it, named and open.

    `shares`: how it shares draws among each question's queries, where it asks rewritings;
    `attack_queries`: what a search found to ask instead of the questions, under their ids.
    """

    key: ArmKey
    decoding: Decoding
    model: str
    engine: Generate
    shares: QueryShares | None = None
    attack_queries: tuple[Query, ...] = ()


def model_arms(
    model: str | Path | Generate,
    arms: Mapping[ArmKey, Decoding],
    benchmark: Benchmark,
    settings: ModelSettings,
    progress: Progress = silent,
) -> list[ModelArm]:
    """The model's arms to be drawn; it is opened once where it is only named."""
    if isinstance(model, str | Path):
        progress(f"loading {Path(model).name}", 0, 1, "models")
        name, engine = str(model), settings.open(str(model), benchmark)
        progress(f"loading {Path(model).name}", 1, 1, "models")
    else:
        name, engine = type(model).__name__, model
    return [ModelArm(key, decoding, name, engine) for key, decoding in arms.items()]
