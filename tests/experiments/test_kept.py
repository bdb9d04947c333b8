"""What was measured once stands on the next page, unless it was measured in another way."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import findings
import pytest
import scholten
import tables
from claims import Figure, Need
from common import Cost
from kept import Drawn, Found, Kept
from made_up import ask, lab_of
from sizes import CONTROL, PLAIN, SIZES, Size
from words import EARLIER

CLAIM, SIZE = scholten.CLAIMS[0], SIZES["builtin"]
FOUND = Found(
    (Figure(0.1, 0.0, 0.2, 0.99, "said"), Figure(0.3, 0.2, 0.4, 0.99)), Cost(60, 30, 9, 8)
)


@pytest.mark.slow
def test_a_page_without_runs_says_what_the_page_of_the_runs_said(tmp_path: Path) -> None:
    """Runs of one seed more would have made it anew; here they are taken away."""
    lab, file, page = lab_of(tmp_path / "runs" / "small"), tmp_path / "k.json", tmp_path / "p.md"
    for seed, leaks in ((0, 0.1), (1, 0.15)):
        ask(lab, "NPO", seed, leaks)
        ask(lab, CONTROL, seed, 0.0)
    findings.write(tmp_path / "runs", page, kept=file)
    before = page.read_text("utf-8")
    assert "### 3a-hidden" in before
    assert "leak@k: NPO, control" in before
    shutil.rmtree(tmp_path / "runs" / "small" / "runs")
    shutil.rmtree(tmp_path / "runs" / "small" / "models")
    ask(lab, "GA", 0, 0.5)
    findings.write(tmp_path / "runs", page, kept=file)
    after = page.read_text("utf-8")
    assert f"--kept {file}" in after
    new = [line for line in after.splitlines() if line not in before.splitlines()]
    assert [line.split(" | ")[0] for line in new] == [
        "| GA",
        "| GA",
        "| GA",
        "| all",
        _minutes(after),
    ]
    gone = [line for line in before.splitlines() if line not in after.splitlines()]
    assert [line.split(" | ")[0] for line in gone] == ["| all", _minutes(before)]


def _minutes(page: str) -> str:
    (line,) = re.findall(r"^\d+ minutes in all.*$", page, flags=re.MULTILINE)
    return str(line)


@pytest.mark.slow
def test_a_model_that_was_not_asked_once_is_told_of_once_it_is(tmp_path: Path) -> None:
    """It was trained for others to go on from; its cost stands on one line or the other."""
    lab, kept = lab_of(tmp_path), Kept()
    ask(lab, "GA", 0, 0.5)
    ask(lab, "NPO", 0, 0.5)
    shutil.rmtree(lab.path("GA"))
    unasked = "\n".join(tables.costs(lab, (0,), kept))
    assert "| GA | 60 | – | 0 | 0 | 0 |" in unasked
    ask(lab, "GA", 0, 0.5)
    (row,) = (one for one in tables.costs(lab, (0,), kept) if one.startswith("| GA |"))
    assert row.startswith("| GA | 60 | plain |")


def test_what_is_kept_comes_back_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    kept = Kept.open(file)
    kept.put(CLAIM, SIZE, (0, 1), FOUND)
    kept.pictures["a.svg"] = Drawn("x", "a", 2)
    kept.cost("NPO: plain", "x", FOUND.cost)
    kept.write()
    again = Kept.open(file)
    assert again.get(CLAIM, SIZE, (0, 1)) == FOUND
    assert again.pictures == kept.pictures
    assert again.cost("NPO: plain", "x", None) == FOUND.cost
    assert again.cost("NPO: plain", "y", None) is None


@pytest.mark.slow
def test_a_figure_by_other_bounds_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be wider, or of a bound that was mended since."""
    kept, runs, page = Kept(tmp_path / "kept.json"), tmp_path / "runs", tmp_path / "p.md"
    kept.put(CLAIM, SIZE, (0, 1), FOUND)
    kept.write()
    findings.write(runs, page, kept=kept.file)
    assert EARLIER.format(which="all") not in page.read_text("utf-8")
    monkeypatch.setattr("kept.made_by", lambda: {"statistics": "changed since"})
    findings.write(runs, page, kept=kept.file)
    assert EARLIER.format(which="all") in page.read_text("utf-8")


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '{"claims": {}}'])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text)
    with pytest.raises(SystemExit, match=r"kept\.json is no file that findings\.py wrote"):
        Kept.open(file)


def with_method(name: str, objective: str) -> Size:
    method = replace(SIZE.methods[name], objective=objective)
    return replace(SIZE, methods={**SIZE.methods, name: method})


def test_what_was_measured_in_another_way_is_not_taken() -> None:
    kept = Kept()
    kept.put(CLAIM, SIZE, (0, 1), FOUND)
    fewer = {**SIZE.asked, PLAIN: replace(SIZE.asked[PLAIN], n=9)}
    assert kept.get(CLAIM, SIZE, (0,)) is None
    for claim in (
        replace(CLAIM, rule=replace(CLAIM.rule, limit=0.5)),
        replace(CLAIM, figure="another"),
        replace(CLAIM, name="another"),
    ):
        assert kept.get(claim, SIZE, (0, 1)) is None
    for size in (
        replace(SIZE, dtype="bfloat16"),
        replace(SIZE, asked=fewer),
        with_method("NPO", "npo:beta=9"),
    ):
        assert kept.get(CLAIM, size, (0, 1)) is None
    assert kept.get(CLAIM, with_method("GA", "gd"), (0, 1)) == FOUND


def test_what_a_method_goes_on_from_is_part_of_its_settings() -> None:
    kept = Kept()
    claim = replace(CLAIM, needs=(Need("NPO then leakmin"),))
    kept.put(claim, SIZE, (0, 1), FOUND)
    assert kept.get(claim, SIZE, (0, 1)) == FOUND
    assert kept.get(claim, with_method("NPO", "npo:beta=9"), (0, 1)) is None


def test_rows_are_joined_in_the_order_of_names() -> None:
    kept, header, settings = Kept(), ("method", "seed", "x"), {"a": "1", "b": "2"}
    rows = {"b 0": ("b", "0", "1"), "a 1": ("a", "1", "2")}
    assert list(kept.rows("t", header, rows, settings)) == [("a", "1", "2"), ("b", "0", "1")]
    more = {"a 0": ("a", "0", "3"), "b 0": ("b", "0", "4")}
    assert list(kept.rows("t", header, more, settings)) == [
        ("a", "0", "3"), ("a", "1", "2"), ("b", "0", "4"),
    ]  # fmt: skip
    assert list(kept.rows("t", header, {}, {"a": "9", "b": "2"})) == [("b", "0", "4")]
    assert list(kept.rows("t", ("method", "y"), {}, settings)) == []


def test_what_more_seeds_told_is_not_replaced_by_what_fewer_tell() -> None:
    kept, header = Kept(), ("method", "seeds", "x")
    two, one = {"a": ("a", "2", "x")}, {"a": ("a", "1", "y")}
    assert list(kept.rows("t", header, two, {"a": "1"})) == [two["a"]]
    assert list(kept.rows("t", header, one, {"a": "1"})) == [two["a"]]
    assert list(kept.rows("t", header, one, {"a": "9"})) == [one["a"]]
    assert kept.cost("a", "1", Cost(draws=2)) == Cost(draws=2)
    assert kept.cost("a", "1", Cost(draws=1)) == Cost(draws=2)
    assert kept.cost("a", "9", Cost(draws=1)) == Cost(draws=1)
