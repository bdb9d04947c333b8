"""What was redacted stays so, whatever command comes next, until that is lifted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import done, leakbound

from leakbound.reporting import write_report
from leakbound.reporting.details import unpacked
from leakbound.store import Run

SECRETS = ("Ann", "Bob")


def holds_texts(file: Path) -> bool:
    """Whether a page does, or what its questions open to."""
    page = file.read_text()
    return any(secret in page + json.dumps(unpacked(page)) for secret in SECRETS)


@pytest.mark.slow
def test_no_later_command_writes_the_texts(run: Path, model: Path, tmp_path: Path) -> None:
    (run / "report.html").unlink()
    page = run / "report-redacted.html"
    assert f"report: {page}" in done("report", run, "--redact").out
    later: list[list[object]] = [
        ["bound", run],
        ["bound", run, "--confidence", 0.9],
        ["score", run],
        ["bound", run],
        ["evaluate", model, "--like", run, "--out", run],
        ["report", run],
        ["report", run, "--out", tmp_path / "page.html"],
        ["report", run, "--json"],
    ]
    for command in later:
        result = done(*command)
        assert "report.html" not in result.out
        assert not (run / "report.html").exists(), command
        assert not holds_texts(page), command
    assert not holds_texts(tmp_path / "page.html")
    write_report({"a": Run.open(run)}, tmp_path / "python.html")
    assert not holds_texts(tmp_path / "python.html")


def test_nor_an_export_of_it(run: Path, tmp_path: Path) -> None:
    done("report", run, "--redact")
    file = tmp_path / "draws.jsonl"
    said = done("export", run, file, "--jsonl")
    assert f"`{run}` is redacted: scores in place of texts" in said.err
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert "scores" in rows[0]
    assert not {"question", "answer", "completion"} & rows[0].keys()
    done("export", run, file, "--jsonl", "--no-redact")  # said of this file alone
    assert '"completion"' in file.read_text()
    done("export", run, file, "--jsonl")
    assert '"completion"' not in file.read_text()


def test_it_is_lifted_by_saying_so(run: Path) -> None:
    first = done("report", run, "--redact")
    older = f"`{run / 'report.html'}` was written before and holds the texts"
    assert older in first.err
    assert older in done("bound", run).err  # and wherever a page is written again
    assert Run.open(run).redacted
    (run / "report.html").unlink()
    done("report", run, "--no-redact")
    assert holds_texts(run / "report.html")
    assert not Run.open(run).redacted
    done("bound", run)
    assert holds_texts(run / "report.html")


def test_a_page_about_several_runs_is_redacted_with_any_of_them(
    run: Path, finished: Path, tmp_path: Path
) -> None:
    done("report", run, "--redact")
    page = tmp_path / "both.html"
    done("report", run, finished, "--out", page)
    assert not holds_texts(page)
    assert not Run.open(finished).redacted


def test_what_cannot_be_kept_with_a_run_is_said(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leakbound.store.lock.make_folder", _read_only)
    page = tmp_path / "page.html"
    said = done("report", run, "--redact", "--out", page)
    assert "not kept for later commands: cannot write" in said.err
    assert not holds_texts(page)


def _read_only(path: Path) -> None:
    from leakbound.errors import InputError

    raise InputError(f"cannot write into `{path}`.")


def test_a_run_that_cannot_be_shown_is_not_changed(run: Path) -> None:
    (run / "estimates.parquet").unlink()
    before = (run / "run.json").read_bytes()
    assert leakbound("report", run, "--redact").status == 2
    assert (run / "run.json").read_bytes() == before
