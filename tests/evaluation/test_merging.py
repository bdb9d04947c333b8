"""Slices of a study, drawn by several commands, merge into the run of one command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from canned import benchmark_of
from contents import contents
from exploring import DECODING, ExploringEngine
from leakbound.benchmarks import Benchmark
from leakbound.certificate import certify, verify
from leakbound.cli import group
from leakbound.cli import run as run_command
from leakbound.errors import IncompleteError, InputError, LeakboundError, MixError
from leakbound.evaluation import evaluate, prove, score
from leakbound.evaluation.merging import merge
from leakbound.evaluation.statements.beside import other_run
from leakbound.store import Arm, Run
from leakbound.store.plan import Cut
from leakbound.study import Attack, Explore, ModelSettings, Prove, Rewritings, Until
from leakbound.types import Decoding
from tiny import tiny_model_folder

IDS = [f"q{i}" for i in range(9)]
LAW = {"It is Ann": 0.05, "It is Bob": 0.15, "No": 0.8}
SLICES = ("3/4", "1/4", "4/4", "2/4")


@pytest.fixture(autouse=True)
def parts_of_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fix the size of parts, as `bench/commits.py` does."""
    after = Cut.after
    monkeypatch.setattr(Cut, "after", lambda self, number, done, _: after(self, number, done, 45.0))


class AnyEngine(ExploringEngine):
    """Answers each question, in any words, by one distribution."""

    def __init__(self, name: str = "own", **settings: Any) -> None:
        super().__init__({}, {q: ["No"] for q in IDS}, name=name, **settings)
        self.texts = _Same()


class _Same(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        return LAW


def task(ids: list[str] = IDS) -> Benchmark:
    question = "Who wrote book {}?"
    return benchmark_of(ids, question=question, answer="Ann", scorers=("contains", "rouge-l-recall"))


def draw(out: Path, engine: AnyEngine | None = None, **fields: Any) -> Run:
    usual = {"decodings": DECODING} | ({} if "sampling" in fields else {"n": 80})
    return evaluate(engine or AnyEngine(), task(), out=out, **{**usual, **fields})


def sliced(folder: Path, **fields: Any) -> list[Path]:
    """The folders of four slices, drawn in any order."""
    return [draw(folder / name[0], questions=name, **fields).path for name in SLICES]


def test_four_slices_of_a_model_are_its_run_value_by_value_killed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command is stopped once: three while they draw, one between, and the merge."""
    rows = ["who wrote red,Ann", "who wrote blue,Bob sea", "green sky,red", "sea,sky", "red,Ann"]
    (tmp_path / "mine.csv").write_text("question,answer\n" + "\n".join(rows) + "\n")
    how: dict[str, Any] = {
        "control": str(tiny_model_folder(tmp_path / "control", seed=1)),
        "decodings": Decoding(max_new_tokens=8),
        "scorers": ("contains", "rouge-l-recall"),
        "settings": ModelSettings(device="cpu"),
        "n": 1100,  # two chunks, so that parts are less than a question
    }
    asked = str(tiny_model_folder(tmp_path / "model")), f"csv:{tmp_path / 'mine.csv'}"
    whole = evaluate(*asked, out=tmp_path / "whole", **how)
    assert len(whole.arms["target"].parts) == 10

    left = [2]

    def stops(name: str) -> None:
        original = getattr(Arm, name)

        def stop_once(arm: Arm, *args: Any) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
            original(arm, *args)

        monkeypatch.setattr(Arm, name, stop_once)

    stops("write_part")
    stops("copy_part")
    folders = []
    for name in SLICES:
        left[0] = int(name[0])
        folders.append(tmp_path / name[0])
        with pytest.raises(KeyboardInterrupt):
            evaluate(*asked, out=folders[-1], questions=name, **how)
        evaluate(*asked, out=folders[-1], questions=name, **how)
    left[0] = 9
    with pytest.raises(KeyboardInterrupt):
        merge(folders, out=tmp_path / "merged")
    merged = merge(folders, out=tmp_path / "merged")
    assert contents(merged) == contents(whole)
    assert {k: a.identity for k, a in merged.arms.items()} == {
        k: a.identity for k, a in whole.arms.items()
    }
    claims = [certify(run, max_leak=0.5, scorer="contains") for run in (whole, merged)]
    assert claims[0].bound == claims[1].bound
    assert verify(merged.path / "certificate.json", merged).valid


MODES: dict[str, dict[str, Any]] = {
    "a control": {"control": AnyEngine("other")},
    "a finished control": {"control": "control"},
    "rewritings": {"rewritings": Rewritings("rules", queries=3)},
    "explored": {"sampling": Explore("hybrid", 50)},
    "control questions": {"control_questions": "others.csv"},
    "failed": {"engine": AnyEngine(broken=("q4",))},
}


@pytest.mark.parametrize("mode", MODES)
def test_whatever_a_slice_can_draw_merges(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("others.csv").write_text("question,answer\nWho wrote none?,Ann\nWho sang it?,Bob\n")
    if mode == "a finished control":
        draw(Path("control"), AnyEngine("other"))
    for out, questions in (("whole", None), *((name[0], name) for name in SLICES)):
        try:
            draw(Path(out), questions=questions, **MODES[mode])
        except IncompleteError as error:
            assert (mode, "'q4'" in str(error)) == ("failed", True)
    merged, whole = merge([name[0] for name in SLICES], out="merged"), Run.open("whole")
    assert contents(merged) == contents(whole)
    others = [other_run(run) for run in (merged, whole)]
    assert (others[0] is not None) == (mode == "control questions")
    assert others[0] is None or contents(others[0]) == contents(others[1])


def test_a_slice_states_nothing_and_the_merged_run_takes_what_all_questions_need(
    tmp_path: Path,
) -> None:
    folders = sliced(tmp_path)
    own = Run.open(folders[0])
    assert not [*own.path.rglob("scores"), *own.path.glob("*.html"), *own.path.glob("est*")]
    for state in (lambda: own.estimates, lambda: score(own), lambda: own.completions):
        with pytest.raises(IncompleteError, match=r"is slice 3/4 of a study .* leakbound merge"):
            state()
    with pytest.raises(InputError, match="not finished"):
        draw(tmp_path / "r", AnyEngine("own2"), control=own.path)
    with pytest.raises(MixError, match="--questions: it has '3/4', this one says '2/4'"):
        draw(own.path, questions="2/4")
    with pytest.raises(MixError, match="--questions: it has '3/4', this one says None"):
        draw(own.path)
    engine = AnyEngine()
    merge(folders, out=tmp_path / "merged")
    attack = Attack(64, temperatures=(1.0,), top_ps=(1.0,))
    run = draw(tmp_path / "merged", engine, attack=attack)
    assert {"greedy", "target", "attack"} == set(run.arms)
