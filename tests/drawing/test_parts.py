"""A slow model: it is seen to work within seconds, at its true rate, and stopping loses little.

The clock is the engine's own: every token it forwards takes so long.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from canned import benchmark_of
from contents import counts
from exploring import DECODING, ExploringEngine
from leakbound.cli.console import progress_bar
from leakbound.evaluation import evaluate
from leakbound.store import Arm, Run
from leakbound.study import Attack, Explore, Rewritings, Until
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Failure,
    Query,
    Ranges,
    Sample,
    Tell,
    untold,
)
from tiny import tiny_model_folder

TOKENS = 20  # of a draw
QUESTIONS = [f"q{i}" for i in range(12)]
LAW = {"It is Ann": 0.05, "It is Bob": 0.15, "No": 0.8}
TASK = benchmark_of(
    QUESTIONS, question="Who wrote book {}?", answer="Ann", name="slow", scorers=("contains",)
)


class Clock:
    """The time that all engines of a test spend."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


class SlowEngine(ExploringEngine):
    """Takes `seconds` a token, all draws of a part advancing together; says so where it can.

    Stopped by Ctrl-C once the clock shows `until`.
    """

    def __init__(
        self, clock: Clock, seconds: float, until: float = 1e9, name: str = "slow", **settings: Any
    ) -> None:
        super().__init__(
            dict.fromkeys(QUESTIONS, LAW), {q: ["No"] for q in QUESTIONS}, name=name, **settings
        )
        self.clock, self.seconds, self.until = clock, seconds, until
        self.texts = _AnyOf(LAW)
        self.tell: Tell = untold
        self.each: float | None = None  # what it foresees

    def generate(
        self, queries: Sequence[Query], decoding: Decoding, draws: Draws
    ) -> Iterator[Sample | Failure]:
        number = sum(sum(draws.of(query.id)) for query in queries)
        for token in range(TOKENS):
            self._work(number, number if token == TOKENS - 1 else 0)
        yield from super().generate(queries, decoding, draws)

    def explore(
        self, queries: Sequence[Query], decoding: Decoding, effort: Effort, ranges: Ranges
    ) -> Iterator[Any]:
        for _ in range(effort.forwards):
            self._work(len(queries), 0)
        yield from super().explore(queries, decoding, effort, ranges)

    def _work(self, tokens: int, draws: int) -> None:
        self.clock.now += tokens * self.seconds
        if self.clock.now > self.until:
            raise KeyboardInterrupt
        self.tell(draws, tokens, self.each)


class _AnyOf(dict[str, Mapping[str, float]]):
    """The same law for every query, whatever it is called."""

    def __init__(self, law: Mapping[str, float]) -> None:
        self.law = law

    def __getitem__(self, key: str) -> Mapping[str, float]:
        return self.law


N: dict[str, Any] = {"n": 64}
MODES: dict[str, dict[str, Any]] = {
    "plain": N,
    "until": {"sampling": Until("p<=0.3", 256)},
    "hybrid": {"sampling": Explore("hybrid", 50)},
    "inputs": {**N, "rewritings": Rewritings("rules", queries=3)},
    "attack": {**N, "attack": Attack(64, temperatures=(1.0,), top_ps=(1.0,))},
}
SECONDS = 0.005  # a token: a question of 64 draws takes 6.4 s
PACE = {"until": 3.0, "hybrid": 15.0}  # times that, where there is less to do


def how(mode: str) -> dict[str, Any]:
    return {"decodings": DECODING, **MODES[mode]}


def arms(out: Path) -> list[Arm]:
    """All of a run, those of its search too."""
    runs = [Run.open(file.parent) for file in sorted(out.rglob("run.json"))]
    return [arm for run in runs for arm in run.arms.values()]


def contents(out: Path) -> dict[tuple[str, str], Counter[Any]]:
    """What was drawn of every query by every arm, whatever part it is in."""
    return {
        (arm.folder.parents[1].name, arm.name): counts(arm, "query_id", "chunk", "answer")
        for arm in arms(out)
    }


@pytest.mark.parametrize(
    "mode",
    [
        pytest.param(m, marks=[pytest.mark.slow] * (m in ("until", "inputs", "attack")))
        for m in MODES
    ],
)
def test_parts_are_the_same_at_any_speed_and_stopping_loses_one(
    mode: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakbound.store.plan.PART", 256)
    evaluate(SlowEngine(clock, 1e-9), TASK, out=tmp_path / "fast", **how(mode))
    clock.now = 0.0
    evaluate(SlowEngine(clock, SECONDS), TASK, out=tmp_path / "slow", **how(mode))
    end = clock.now
    fast, slow = arms(tmp_path / "fast"), arms(tmp_path / "slow")
    assert [arm.parts for arm in fast] == [arm.parts for arm in slow]
    drawn = list(contents(tmp_path / "slow").values())
    assert list(contents(tmp_path / "fast").values()) == drawn

    clock.now, out = 0.0, tmp_path / "stopped"
    with pytest.raises(KeyboardInterrupt):
        evaluate(SlowEngine(clock, SECONDS, until=0.9 * end), TASK, out=out, **how(mode))
    there = {path: path.stat().st_mtime_ns for path in out.rglob("part-*.parquet")}
    kept = [cost["seconds"] for arm in arms(out) for cost in costs(arm)]
    assert sum(kept) > 0.9 * end - max(cost["seconds"] for arm in slow for cost in costs(arm))
    clock.now = 0.0
    evaluate(SlowEngine(clock, SECONDS), TASK, out=out, **how(mode))
    assert clock.now == pytest.approx(end - sum(kept), abs=0.1)
    assert list(contents(out).values()) == drawn
    assert {path: path.stat().st_mtime_ns for path in there} == there


def costs(arm: Arm) -> list[dict[str, float]]:
    return [asdict(meta.usage) for meta in arm.meta()]


@pytest.mark.parametrize("mode", ["plain", "until", "hybrid", "attack"])
def test_it_is_seen_to_work_within_seconds_and_at_its_true_rate(
    mode: str,
    clock: Clock,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seconds = SECONDS / 5 * PACE.get(mode, 1.0)
    monkeypatch.setattr("leakbound.cli.console._LONGEST_SECONDS", 5.0)
    with progress_bar() as progress:
        evaluate(
            SlowEngine(clock, seconds), TASK, out=tmp_path / "r", progress=progress, **how(mode)
        )
    lines = [line for line in capsys.readouterr().err.splitlines() if "scoring" not in line]
    shown = [line for line in lines if re.match("(sampling|exploring|searching)", line)]
    assert clock.now > 10
    assert len(shown) >= clock.now / 10  # it moves every few seconds

    def rates(pattern: str, among: Sequence[str]) -> list[float]:
        return [float(m[1].replace(",", "")) for m in re.finditer(pattern, "\n".join(among))]

    # of draws those that are finished, so at times too low, never too high
    assert all(rate <= 1.02 / (TOKENS * seconds) for rate in rates(r"([\d.,]+) draws/s", lines))
    tokens = rates(r"\(([\d.,e+]+)/s\)", shown)
    assert tokens
    if mode in ("plain", "until", "hybrid"):
        assert all(rate == pytest.approx(1 / seconds, rel=0.02) for rate in tokens)


def test_the_loading_of_a_model_is_told_before_anything_else(tmp_path: Path) -> None:
    model = tiny_model_folder(tmp_path / "small")
    told: list[tuple[str, float]] = []
    task = replace(TASK, prompts=TASK.prompts[:1], template="Question: {question} Answer:")
    evaluate(
        str(model),
        task,
        out=tmp_path / "r",
        n=4,
        progress=lambda now: told.append((now.phase, now.done)),
    )
    assert told[:3] == [("loading small", 0), ("loading small", 1), ("sampling greedy", 0)]
