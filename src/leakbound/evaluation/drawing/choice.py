"""`auto:MODEL`: the engine that draws a study soonest, of those that are installed, by its figures.

Each is tried in a process of its own, which gives back all memory that it took.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias, TypeVar

from leakbound.benchmarks import Benchmark
from leakbound.engines import LOCAL, engine_of, location_of
from leakbound.errors import InputError, LeakboundError
from leakbound.evaluation.drawing.probe import Cost, probe
from leakbound.evaluation.planning.plan import Prepared, SteeredPlan
from leakbound.store import Run
from leakbound.study import ModelSettings, Rewritings
from leakbound.types import Decoding, Progress, silent

AUTO = "auto"
READS = "transformers"  # the engine that knows probabilities
M = TypeVar("M")
Found: TypeAlias = "Cost | str"
"""What an engine would cost, or why it cannot draw this."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine that a study is drawn by.

    Attributes:
        engine: its name.
        why: in words, with figures where engines were compared.
        found: what each would cost, or why it cannot draw this; empty where none was tried.
    """

    engine: str
    why: str
    found: Mapping[str, Found] = field(default_factory=dict)

    @property
    def cost(self) -> Cost | None:
        """What the study would cost by it; None where it was not tried."""
        found = self.found.get(self.engine)
        return found if isinstance(found, Cost) else None

    def of(self, model: M) -> M | str:
        """A model that leaves its engine open, by the one that was chosen; any other as it is."""
        if not leaves_open(model):
            return model
        return location_of(self.engine, engine_of(str(model))[1])


def leaves_open(model: object) -> bool:
    """Whether a model is named `auto:MODEL`."""
    return isinstance(model, str) and engine_of(model)[0] == AUTO


def choose_engine(
    model: str, asked: Prepared, out: Path | None = None, progress: Progress = silent
) -> EngineChoice:
    """The engine of the run at `out`, where it has begun; else the one that draws soonest.

    Raises InputError where no engine that is installed can draw this.
    """
    _, where = engine_of(model)
    begun = Run.open(out).arms if out is not None and (out / "run.json").is_file() else {}
    if drawn := next((arm for arm in begun.values() if not arm.key.is_control), None):
        name, _ = engine_of(drawn.spec.model)
        return EngineChoice(name, f"{name}, which this run began with")
    drawing = asked.drawing
    if drawing.explores or drawing.prove is not None or asked.study.metrics:
        proved = "measured" if drawing.prove is None else "proved"
        what = "explored" if drawing.explores else proved
        return EngineChoice(READS, f"{READS}: only it knows probabilities, as what is {what} needs")
    there = [name for name, module in LOCAL.items() if find_spec(module)]
    if len(there) == 1:
        others = ", ".join(name for name in LOCAL if name not in there)
        return EngineChoice(there[0], f"{there[0]}: {others} is not installed")
    found: dict[str, Found] = {}
    for done, name in enumerate(there):
        progress(f"trying {name}", done, len(there), "engines")
        found[name] = _tried(location_of(name, where), asked)
    progress("trying engines", len(there), len(there), "engines")
    return _soonest(found)


def _soonest(found: Mapping[str, Found]) -> EngineChoice:
    """The engine of the least expected time."""
    costs = {name: cost for name, cost in found.items() if isinstance(cost, Cost)}
    if not costs:
        said = " ".join(f"{name}: {why}" for name, why in found.items())
        raise InputError(f"no engine that is installed can draw this. {said}")
    first = min(costs, key=lambda name: costs[name].expected)
    figures = [
        f"{name} about {cost.expected / 60:.1f} minutes ({cost.rate:,.0f} tokens a second, "
        f"{cost.saving:.1f} for each one forwarded)"
        if isinstance(cost, Cost)
        else f"{name} cannot: {cost}"
        for name, cost in found.items()
    ]
    return EngineChoice(first, f"{first}: {'; '.join(figures)}", found)


@dataclass(frozen=True, slots=True)
class _Trial:
    """What a process that tries an engine is given."""

    location: str
    benchmark: Benchmark
    drawing: SteeredPlan
    decodings: tuple[Decoding, ...]
    rewritings: Rewritings | None
    settings: ModelSettings


def _tried(location: str, asked: Prepared) -> Found:
    """What the study would cost by this engine, tried in a process of its own."""
    study, task = asked.study, asked.benchmark
    trial = _Trial(
        location,
        replace(task, left_out=(), others={}, utility={}, openers={}),
        replace(asked.drawing, scorer=None),
        study.decodings or (task.decoding,),
        study.rewritings,
        study.settings,
    )
    with tempfile.TemporaryDirectory() as folder:
        given, told = Path(folder, "given"), Path(folder, "told")
        given.write_bytes(pickle.dumps(trial))
        command = f"from {__name__} import answer; answer({str(given)!r}, {str(told)!r})"
        done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
        if not told.exists():
            said = (done.stderr.strip() or f"exit status {done.returncode}").splitlines()[-1]
            return f"its trial ended early: {said}"
        found: Found = pickle.loads(told.read_bytes())
        return found


def answer(given: str, told: str) -> None:
    """Try an engine as the file `given` says, and write what was found into `told`."""
    trial: _Trial = pickle.loads(Path(given).read_bytes())
    found: Found
    try:
        found = probe(
            trial.location,
            trial.benchmark,
            n=trial.drawing,
            decoding=trial.decodings,
            settings=trial.settings,
            rewritings=trial.rewritings,
        )
    except LeakboundError as error:
        found = str(error)
    Path(told).write_bytes(pickle.dumps(found))
