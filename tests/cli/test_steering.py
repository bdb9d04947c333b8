"""Names and texts of others steer neither the terminal nor the page."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import Result, done, leakbound

from leakbound.text.shown import visible

CLIPBOARD, TURNED, EIGHT_BIT = "\x1b]52;c;ZXZpbA==\x07", "\u202egnp\u202c", "\x9b2J"
EVIL = f"{CLIPBOARD}{TURNED}{EIGHT_BIT}\r\u2066"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A log in which whatever can be named is."""
    file = tmp_path / "theirs.jsonl"
    rows = [
        {"id": f"q{i}{EVIL}", "question": f"who {EVIL}{i}", "answer": f"Ann {EVIL}"}
        | {"completion": f"Ann {EVIL}{j}", "model": f"m{EVIL}", f"set{EVIL}": EVIL}
        | {"temperature": 1, "seed": f"7{EVIL}", "scores": {f"s{EVIL}": j / 9}}
        for i in range(2)
        for j in range(4)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    return file


def unsteered(result: Result) -> str:
    said = result.out + result.err
    assert not STEERS.search(said), repr(said)
    return said


def test_no_command_lets_them_through(theirs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert "\\u001b]52" in unsteered(done("import", theirs, "--out", run))
    unsteered(done("score", run, "--scorer", "contains"))
    assert "\\u001b]52" in unsteered(done("bound", run))
    bounded = done("bound", run, "--json")
    assert "\\u001b]52" in unsteered(bounded)
    assert any(EVIL in row["query_id"] for row in bounded.json["estimates"])
    said = leakbound("certify", run, "--max-leak", 0.5, "--scorer", "contains", "--every-question")
    assert "\\u001b]52" in unsteered(said)
    unsteered(leakbound("verify", run / "certificate.json", run))
    unsteered(done("report", run))
    page = (run / "report.html").read_text()
    assert "\\u001b]52" in page
    assert not STEERS.search(page)


def test_no_json_file_holds_them_raw_and_each_reads_the_same(theirs: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done("import", theirs, "--out", run)
    done("score", run, "--scorer", "contains")
    done("bound", run)
    leakbound("certify", run, "--max-leak", 0.5, "--scorer", "contains", "--every-question")
    done("export", run, "--jsonl", tmp_path / "out.jsonl")
    files = {file.name: file.read_text() for file in tmp_path.rglob("*.json*") if file != theirs}
    assert {"run.json", "certificate.json", "out.jsonl"} <= set(files)
    for name, text in files.items():
        assert not STEERS.search(text), name
        if name.endswith(".json") and "\\u001b]52" in text:
            assert EVIL in repeated(json.loads(text)), name
    assert "\\u001b]52" in files["certificate.json"]


def repeated(value: object) -> str:
    """All texts within a JSON value, one after the other."""
    if isinstance(value, dict):
        return "".join(f"{key}{repeated(each)}" for key, each in value.items())
    return "".join(map(repeated, value)) if isinstance(value, list) else str(value)


def test_nor_does_an_error(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    row = {"id": EVIL, "question": "who", "completion": "x", "count": f"{EVIL}"}
    file.write_text(json.dumps({**row, "stop": EVIL}))
    result = leakbound("import", file, "--out", tmp_path / "run")
    assert result.status == 2
    unsteered(result)
    file.write_text(json.dumps({"id": EVIL, "scores": {}, "count": 1, EVIL: 1}))
    unsteered(leakbound("import", file, "--out", tmp_path / "run", "--format", "jsonl"))


def test_lines_tabs_and_other_scripts_are_left() -> None:
    text = "é\tשלום\nمرحبا 😀 한국"
    assert visible(text) == text
    assert json.loads(visible('"a\x7f\u202e"')) == "a\x7f\u202e"


def test_the_page_can_send_no_form_and_has_no_other_base(theirs: Path, tmp_path: Path) -> None:
    done("import", theirs, "--out", tmp_path / "run")
    done("bound", tmp_path / "run")
    page = (tmp_path / "run" / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "base-uri &#39;none&#39;; form-action &#39;none&#39;" in policy[1]
