"""All that is asked of an evaluation: one record for Python, the command line and run.json."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from leakbound.benchmarks import Benchmark, Loaded
from leakbound.benchmarks.benchmark import DRAWS
from leakbound.errors import InputError
from leakbound.evaluation.study.attack import Attack
from leakbound.evaluation.study.plan import BUDGET, Drawing
from leakbound.evaluation.study.rewritings import Inputs
from leakbound.evaluation.study.settings import ModelSettings
from leakbound.store import Run
from leakbound.types import Decoding, Generate, Scorer

CONFIDENCE = 0.99
_OBJECT = "python"  # marks what was handed over as an object, which no file can hold


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What `evaluate` is asked for beside the model, the folder, and who is told of progress.

    The fields are its arguments, explained there. What is None or empty has not been said;
    `resolved` fills it in from the benchmark, whose profile counts as its own. run.json holds
    every field but `servers`, so that the same study can be carried out again.

    `servers`: the URLs of the chat servers that scorers and inputs may ask, as `servers_of` finds
    them in what the user wrote. A record is never read for them: each time, they are named anew.
    """

    benchmark: Loaded | None = None
    n: int | None = None
    until: str | None = None
    explore: str | None = None
    budget: int | None = None
    decoding: tuple[Decoding, ...] = ()
    scorers: tuple[str, ...] = ()
    calibration: str | Path | None = None
    inputs: Inputs | None = None
    attack: Attack | None = None
    metrics: tuple[str, ...] = ()
    control: str | Path | Generate | None = None
    seed: int = 0
    confidence: float = CONFIDENCE
    settings: ModelSettings = field(default_factory=ModelSettings)
    servers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, run: Run, *names: str) -> Study:
        """The study that made a run, or only these fields of it; of imported draws, nothing said.

        Raises InputError for a control that was handed over as an object, and for inputs that are
        no longer there.
        """
        stored = run.record.get("study", {})
        return cls.from_dict({name: stored[name] for name in names or stored if name in stored})

    @property
    def explores(self) -> bool:
        """True if distributions are to be explored, not only drawn from."""
        return self.explore is not None

    def resolved(self, task: Benchmark) -> Study:
        """The same with everything said that drawing depends on.

        Raises InputError for a number of draws where draws are not counted, or a budget without
        exploring.
        """
        idle, says = ("n", "with") if self.explores else ("budget", "without")
        if (number := getattr(self, idle)) is not None:
            raise InputError(
                f"`{idle}` {number} has no meaning {says} exploring: the draws of an exploration "
                "follow from its --explore and --budget, those of a sample are -n. Leave one out."
            )
        return replace(
            self,
            benchmark=task.loaded,
            n=None if self.explores else _first(self.n, task.n),
            budget=_first(self.budget, BUDGET) if self.explores else None,
            decoding=self.decoding or (task.decoding,),
        )

    def drawing(self, scorers: Sequence[Scorer]) -> Drawing:
        """How each question is to be drawn from, the first scorer steering where one does."""
        return Drawing.read(
            scorers,
            n=_first(self.n, DRAWS),
            until=self.until,
            explore=self.explore,
            budget=_first(self.budget, BUDGET),
            attack=self.attack,
            confidence=self.confidence,
        )

    def departures(self, task: Benchmark) -> tuple[str, ...]:
        """What was asked for otherwise than the benchmark's profile has it, as a note."""
        if task.profile is None:
            return ()
        ours, theirs = self.decoding, task.decoding
        pairs: list[tuple[str, object, object]] = [
            ("n", self.n, task.n),
            ("scorers", ", ".join(self.scorers) or None, ", ".join(task.scorers)),
            ("template", self.settings.template, task.template),
        ]
        if len(ours) == 1:
            names = (field.name for field in fields(theirs))
            pairs += [(name, getattr(ours[0], name), getattr(theirs, name)) for name in names]
        elif ours:
            pairs.append(("decoding", ", ".join(how.name for how in ours), theirs.name))
        other = [f"{k} {a!r} ({b!r})" for k, a, b in pairs if a is not None and a != b]
        if not other:
            return ()
        return (f"profile {task.profile}, but (its own in brackets): {', '.join(other)}",)

    def to_dict(self) -> dict[str, Any]:
        """As run.json holds it; files are named so that they are found from any folder."""
        values = {name: _stored(name, getattr(self, name)) for name in STUDY_FIELDS}
        as_read: dict[str, Any] = json.loads(json.dumps(values))
        return as_read

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Study:
        """The inverse of `to_dict`; what is missing has not been said.

        Raises InputError for a field that this version does not know, see also `of`.
        """
        if unknown := sorted(set(values).difference(STUDY_FIELDS)):
            raise InputError(
                f"the study on record has {', '.join(unknown)}, which this version does not know. "
                "Use the version of leakbound that made the run."
            )
        return cls(**{name: _read(name, value) for name, value in values.items()})


STUDY_FIELDS = tuple(f.name for f in fields(Study) if f.name != "servers")
"""What is recorded of a study."""


def words(value: str | Sequence[str]) -> tuple[str, ...]:
    """Names as a tuple; a single text is one name."""
    return (value,) if isinstance(value, str) else tuple(value)


def _first(said: int | None, default: int) -> int:
    return default if said is None else said


def _stored(name: str, value: Any) -> Any:
    if isinstance(value, Inputs):
        return asdict(value) | {"source": _found_anywhere(value.source)}
    if isinstance(value, Decoding):
        return value.to_dict()
    if is_dataclass(value) and name != "control":
        return asdict(value)  # type: ignore[arg-type]
    if isinstance(value, tuple):
        return [_stored(name, member) for member in value]
    if isinstance(value, Path) or (name in ("control", "calibration") and isinstance(value, str)):
        return str(Path(value).resolve()) if Path(value).exists() else str(value)
    if name == "control" and value is not None:
        return {_OBJECT: type(value).__name__}
    return value


def _found_anywhere(source: str) -> str:
    kind, _, path = source.partition(":")
    return f"file:{Path(path).resolve()}" if kind == "file" else source


def _named(control: Any) -> str:
    if isinstance(control, Mapping):
        raise InputError(
            f"the control of the run is a {control[_OBJECT]} that was handed over in Python, and a "
            "record holds names only. Name a model or a finished run with --control."
        )
    return str(control)


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "benchmark": lambda value: Loaded(**value),
    "decoding": lambda value: tuple(Decoding.from_dict(one) for one in value),
    "scorers": tuple,
    "inputs": lambda value: Inputs(**value),
    "attack": lambda value: Attack(
        value["budget"], tuple(value["temperatures"]), tuple(value["top_ps"])
    ),
    "metrics": tuple,
    "control": _named,
    "settings": lambda value: ModelSettings(**value),
}


def _read(name: str, value: Any) -> Any:
    return _FIELDS[name](value) if name in _FIELDS and value is not None else value
