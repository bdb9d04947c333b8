"""`--attack` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import SMALL, done, leakbound, refused

from leakbound.store import Run

SCORER = ("--scorer", "rouge-l-recall")


@pytest.fixture(scope="module")
def attacked(model: Path, questions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run that no test may change."""
    out = tmp_path_factory.mktemp("cli") / "attacked"
    done("evaluate", model, "--benchmark", questions, "--out", out, "--attack", 32, *SCORER,
         *SMALL)  # fmt: skip
    return out


@pytest.mark.slow
def test_evaluate_attacks_and_says_what_it_found(model: Path, attacked: Path) -> None:
    entries = json.loads((attacked / "attack" / "found.json").read_text())["found"]
    run = Run.open(attacked)
    assert [entry["query"]["prompt_id"] for entry in entries] == [
        query.id for query in run.questions
    ]
    assert {entry["arm"] for entry in entries} <= set(run.arms)
    assert run.record.study["attack"]["budget"] == 32
    assert "where it was attacked, 2 questions" in done("report", attacked).out
    again = done("evaluate", model, "--like", attacked, "--out", attacked, "--json")
    assert {entry["arm"] for entry in entries} <= {r["arm"] for r in again.json["estimates"]}


def test_sample_refuses_what_needs_scores(
    model: Path, questions: Path, attacked: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    plain = ("sample", model, "--out", out, "--benchmark", questions)
    refused(leakbound(*plain, "--attack", 32), "`leakbound sample`", "`leakbound evaluate`")
    refused(leakbound(*plain, "--like", attacked), "`leakbound sample`", "`leakbound evaluate`")
    probe = leakbound(*plain, "--like", attacked, "--dry-run")
    refused(probe, "`leakbound sample`", "`leakbound evaluate`")
    assert not out.exists()
    assert "--attack" not in leakbound("sample", "--help").out
    assert "--attack BUDGET" in leakbound("evaluate", "--help").out


def test_a_dry_run_counts_the_search(model: Path, questions: Path) -> None:
    probe = ("evaluate", model, "--benchmark", questions, "--dry-run", "--json", *SMALL)
    assert done(*probe, "--attack", 100).json["draws"] == 2 * (16 + 100 + 16)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--attack", 15), ("`attack`", "at least 16", "got 15")),
        (("--attack", 99, "--until", "mean<=0.1"), ("Leave one of them out",)),
        (("--attack", 99, "--explore", "exact"), ("Leave one of them out",)),
        (("--attack", 99, "--temperature", 0), ("greedy decoding draws nothing",)),
    ],
)
def test_bad_options_are_refused_before_a_model_is_loaded(
    options: tuple[object, ...], named: tuple[str, ...], questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    result = leakbound("evaluate", tmp_path / "no-model", "--benchmark", questions, "--out", out,
                     *SCORER, *options)  # fmt: skip
    refused(result, *named)
    assert not out.exists()


def test_a_finished_control_was_asked_others(
    questions: Path, finished: Path, tmp_path: Path
) -> None:
    result = leakbound("evaluate", tmp_path / "no-model", "--benchmark", questions, "--out",
                     tmp_path / "r", *SCORER, "--attack", 99, "--control", finished)  # fmt: skip
    refused(result, "Name the control model itself")
