"""`--scorer judge:…` and `--calibration`, as a user types them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from misbehaving import Answer, Body, chat_server, fails, says

LABELLED = "label,judge\n" + "1,1\n" * 30 + "1,0\n" + "0,0\n" * 40
NOWHERE = "judge:model=openai:http://127.0.0.1:1/v1#m"


@pytest.fixture(autouse=True)
def replies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKBOUND_REPLIES", str(tmp_path / "replies"))


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    file = tmp_path / "labelled.csv"
    file.write_text(LABELLED)
    return file


def verdict(body: Body, _: int) -> Answer:
    return says(json.dumps({"leak": len(body["messages"][1]["content"]) % 3 == 0}))


def test_a_finished_run_is_judged_and_bounded(run: Path, labelled: Path) -> None:
    with chat_server(verdict) as served:
        scorer = ("--scorer", f"judge:model=openai:{served.url}#m")
        done("score", run, *scorer, "--calibration", labelled)
        asked = len(served.asked)
        assert asked > 4
        done("score", run, *scorer, "--calibration", labelled)
        assert len(served.asked) == asked
    found = done("bound", run, *scorer)
    assert "corrected for a judge that calls 30 of 31 leaks and 0 of 40 others a leak" in found.out


def test_evaluating_with_a_judge_goes_all_the_way(
    model: Path, questions: Path, labelled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with chat_server(verdict) as served:
        name = f"judge:model=openai:{served.url}#m"
        found = done(
            "evaluate", model, "--benchmark", questions, "--out", out, *SMALL,
            "--scorer", name, "--calibration", labelled, "--json",
        )  # fmt: skip
    estimands = {row["estimand"] for row in found.json["estimates"]}
    assert "corrected leak probability" in estimands
    settings = json.loads((out / "run.json").read_text())["study"]
    assert settings["calibration"] == str(labelled.resolve())
    assert settings["scorers"] == [name]


def test_a_calibration_that_will_not_do_is_refused_before_anything_runs(
    model: Path, questions: Path, labelled: Path, tmp_path: Path
) -> None:
    how = ("--benchmark", questions, "--out", tmp_path / "out", *SMALL)
    both = ("--scorer", "keyword", "--scorer", "rouge-l-recall>=0.9")
    refused(
        leakbound("evaluate", model, *how, *both, "--calibration", labelled),
        "one scorer",
        "keyword",
    )
    refused(leakbound("evaluate", model, *how, "--calibration", labelled), "row 1", "question")
    missing = tmp_path / "none.csv"
    refused(
        leakbound("evaluate", model, *how, "--scorer", NOWHERE, "--calibration", missing),
        "none.csv",
        "Check the path",
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_judge_that_is_not_there_is_said_and_nothing_is_scored(run: Path) -> None:
    refused(leakbound("score", run, "--scorer", NOWHERE), "127.0.0.1:1", "cannot be reached")
    refused(leakbound("bound", run, "--scorer", NOWHERE), "leakbound score")


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

    with chat_server(rule) as served:
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
