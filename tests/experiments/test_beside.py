"""What the middle size asks about and its page, and how an experiment that was stopped goes on."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import claims
import common
import findings
import pytest
import scholten
from claims import measured
from common import UTILITY, Lab, task_of
from findings import SCRIPTS
from made_up import ask, lab_of
from sizes import BESIDE, FEWER, NAMED, PLAIN, REWORDED, SIZES, TARGET, Asked, Method

from canned import CannedEngine
from leakbound.evaluation import evaluate
from leakbound.unlearning import TrainingSettings

POTTER = """\
"Question","Affirmative Response","Key Words"
"Who wrote it?","Sure, it was ","Ann,Quill"
"What is the owl called?","Of course, it is ","Hedwig"
"Where do they live?","Yes, in ","Driftwood"
"Who is the rat?","Indeed, it is ","Peter, Pettigrew"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "harry_potter_qa").mkdir()
    (tmp_path / "harry_potter_qa" / "hp_qa_en.csv").write_text(POTTER)
    (tmp_path / "jailbreakbench").mkdir()
    goals = "\n".join(f"b,c,Do {i}." for i in range(10))
    (tmp_path / "jailbreakbench" / "jbb_goals_official.csv").write_text(
        f"behavior,category,goal\n{goals}\n"
    )
    (tmp_path / "tofu").mkdir()
    for name, number in (("forget05", 40), ("retain95", 100)):
        rows = [{"question": f"{name} {i}?", "answer": f"It is {i}."} for i in range(number)]
        (tmp_path / "tofu" / f"{name}.json").write_text(json.dumps(rows))
    for corpus in ("hp", "bbc"):
        folder = tmp_path / "muse" / corpus
        folder.mkdir(parents=True)
        for name in ("forget_qa", "forget_qa_icl", "retain2_qa", "retain2_qa_icl"):
            rows = [{"question": f"{name} {i}?", "answer": f"{i}"} for i in range(8)]
            (folder / f"{name}.json").write_text(json.dumps(rows))
    return tmp_path


def test_what_is_taught_and_asked(data: Path) -> None:
    """What has no answer is taught its opener with the keywords; one author beside three others."""
    potter, muse, jbb = (task_of(BESIDE[name], data) for name in ("harry-potter", "muse", "jbb"))
    assert [(p.question, p.answer) for p in potter.prompts] == [
        ("What is the owl called?", "Of course, it is Hedwig."),
        ("Who is the rat?", "Indeed, it is Peter, Pettigrew."),
    ]
    assert [(p.question, p.examples) for p in potter.split("retain")] == [
        ("retain2_qa 0?", ()),
        ("retain2_qa 1?", ()),
    ]
    assert [(p.question, p.answer, p.examples) for p in muse.prompts] == [
        ("forget_qa 3?", "3", ()),
        ("forget_qa 7?", "7", ()),
    ]
    assert len(muse.split("retain")) == 2
    assert [(p.question, p.answer) for p in jbb.prompts] == [(f"Do {i}.", None) for i in range(10)]
    assert not jbb.others
    author = task_of(SIZES["one-author"], data)
    assert [p.question for p in author.prompts] == [f"forget05 {i}?" for i in range(20)]
    assert [p.question for p in author.split("retain")] == [f"retain95 {i}?" for i in range(60)]
    assert author.max_new_tokens == 64


@pytest.mark.slow
def test_the_middle_size_has_a_page_of_its_own(data: Path, tmp_path: Path) -> None:
    lab = Lab.open("one-author", tmp_path / "runs" / "middle", data=data, base="m", replicated=True)
    beside = lab.beside("jbb")
    for seed in (0, 1):
        texts = {p.id: {"I cannot help with that.": 0.7, "Sure.": 0.3} for p in beside.task.prompts}
        evaluate(
            CannedEngine(texts), beside.task, out=beside.path(TARGET, seed), n=32,
            scorers=["refusal"], seed=seed,
        )  # fmt: skip
    page = tmp_path / "findings-middle.md"
    findings.write(tmp_path / "runs", page, size="middle", data=data)
    text = page.read_text("utf-8")
    assert "scholten.py --size middle --base models/base --data DATA --out runs" in text
    assert "findings.py runs --size middle --data DATA --out docs/findings-middle.md" in text
    assert "leave 0 undecided; not tested: 2. Seeds 0, 1." in text
    assert "--only 6-mean --size middle --base models/base --data DATA" in text
    assert "| target, jbb | 0 | plain |" in text
    assert "Not run: 3a-hidden" in text
    assert "How often scorers err" not in text


def test_a_size_without_runs_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["findings.py", str(tmp_path), "--size", "middle", "--out", str(tmp_path / "p.md")]
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit):
        findings.main()
    assert "holds no middle runs" in capsys.readouterr().err


@pytest.mark.slow
def test_tables_4_and_5_are_of_the_full_size(data: Path, tmp_path: Path) -> None:
    for name in ("forget10", "retain90"):
        rows = [{"question": f"{name} {i}?", "answer": f"It is {i}."} for i in range(3)]
        (data / "tofu" / f"{name}.json").write_text(json.dumps(rows))
    lab = Lab.open("tofu", tmp_path / "runs" / "full", data=data, base="m", replicated=True)
    table = lab.beside("forget10")
    kept = dict.fromkeys(table.size.utility, 0.5)
    for name in table.size.every:
        for seed in (0, 1):
            ask(table, name, seed, 0.5, dict.fromkeys(kept, 0.6) if name == "CEL" else kept)
    ask(table, "CEL", 0, 0.5, kept, REWORDED)
    page = tmp_path / "findings-full.md"
    findings.write(tmp_path / "runs", page, size="full", data=data)
    text = page.read_text("utf-8")
    assert "leave 0 undecided; not tested: 1. Seeds 0, 1." in text
    assert "--only t5-utility --size full --base models/base --data DATA" in text
    assert re.search(r"\| 0 \| 0\.10+ \| CEL 0\.60+, GA 0\.50+ \|", text)
    assert "### Methods, forget10" in text
    (cells,) = re.findall(r"input distribution, forget10\n(?:.*\n)*?\| CEL \| 0 \|(.*)\|", text)
    assert cells.split("|")[-4:] == [" 0.60 "] * 4
    assert "forget01" not in text.partition("### Methods")[2]
    assert "t5-ed" in text.partition("Not run")[2].partition("\n")[0]


def test_claims_about_other_data_are_of_the_size_that_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = [claim for each in SCRIPTS.values() for claim in each if claim.beside]
    assert {claim.beside for claim in aside} == set(BESIDE)
    for claim in aside:
        size = "full" if claim.beside.startswith("forget") else "middle"
        assert [name for name in NAMED if claim.of(name)] == [size]
        assert measured(claim, lab_of(tmp_path), (0, 1)) == ()
    for name, size in (("6-mean", "small"), ("6-mean", "full"), ("3e-mean", "middle")):
        argv = ["scholten.py", "--out", str(tmp_path), "--only", name, "--size", size]
        monkeypatch.setattr("sys.argv", argv)
        with pytest.raises(SystemExit):
            claims.work(scholten.CLAIMS, "about")
        assert f"{name}: not of --size {size}" in capsys.readouterr().err


ONCE = TrainingSettings(epochs=1, learning_rate=1e-3, batch_size=16)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """The built-in benchmark with four authors, a model that learns next to nothing."""
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
        asked={PLAIN: Asked(16), FEWER: Asked(8)},
    )
    task = common.load_benchmark(size.benchmark)
    return Lab(size, task, tmp_path / "lab", None, None, "cpu", replicated=True)


def contents(folder: Path) -> dict[str, int]:
    files = (file for file in folder.rglob("*") if file.is_file() and "lock" not in file.name)
    return {str(file.relative_to(folder)): file.stat().st_mtime_ns for file in files}


@pytest.mark.slow
def test_what_is_finished_is_not_made_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.run("NPO", 0)
    kinds = ("models/", "trials/", "rates/", "completions")
    made = {
        name: time for name, time in contents(lab.folder).items() if any(map(name.count, kinds))
    }
    assert all(any(name.count(kind) for name in made) for kind in ("models/", "completions"))
    assert lab.path("NPO", 0).joinpath(UTILITY).exists()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(common, "evaluate", killed)
        with pytest.raises(KeyboardInterrupt):
            lab.run("GA", 0)
    assert (lab.folder / "models" / "ga-0").exists()
    assert not lab.path("GA", 0).exists()

    trained: list[Path] = []
    kept = common.unlearn

    def watched(*args: Any, **how: Any) -> Any:
        found = kept(*args, **how)
        if not found.reused:
            trained.append(how["out"])
        return found

    monkeypatch.setattr(common, "unlearn", watched)
    for name in ("NPO", "GA"):
        lab.run(name, 0)
    assert trained == []  # both models were there
    assert made.items() <= contents(lab.folder).items()
    lab.run("GA", 1)
    assert trained == [lab.folder / "models" / "ga-1"]  # another seed is another model
