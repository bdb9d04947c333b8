"""`leakbound recompute`: exit status 6 where a log is not what its rows make it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import done, leakbound, refused

from leakbound.store import Run

ROWS = {str(row): {"prob": value} for row, value in enumerate((0.25, 0.5))}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "TOFU_EVAL.json"
    file.write_text(json.dumps({"forget_Q_A_Prob": {"agg_value": 0.375, "value_by_index": ROWS}}))
    (tmp_path / "TOFU_SUMMARY.json").write_text(json.dumps({"forget_Q_A_Prob": 0.375}))
    return file


def test_a_log_that_agrees(log: Path) -> None:
    found = done("recompute", log)
    assert "forget_Q_A_Prob" in found.out
    assert found.out.endswith("same: 2\n")
    one = done("recompute", log, "--json").json
    assert one["agrees"] is True
    (entry, summary) = one["logs"][str(log)]
    assert (entry["stored"], entry["found"], entry["how"]) == (0.375, 0.375, "mean prob")
    assert (summary["entry"], summary["verdict"]) == ("summary: forget_Q_A_Prob", "same")


def test_what_differs_is_named_and_the_status_is_6(log: Path) -> None:
    log.write_text(log.read_text().replace("0.25", "0.26"))
    found = leakbound("recompute", log)
    assert found.status == 6
    assert "differs: 2" in found.out
    assert "0.38" in found.out
    found = leakbound("recompute", log, "--json")
    assert (found.status, found.json["agrees"]) == (6, False)


def test_what_is_no_log_is_refused(log: Path, tmp_path: Path) -> None:
    refused(leakbound("recompute", tmp_path / "TOFU_SUMMARY.json"), "no row of any metric")
    refused(leakbound("recompute", tmp_path / "none_EVAL.json"), "none_EVAL.json")
    refused(leakbound("recompute", log, "--retrained", tmp_path / "x.json"), "x.json")


def test_an_own_export_agrees_with_itself(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out = tmp_path / "run", tmp_path / "MINE_EVAL.json"
    names = "forget_probability,forget_rouge_l_recall,forget_rouge_1_recall,exact_memorisation"
    asked = ("--benchmark", questions, "--out", run, "-n", 4, "--max-new-tokens", 2)
    done("evaluate", model, *asked, "--metrics", names)
    done("export", run, out, "--openunlearning")
    rows = json.loads(out.read_text())["forget_Q_A_ROUGE"]["value_by_index"]
    assert {key for row in rows.values() for key in row} == {"rougeL_recall", "rouge1_recall"}
    assert done("recompute", out).out.endswith("same: 6\n")
    assert len(Run.open(run).prompts) == len(rows)


def test_samples_of_lm_evaluation_harness(tmp_path: Path) -> None:
    file = tmp_path / "LMEval_EVAL.json"
    refused(leakbound("recompute", file), "LMEval_EVAL.json")
    samples = [{"doc_id": i, "filter": "none", "acc": value} for i, value in enumerate((1.0, 0.0))]
    file.write_text(json.dumps({"arc_easy": {"arc_easy": samples}}))
    refused(leakbound("recompute", file), "holds samples and no aggregate")
    (tmp_path / "LMEval_SUMMARY.json").write_text(json.dumps({"arc_easy/acc": 0.5}))
    assert done("recompute", file).out.endswith("same: 1\n")
    (tmp_path / "LMEval_SUMMARY.json").write_text(json.dumps({"arc_easy/acc": 0.6}))
    found = leakbound("recompute", file, "--json")
    assert (found.status, found.json["agrees"]) == (6, False)
