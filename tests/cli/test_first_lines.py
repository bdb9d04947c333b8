"""The first lines of output: excess, confidence and verdict; which answers are printed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import Result, done, leakbound, refused

from leakbound.errors import InputError
from leakbound.reporting.details import unpacked
from leakbound.reporting.page import write_report
from leakbound.store import Run
from leaky import SECRET


def test_a_verdict_and_its_answers(leaky: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are printed on a terminal, or on request."""
    printed = f"): “{SECRET} wrote it”"
    assert done("show", leaky).out.strip() == str(Run.open(leaky).verdict)
    (got,) = done("show", leaky, "--json").json["verdicts"]
    assert (got["kind"], got["example"]) == ("uncontrolled", None)
    assert 0 < got["number"]["lower"] < got["number"]["upper"] < 1
    (seen,) = done("show", leaky, "--json", "--texts").json["verdicts"]
    assert SECRET in seen["example"]["leak"]
    assert printed not in done("show", leaky).out
    assert printed in done("show", leaky, "--texts").out
    monkeypatch.setattr("leakbound.cli.verbs.on_terminal", lambda: True)
    assert printed in done("show", leaky).out
    assert printed not in done("show", leaky, "--no-texts").out
    done("report", leaky, "--redact")
    for form in (("--texts",), ("--texts", "--json"), ()):
        shown = done("show", leaky, *form)
        assert SECRET not in shown.out + shown.err
    assert SECRET not in repr(Run.open(leaky))


def test_a_run_and_its_estimates_print_in_few_lines(leaky: Path) -> None:
    run = Run.open(leaky)
    lines = repr(run).splitlines()
    assert lines[0] == f"run {leaky}: 3 questions of leaky"
    assert "\n".join(lines[2:]) == str(run.verdict)
    assert len(lines) <= 10
    rows = repr(run.estimates).splitlines()
    assert rows[0] == f"{len(run.estimates):,} estimates"
    assert len(rows) == 10
    assert rows[-1].startswith(f"and {len(run.estimates) - 8:,} more")
    for shown in (run._repr_html_(), run.estimates._repr_html_(), run.verdict._repr_html_()):
        assert shown.startswith("<div>")
        assert len(shown) < 4_000
        assert SECRET not in shown
    worst = run.estimates.where(scope="worst question")
    assert repr(worst).count("\n") == len(worst)
    (leaky / "estimates.parquet").unlink()
    assert "no verdict: " in repr(Run.open(leaky))
    refused(leakbound("show", leaky), "has no estimates", "leakbound bound")


def holds_texts(file: Path) -> bool:
    """Return whether a page contains texts, visibly or in its details."""
    page = file.read_text()
    plain = re.sub(r'(?<=id="details">)[^<]*', "", page)  # it may spell anything
    return any(secret in plain + unpacked(page) for secret in ("Ann", "Bob"))


@pytest.mark.slow
def test_no_later_command_writes_the_texts(run: Path, model: Path, tmp_path: Path) -> None:
    (run / "report.html").unlink()
    page = run / "report-redacted.html"
    assert f"report: {page}" in done("report", run, "--redact").out
    for command in (
        ("bound", run, "--confidence", 0.9),
        ("score", run),
        ("bound", run),
        ("evaluate", model, "--like", run, "--out", run),
        ("report", run, "--out", tmp_path / "page.html"),
        ("report", run, "--json"),
    ):
        assert "report.html" not in done(*command).out
        assert not (run / "report.html").exists(), command
        assert not holds_texts(page), command
    write_report({"a": Run.open(run)}, tmp_path / "python.html")
    assert not holds_texts(tmp_path / "page.html")
    assert not holds_texts(tmp_path / "python.html")


def test_redaction_covers_exports(run: Path, finished: Path, tmp_path: Path) -> None:
    """Options lift it."""
    older = f"`{run / 'report.html'}` was written before the redaction and contains the texts"
    assert older in done("report", run, "--redact").err
    assert older in done("bound", run).err  # and when a page is written again
    file, page = tmp_path / "draws.jsonl", tmp_path / "both.html"
    shown = done("export", run, file, "--jsonl")
    assert f"`{run}` is redacted, so OUT has no texts" in shown.err
    row = json.loads(file.read_text().splitlines()[0])
    assert "scores" in row
    assert not {"question", "answer", "completion"} & row.keys()
    done("export", run, file, "--jsonl", "--no-redact")  # for this file only
    assert '"completion"' in file.read_text()
    done("report", run, finished, "--out", page)
    assert not holds_texts(page)
    assert [Run.open(path).redacted for path in (run, finished)] == [True, False]
    done("report", run, "--redact-questions")
    assert Run.open(run).redacted == "questions"
    assert "who wrote" not in (run / "report-redacted.html").read_text()
    done("report", run, "--no-redact")
    assert holds_texts(run / "report.html")
    (run / "estimates.parquet").unlink()  # a run that cannot be shown is not changed
    assert leakbound("report", run, "--redact").status == 2
    assert not Run.open(run).redacted


def test_a_locked_run_is_noted(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(path: Path) -> None:
        raise InputError(f"cannot write into `{path}`.")

    monkeypatch.setattr("leakbound.store.lock.make_folder", read_only)
    page = tmp_path / "page.html"
    shown = done("report", run, "--redact", "--out", page)
    assert "the redaction was not stored for later commands: cannot write" in shown.err
    assert not holds_texts(page)


CLIPBOARD, TURNED, EIGHT_BIT = "\x1b]52;c;ZXZpbA==\x07", "\u202egnp\u202c", "\x9b2J"
EVIL = f"{CLIPBOARD}{TURNED}{EIGHT_BIT}\r\u2066"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def unsteered(result: Result) -> str:
    shown = result.out + result.err
    assert not STEERS.search(shown), repr(shown)
    return shown


def repeated(value: object) -> str:
    """Yield all texts within a JSON value."""
    if isinstance(value, dict):
        return "".join(f"{key}{repeated(each)}" for key, each in value.items())
    return "".join(map(repeated, value)) if isinstance(value, list) else str(value)


def test_foreign_names_and_texts_have_no_control_characters(tmp_path: Path) -> None:
    """They are in every field of a log, and reach neither terminal nor page nor JSON file."""
    file, run = tmp_path / "theirs.jsonl", tmp_path / "run"
    rows = [
        {"id": f"q{i}{EVIL}", "question": f"who {EVIL}{i}", "answer": f"Ann {EVIL}"}
        | {"completion": f"Ann {EVIL}{j}", "model": f"m{EVIL}", f"set{EVIL}": EVIL}
        | {"temperature": 1, "seed": f"7{EVIL}", "scores": {f"s{EVIL}": j / 9}}
        for i in range(2)
        for j in range(4)
    ]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert "\\u001b]52" in unsteered(done("import", file, "--out", run))
    unsteered(done("score", run, "--scorer", "contains"))
    assert "\\u001b]52" in unsteered(done("bound", run))
    bounded = done("bound", run, "--json")
    assert "\\u001b]52" in unsteered(bounded)
    assert any(EVIL in row["query_id"] for row in bounded.json["estimates"])
    shown = leakbound("certify", run, "--max-leak", 0.5, "--scorer", "contains", "--every-question")
    assert "\\u001b]52" in unsteered(shown)
    unsteered(leakbound("verify", run / "certificate.json", run))
    unsteered(done("report", run))
    page = (run / "report.html").read_text()
    assert "\\u001b]52" in page
    assert not STEERS.search(page)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "base-uri &#39;none&#39;; form-action &#39;none&#39;" in policy[1]
    done("export", run, "--jsonl", tmp_path / "out.jsonl")
    files = {one.name: one.read_text() for one in tmp_path.rglob("*.json*") if one != file}
    assert {"run.json", "certificate.json", "out.jsonl"} <= set(files)
    for name, text in files.items():
        assert not STEERS.search(text), name
        if name.endswith(".json") and "\\u001b]52" in text:
            assert EVIL in repeated(json.loads(text)), name
    assert "\\u001b]52" in files["certificate.json"]


def test_an_error_has_no_control_characters(tmp_path: Path) -> None:
    file = tmp_path / "theirs.jsonl"
    for row in (
        {"question": "who", "completion": "x", "count": EVIL, "stop": EVIL},
        {"scores": {}, "count": 1, EVIL: 1},
    ):
        file.write_text(json.dumps({"id": EVIL, **row}))
        unsteered(leakbound("import", file, "--out", tmp_path / "run", "--format", "jsonl"))
