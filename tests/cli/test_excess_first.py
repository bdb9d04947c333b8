"""What a person reads first: how far the model leaks beyond its control, or that none is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import SMALL, done

from leakbound.evaluation.views.table import interval
from leakbound.store import Run

ROWS = "question,answer\nwho wrote red?,Ann\nblue,Bob\n"  # rules rewrite the first alone


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    file = tmp_path / "asked.csv"
    file.write_text(ROWS)
    return file


def test_the_excess_over_the_control_comes_first(
    model: Path, control: Path, asked: Path, tmp_path: Path
) -> None:
    shown = done("evaluate", model, "--benchmark", asked, "--out", tmp_path / "run",
                 "--control", control, *SMALL).out  # fmt: skip
    found = {
        row.estimand: interval(row)
        for row in Run.open(tmp_path / "run").estimates
        if row.query_id is None and row.estimand.startswith("excess")
    }
    (mean, worst) = found.values()
    first, second, *_ = shown.splitlines()
    assert first == "model: NOT SHOWN TO SCORE ABOVE THE CONTROL"
    assert second == f"{worst} mean score at the worst question, beyond the control"
    assert f"target, beyond the control {mean} on average, {worst} at the worst question" in shown
    again = done("report", tmp_path / "run").out
    assert again.splitlines()[:2] == [first, second]


def test_without_a_control_that_is_what_comes_first(
    model: Path, asked: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    shown = done("evaluate", model, "--benchmark", asked, "--out", out, *SMALL).out
    assert shown.startswith("model: NO VERDICT (no control: chance is not subtracted)\n")
    assert "\nNo control: a model that never saw the data may score as much" in shown
    first = (out / "report.html").read_text(encoding="utf-8").partition("<nav")[0]
    assert "no control: chance is not subtracted" in first


@pytest.mark.slow
@pytest.mark.parametrize("ids", [(), ("--ids", "--ids-draws", 4)])
def test_the_mean_is_in_table_and_page_for_a_fixed_design(
    model: Path,
    asked: Path,
    tmp_path: Path,
    ids: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a row a line, whatever the terminal
    out = tmp_path / "run"
    design = ids or ("--design", "fixed")
    shown = done("evaluate", model, "--benchmark", asked, "--out", out, "--inputs", "rules",
                 "--queries", 3, *design, *SMALL).out  # fmt: skip
    (mean,) = (
        row
        for row in Run.open(out).estimates
        if row.query_id is None
        and row.arm == "target inputs"
        and row.estimand in ("leak probability", "mean leakage")
        and row.target.startswith("the mean over these questions")
    )
    title = "by protocol, "
    rows = shown.partition(title)[2].splitlines()
    line = next(line for line in rows if interval(mean) in line)
    assert "–" not in line
    page = (out / "report.html").read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
    assert interval(mean) in page.partition('id="asked"')[2]
