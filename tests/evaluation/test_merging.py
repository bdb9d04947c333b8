"""Slices of a study, drawn by several commands, merge into the run of one command."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from canned import benchmark_of
from cli.commands import done, leakbound
from contents import contents
from exploring import DECODING, ExploringEngine
from leakbound.benchmarks import Benchmark
from leakbound.certificate import certify, verify
from leakbound.errors import IncompleteError, InputError, LeakboundError, MixError
from leakbound.evaluation import evaluate, score
from leakbound.evaluation.merging import merge
from leakbound.evaluation.statements.beside import other_run
from leakbound.store import Arm, Run
from leakbound.store.plan import Cut
from leakbound.store.record import write_record
from leakbound.study import Attack, Explore, ModelSettings, Prove, Rewritings, Until
from leakbound.types import Decoding
from tiny import tiny_model_folder

IDS = [f"q{i}" for i in range(5)]
LAW = {"It is Ann": 0.05, "It is Bob": 0.15, "No": 0.8}
SLICES = ("3/4", "1/4", "4/4", "2/4")


def parts_of_one_size() -> AbstractContextManager[object]:
    """Fix the size of parts, as `bench/commits.py` does; slices do so themselves."""
    after = Cut.after
    return patch.object(Cut, "after", lambda *part_and_time: after(*part_and_time[:3], 45.0))


class AnyEngine(ExploringEngine):
    """Answers each question, in any words, by one distribution."""

    def __init__(self, name: str = "own", **settings: Any) -> None:
        super().__init__({}, {q: ["No"] for q in IDS}, name=name, **settings)
        self.texts = _Same()


class _Same(dict[str, Any]):
    def __missing__(self, key: str) -> Any:
        return LAW


def task() -> Benchmark:
    question = "Who wrote book {}?"
    return benchmark_of(IDS, question=question, answer="Ann", scorers=("contains",))


def draw(out: Path, engine: AnyEngine | None = None, **fields: Any) -> Run:
    usual = {"decodings": DECODING} | ({} if "sampling" in fields else {"n": 80})
    return evaluate(engine or AnyEngine(), task(), out=out, **{**usual, **fields})


def test_four_slices_of_a_model_are_its_run_value_by_value_killed_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two slices are stopped, within an arm and between two arms, and so is the merge."""
    rows = ["who wrote red,Ann", "who wrote blue,Bob sea", "green sky,red", "sea,sky", "red,Ann"]
    (tmp_path / "mine.csv").write_text("question,answer\n" + "\n".join(rows) + "\n")
    model, control = (str(tiny_model_folder(tmp_path / f"m{seed}", seed=seed)) for seed in range(2))
    with parts_of_one_size():
        whole = evaluate(
            model,
            f"csv:{tmp_path / 'mine.csv'}",
            out=tmp_path / "whole",
            control=control,
            n=1100,  # two chunks, so that a part is less than a question
            decodings=Decoding(max_new_tokens=4),
            scorers=("contains",),
            settings=ModelSettings(device="cpu"),
        )
    assert len(whole.arms["target"].parts) == 10
    command = ["evaluate", model, "--benchmark", f"csv:{tmp_path / 'mine.csv'}", "-n", 1100]
    command += ["--control", control, "--max-new-tokens", 4, "--scorer", "contains"]
    left = [0]

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
    folders = [tmp_path / name[0] for name in SLICES]
    for name, out, parts in zip(SLICES, folders, (3, 2, 0, 0), strict=True):
        own = [*command, "--device", "cpu", "--questions", name, "--out", out]
        left[0] = parts
        if parts:
            assert leakbound(*own).status == 3
        assert f"slice {name} is drawn: {out}" in done(*own).out
    assert done(*own, "--json").json == {"run": str(out), "questions": name}
    assert "all questions; slice 2/4 draws a part of them" in done(*own, "--dry-run").out
    left[0], merge_all = 9, ("merge", *folders, "--out", tmp_path / "merged")
    assert leakbound(*merge_all).status == 3
    assert "report: " in done(*merge_all).out
    merged = Run.open(tmp_path / "merged")
    assert contents(merged) == contents(whole)
    assert [a.identity for a in merged.arms.values()] == [a.identity for a in whole.arms.values()]
    claims = [certify(run, max_leak=0.5, scorer="contains") for run in (whole, merged)]
    assert claims[0].estimate == claims[1].estimate
    checked = verify(merged.path / "certificate.json", merged.path, model=model, redraw=0.2)
    assert checked.verified


MODES: dict[str, dict[str, Any]] = {
    "a finished control": {"control": "control"},
    "rewritings": {
        "rewritings": Rewritings("rules", queries=3),
        "scorers": ("contains", "rouge-l-recall"),
    },
    "explored": {"sampling": Explore("hybrid", 50)},
    "control questions": {"control_questions": "others.csv"},
    "failed": {"engine": AnyEngine(broken=("q4",))},
}


@pytest.mark.parametrize("mode", MODES)
def test_all_that_a_slice_can_draw_merges(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("others.csv").write_text("question,answer\nWho wrote none?,Ann\nWho sang it?,Bob\n")
    if mode == "a finished control":
        draw(Path("control"), AnyEngine("other"))
    stopped = []
    for out, questions in (("whole", None), *((name[0], name) for name in SLICES)):
        try:
            with nullcontext() if questions else parts_of_one_size():
                draw(Path(out), questions=questions, **MODES[mode])
        except IncompleteError:
            stopped.append(out)
    assert stopped == (["whole", "1", "4"] if mode == "failed" else [])
    merged, whole = merge([name[0] for name in SLICES], out="merged"), Run.open("whole")
    assert contents(merged) == contents(whole)
    others = [other_run(run) for run in (merged, whole)]
    assert (others[0] is not None) == (mode == "control questions")
    assert others[0] is None or contents(others[0]) == contents(others[1])


@pytest.fixture(scope="module")
def slices(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four slices, which no test may change."""
    folder = tmp_path_factory.mktemp("slices")
    return [draw(folder / name[0], questions=name).path for name in SLICES]


def test_a_slice_states_nothing_and_an_attack_follows_on_the_merged_run(
    slices: list[Path], tmp_path: Path
) -> None:
    own = Run.open(slices[0])
    assert not [*own.path.rglob("scores"), *own.path.glob("*.html"), *own.path.glob("est*")]
    states: list[Callable[[], object]] = [
        lambda: own.estimates, lambda: own.completions, lambda: score(own)
    ]  # fmt: skip
    for state in states:
        with pytest.raises(IncompleteError, match=r"is slice 3/4 of a study.* `leakbound merge"):
            state()
    with pytest.raises(InputError, match="not finished"):
        draw(tmp_path / "r", AnyEngine("other"), control=own.path)
    for other in ("2/4", None):
        with pytest.raises(MixError, match="--questions: it has '3/4', this one says"):
            draw(own.path, questions=other)
    attack = Attack(64, temperatures=(1.0,), top_ps=(1.0,))
    before = contents(merge(slices, out=tmp_path / "merged"))
    after = contents(draw(tmp_path / "merged", attack=attack))
    assert after["target", "completions"] == before["target", "completions"]
    assert any(name[0] == "target attack" for name in after)


def other_version(out: Path) -> None:
    run = draw(out, questions="2/4")
    write_record(out, replace(run.record, version="0.1"))


def lost_part(out: Path) -> None:
    part = next(draw(out, questions="2/4").path.rglob("target/completions/*.parquet"))
    part.unlink()


def damaged_part(out: Path) -> None:
    part = next(draw(out, questions="2/4").path.rglob("target/completions/*.parquet"))
    part.write_bytes(part.read_bytes()[:-9])


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda out: None, "slices are missing: 2/4. Name all"),
        (lambda out: draw(out), "is no slice of a study"),
        (lambda out: draw(out, questions="3/4"), "are both slice 3/4"),
        (lambda out: draw(out, questions="2/4", n=81), r"study: sampling: n: it has 81, .* has 80"),
        (lambda out: draw(out, AnyEngine("b"), questions="2/4"), "the model has other weights"),
        (other_version, "leakbound: it has '0.1'"),
        (lost_part, "slice 2/4, is not finished: arm 'target' lacks parts. Run its command again"),
        (damaged_part, "slice 2/4, is not finished: .* is not a whole Parquet file"),
    ],
)
def test_a_slice_that_does_not_fit_is_refused_by_name(
    make: Callable[[Path], object], reason: str, slices: list[Path], tmp_path: Path
) -> None:
    make(tmp_path / "2")
    others = [path for path in slices if path.name != "2"]
    given = [*others, tmp_path / "2"] if (tmp_path / "2").exists() else others
    with pytest.raises(LeakboundError, match=reason):
        merge(given, out=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"attack": Attack(64)}, "`--attack` is for all questions"),
        ({"prove": Prove(9)}, "`--prove` is for all questions"),
        ({"stress": "round:int4"}, "`--under` is for all questions"),
        ({"metrics": "all"}, "`--metrics` is for all questions"),
        ({"sampling": Until("p<=0.1")}, "`--until` plans draws by the scores of all questions"),
        ({"rewritings": Rewritings("model:m")}, "'model:m' are made by a model"),
        ({"rewritings": Rewritings("rules", ids=True)}, "'rules' are made by a model"),
        ({"questions": "0/4"}, "must be i/N with i from 1 to N, got '0/4'"),
        ({"questions": "4"}, "must be i/N, got '4'"),
    ],
)
def test_a_slice_refuses_what_needs_all_questions_before_a_model_is_loaded(
    fields: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=reason):
        evaluate("no/model", task(), out=tmp_path / "r", **{"questions": "1/4", **fields})
    assert not (tmp_path / "r").exists()
