"""Rare leaks from Python: an engine that is open already, and a benchmark that no name finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from leakbound.benchmarks import Benchmark
from leakbound.engines import open_engine
from leakbound.engines.prompting import Prompting
from leakbound.evaluation import evaluate, prove
from leakbound.evaluation.drawing import prove as proving
from leakbound.study import Prove
from leakbound.types import Failure, Generate, Prompt, Proving
from tiny import tiny_model_folder

TASK = Benchmark(
    name="mine",
    prompts=(
        Prompt(id="a", question="who wrote red", answer="Ann", paraphrased_answer="Ann sea"),
        Prompt(id="b", question="who wrote blue", answer="Bob"),
    ),
    scorers=("contains",),
    max_new_tokens=4,
    origin="",
)


@pytest.mark.slow
def test_an_engine_and_a_benchmark_in_memory(tmp_path: Path) -> None:
    folder = str(tiny_model_folder(tmp_path / "model"))
    engine = open_engine(folder, Prompting(template=TASK.template), device="cpu")
    whole = evaluate(engine, TASK, n=8, prove=Prove(30), out=tmp_path / "whole")
    later = evaluate(engine, TASK, n=8, out=tmp_path / "later")
    prove(later, 30, model=engine)
    assert [str(row) for row in whole.estimates] == [str(row) for row in later.estimates]
    assert any(row.about.proved for row in later.estimates)


def test_the_benchmark_says_its_answer_in_other_words_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First its answer, then its paraphrase, each as far as the scorer calls it a leak."""
    leads: dict[str, tuple[str, ...]] = {}
    whole = proving.prove_question

    def noted(engine: Generate, job: proving.ProveJob) -> Proving | Failure:
        leads[job.asked.query.id] = job.asked.leads
        return whole(engine, job)

    monkeypatch.setattr(proving, "prove_question", noted)
    folder = str(tiny_model_folder(tmp_path / "model"))
    other = replace(TASK.prompts[1], paraphrased_answer="the sea")
    task = replace(TASK, prompts=(TASK.prompts[0], other))
    evaluate(folder, task, n=8, prove=Prove(30), out=tmp_path / "run")
    assert leads["a"][:2] == ("Ann", "Ann sea")
    assert leads["b"][0] == "Bob"
    assert "the sea" not in leads["b"]
