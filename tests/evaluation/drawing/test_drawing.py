"""What a study means, what it may not mean, and the steps in which it is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asked import LEAK, AskedEngine
from leakbound.benchmarks import Benchmark
from leakbound.errors import InputError
from leakbound.evaluation import prepared
from leakbound.evaluation.drawing.study import (
    AskedStudy,
    check_study,
    draw_arms,
    open_study,
    plan_study,
)
from leakbound.evaluation.planning.plan import SteeredPlan
from leakbound.scorers import make_scorer
from leakbound.store import ExploredDraws, StoppedDraws
from leakbound.study import FORWARDS, Explore, FixedN, Prove, SamplingPlan, Study, Until
from leakbound.types import Decoding, Prompt

SCORERS = [make_scorer("contains"), make_scorer("rouge-l-recall")]


def drawn(plan: SamplingPlan, **how: Any) -> SteeredPlan:
    return SteeredPlan.of(Study(sampling=plan, **how), SCORERS)


@pytest.mark.parametrize("mode", ["exact", "hybrid", "auto"])
def test_exploring_is_steered_by_the_first_scorer(mode: Any) -> None:
    drawing = drawn(Explore(mode, 7))
    assert drawing.explores
    assert drawing.steering is SCORERS[0]
    spec = drawing.draws
    assert isinstance(spec, ExploredDraws)
    assert (spec.mode, spec.forwards, spec.scorer.name) == (mode, 7, "contains")
    assert Explore(mode).forwards == FORWARDS


def test_draws_are_counted_unless_a_claim_stops_them() -> None:
    assert drawn(FixedN(64)) == SteeredPlan(64)
    stops = drawn(Until("p<=0.02", 64), confidence=0.9)
    assert (stops.n, stops.explores) == (64, False)
    assert isinstance(stops.draws, StoppedDraws)
    assert stops.draws.confidence == 0.9


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        (Explore, ("Exact",), "one of exact, hybrid, auto, got 'Exact'"),
        (Explore, ("",), "got ''"),
        (Explore, ("auto", 0), "`budget` must be at least 1 forward per question"),
        (Explore, ("exact", -3), "got -3"),
        (FixedN, (0,), "`n` must be at least 1 draw per question, got 0"),
        (Until, ("p=0.02",), "'p=0.02'"),
        (Until, ("p<=1",), "1.0"),
        (Until, ("p<=0.1", 1), "got 1, and one draw leaves nothing to stop"),
    ],
)
def test_what_makes_no_sense_is_refused(kind: Any, fields: tuple[Any, ...], said: str) -> None:
    with pytest.raises(InputError, match=said):
        kind(*fields)


def asked_of(engine: AskedEngine, out: Path, **fields: Any) -> AskedStudy:
    """A study of one question, of this engine and of a control that never leaks."""
    prompts = (Prompt(id="p", question="Who?", answer=LEAK),)
    task = Benchmark(name="b", prompts=prompts, origin="", scorers=("contains",), max_new_tokens=8)
    control = AskedEngine(lambda query, decoding: 0.0, name="clean")
    return AskedStudy(prepared(Study(task, sampling=FixedN(8), **fields)), engine, control, out)


def test_each_step_of_a_study_does_its_part(tmp_path: Path) -> None:
    engine = AskedEngine(lambda query, decoding: 0.5)
    study = asked_of(engine, tmp_path / "r")
    wanted = check_study(study)
    assert not study.out.exists()
    opened = open_study(study, wanted)
    keys = ["greedy", "target", "control-greedy", "control"]
    assert [str(job.key) for job in opened.jobs] == keys
    assert not opened.run.arms
    planned = plan_study(opened)
    assert list(opened.run.arms) == keys
    assert engine.asked == []
    draw_arms(planned)
    assert all(not arm.missing_parts() for arm in opened.run.arms.values())


def test_what_needs_no_model_is_refused_without_one(tmp_path: Path) -> None:
    engine = AskedEngine(lambda query, decoding: 0.5)
    for fields, said in (
        ({"metrics": "retain_rouge_l_recall"}, "metric 'retain_rouge_l_recall' needs a part"),
        ({"prove": Prove(9), "decodings": Decoding(temperature=0)}, "greedy decoding draws noth"),
    ):
        with pytest.raises(InputError, match=said):
            check_study(asked_of(engine, tmp_path / "r", **fields))
    assert not (tmp_path / "r").exists()
