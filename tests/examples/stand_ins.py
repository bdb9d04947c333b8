"""What the examples use of inspect_ai, as small as it can be; the real one where it is there."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    """An example, freshly imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass
class Score:
    value: float
    metadata: dict[str, Any] | None = None

    def as_float(self) -> float:
        return self.value


@dataclass
class Made:
    """Whatever was made, with what it was made of."""

    given: tuple[Any, ...] = ()
    named: dict[str, Any] = field(default_factory=dict)


def _make(*given: Any, **named: Any) -> Made:
    return Made(given, named)


def _marks(*given: Any, **named: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return given[0] if given and not named else lambda function: function


@contextmanager
def stand_in_for_inspect() -> Iterator[None]:
    """The few calls of inspect_ai that the example makes."""
    marks = {"metric": _marks, "scorer": _marks, "score_reducer": _marks}
    types = dict.fromkeys(("Metric", "SampleScore", "Scorer", "ScoreReducer", "Target"), Made)
    modules = {
        "inspect_ai": {"Epochs": _make, "Task": _make, "task": _marks},
        "inspect_ai.dataset": {"MemoryDataset": _make, "Sample": _make},
        "inspect_ai.scorer": {**marks, **types, "Score": Score},
        "inspect_ai.solver": {"TaskState": Made, "generate": _make},
    }
    before = {name: sys.modules.get(name) for name in modules}
    for name, content in modules.items():
        module = ModuleType(name)
        vars(module).update(content)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                del sys.modules[name]
            else:
                sys.modules[name] = known


def state(text: str) -> Any:
    """As far as a scorer looks at it."""
    return SimpleNamespace(output=SimpleNamespace(completion=text))


def target(text: str) -> Any:
    return SimpleNamespace(text=text)


def sample_score(score: Any) -> Any:
    return SimpleNamespace(score=score)
