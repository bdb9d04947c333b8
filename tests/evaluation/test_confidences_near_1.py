"""A confidence too near 1 is refused before anything is drawn; any other never fails after."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from canned import CannedEngine
from exploring import HYBRID, ExploringEngine
from exploring import benchmark as explored_benchmark
from leakbound.benchmarks import Benchmark
from leakbound.certificate import certify
from leakbound.errors import InputError
from leakbound.evaluation import evaluate
from leakbound.evaluation.planning.plan import require_confidence
from leakbound.stats import Design
from leakbound.store import Run
from leakbound.study import Rewritings
from leakbound.types import Prompt

NEAREST = 0.9999999999798  # what the message below says
LAW = {"a red fox": 0.1, "a red cat": 0.2, "no": 0.7}


def benchmark() -> Benchmark:
    prompts = tuple(
        Prompt(id=f"p{i}", question=f"What is {i}?", answer="red fox", keywords=("fox",))
        for i in range(2)
    )
    scorers = ("rouge-l-recall",)
    return Benchmark(name="b", prompts=prompts, origin="", scorers=scorers, max_new_tokens=8)


def engine(name: str) -> CannedEngine:
    return CannedEngine(defaultdict(lambda: LAW), name=name)


def least(run: Run) -> float:
    """The confidence of what was bounded from draws."""
    return float(min(row.confidence for row in run.estimates))


def test_the_refusal_comes_before_any_draw_and_names_a_confidence_that_works(
    tmp_path: Path,
) -> None:
    asked = engine("model")
    with pytest.raises(InputError, match=rf"too near 1, got 0.99999999999: .*Use {NEAREST} or"):
        evaluate(asked, benchmark(), out=tmp_path / "r", n=4, confidence=0.99999999999)
    assert asked.asked == []
    run = evaluate(
        asked, benchmark(), out=tmp_path / "r", n=4, control=engine("none"), confidence=NEAREST
    )
    assert least(run) == pytest.approx(NEAREST, abs=1e-15)
    with pytest.raises(InputError, match="too near 1"):
        certify(run, max_leak=0.5, threshold=0.5, confidence=0.99999999999)


def test_explored_bands_stand_the_same_confidence(tmp_path: Path) -> None:
    run = evaluate(
        ExploringEngine(), explored_benchmark(), out=tmp_path / "r", confidence=NEAREST, **HYBRID
    )
    assert least(run) == pytest.approx(NEAREST, abs=1e-15)


@pytest.mark.parametrize("design", ["allocated", "fixed"])
def test_pools_stand_the_same_confidence(design: Design, tmp_path: Path) -> None:
    asked = Rewritings("rules", queries=3, design=design)
    run = evaluate(
        engine("m"), benchmark(), out=tmp_path / "r", n=4, rewritings=asked, confidence=NEAREST
    )
    assert least(run) == pytest.approx(NEAREST, abs=1e-15)


def test_many_questions_share_it() -> None:
    require_confidence(1 - 1e-10, 400)
    with pytest.raises(InputError, match=r"about 5,000 questions, .* below 2e-10 .* or less"):
        require_confidence(1 - 1e-10, 5_000)
