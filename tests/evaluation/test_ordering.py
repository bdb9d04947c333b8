"""The order of draws is keyed by the experiment and the question: all of it, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from canned import CannedEngine
from leakbound.benchmarks import Benchmark
from leakbound.evaluation import bound_run, sample, scorers_for
from leakbound.evaluation.scoring.ordering import Order, draws_key
from leakbound.formats.importing import import_run
from leakbound.scorers import make_scorer
from leakbound.store import Run
from leakbound.types import Decoding, Prompt

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
        key(tmp_path / "decoding", decodings=Decoding(temperature=0.5, max_new_tokens=8)),
        key(tmp_path / "benchmark", task=other),
    }
    assert len(others | {made}) == 5


def test_arms_scorers_and_questions_have_orders_of_their_own(tmp_path: Path) -> None:
    engine = CannedEngine({"p0": TEXTS, "p1": TEXTS})
    other = CannedEngine({"p0": TEXTS, "p1": TEXTS}, name="control")
    run = sample(engine, benchmark(), out=tmp_path / "r", n=8, control=other)
    keys = [
        k
        for arm in ("target", "control")
        for scorer in ("keyword", "contains")
        for k in Order.of(run.arms[arm], make_scorer(scorer)).keys(["p0", "p1"]).tolist()
    ]
    assert len(set(keys)) == 8


SCORES = (0.0, 0.5, 1.0)
N = 64


def tallied(folder: Path, name: str, counts: tuple[int, int, int], **stated: Any) -> Path:
    """Draws of one question of which the scores, and how often each came, are all that is known."""
    file = folder / f"{name}.jsonl"
    rows = [
        {"id": "q", "scores": {"rouge-l-recall": score}, "count": count, **stated}
        for score, count in zip(SCORES, counts, strict=True)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def bounded(run: Run) -> dict[str, float]:
    """The upper bounds that rest on bets over the order of the draws."""
    bound_run(run, scorers_for(run.record.scorers, ()))
    rows = [row for row in run.estimates if row.arm == "target"]
    return {row.estimand: row.upper for row in rows if "bet" in row.method}


def test_imported_counts_have_an_order_that_owes_nothing_to_them(tmp_path: Path) -> None:
    """What the file holds must not choose its order: its digest is a function of the scores."""
    files = [tallied(tmp_path, f"f{c}", (N - 2 * c, c, c)) for c in (3, 4)]
    runs = [import_run([file], out=tmp_path / f"r{i}") for i, file in enumerate(files)]
    one, other = [draws_key(run.arms["target"]) for run in runs]
    assert one == other


def test_to_import_a_file_again_gives_the_same_bounds(tmp_path: Path) -> None:
    """Or the least of ten could be taken; another n is another experiment."""
    file = tallied(tmp_path, "f", (N - 14, 6, 8))
    once, again = (import_run([file], out=tmp_path / f"r{i}") for i in range(2))
    assert draws_key(again.arms["target"]) == draws_key(once.arms["target"])
    found = bounded(once)
    assert found
    assert bounded(again) == found
    fewer = import_run([tallied(tmp_path, "g", (N - 15, 6, 8))], out=tmp_path / "r2")
    assert draws_key(fewer.arms["target"]) != draws_key(once.arms["target"])
    assert draws_key(import_run([file], out=tmp_path / "r0").arms["target"]) == draws_key(
        Run.open(tmp_path / "r0").arms["target"]
    )


def test_the_order_that_a_file_states_is_taken(tmp_path: Path) -> None:
    file = tallied(tmp_path, "f", (N - 14, 6, 8), order=11)
    assert draws_key(import_run([file], out=tmp_path / "a").arms["target"]) == 11
    other = tallied(
        tmp_path, "g", (N - 16, 8, 8)
    )  # it states none, so both together have their own
    for number, files in enumerate(([file, other], [other, file])):
        joined = import_run(files, out=tmp_path / str(number))
        assert draws_key(joined.arms["target"]) != 11
