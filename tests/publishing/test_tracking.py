"""Trackers get the statements about all questions with both ends, and no text."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import leakbound
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.store import Run
from leakbound.testing import FakeEngine
from leakbound.types import Prompt

SECRET = "the secret"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    task = Benchmark(
        name="b",
        prompts=tuple(Prompt(id=p, question=f"{p}?", answer=SECRET) for p in "ab"),
        origin="",
        scorers=("rouge-l-recall>=0.5",),
        max_new_tokens=8,
    )
    law = {SECRET: 0.25, "no": 0.75}
    out = tmp_path_factory.mktemp("tracked") / "run"
    return evaluate(FakeEngine({"a": law, "b": law}), task, out=out, n=64)


class Told(ModuleType):
    """A tracker with W&B's three calls, that writes down what it is told."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None)
        self.said: list[tuple[str, Any]] = []

    def init(self, **said: Any) -> None:
        self.said.append(("init", said))

    def log(self, figures: dict[str, float]) -> None:
        self.said.append(("log", figures))

    def finish(self) -> None:
        self.said.append(("finish", None))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_tracker_is_told_the_figures_once(
    made: Run, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tracker = Told(name)
    monkeypatch.setitem(sys.modules, name, tracker)
    figures = leakbound.track(made, [name])
    (begun, told, ended) = tracker.said
    assert begun[1]["name"] == "run"
    assert begun[1]["project"] == "leakbound"
    assert told == ("log", figures)
    assert ended == ("finish", None)
    assert SECRET not in repr(tracker.said)
    worst = made.estimates.worst("leak probability")
    place = f"target/{worst.scorer}/leak probability worst question"
    assert figures[f"{place}/lower"] == worst.lower
    assert figures[f"{place}/upper"] == worst.upper


def test_what_is_no_tracker_is_refused_with_what_there_is(made: Run) -> None:
    with pytest.raises(InputError, match="Did you mean 'wandb'"):
        leakbound.track(made, ["wandbb"])


def test_one_that_is_not_installed_is_refused(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.publishing.tracking.find_spec", lambda _: None)
    with pytest.raises(InputError, match="not installed"):
        leakbound.track(made, ["trackio"])


@pytest.mark.slow
def test_tensorboard_reads_the_figures(
    made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path))
    figures = leakbound.track(made, ["tensorboard"])
    read = EventAccumulator(str(tmp_path)).Reload()
    assert set(read.Tags()["tensors"]) == set(figures)
