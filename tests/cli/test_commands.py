"""Every command on a tiny model: stored files, output and resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from commands import MEASURE, SAMPLE, SMALL, Words, done, leakbound, refused, tree

from contents import PROBABILITY
from leakbound.evaluation import bound, score
from leakbound.store import Arm, EstimateRow, Estimates, Run


def test_evaluate_prints_a_table_and_writes_the_report(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    how = ("--benchmark", "fictitious", "--limit", 2, "--out", out, *SMALL)
    result = done("evaluate", model, *how)
    for shown in ("keyword:require=all, benchmark", "n = 16", "99 %", f"report: {out}/report.ht"):
        assert shown in result.out
    assert "<html" in (out / "report.html").read_text()
    run = Run.open(out)
    assert list(run.arms) == ["greedy", "target"]
    assert {r.n for r in run.estimates if r.arm == "target" and r.query_id} == {16}
    assert all(len(row.completion.token_ids or ()) <= 4 for row in run.completions)
    again = done("evaluate", model, *how, "--json")
    assert [line.partition(":")[0] for line in again.err.splitlines()] == 4 * ["note"]
    assert again.json["run"] == str(out)
    assert Path(again.json["report"]).is_file()
    (leak,) = again.estimates(arm="target", query_id=run.questions[0].id, **PROBABILITY)
    assert leak["lower"] <= leak["value"] <= leak["upper"]
    assert (leak["n"], leak["confidence"], leak["side"]) == (16, 0.99, "both")


def test_the_three_steps_are_evaluate(evaluating: Words, finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    drawing = (*evaluating, out, *SAMPLE)
    drawn = done(*drawing)
    assert "target: 32 draws" in drawn.out
    refused(leakbound("bound", out), "`leakbound score` first")
    refused(leakbound("report", out), str(out), "`leakbound bound` first")
    assert not (out / "estimates.parquet").exists()
    assert done("score", out, "--json").json["scorers"] == ["keyword", "rouge-l-recall"]
    result = done("bound", out, "--json")
    assert result.json["estimates"] == [row.to_dict() for row in Run.open(finished).estimates]
    assert done(*drawing, "--json").json == {
        name: {"draws": arm.usage.draws, "forwards": arm.usage.forwards}
        for name, arm in Run.open(out).arms.items()
    }


def test_evaluate_finishes_a_drawn_run(evaluating: Words, finished: Path, tmp_path: Path) -> None:
    command = (*evaluating, tmp_path / "run", "--metrics", "extraction_strength")
    done(*command, *SAMPLE)
    drawn = tree(tmp_path / "run" / "arms")
    done(*command)
    assert drawn.items() <= tree(tmp_path / "run" / "arms").items()
    assert Run.open(tmp_path / "run").estimates == Run.open(finished).estimates
    measured = done("evaluate", tmp_path / "run", *MEASURE, "--json").json
    assert measured["arms"]["target"]["metrics"].keys() == {"extraction_strength"}


def test_a_drawn_slice_awaits_its_merge(evaluating: Words, tmp_path: Path) -> None:
    sliced = done(*evaluating, tmp_path / "slice", *SAMPLE, "--questions", "1/2")
    assert "leakbound merge" in sliced.out


def test_a_stopped_command_resumes(
    evaluating: Words, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, write_part, wanted = tmp_path / "run", Arm.write_part, list[str]()

    def stops(arm: Arm, *args: Any) -> None:
        wanted.append(arm.name)
        if wanted == ["greedy", "target"]:
            raise KeyboardInterrupt
        write_part(arm, *args)

    monkeypatch.setattr(Arm, "write_part", stops)
    command = (*evaluating, out)
    stopped = leakbound(*command)
    assert (stopped.status, "Run the same command again" in stopped.err) == (3, True)
    assert leakbound("score", out).status == 3
    assert "lacks 1 of 1 parts" in leakbound("bound", out).err
    done(*command)
    assert wanted == ["greedy", "target", "target"]
    assert Run.open(out).estimates == Run.open(finished).estimates


@pytest.mark.usefixtures("no_model")
def test_bounding_one_scorer_keeps_the_others(run: Path) -> None:
    """By default all scorers are bounded."""

    def bounded(*names: str, confidence: float = 0.99) -> Estimates:
        bound(Run.open(run), *names, confidence=confidence)
        return Run.open(run).estimates

    def others(rows: Estimates) -> list[EstimateRow]:
        """Return the bounds that share no alpha with other scorers."""
        return [r for r in rows if r.family != "simultaneous" and r.scorer != "contains"]

    first = Run.open(run).estimates
    score(Run.open(run), "contains")
    both, every = bounded("contains"), bounded(confidence=0.9)
    one = bounded("contains", confidence=0.999)
    assert others(both) == others(first)
    assert others(one) == others(every)
    assert {row.confidence for row in every if row.confidence < 1} == {0.9}
    assert every.scorers == both.scorers
    wide, narrow = (
        rows.where(scorer="contains", arm="target", **PROBABILITY) for rows in (one, every)
    )
    for a, b in zip(wide, narrow, strict=True):
        assert (a.confidence, a.value, a.upper > b.upper) == (0.999, b.value, True)
    for file in run.glob("arms/*/scores/keyword*"):
        file.unlink()
    assert "keyword" not in bounded("contains").scorers  # its scores were deleted


def test_report_on_several_runs_is_one_page(run: Path, finished: Path, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "both.html"
    seen = done("report", run, finished, "--out", page, "--json").json
    assert page.is_file()
    assert seen["report"] == str(page)
    assert [r["run"] for r in seen["runs"]] == [str(run), str(finished)]
    assert seen["runs"][0]["estimates"] == [row.to_dict() for row in Run.open(run).estimates]


def test_plan_answers_in_words_and_json() -> None:
    assert "23,026 draws" in done("plan", "--epsilon", 0.01, "--side", "upper").out
    seen = done("plan", "--epsilon", "5%", "--clean", "2 %", "--confidence", "99%", "--json").json
    assert seen == {"confidence": 0.99, "epsilon": 1060, "clean": 228}
