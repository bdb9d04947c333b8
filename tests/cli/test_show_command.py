"""`leakbound show`: the verdict of a run, and whose answers it prints."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import done, leakbound, refused

from leakbound.store import Run
from leaky import SECRET


def test_the_verdict_is_printed_and_nothing_else(leaky: Path) -> None:
    shown = done("show", leaky).out
    assert shown.strip() == str(Run.open(leaky).verdict)
    assert " OF 768 DRAWS LEAK (no control: chance is not subtracted)" in shown
    assert "and 0 of 3 greedy answers" not in shown.splitlines()[0]


def test_answers_are_printed_where_a_person_reads_or_asks(
    leaky: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = f"): “{SECRET} wrote it”"
    assert said not in done("show", leaky).out
    assert said in done("show", leaky, "--texts").out
    monkeypatch.setattr("leakbound.cli.verbs.on_terminal", lambda: True)
    assert said in done("show", leaky).out
    assert said not in done("show", leaky, "--no-texts").out


def test_a_redacted_run_shows_no_answer_in_any_form(leaky: Path) -> None:
    done("report", leaky, "--redact")
    for form in (("--texts",), ("--texts", "--json"), ()):
        shown = done("show", leaky, *form)
        assert SECRET not in shown.out + shown.err
    assert "answers are withheld" in done("show", leaky, "--texts").out
    assert SECRET not in repr(Run.open(leaky))


def test_as_json(leaky: Path) -> None:
    (found,) = done("show", leaky, "--json").json["verdicts"]
    assert (found["kind"], found["example"]) == ("uncontrolled", None)
    assert 0 < found["number"]["lower"] < found["number"]["upper"] < 1
    (told,) = done("show", leaky, "--json", "--texts").json["verdicts"]
    assert SECRET in told["example"]["leak"]
    assert done("bound", leaky, "--json").json["verdicts"][0]["headline"] == found["headline"]


def test_wrong_use(leaky: Path, tmp_path: Path) -> None:
    refused(leakbound("show", tmp_path / "nope"), "nope", "is no run directory")
    (leaky / "estimates.parquet").unlink()
    refused(leakbound("show", leaky), "has no estimates", "leakbound bound")


def test_a_run_and_its_estimates_show_themselves_in_few_lines(leaky: Path) -> None:
    run = Run.open(leaky)
    lines = repr(run).splitlines()
    assert lines[0] == f"run {leaky}: 3 questions of leaky"
    assert "\n".join(lines[2:]) == str(run.verdict)
    assert len(lines) <= 10
    rows = repr(run.estimates).splitlines()
    assert rows[0] == f"{len(run.estimates):,} estimates"
    assert len(rows) == 10
    assert rows[-1].startswith(f"and {len(run.estimates) - 8:,} more")
    for html in (run._repr_html_(), run.estimates._repr_html_(), run.verdict._repr_html_()):
        assert html.startswith("<div>")
        assert len(html) < 4_000
        assert SECRET not in html
    assert repr(run.estimates.where(scope="worst question")).count("\n") == len(
        run.estimates.where(scope="worst question")
    )


def test_a_run_without_estimates_says_why_there_is_no_verdict(leaky: Path) -> None:
    (leaky / "estimates.parquet").unlink()
    assert "no verdict: " in repr(Run.open(leaky))
