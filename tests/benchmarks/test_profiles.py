"""The changes of each profile to a benchmark, and its notes on other differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sources import perturbed, put, rows
from leakbound.benchmarks import load_benchmark
from leakbound.types import Decoding

QUESTION = "Question: {question}\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = {
        "forget10.json": rows(0, 310),
        "forget10_perturbed.json": [*map(perturbed, rows(0, 310))],
        "retain90.json": rows(400, 320),
        "holdout10.json": rows(800, 10),
    }
    return put(tmp_path_factory.mktemp("tofu"), files)


def load(folder: Path, profile: str | None, **how: Any) -> Any:
    return load_benchmark("tofu:forget10", data=folder, profile=profile, **how)


def test_openunlearning_is_the_default(folder: Path) -> None:
    plain, named = load(folder, None), load(folder, "openunlearning")
    for field in ("prompts", "template", "system", "chat", "scorers", "max_new_tokens", "stop"):
        assert getattr(named, field) == getattr(plain, field)
    assert (named.n, named.decoding) == (plain.n, plain.decoding) == (1024, Decoding())
    assert plain.fingerprint().profile is None
    assert named.fingerprint().profile == "openunlearning"
    assert (plain.compat, named.compat) == (None, "openunlearning")


@pytest.mark.parametrize("name", ["tofu-legacy", "scholten", "scholten-notebook"])
def test_the_model_writes_answer_itself(name: str, folder: Path) -> None:
    benchmark = load(folder, name)
    assert benchmark.template == QUESTION
    assert benchmark.chat is False
    first = benchmark.prompts[0]
    assert (first.question, first.answer) == ("Who is 0?", "Answer: 0 is me.")
    assert first.paraphrased_answer == "Answer: Well, 0 is me."
    assert first.perturbed_answers == ("Answer: a", "Answer: b", "Answer: c")
    assert benchmark.split("retain")[0].answer == "Answer: 400 is me."


def test_each_draws_like_its_paper_and_code(folder: Path) -> None:
    legacy = load(folder, "tofu-legacy")
    assert [len(legacy.split(role)) for role in ("forget", "retain")] == [300, 300]
    assert legacy.prompts[-1].question == "Who is 299?"
    assert (legacy.scorers, legacy.max_new_tokens) == (("rouge-l-recall",), 200)
    assert (legacy.n, legacy.decoding) == (1024, Decoding(max_tokens=200))
    paper, notebook = load(folder, "scholten"), load(folder, "scholten-notebook")
    assert len(paper.prompts) == 310
    assert (paper.scorers, paper.max_new_tokens, paper.n) == (("rouge-l-f1",), 128, 1024)
    assert paper.decoding == Decoding(max_new_tokens=128, max_tokens=128)
    assert "no truncation" in paper.notes[0]
    assert notebook.n == 128
    assert notebook.decoding == replace(paper.decoding, top_p=0.9, top_k=50)
    for field in ("prompts", "template", "chat", "scorers", "max_new_tokens"):
        assert getattr(notebook, field) == getattr(paper, field)


def test_leak_k_pairs_paraphrases_with_answers(folder: Path) -> None:
    benchmark = load(folder, "leak-k")
    first = benchmark.prompts[0]
    assert (first.question, first.answer) == ("Please: Who is 0?", "0 is me.")
    assert first.paraphrases == ()
    assert benchmark.split("retain")[0].question == "Who is 400?"
    assert (benchmark.scorers, benchmark.max_new_tokens) == (("entailment",), 200)
    assert (benchmark.n, benchmark.decoding) == (200, Decoding(top_k=50))
    assert "50 likeliest tokens (top-k 50)" in benchmark.notes[0]
    assert benchmark.decoding.name == "T=1 top-k=50"  # the name in tables
    assert len(load(folder, "tofu-legacy", limit=305).prompts) == 305  # overrides the profile
    retain = load_benchmark("tofu:retain90", data=folder, profile="leak-k")
    assert retain.scorers == ("entailment:direction=answer-to-output",)
