"""What the plug-in for inspect_ai uses of it, as small as it can be."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType, SimpleNamespace
from typing import Any


@dataclass
class Score:
    value: Any


@dataclass
class SampleScore:
    score: Score
    sample_id: str
    scorer: str = "inspect_ai/includes"


@dataclass
class EarlyStop:
    id: str
    epoch: int
    reason: str


def _marks(*_: Any, **__: Any) -> Any:
    return lambda function: function


@contextmanager
def plug_in() -> Iterator[Any]:
    """The plug-in, over the few names of inspect_ai that it asks for."""
    content = {
        "inspect_ai": {},
        "inspect_ai.dataset": {"Sample": SimpleNamespace},
        "inspect_ai.log": {"EvalSpec": SimpleNamespace},
        "inspect_ai.scorer": {
            "Metric": object, "Scorer": object, "Target": object, "Score": Score,
            "SampleScore": SampleScore, "metric": _marks, "scorer": _marks,
        },
        "inspect_ai.solver": {"TaskState": SimpleNamespace},
        "inspect_ai.util": {"EarlyStop": EarlyStop},
    }  # fmt: skip
    name, before = "leakbound.plugins.inspect_ai", dict(sys.modules)
    for one, names in content.items():
        module = ModuleType(one)
        vars(module).update(names)
        sys.modules[one] = module
    sys.modules.pop(name, None)
    try:
        yield importlib.import_module(name)
    finally:
        for one in [*content, name]:
            sys.modules.pop(one, None)
            if one in before:
                sys.modules[one] = before[one]


def scores(drawn: dict[str, list[Any]]) -> list[SampleScore]:
    return [SampleScore(Score(value), id) for id, own in drawn.items() for value in own]
