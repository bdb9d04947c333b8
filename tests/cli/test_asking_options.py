"""`--profile`, a judge with `--calibration`, and benchmarks with settings of their own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound.store import Run
from misbehaving import LISTED, Answer, Body, chat_server, fails, honest, judge_server, says

FEW = ("-n", 8, "--device", "cpu")
LABELLED = "label,judge\n" + "1,1\n" * 30 + "1,0\n" + "0,0\n" * 40
OWN = """question,answer,keywords,split,source
who wrote red,Ann,"[""Ann, Bob"", ""Ann""]",forget,a
who wrote blue,Bob,Bob;Ann,retain,b
who wrote red,Ann,Ann,forget,c
"""


def test_of_a_file_of_ones_own_what_is_odd_is_said_first(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows to forget alone are asked; its metrics are measured again from anywhere."""
    (tmp_path / "mine.csv").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    how = ("--benchmark", "mine.csv", *SMALL)
    said = done("evaluate", model, *how, "--out", "run", "--metrics", "forget_probability").err
    assert said.startswith("note: ignored columns: source; columns that count: id, question")
    assert "note: the same question in rows 1, 3" in said
    run = Run.open(tmp_path / "run")
    assert [prompt.id for prompt in run.prompts] == ["mine/0001", "mine/0003"]
    assert run.prompts[0].keywords == ("Ann, Bob", "Ann")
    shown = done("sample", model, *how, "--dry-run")
    assert "note: ignored columns: source" in shown.err
    assert "2 questions" in shown.out
    monkeypatch.chdir("/")
    assert "forget_probability" in done("measure", tmp_path / "run", "--json").out


@pytest.fixture(scope="module")
def scholten(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("profile") / "run"
    done("evaluate", model, "--benchmark", questions, "--out", out, "--profile", "scholten",
         "--max-tokens", 12, *FEW)  # fmt: skip
    return out


def test_a_profile_that_cannot_be_had_is_refused(
    scholten: Path, model: Path, questions: Path, tmp_path: Path
) -> None:
    asked = ("--benchmark", questions, "--profile")
    for how, named in (
        ((*asked, "scholen"), ("unknown profile 'scholen'", "'scholten'")),
        ((*asked, "leak-k"), ("gold paraphrases", "has none")),
        (("--like", scholten, "--profile", "tofu-legacy"),
         ("has profile 'scholten'", "--profile tofu-legacy", "Leave one of them out")),
        ((*asked, "scholten", "--max-tokens", 4), ("prompt tokens, which leaves none of the 4",)),
    ):  # fmt: skip
        refused(leakbound("sample", model, *how, "--out", tmp_path / "r"), *named)


def test_jailbreakbench_asks_chat_models_only(model: Path, tmp_path: Path) -> None:
    (tmp_path / "jbb_goals_official.csv").write_text("goal\nwho wrote red\n")
    asked = ("sample", model, "--benchmark", "jbb", "--data", tmp_path, *FEW)
    out = ("--out", tmp_path / "r")
    refused(leakbound(*asked, *out), "no chat template", "instruct", "--prompt-template")
    assert not (tmp_path / "r" / "run.json").exists()
    done(*asked, *out, "--prompt-template", "{question}", "--max-new-tokens", 2)


@pytest.fixture(autouse=True)
def replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "replies"))


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    file = tmp_path / "labelled.csv"
    file.write_text(LABELLED)
    return file


def verdict(body: Body, _: int) -> Answer:
    return says(json.dumps({"leak": len(body["messages"][1]["content"]) % 3 == 0}))


def test_a_finished_run_is_judged_and_bounded(run: Path, labelled: Path) -> None:
    with judge_server(verdict) as served:
        scorer = ("--scorer", f"judge:model=openai:{served.url}#m")
        done("score", run, *scorer, "--calibration", labelled)
        asked = len(served.asked)
        assert asked > 4
        done("score", run, *scorer, "--calibration", labelled)
        assert len(served.asked) == asked
    found = done("bound", run, *scorer)
    assert "corrected for a judge that calls 30 of 31 leaks and 0 of 40 others a leak" in found.out


@pytest.mark.slow
def test_a_busy_judge_leaves_the_run_incomplete_and_is_asked_again(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    busy = [True]

    def rule(body: Body, before: int) -> Answer:
        odd = len(body["messages"][1]["content"]) % 2
        return fails(429, Retry_After="3600") if busy[0] and odd else verdict(body, before)

    def estimates(folder: str) -> list[object]:
        out = tmp_path / folder
        how = ("--benchmark", questions, "--out", out, *SMALL, "--json")
        result = leakbound("evaluate", model, *how, "--scorer", name)
        if busy[0]:
            refused(result, "429", "same command again", status=3)
            refused(leakbound("bound", out, "--scorer", name), "leakbound score")
            return []
        assert result.status == 0, result.err
        return [dict(row, arm="") for row in result.json["estimates"]]

    with judge_server(rule) as served:
        name = f"judge:model=openai:{served.url}#m"
        assert estimates("out") == []
        failed = {text for text in served.texts if len(text) % 2}
        assert failed
        busy[0] = False
        gone_on = estimates("out")
        times = Counter(served.texts)
        assert {text for text in times if times[text] > 1} == failed  # no other is asked again
        assert gone_on == estimates("at once")
    assert all(row["missing"] == 0 for row in gone_on)  # type: ignore[index]


def test_options_of_servers_reach_a_served_model(questions: Path) -> None:
    with chat_server(honest({}), LISTED) as up:
        asked = ("evaluate", f"openai:{up.url}#mm?probe=off", "--benchmark", questions)
        asked += ("--samples", 4, "--scorer", "keyword", "--dry-run")
        refused(leakbound(*asked), "no model 'mm'", "'m'", "--unlisted")
        refused(leakbound(*asked, "--patience", 0), "`patience` of a server", "at least 1")
        assert "10 draws in 4 requests" in done(*asked, "--unlisted", "--patience", 5).out
