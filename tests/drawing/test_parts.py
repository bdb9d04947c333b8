"""The loop that runs jobs: it reports progress, and a stop loses at most one part."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from canned import benchmark_of
from contents import contents as run_contents
from contents import counts
from exploring import DECODING, ExploringEngine
from leakbound.evaluation import evaluate
from leakbound.store import Arm, DamagedError, Run
from leakbound.study import Attack, Explore, Rewritings, Until
from leakbound.types import (
    Decoding,
    Draws,
    Effort,
    Failure,
    Headway,
    Query,
    Ranges,
    Sample,
    Tell,
    untold,
)
from suites import killed_at_every_write, slow_but

TOKENS = 20  # tokens of a draw
QUESTIONS = [f"q{i}" for i in range(12)]
LAW = {"It is Ann": 0.05, "It is Bob": 0.15, "No": 0.8}
TASK = benchmark_of(
    QUESTIONS, question="Who wrote book {}?", answer="Ann", name="slow", scorers=("contains",)
)


class ReportingEngine(ExploringEngine):
    """Reports every token that it forwards; stopped by Ctrl-C after `until` tokens."""

    def __init__(self, until: float = 1e9) -> None:
        super().__init__(defaultdict(lambda: LAW), defaultdict(lambda: ["No"]))
        self.forwarded, self.until = 0, until
        self.tell: Tell = untold

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
        self.forwarded += tokens
        if self.forwarded > self.until:
            raise KeyboardInterrupt
        self.tell(draws, tokens)


N: dict[str, Any] = {"n": 32}
MODES: dict[str, dict[str, Any]] = {
    "plain": N,
    "until": {"sampling": Until("p<=0.3", 128)},
    "hybrid": {"sampling": Explore("hybrid", 50)},
    "inputs": {**N, "rewritings": Rewritings("rules", queries=3)},
    "attack": {**N, "attack": Attack(64, temperatures=(1.0,), top_ps=(1.0,))},
    "stress": {**N, "stress": "opener:1"},
}


def drawn(mode: str, engine: Any, out: Path, **how: Any) -> list[Arm]:
    """All arms of a run, including the arms of its search."""
    evaluate(engine, TASK, out=out, decodings=DECODING, **MODES[mode], **how)
    return arms(out)


def arms(out: Path) -> list[Arm]:
    runs = [Run.open(file.parent) for file in sorted(out.rglob("run.json"))]
    return [arm for run in runs for arm in run.arms.values()]


def contents(out: Path) -> list[Counter[Any]]:
    """Return the draws of every query by every arm, without their parts."""
    return [counts(arm, "query_id", "chunk", "answer") for arm in arms(out)]


@dataclass(frozen=True)
class Whole:
    """A run without a stop: its engine, arms, draws and reports."""

    engine: ReportingEngine
    arms: list[Arm]
    contents: list[Counter[Any]]
    shown: list[Headway]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Whole]:
    @cache
    def of(mode: str) -> Whole:
        engine, out, shown = ReportingEngine(), tmp_path_factory.mktemp(mode), list[Headway]()
        got = drawn(mode, engine, out / "r", progress=shown.append)
        return Whole(engine, got, contents(out / "r"), shown)

    return of


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.store.plan.PART", 128)


Made = Callable[[str], Whole]


@pytest.mark.parametrize("mode", slow_but(["plain", "until", "hybrid"], MODES))
def test_a_stop_loses_one_part(mode: str, whole: Made, tmp_path: Path) -> None:
    own, out = whole(mode), tmp_path / "stopped"
    first = ReportingEngine(until=0.9 * own.engine.forwarded)
    with pytest.raises(KeyboardInterrupt):
        drawn(mode, first, out)
    there = {path: path.stat().st_mtime_ns for path in out.rglob("part-*.parquet")}
    second = ReportingEngine()
    again = drawn(mode, second, out)
    assert [arm.parts for arm in again] == [arm.parts for arm in own.arms]
    lost = first.forwarded + second.forwarded - own.engine.forwarded
    assert 0 < lost < own.engine.forwarded / 4
    assert contents(out) == own.contents
    assert {path: path.stat().st_mtime_ns for path in there} == there


@pytest.mark.fault
@pytest.mark.parametrize(("mode", "files"), [("until", 8), ("hybrid", 10)])
def test_a_kill_between_any_two_writes_changes_nothing(
    mode: str, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(out: Path) -> Run:
        return evaluate(ReportingEngine(), TASK, out=out, decodings=DECODING, **MODES[mode])

    def all_of(run: Run) -> Any:
        return run_contents(run), run.arms["target"].looks

    written = killed_at_every_write(command, all_of, tmp_path, monkeypatch)
    assert len(written) >= files
    assert ("looks.json" in written) == (mode == "until")


def test_a_damaged_part_is_named_and_redone(whole: Made, tmp_path: Path) -> None:
    """It is drawn again after its file was removed."""
    shutil.copytree(whole("hybrid").arms[0].folder.parents[1], tmp_path / "r")
    file = tmp_path / "r" / "arms" / "target" / "masses" / "part-00001.parquet"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(DamagedError, match=rf"`{file}` is not a complete .+ or remove it and run"):
        drawn("hybrid", ReportingEngine(), tmp_path / "r")
    file.unlink()
    again = ReportingEngine()
    drawn("hybrid", again, tmp_path / "r")
    assert contents(tmp_path / "r") == whole("hybrid").contents
    assert sorted(again.queried) == QUESTIONS[4:8]


@pytest.mark.parametrize("mode", ["plain", "until", "hybrid", "attack"])
def test_progress_counts_draws_and_tokens_up_to_all_of_them(mode: str, whole: Made) -> None:
    own = whole(mode)
    model = [now for now in own.shown if now.phase.startswith(("sampling", "exploring"))]
    phases = {now.phase: [own for own in model if own.phase == now.phase] for now in model}
    for reports in phases.values():
        assert [now.done for now in reports] == sorted(now.done for now in reports)
        assert [now.tokens for now in reports] == sorted(now.tokens for now in reports)
        assert reports[-1].done == reports[-1].total
        assert all(now.done <= now.total for now in reports)
    assert len({now.tokens for now in phases.popitem()[1]}) > TOKENS  # within a part too
    assert sum({now.phase: now.tokens for now in model}.values()) >= own.engine.forwarded
