"""Every command on a tiny model: what it stores, prints and resumes."""

from __future__ import annotations

import io
import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, Result, done, leakbound

from leakbound.cli import console
from leakbound.evaluation.statements.rows import ALL_K
from leakbound.stats.proof import PROVED
from leakbound.store import Arm, Run
from leakbound.types import Headway, during

FICTITIOUS = ("--benchmark", "fictitious", "--limit", 2, *SMALL)


def estimates(result: Result, **wanted: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = result.json["estimates"]
    return [r for r in rows if all(r[k] == v for k, v in wanted.items())]


def completions(arm: Arm) -> list[dict[str, Any]]:
    return [row for part in arm.parts for row in arm.completions(part).to_pylist()]


def test_evaluate_prints_a_table_and_writes_the_report(model: Path, tmp_path: Path) -> None:
    result = done("evaluate", model, *FICTITIOUS, "--out", tmp_path / "run")
    assert "keyword:require=all on fictitious" in result.out
    assert "n = 16" in result.out
    assert "99 %" in result.out
    assert f"report: {tmp_path / 'run' / 'report.html'}" in result.out
    assert "<html" in (tmp_path / "run" / "report.html").read_text()
    run = Run.open(tmp_path / "run")
    assert list(run.arms) == ["greedy", "target"]
    assert {r.n for r in run.estimates if r.arm == "target" and r.query_id} == {16}
    assert all(len(row["token_ids"]) <= 4 for row in completions(run.arms["target"]))


def test_json_is_one_document_and_progress_is_silent(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = done("evaluate", model, "--benchmark", questions, "--out", out, *SMALL, "--json")
    assert result.err == ""
    assert result.json["run"] == str(out)
    assert Path(result.json["report"]).is_file()
    (leak,) = estimates(result, arm="target", estimand="leak probability", query_id="mine/0001")
    assert leak["lower"] <= leak["value"] <= leak["upper"]
    assert (leak["n"], leak["confidence"], leak["side"]) == (16, 0.99, "both")


def test_the_three_steps_are_evaluate(finished: Path, model: Path, tmp_path: Path) -> None:
    questions = Run.open(finished).study.benchmark
    out = tmp_path / "run"
    drawn = done("sample", model, "--benchmark", questions, "--out", out, *SMALL)
    assert "target: 32 draws" in drawn.out
    assert not (out / "estimates.parquet").exists()
    assert done("score", out, "--json").json["scorers"] == ["keyword", "rouge-l-recall"]
    result = done("bound", out, "--json")
    assert result.json["estimates"] == [row.to_dict() for row in Run.open(finished).estimates]
    assert done("sample", model, "--benchmark", questions, "--out", out, *SMALL, "--json").json == {
        name: {"draws": arm.usage.draws, "forwards": arm.usage.forwards}
        for name, arm in Run.open(out).arms.items()
    }


def test_a_finished_command_runs_again_without_sampling(
    run: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Run.open(run)
    monkeypatch.delattr("leakbound.engines.hf.Sampler")
    questions = before.study.benchmark
    done("evaluate", model, "--benchmark", questions, "--out", run, *SMALL)
    assert Run.open(run).estimates == before.estimates


def test_a_stopped_command_goes_on_where_it_was(
    finished: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = Run.open(finished).study.benchmark
    command = ("evaluate", model, "--benchmark", questions, "--out", tmp_path / "run", *SMALL)
    write_part = Arm.write_part

    def stops(arm: Arm, *args: Any) -> None:
        if arm.name == "target":
            raise KeyboardInterrupt
        write_part(arm, *args)

    with monkeypatch.context() as patched:
        patched.setattr(Arm, "write_part", stops)
        stopped = leakbound(*command)
    assert stopped.status == 3
    assert "Run the same command again" in stopped.err
    assert leakbound("score", tmp_path / "run").status == 3
    assert "lacks 1 of 1 parts" in leakbound("bound", tmp_path / "run").err
    asked: list[str] = []
    monkeypatch.setattr(
        Arm, "write_part", lambda arm, *args: (asked.append(arm.name), write_part(arm, *args))
    )
    done(*command)
    assert asked == ["target"]
    assert Run.open(tmp_path / "run").estimates == Run.open(finished).estimates


def test_other_scorers_and_confidence_need_no_model(run: Path, no_model: None) -> None:
    done("score", run, "--scorer", "contains", "--scorer", "rouge-l-recall>=0.5")
    narrow = done("bound", run, "--scorer", "contains", "--confidence", 0.9, "--json")
    assert {r["scorer"] for r in narrow.json["estimates"]} == {
        *("keyword", "rouge-l-recall"),  # of the command that made the run
        "contains",
    }
    wide = done("bound", run, "--scorer", "contains", "--confidence", 0.999, "--json")
    of = {"arm": "target", "estimand": "leak probability", "scorer": "contains"}
    for a, b in zip(estimates(narrow, **of), estimates(wide, **of), strict=True):
        assert (a["confidence"], b["confidence"]) == (0.9, 0.999)
        assert b["upper"] > a["upper"]
        assert a["value"] == b["value"]


def test_bounding_one_scorer_keeps_the_others_and_by_default_all_are_bounded(run: Path) -> None:
    first = Run.open(run).estimates
    done("score", run, "--scorer", "contains")
    done("bound", run, "--scorer", "contains")
    both = Run.open(run).estimates
    assert [row for row in both if row.scorer != "contains"] == list(first)
    done("bound", run, "--confidence", 0.9)
    every = Run.open(run).estimates
    assert {row.confidence for row in every if row.confidence < 1} == {0.9}
    assert every.scorers == both.scorers
    done("bound", run, "--scorer", "contains", "--confidence", 0.999)
    one = Run.open(run).estimates
    assert {row.confidence for row in one if row.scorer == "contains"} >= {0.999}
    assert [r for r in one if r.scorer != "contains"] == [
        r for r in every if r.scorer != "contains"
    ]


def test_rows_of_scores_that_are_gone_go_too(run: Path) -> None:
    done("score", run, "--scorer", "contains")
    for arm in Run.open(run).arms.values():
        for file in (arm.folder / "scores").glob("keyword*"):
            file.unlink()
    done("bound", run, "--scorer", "contains")
    assert "keyword" not in Run.open(run).estimates.scorers


@pytest.mark.slow
def test_control_model_and_control_run_give_an_excess(
    model: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    how = ("--benchmark", questions, *SMALL)
    both = done("evaluate", model, *how, "--out", tmp_path / "both", "--control", control, "--json")
    done("evaluate", control, *how, "--out", tmp_path / "control")
    beside = ("--out", tmp_path / "run", "--control", tmp_path / "control")
    one = done("evaluate", model, *how, *beside, "--json")
    for result in (both, one):
        excess = estimates(result, arm="target", estimand="excess leak probability")
        assert [r["query_id"] for r in excess[-1:]] == [None]  # and of the mean
        assert [r["jointly"] for r in excess] == [False, False, True, True, False]
        assert len(estimates(result, arm="control-greedy", estimand="greedy score")) == 4
    assert estimates(both, arm="target") == estimates(both, arm="target")
    run, theirs = Run.open(tmp_path / "run"), Run.open(tmp_path / "control")
    assert completions(run.arms["control"]) == completions(theirs.arms["target"])
    assert completions(run.arms["control-greedy"]) == completions(theirs.arms["greedy"])
    again = done("evaluate", model, *how, *beside, "--json")
    assert again.json == one.json


@pytest.mark.slow
def test_lists_of_temperatures_and_top_p_run_every_cell(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    cells = ("--temperature", "0.5,1", "--top-p", "0.8,1")
    out = tmp_path / "run"
    result = done("evaluate", model, "--benchmark", questions, "--out", out, *SMALL, *cells)
    names = [f"target T={t}{p}" for t in ("0.5", "1") for p in (" top-p=0.8", "")]
    assert list(Run.open(out).arms) == ["greedy", *names]
    assert all(name in result.out for name in names)


@pytest.mark.slow
def test_a_greedy_cell_is_exact_and_has_no_excess(
    model: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    how = ("--benchmark", questions, "--out", tmp_path / "run", *SMALL, "--control", control)
    result = done("evaluate", model, *how, "--temperature", "0,1", "--json")
    greedy = estimates(result, arm="target greedy")
    assert {r["estimand"] for r in greedy if r["query_id"]} == {"greedy score"}
    assert all(r["lower"] == r["value"] == r["upper"] for r in greedy)
    assert estimates(result, arm="target T=1", estimand="excess leak probability")


def test_greedy_alone_is_shown(model: Path, questions: Path, tmp_path: Path) -> None:
    how = ("--benchmark", questions, "--out", tmp_path / "run", *SMALL, "--temperature", 0)
    shown = done("evaluate", model, *how).out
    assert "n = 1, greedy" in shown
    assert "target" in shown
    assert "incomplete" not in shown
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "<title>What the greedy answers leak</title>" in page


def test_one_draw_is_enough_to_run(model: Path, questions: Path, tmp_path: Path) -> None:
    how = ("--benchmark", questions, "--out", tmp_path / "run", "-n", 1, "--max-new-tokens", 1)
    rows = done("evaluate", model, *how, "--json").json["estimates"]
    own = [r for r in rows if r["estimand"] == "leak probability"]
    drawn = [r for r in own if PROVED not in r["method"]]  # one draw says next to nothing
    assert all(r["upper"] - r["lower"] > 0.9 for r in drawn)
    assert drawn or all(r["upper"] > 0.9 for r in own)
    assert not any(math.isnan(r[k]) for r in rows for k in ("lower", "upper"))
    repeated = [r for r in rows if r["quantity"] == "leak@k" and not r["proved"]]
    assert {r["parameter"] for r in repeated if r["value"] is None} == set(ALL_K[1:])


@pytest.mark.slow
def test_like_repeats_what_is_not_said(
    model: Path, untied: Path, control: Path, questions: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    how = ("--temperature", "0.7", "--scorer", "contains", "--control", control, "--stop", "sea")
    done("evaluate", model, "--benchmark", questions, *SMALL, *how, "--out", first)
    done("evaluate", untied, "--like", first, "--out", second, "--seed", 6)
    a, b = Run.open(first), Run.open(second)
    assert b.record.study == a.record.study | {"seed": 6}
    assert list(b.arms) == list(a.arms)
    for name in ("greedy", "target"):
        assert b.arms[name].decoding == a.arms[name].decoding
        assert b.arms[name].plan == a.arms[name].plan
    assert b.arms["target"].spec.seed == 6
    assert b.estimates.scorers == ("contains",)


def test_a_dry_run_says_the_cost_and_stores_nothing(
    model: Path, questions: Path, tmp_path: Path
) -> None:
    how = ("evaluate", model, "--benchmark", questions, "--dry-run", "-n", 1000)
    shown = done(*how, "--max-new-tokens", 4, "--temperature", "0.5,1", "--out", tmp_path / "run")
    assert "2 questions, 2 decodings, 4,000 draws" in shown.out
    assert " s if it grows as in the trial, " in shown.out
    assert "of one model: a control takes about as much again" in shown.out
    cost = done(*how, "--max-new-tokens", 4, "--json").json  # and needs no --out
    assert cost["draws"] == 2000
    assert cost["tokens"] <= 8000
    assert list(tmp_path.iterdir()) == []


def test_report_on_several_runs_is_one_page(run: Path, finished: Path, tmp_path: Path) -> None:
    page = tmp_path / "pages" / "both.html"
    shown = done("report", run, finished, "--out", page)
    assert shown.out.count("keyword on csv:") == 2
    assert page.is_file()
    told = done("report", run, finished, "--out", page, "--json").json
    assert told["report"] == str(page)
    assert [r["run"] for r in told["runs"]] == [str(run), str(finished)]
    assert told["runs"][0]["estimates"] == [row.to_dict() for row in Run.open(run).estimates]
    (run / "report.html").unlink()
    done("report", run, "--redact")
    assert "Ann" not in (run / "report-redacted.html").read_text()
    assert not (run / "report.html").exists()


def test_plan_answers_in_words_and_json() -> None:
    assert "23,026 draws" in done("plan", "--epsilon", 0.01).out
    told = done("plan", "--epsilon", 0.05, "--clean", 0.02, "--side", "both", "--json").json
    assert told == {"confidence": 0.99, "epsilon": 1060, "clean": 228}


def test_progress_lines_have_rates(
    untied: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_QUIET_SECONDS", 0)
    out = tmp_path / "run"
    lines = done("sample", untied, "--benchmark", questions, "--out", out, *SMALL).err.splitlines()
    target = [line for line in lines if line.startswith("sampling target: ")]
    assert target[0] == "sampling target: 0/32 draws"
    assert any(re.match(r"sampling target: \d+/32 draws, .* tokens", line) for line in target[1:-1])
    assert re.search(r", [\d.]+ % distinct, ", target[-1])
    assert not any("distinct" in line for line in lines if "greedy" in line)  # one draw of each
    some = next(line for line in target if not line.startswith("sampling target: 0/"))
    assert "draws/s" in some
    assert " tokens (" in some
    assert sum("32/32 draws" in line for line in target) == 1
    assert len(set(target)) == len(target)  # nothing twice


def test_plain_lines_come_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1000))
    monkeypatch.setattr(console.time, "monotonic", lambda: float(next(seconds)))
    said: list[str] = []
    monkeypatch.setattr("leakbound.cli.saying.click.echo", lambda text, err: said.append(text))
    with console.progress_bar() as progress:
        for done_so_far in range(11):
            progress(Headway("working", done_so_far, 10, "steps"))
        for _ in range(60):  # however long after, an end is said once
            progress(Headway("working", 10, 10, "steps"))
    counts = [line.split()[1] for line in said]
    assert counts[0] == "0/10"
    assert counts[-1] == "10/10"
    assert counts.count("10/10") == 1  # said once, reported twice
    assert 2 < len(counts) < 8
    assert all(" steps/s" in line for line in said[1:])
    assert all(" s left, " in line for line in said[1:-1])


def test_lines_come_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    said: list[float] = []
    monkeypatch.setattr("leakbound.cli.saying.click.echo", lambda text, err: said.append(now))
    with console.progress_bar() as progress:
        for second in range(3601):
            now = float(second)
            progress(Headway("working", second, 3600, "steps"))
    pauses = [later - earlier for earlier, later in pairwise(said)]
    assert pauses[:5] == [5, 10, 20, 40, 60]
    assert set(pauses[4:-1]) == {60}
    assert len(said) < 70


def test_what_is_over_at_once_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.time, "monotonic", lambda: 0.0)
    said: list[str] = []
    monkeypatch.setattr("leakbound.cli.saying.click.echo", lambda text, err: said.append(text))
    with console.progress_bar() as progress:
        for phase in ("first", "second", "third"):
            for done_so_far in range(4):
                progress(Headway(phase, done_so_far, 3, "steps"))
    assert said == ["first: 0/3 steps", *(f"{p}: 3/3 steps" for p in ("first", "second", "third"))]


def test_a_step_that_nothing_measures_is_said_while_it_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(console.time, "monotonic", lambda: now)
    said: list[str] = []
    monkeypatch.setattr("leakbound.cli.saying.click.echo", lambda text, err: said.append(text))
    with console.progress_bar() as progress:
        with during(progress, "loading one"):
            assert said == ["loading one: …"]
        with during(progress, "loading another"):  # soon after the first
            assert said[1:] == ["loading another: …"]
            now = 70.0
    assert said[2:] == ["loading another: 1 min 10 s"]  # and not what took no time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_live_bar(
    model: Path, questions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("commands.StandardError", Terminal)
    out = tmp_path / "run"
    err = done("sample", model, "--benchmark", questions, "--out", out, *SMALL).err
    assert "sampling target" in err
    assert "32/32 draws" in err


def test_durations_as_a_person_says_them() -> None:
    said = [console.duration(s) for s in (0.4, 59, 61, 3599, 3600, 90_000)]
    assert said == ["0 s", "59 s", "1 min 01 s", "59 min 59 s", "1 h 00 min", "25 h 00 min"]


def test_settings_of_the_run_are_kept_with_it(finished: Path) -> None:
    record = json.loads((finished / "run.json").read_text())
    study = record["study"]
    assert study["sampling"] == {"n": 16}
    assert [how["temperature"] for how in study["decodings"]] == [1.0]
    assert study["scorers"] == ["keyword", "rouge-l-recall"]
    assert record["arms"]["target"]["model"].endswith("model")
