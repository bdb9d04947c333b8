"""How long bounding takes, told beforehand; and where the time went, told afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canned import LEAK, AskedEngine, benchmark_of
from leakbound.evaluation import evaluate, prepared, rehearsal
from leakbound.evaluation.rehearsal import bounding_seconds
from leakbound.study import Attack, Explore, FixedN, Rewritings, Study, Until
from leakbound.types import Decoding

TASK = benchmark_of(map(str, range(20)), answer=LEAK, keywords=("hush",))


def engine(name: str = "m") -> AskedEngine:
    return AskedEngine(lambda query, decoding: 0.4, name=name)


def seconds(control: bool = True, **fields: Any) -> float | None:
    asked = Study(TASK, sampling=FixedN(32), scorers=("keyword", "rouge-l-recall"))
    made: dict[str, Any] = {f: fields.get(f, getattr(asked, f)) for f in asked.__slots__}
    return bounding_seconds(prepared(Study(**made)), engine(), control)


def test_two_questions_and_eight_tell_what_all_take(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []

    def took(prepared: Any, found: Any, questions: int, control: bool) -> float:
        asked.append((questions, control))
        return 1.0 + 0.5 * questions

    monkeypatch.setattr(rehearsal, "_seconds", took)
    assert seconds() == pytest.approx(1.0 + 0.5 * 20)
    assert asked == [(2, True), (8, True)]


def test_it_is_done_as_the_study_will_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def remembered(*args: Any, **how: Any) -> Any:
        made.append(evaluate(*args, **how))
        return made[-1]

    monkeypatch.setattr(rehearsal, "evaluate", remembered)
    assert (seconds() or 0) > 0
    for number, run in zip((2, 8), made, strict=True):
        assert len(run.questions) == number
        assert set(run.arms) == {"greedy", "target", "control-greedy", "control"}
        assert {arm.plan.n for arm in run.arms.values()} == {1, 32}


@pytest.mark.parametrize(
    "fields",
    [
        {"sampling": Until("p<=0.02", most=64), "scorers": ("keyword",)},
        {"sampling": Explore("exact", 50)},
        {"rewritings": Rewritings("rules")},
        {"attack": Attack(64)},
        {"decodings": (Decoding(), Decoding(temperature=0.5))},
        {"decodings": (Decoding(temperature=0.0),)},
        {"stress": ("openers",)},
    ],
    ids=str,
)
def test_of_what_else_is_bounded_nothing_is_told(fields: dict[str, Any]) -> None:
    assert seconds(**fields) is None


def test_where_the_time_went_is_kept_with_the_run(tmp_path: Path) -> None:
    evaluate(engine(), TASK, out=tmp_path / "run", n=16)
    times = json.loads((tmp_path / "run" / "times.json").read_text())
    assert list(times) == ["draw", "score", "bound"]
