"""Slices of a study, drawn by several commands, merge into the run of one command."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from canned import SpyEngine, books
from cli.commands import done, leakbound
from contents import contents
from exploring import DECODING, ExploringEngine
from exploring import benchmark as laws
from leakbound import certify, merge, verify
from leakbound.benchmarks import Benchmark
from leakbound.bounding.control_questions import other_run
from leakbound.errors import IncompleteError, InputError, LeakboundError, MixError
from leakbound.evaluation import evaluate, score
from leakbound.store import Run, tables
from leakbound.store.record import write_record
from leakbound.study import Attack, Explore, Rewritings
from leakbound.types import Generate
from suites import slow_but
from tiny import tiny_model_folder

SLICES = ("3/4", "1/4", "4/4", "2/4")


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    with patch("leakbound.store.plan.PART", 100), patch("leakbound.store.plan.CHUNK", 80):
        yield


def engine(name: str = "own", **settings: Any) -> SpyEngine:
    return SpyEngine(lambda query, decoding: 0.1, name=name, **settings)


def draw(out: Path, by: Generate | None = None, task: Benchmark | None = None, **how: Any) -> Run:
    usual = {"decodings": DECODING} | ({} if "sampling" in how else {"n": 80})
    questions = task or books("abcde")
    return evaluate(by or engine(), questions, out=out, **{**usual, **how})


@pytest.mark.thorough
def test_slices_merge_into_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two slices are stopped, within an arm and between two arms, and so is the merge."""
    monkeypatch.chdir(tmp_path)
    rows = ["who wrote red,Ann", "who wrote blue,Bob sea", "green sky,red", "sea,sky", "red,Ann"]
    Path("mine.csv").write_text("question,answer\n" + "\n".join(rows) + "\n")
    model, control = (tiny_model_folder(tmp_path / f"m{seed}", seed=seed) for seed in range(2))
    command = ["evaluate", model, "--control", control, "--benchmark", "mine.csv", "-n", 90]
    command += ["--max-new-tokens", 4, "--scorer", "contains", "--device", "cpu"]
    command += ["--claim", 0.5, "--out"]
    done(*command, "whole")
    write_table, left = tables.write_table, [0]

    def stops(*args: Any) -> str:
        if "completions" in args[0].parts:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return write_table(*args)

    monkeypatch.setattr(tables, "write_table", stops)
    for name, parts in zip(SLICES, (3, 2, 0, 0), strict=True):
        left[0], own = parts, (*command, name[0], "--questions", name)
        if parts:
            assert leakbound(*own).status == 3
        assert f"slice {name}: {name[0]}; after all slices: leakbound merge" in done(*own).out
    assert done(*own, "--json").json == {"run": "2", "questions": "2/4"}
    left[0], merging = 9, ("merge", *(name[0] for name in SLICES), "--out", "merged")
    assert leakbound(*merging).status == 3
    assert "report: merged" in done(*merging).out
    whole, merged = Run.open("whole"), Run.open("merged")
    assert len(whole.arms["target"].parts) == 10  # two chunks of each question
    assert contents(merged) == contents(whole)
    assert [a.identity for a in merged.arms.values()] == [a.identity for a in whole.arms.values()]
    claims = [certify(run, max_leak=0.5) for run in (whole, merged)]
    assert claims[0].estimate == claims[1].estimate
    assert not any(made.claim.among for made in claims)  # recorded in advance by every slice
    assert verify("merged/certificate.json", "merged", model=str(model), redraw=0.2).verified


MODES: dict[str, dict[str, Any]] = {
    "a finished control": {"control": "control"},
    "rewritings": {"rewritings": Rewritings("rules", queries=3), "scorers": "rouge-l-recall"},
    "explored": {"by": ExploringEngine(), "task": laws(), "sampling": Explore("hybrid", 50)},
    "control questions": {"control_questions": "others.csv"},
    "failed": {"by": engine(broken=lambda query: query.id == "d")},
}


@pytest.mark.parametrize("mode", slow_but(["explored", "failed"], MODES))
def test_all_modes_merge(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("others.csv").write_text("question,answer,keywords\nWhy?,Ann,Ann\nWhen?,Bob,Bob\n")
    draw(Path("control"), engine("other"))
    stopped = []
    for out, questions in (("whole", None), *((name[0], name) for name in SLICES)):
        try:
            draw(Path(out), questions=questions, **MODES[mode])
        except IncompleteError:
            stopped.append(out)
    assert stopped == (["whole", "1", "4"] if mode == "failed" else [])
    merged, whole = merge([name[0] for name in SLICES], out="merged"), Run.open("whole")
    assert contents(merged) == contents(whole)
    others = [run and contents(run) for run in map(other_run, (merged, whole))]
    assert others[0] == others[1]
    assert bool(others[0]) == (mode == "control questions")


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("slices")
    return {name: draw(folder / name[0], questions=name).path for name in SLICES}


def test_slices_do_not_join_a_run_with_a_claim(slices: dict[str, Path], tmp_path: Path) -> None:
    """The slices were drawn before the claim, which may depend on them."""

    def stop(headway: object) -> None:
        if "sampling" in str(headway):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path / "r", claims="0.5", scorers="rouge-l-recall>=0.5", progress=stop)
    assert Run.open(tmp_path / "r").record.claims[0].prior
    with pytest.raises(MixError, match="records a claim that"):
        merge([*slices.values()], out=tmp_path / "r")


def test_an_attack_follows_on_the_merged_run(slices: dict[str, Path], tmp_path: Path) -> None:
    """A slice has no estimates."""
    own = Run.open(slices["3/4"])
    assert not [*own.path.rglob("scores"), *own.path.glob("*.html"), *own.path.glob("est*")]
    assert leakbound("show", own.path).out.startswith(
        "slice 3/4 of a study in progress: 1 of 1 parts,"
    )
    for state in (lambda: own.estimates, lambda: own.completions, lambda: score(own)):
        with pytest.raises(IncompleteError, match=r"is slice 3/4 of a study.* `leakbound merge"):
            state()
    with pytest.raises(InputError, match="not finished"):
        draw(tmp_path / "r", engine("other"), control=own.path)
    with pytest.raises(MixError, match="--questions: it has '3/4', this one has None"):
        draw(own.path)
    before = contents(merge([*slices.values()], out=tmp_path / "merged"))
    attack = Attack(64, temperatures=(1.0,), top_ps=(1.0,))
    after = contents(draw(tmp_path / "merged", attack=attack))
    assert after["target", "completions"] == before["target", "completions"]
    assert ("target attack", "completions") in after


def part_of(run: Run) -> Path:
    return next(run.path.rglob("target/completions/*.parquet"))


Second = Callable[[Path], object]
SECOND: dict[str, Second] = {
    "got 3/4, 1/4, 4/4. Missing slices: 2/4": lambda out: None,
    "2`, which is not a slice": lambda out: draw(out),
    "got 3/4, 1/4, 4/4, 3/4. Missing slices: 2/4": lambda out: draw(out, questions="3/4"),
    "sampling: n: it has 81, .* has 80": lambda out: draw(out, questions="2/4", n=81),
    "the weights differ: .* it has 'b'": lambda out: draw(out, engine("b"), questions="2/4"),
    "leakbound: it has '0.1'": lambda out: write_record(
        out, replace(draw(out, questions="2/4").record, version="0.1")
    ),
    "slice 2/4, is not finished: arm 'target' lacks part .* Run the command of this slice again": (
        lambda out: part_of(draw(out, questions="2/4")).unlink()
    ),
    "2/arms/.*` is not a complete Parquet file .* or remove it and run": (
        lambda out: part_of(draw(out, questions="2/4")).write_bytes(b"PAR1")
    ),
}


@pytest.mark.parametrize("reason", SECOND)
def test_wrong_slices_are_refused(reason: str, slices: dict[str, Path], tmp_path: Path) -> None:
    SECOND[reason](tmp_path / "2")
    given = [path for name, path in slices.items() if name != "2/4"]
    with pytest.raises(LeakboundError, match=reason):
        merge([*given, *tmp_path.iterdir()], out=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
