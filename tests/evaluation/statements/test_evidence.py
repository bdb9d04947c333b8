"""What is known of an arm is read once, raced once, and not otherwise than by itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from asked import AskedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import bound, evaluate
from leakbound.stats import betting, expectation_deviation_bound, mean_bound
from leakbound.stats.betting import raced_once
from leakbound.store import Run, tables
from leakbound.types import Prompt


def test_no_race_is_run_twice_and_none_ends_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.random.default_rng(0).uniform(size=(3, 40))
    how: dict[str, Any] = {"confidence": 0.98, "side": "upper", "seed": [1, 2, 3]}
    races: list[float] = []
    raced = betting._raced
    monkeypatch.setattr(betting, "_raced", lambda *given: races.append(given[3]) or raced(*given))
    alone = (
        mean_bound(scores, **how),
        expectation_deviation_bound(scores, **how | {"confidence": 0.96}),
    )
    assert len(races) == 3  # the mean and the deviation, each at half of alpha
    with raced_once():
        races.clear()
        again = (
            mean_bound(scores, **how),
            expectation_deviation_bound(scores, **how | {"confidence": 0.96}),
        )
        assert len(races) == 2
        mean_bound(scores[:, ::-1][:, :39], **how)
        mean_bound(scores, **how | {"confidence": 0.9})
        assert len(races) == 4
    mean_bound(scores, **how)
    assert len(races) == 5  # what was kept is gone
    for one, other in zip(alone, again, strict=True):
        np.testing.assert_array_equal(one.upper, other.upper)


def test_every_file_of_scores_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = tuple(Prompt(id=i, question=f"Who is {i}?", answer="It is hush.") for i in "ab")
    scorers = ("contains", "rouge-l-recall")
    task = Benchmark(name="b", prompts=prompts, origin="", scorers=scorers, max_new_tokens=8)
    engine, control = (AskedEngine(lambda q, d, p=p: p, name=str(p)) for p in (0.5, 0.0))
    run = evaluate(engine, task, out=tmp_path / "r", control=control, n=32)
    (run.path / "estimates.parquet").unlink()
    read: Counter[Path] = Counter()
    whole = tables.read_table

    def counted(path: Path, remedy: str = "") -> Any:
        read[path] += 1
        return whole(path, remedy)

    monkeypatch.setattr(tables, "read_table", counted)
    bound(Run.open(run.path))
    files = [path for path in read if path.parent.name == "scores"]
    assert len(files) == 8
    assert {read[path] for path in files} == {1}
