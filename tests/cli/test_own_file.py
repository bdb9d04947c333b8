"""A user's own file of questions, from the shell."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SMALL, done

from leakbound.store import Run

ROWS = """question,answer,keywords,split,source
who wrote red,Ann,"[""Ann, Bob"", ""Ann""]",forget,a
who wrote blue,Bob,Bob;Ann,retain,b
who wrote red,Ann,Ann,forget,c
"""


def test_only_rows_to_forget_are_asked_and_what_is_odd_is_said_first(
    model: Path, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(ROWS)
    for command in ("sample", "evaluate"):
        out = tmp_path / command
        said = done(command, model, "--benchmark", file, "--out", out, *SMALL, "--json").err
        assert said.startswith("note: ignored columns: source; columns that count: id, question")
        assert "note: the same question in rows 1, 3" in said
        run = Run.open(out)
        assert [prompt.id for prompt in run.prompts] == ["mine/0001", "mine/0003"]
        assert run.prompts[0].keywords == ("Ann, Bob", "Ann")
    shown = done("evaluate", model, "--benchmark", file, "--dry-run", *SMALL)
    assert "note: ignored columns: source" in shown.err
    assert "2 questions" in shown.out


def test_its_metrics_are_measured_again_from_anywhere(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.csv").write_text(ROWS)
    monkeypatch.chdir(tmp_path)
    how = ("--benchmark", "mine.csv", "--limit", 1, "--metrics", "forget_probability", *SMALL)
    done("evaluate", model, *how, "--out", "run")
    monkeypatch.chdir("/")
    assert "forget_probability" in done("measure", tmp_path / "run", "--json").out
