"""The order of draws is keyed by the experiment and the question: all of it, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from canned import CannedEngine
from residua.benchmarks import Benchmark
from residua.evaluation import sample
from residua.evaluation.ordering import Order, draws_key
from residua.scorers import make_scorer
from residua.types import Decoding, Prompt

TEXTS = {"the secret": 0.3, "no": 0.7}


def benchmark() -> Benchmark:
    prompts = tuple(Prompt(id=p, question=p, keywords=("secret",)) for p in ("p0", "p1"))
    return Benchmark(name="b", prompts=prompts, origin="", scorers=("keyword",), max_new_tokens=8)


def key(out: Path, name: str = "m", task: Benchmark | None = None, **how: Any) -> int:
    engine = CannedEngine({"p0": TEXTS, "p1": TEXTS}, name=name)
    run = sample(engine, task or benchmark(), out=out, n=8, **how)
    return draws_key(run.arms["target"])


def test_an_experiment_has_one_order_and_no_two_share_one(tmp_path: Path) -> None:
    made = key(tmp_path / "a")
    assert key(tmp_path / "again") == made
    other = replace(benchmark(), prompts=benchmark().prompts[:1])
    others = {
        key(tmp_path / "model", name="another"),
        key(tmp_path / "seed", seed=1),
        key(tmp_path / "decoding", decoding=Decoding(temperature=0.5, max_new_tokens=8)),
        key(tmp_path / "benchmark", task=other),
    }
    assert len(others | {made}) == 5


def test_arms_scorers_and_questions_have_orders_of_their_own(tmp_path: Path) -> None:
    engine = CannedEngine({"p0": TEXTS, "p1": TEXTS})
    run = sample(engine, benchmark(), out=tmp_path / "r", n=8, control=engine)
    keys = [
        k
        for arm in ("target", "control")
        for scorer in ("keyword", "contains")
        for k in Order.of(run.arms[arm], make_scorer(scorer)).keys(["p0", "p1"]).tolist()
    ]
    assert len(set(keys)) == 8
