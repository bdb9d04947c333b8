"""The models of an evaluation, open, each with the arms that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from leakbound.benchmarks import Benchmark
from leakbound.engines import engine_of, location_of
from leakbound.engines.addresses import server_of, short_name
from leakbound.engines.crew import CrewEngine
from leakbound.errors import InputError
from leakbound.store import ArmKey, QueryShares
from leakbound.study import ModelSettings
from leakbound.types import Crew, Decoding, Generate, Progress, Query, during, silent


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
    crew: Crew | None = None,
    progress: Progress = silent,
) -> list[ModelArm]:
    """The model's arms to be drawn; it is opened once where it is only named.

    With a crew it is opened at its workers; InputError for an engine, which stands here.
    """
    if isinstance(model, str | Path):
        name = str(model)
        with during(progress, f"loading {short_name(name)}"):
            engine = _opened(name, benchmark, settings, crew)
    else:
        name, engine = type(model).__name__, model
        if crew is not None:
            raise InputError(
                f"workers open a model by its name, and this is an engine, {name}. Name the model, "
                "or leave `workers` out."
            )
    return [ModelArm(key, decoding, name, engine) for key, decoding in arms.items()]


def require_there(model: str | Path | Generate | None) -> None:
    """Refuse, before another model is loaded, one whose files are not there."""
    if isinstance(model, str | Path):
        engine, where = engine_of(str(model))
        if engine == "transformers":
            from leakbound.engines.files import ModelFiles  # the hub's library loads with it

            ModelFiles.find(where)


def _opened(
    model: str, benchmark: Benchmark, settings: ModelSettings, crew: Crew | None
) -> Generate:
    """The engine of a model, here or at the workers, which may work in other folders."""
    if crew is None:
        return settings.open(model, benchmark)
    if server_of(model) is not None:
        raise InputError(
            f"`{model}` runs on a server, and what a worker had asked of it when it was lost, the "
            "next one would ask again: draws would be replaced. Leave the workers out."
        )
    name, where = engine_of(model)
    found = str(Path(where).resolve()) if Path(where).exists() else where
    return CrewEngine(crew, settings.opener(location_of(name, found), benchmark))
