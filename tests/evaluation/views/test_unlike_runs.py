"""What is said of runs that cannot stand on one page: in words, and few of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.errors import MixError
from leakbound.evaluation import evaluate
from leakbound.evaluation.views.read import read_view
from leakbound.store import Run
from leakbound.types import Decoding, Prompt


def run_of(out: Path, name: str, ids: list[str], word: str = "who") -> Run:
    prompts = tuple(Prompt(id=i, question=f"{word} {i}", answer="Ann") for i in ids)
    task = Benchmark(name=name, prompts=prompts, scorers=("contains",), max_new_tokens=4, origin="")
    engine = CannedEngine({p.id: {"Ann": 0.5, "no": 0.5} for p in prompts})
    how = Decoding(max_new_tokens=4)
    return evaluate(engine, task, out=out, n=4, decodings=how)


def test_many_questions_are_named_by_a_few(tmp_path: Path) -> None:
    many = run_of(tmp_path / "a", "forget10", [f"many/{i:03d}" for i in range(60)])
    few = run_of(tmp_path / "b", "forget01", [f"few/{i}" for i in range(2)])
    with pytest.raises(MixError) as caught:
        read_view({"a": many, "b": few})
    said = str(caught.value)
    assert "run 'b' asked 'forget01' (2 questions), run 'a' 'forget10' (60 questions)" in said
    assert "'few/0', 'few/1' in 'b' alone" in said
    assert "'many/000', 'many/001', 'many/002' and 57 more in 'a' alone" in said
    assert many.record.benchmark.sha256 not in said
    assert len(said) < 500


def test_other_texts_under_the_same_ids(tmp_path: Path) -> None:
    one = run_of(tmp_path / "a", "mine", ["x"])
    two = run_of(tmp_path / "b", "mine", ["x"], word="where")
    with pytest.raises(MixError, match="the same ids in both, with other texts"):
        read_view({"a": one, "b": two})


def test_another_command_is_told_in_words(tmp_path: Path) -> None:
    run_of(tmp_path / "a", "mine", [f"q{i}" for i in range(40)])
    with pytest.raises(MixError, match=r"prompts: it has 40, this one says 41") as caught:
        run_of(tmp_path / "a", "mine", [f"q{i}" for i in range(41)])
    assert len(str(caught.value)) < 400
    words = (
        r"\(the questions are others: benchmark: sha256: it has '.{12}…', this one says '.{12}…'\)"
    )
    with pytest.raises(MixError, match=words):
        run_of(tmp_path / "a", "mine", [f"q{i}" for i in range(40)], word="where")
