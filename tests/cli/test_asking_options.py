"""Options of benchmarks, of a judge with `--calibration`, and of servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import MEASURE, SAMPLE, SMALL, done, leakbound, refused

from injector.cases import judge_server
from leakbound.store import Run
from misbehaving import LISTED, chat_server, honest

LABELLED = "label,judge\n" + "1,1\n" * 30 + "1,0\n" + "0,0\n" * 40
OWN = """question,answer,keywords,split,source
who wrote red,Ann,"[""Ann, Bob"", ""Ann""]",forget,a
who wrote blue,Bob,Bob;Ann,retain,b
who wrote red,Ann,Ann,forget,c
"""


def test_odd_files_are_noted(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only rows to forget are queried; their metrics are measured again from any folder."""
    (tmp_path / "mine.csv").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    how = ("--benchmark", "mine.csv", *SMALL)
    printed = done("evaluate", model, *how, "--out", "run", "--metrics", "forget_probability").err
    assert printed.startswith("note: ignored columns: source; known columns: id, question")
    assert "note: the same question is in rows 1, 3" in printed
    run = Run.open(tmp_path / "run")
    assert [prompt.id for prompt in run.prompts] == ["mine/0001", "mine/0003"]
    assert run.prompts[0].keywords == ("Ann, Bob", "Ann")
    shown = done("evaluate", model, *SAMPLE, *how, "--dry-run")
    assert "note: ignored columns: source" in shown.err
    assert "2 questions" in shown.out
    monkeypatch.chdir("/")
    assert "forget_probability" in done("evaluate", tmp_path / "run", *MEASURE, "--json").out


def test_jailbreakbench_needs_a_chat_template(model: Path, tmp_path: Path) -> None:
    (tmp_path / "jbb_goals_official.csv").write_text("goal\nwho wrote red\n")
    wanted = ("evaluate", model, "--benchmark", "jbb", "--data", tmp_path, "--out", tmp_path / "r")
    refused(leakbound(*wanted, *SMALL), "no chat template", "instruct", "--prompt-template")
    assert not (tmp_path / "r" / "run.json").exists()
    done(*wanted, *SMALL, *SAMPLE, "--prompt-template", "{question}")


@pytest.mark.thorough
def test_a_finished_run_is_judged_and_bounded(run: Path, tmp_path: Path) -> None:
    labelled = tmp_path / "labelled.csv"
    labelled.write_text(LABELLED)
    with judge_server() as served:
        scorer = ("--scorer", f"judge:model=openai:{served.url}#m")
        done("score", run, *scorer, "--calibration", labelled)
        wanted = len(served.queried)
        assert wanted > 4
        done("score", run, *scorer, "--calibration", labelled)
        assert len(served.queried) == wanted
    got = done("bound", run, *scorer)
    assert "corrected for a judge that calls 30 of 31 leaks and 0 of 40 others a leak" in got.out


def test_options_of_servers_reach_a_served_model(questions: Path) -> None:
    with chat_server(honest({}), LISTED) as up:
        wanted = ("evaluate", f"openai:{up.url}#mm?probe=off", "--benchmark", questions)
        wanted += ("--samples", 4, "--scorer", "keyword", "--dry-run")
        refused(leakbound(*wanted), "no model 'mm'", "'m'", "--unlisted")
        refused(leakbound(*wanted, "--patience", 0), "`patience` of a server", "at least 1")
        assert "10 draws in 4 requests" in done(*wanted, "--unlisted", "--patience", 5).out
