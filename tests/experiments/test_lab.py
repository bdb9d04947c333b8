"""The data of the sizes, and how an interrupted experiment resumes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import lab as labs
import pytest
from lab import UTILITY, Lab, task_of
from sizes import FEWER, OTHER_DATA, PLAIN, SIZES, Method, Way

from leakbound.unlearning import TrainingSettings

POTTER = """\
"Question","Affirmative Response","Key Words"
"Who wrote it?","Sure, it was ","Ann,Quill"
"Who is the rat?","Indeed, it is ","Peter, Pettigrew"
"""


def test_the_part_of_a_benchmark_that_a_size_takes(tmp_path: Path) -> None:
    """A missing answer is its opener with the keywords; one author is learnt with three others."""
    files = {"harry_potter_qa/hp_qa_en.csv": POTTER}
    for name in ("forget_qa", "forget_qa_icl", "retain2_qa", "retain2_qa_icl"):
        rows = [{"question": f"{name} {i}?", "answer": f"{i}"} for i in range(8)]
        files[f"muse/hp/{name}.json"] = json.dumps(rows)
    for name, number in (("forget05", 40), ("retain95", 100)):
        rows = [{"question": f"{name} {i}?", "answer": f"It is {i}."} for i in range(number)]
        files[f"tofu/{name}.json"] = json.dumps(rows)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (potter,) = task_of(OTHER_DATA["harry-potter"], tmp_path).prompts
    assert (potter.question, potter.answer) == (
        "Who is the rat?", "Indeed, it is Peter, Pettigrew.",
    )  # fmt: skip
    (kept,) = task_of(OTHER_DATA["harry-potter"], tmp_path).split("retain")
    assert (kept.question, kept.examples) == ("retain2_qa 0?", ())
    author = task_of(SIZES["one-author"], tmp_path)
    assert [p.question for p in author.prompts] == [f"forget05 {i}?" for i in range(20)]
    assert [p.question for p in author.split("retain")] == [f"retain95 {i}?" for i in range(60)]
    assert author.max_new_tokens == 64


ONCE = TrainingSettings(epochs=1, warmup_ratio=0.0, learning_rate=1e-3, batch_size=16)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The built-in benchmark with four authors, and a model that learns almost nothing."""
    size = replace(
        SIZES["builtin"],
        benchmark="fictitious:authors=4,forget=1",
        learn=ONCE,
        forget=ONCE,
        methods={"NPO": Method("npo:beta=1.5"), "GA": Method("ga")},
        ablations={},
        more={},
        rates=(1e-3,),
        utility={"R_r": ("retain", 8)},
        ways={PLAIN: Way(16), FEWER: Way(8)},
    )
    task = labs.load_benchmark(size.benchmark)
    return Lab(size, task, tmp_path / "lab", None, None, "cpu", replicated=True)


@pytest.mark.slow
def test_an_interrupted_experiment_resumes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.run("NPO", 0)
    made = {
        p: p.stat().st_mtime_ns for p in lab.folder.rglob("*.parquet") if "completions" in str(p)
    }
    assert made
    assert lab.path("NPO", 0).joinpath(UTILITY).exists()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(labs, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            lab.run("GA", 0)
    assert (lab.folder / "models" / "ga-0").exists()
    assert not lab.path("GA", 0).exists()

    trained, unlearn = list[Path](), labs.unlearn

    def watched(*args: Any, **how: Any) -> Any:
        got = unlearn(*args, **how)
        trained.extend([] if got.reused else [how["out"]])
        return got

    monkeypatch.setattr(labs, "unlearn", watched)
    for name in ("NPO", "GA"):
        lab.run(name, 0)
    assert trained == []  # both models were there
    assert made == {path: path.stat().st_mtime_ns for path in made}
    lab.run("GA", 1)
    assert trained == [lab.folder / "models" / "ga-1"]  # another seed is another model
