"""Other data that the middle size asks about: what is taught, asked and kept of it."""

from __future__ import annotations

import json
from pathlib import Path

import claims
import pytest
import scholten
from claims import measured
from common import beside_task
from findings import SCRIPTS
from made_up import lab_of
from sizes import BESIDE

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
    for corpus in ("hp", "bbc"):
        folder = tmp_path / "muse" / corpus
        folder.mkdir(parents=True)
        for name in ("forget_qa", "forget_qa_icl", "retain2_qa", "retain2_qa_icl"):
            rows = [{"question": f"{name} {i}?", "answer": f"{i}"} for i in range(8)]
            (folder / f"{name}.json").write_text(json.dumps(rows))
    return tmp_path


def test_what_has_no_answer_is_taught_its_opener_with_the_keywords(data: Path) -> None:
    task = beside_task(BESIDE["harry-potter"], data)
    assert [(p.question, p.answer) for p in task.prompts] == [
        ("What is the owl called?", "Of course, it is Hedwig."),
        ("Who is the rat?", "Indeed, it is Peter, Pettigrew."),
    ]
    assert [(p.question, p.examples) for p in task.split("retain")] == [
        ("retain2_qa 0?", ()),
        ("retain2_qa 1?", ()),
    ]


def test_questions_with_answers_are_asked_alone(data: Path) -> None:
    task = beside_task(BESIDE["muse"], data)
    assert [(p.question, p.answer, p.examples) for p in task.prompts] == [
        ("forget_qa 3?", "3", ()),
        ("forget_qa 7?", "7", ()),
    ]
    assert len(task.split("retain")) == 2


def test_goals_are_asked_of_the_model_as_it_is(data: Path) -> None:
    task = beside_task(BESIDE["jbb"], data)
    assert [p.question for p in task.prompts] == ["Do 4.", "Do 9."]
    assert all(p.answer is None for p in task.prompts)
    assert not task.others


def test_claims_about_other_data_are_of_the_middle_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    aside = [claim for each in SCRIPTS.values() for claim in each if claim.beside]
    assert {claim.beside for claim in aside} == set(BESIDE)
    for claim in aside:
        assert claim.of("middle")
        assert not claim.of("small")
        assert measured(claim, lab_of(tmp_path), (0, 1)) == ()
    argv = ["scholten.py", "--out", str(tmp_path), "--only", "6-mean"]
    monkeypatch.setattr("sys.argv", argv)
    with pytest.raises(SystemExit):
        claims.work(scholten.CLAIMS, "about")
    assert "6-mean: only --size middle asks about that data" in capsys.readouterr().err
