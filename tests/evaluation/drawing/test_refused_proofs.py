"""A true answer whose tokens merge with its prompt's proves nothing, and that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.profiles import PROFILES, with_profile
from leakbound.evaluation import evaluate
from leakbound.sampling.outputs import FORCED
from leakbound.store import Arm
from leakbound.study import Explore
from leakbound.types import Prompt
from offline_tokenizers import merging
from tiny import tiny_llama

TASK = Benchmark(
    name="mine",
    prompts=tuple(
        Prompt(id=f"of {name}", question="who wrote?", answer=f"{name} did")
        for name in ("Ann", "Bob")
    ),
    scorers=("contains",),
    max_new_tokens=12,
    origin="",
)


@pytest.fixture
def model(tmp_path: Path) -> str:
    tokenizer = merging(": A")
    folder = tmp_path / "model"
    end = tokenizer.eos_token_id
    tiny_llama(len(tokenizer), 1, eos_token_id=end).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def forced(arm: Arm) -> set[str]:
    """The questions whose answers are kept beside what was drawn."""
    rows = [row for part in arm.parts for row in arm.completions(part).to_pylist()]
    return {row["query_id"] for row in rows if row["chunk"] == FORCED}


@pytest.mark.parametrize("how", [{"n": 8}, {"sampling": Explore("hybrid", 40)}], ids=str)
def test_the_prompt_is_named_and_nothing_is_stated(
    how: dict[str, int | str], model: str, tmp_path: Path
) -> None:
    arm = evaluate(model, TASK, out=tmp_path / "run", **how).arms["target"]  # type: ignore[arg-type]
    assert forced(arm) == {"of Bob"}
    (note,) = [note for note in arm.usage.notes if "proved" in note]
    assert "'of Ann'" in note
    assert "'of Bob'" not in note


def test_a_profile_that_asks_otherwise_than_it_reads_proves_nothing(
    model: str, tmp_path: Path
) -> None:
    """OpenUnlearning generates after the blank that its joint tokens give to the answer."""
    task = with_profile(TASK, PROFILES["openunlearning"])
    arm = evaluate(model, task, n=8, out=tmp_path / "run").arms["target"]
    assert forced(arm) == set()
    assert any("'of Ann', 'of Bob'" in note for note in arm.usage.notes)
