"""The page of findings is made of stored runs and nothing else, the same every time."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import findings
import leak_at_k
import pytest
import tables
from claims import Figure
from common import Cost
from kept import Found, Kept
from made_up import ask, lab_of
from sizes import CONTROL, REWORDED, TARGET

import leakbound

EXPECTED = Path(__file__).parent / "expected"
FIGURES = ("questions", "leak-at-k")


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the papers' scripts would have left: two seeds of NPO, its control, and with entropy."""
    runs = tmp_path_factory.mktemp("runs")
    lab = lab_of(runs / "small")
    for seed, leaks in ((0, 0.1), (1, 0.15)):
        ask(lab, "NPO", seed, leaks, kept=0.95)
        ask(lab, "NPO + entropy", seed, 0.0, kept=0.9)
        ask(lab, CONTROL, seed, 0.0)
    ask(lab, TARGET, 0, 0.8)
    ask(lab, "GA", 0, 0.3)
    return runs


@pytest.mark.slow
def test_the_page_made_anew_is_the_one_that_was_committed(stored: Path, tmp_path: Path) -> None:
    """To write what is expected: copy the new files over those in `expected`, and read them."""
    findings.write(stored, tmp_path / "findings.md")
    made = (tmp_path / "findings.md").read_text("utf-8")
    assert made == (EXPECTED / "findings.md").read_text("utf-8")
    drawn = {file.name for file in (tmp_path / "findings").iterdir()}
    names = ["questions", "tail", "convergence", "spread", "leak-at-k-1", "leak-at-k-2", "naive"]
    assert drawn == {f"small-{name}.svg" for name in names}
    for name in drawn:
        assert f"](findings/{name})" in made


@pytest.mark.slow
def test_two_figures_made_anew_are_those_that_were_committed(stored: Path, tmp_path: Path) -> None:
    runs = [stored / "small" / "runs" / "plain" / name for name in ("npo-0", "control-0")]
    leakbound.figures(runs, tmp_path, only=FIGURES, formats=["svg"], scorer="keyword:require=all")
    for name in FIGURES:
        made, expected = (folder / f"{name}.csv" for folder in (tmp_path, EXPECTED))
        assert made.read_text("utf-8") == expected.read_text("utf-8")


@pytest.mark.slow
def test_errors_of_scorers_are_carried_into_a_bound_on_the_draws_that_were_labelled(
    stored: Path, tmp_path: Path
) -> None:
    """Both scorers are right about every draw here; the mean is that of the laws by shares."""
    findings.write(stored, tmp_path / "findings.md")
    page = (tmp_path / "findings.md").read_text("utf-8")
    (row,) = re.findall(r"\| by keyword:require=all \|\n.*\n\|(.*)\|\n", page)
    close, corrected, keyword = (re.findall(r"[\d.]+", cell) for cell in row.split("|"))
    assert close == keyword
    mean = (30 * 0.8 + 30 * 0.3 + 20 * 0.1) / 100
    value, lower, upper = map(float, keyword)
    assert lower < mean < upper
    assert float(corrected[0]) == pytest.approx((value - 19 / 72) / (1 - 19 / 72), abs=1e-3)


@pytest.mark.parametrize("size", ["small", "middle", "full"])
def test_what_was_seen_at_one_size_is_said_on_its_page_alone(size: str) -> None:
    known = next(one for one in leak_at_k.CLAIMS if one.name == "k-npo")
    claim = replace(known, small="Seen when small.", middle="Seen in the middle.")
    found = Found((Figure(0.1, 0.0, 0.2, 0.99),) * 2, Cost())
    entry = "\n".join(findings._entry(size, findings.Finding("leak_at_k.py", claim, found), (0, 1)))
    assert ("Seen when small." in entry) == (size == "small")
    assert ("Seen in the middle." in entry) == (size == "middle")


@pytest.mark.slow
def test_columns_over_the_input_distribution_are_those_of_all_wordings(tmp_path: Path) -> None:
    """An answer that leaks scores 1, another two words of the seven."""
    lab = lab_of(tmp_path)
    ask(lab, "NPO", 1, 0.25, asked=REWORDED)
    ask(lab, "RMU", 0, 0.25, asked=REWORDED)
    ask(lab, "RMU", 0, 0.25, kept=0.875)
    text = "\n".join(tables.reworded(lab, (0, 1), Kept()))
    (row,) = (line for line in text.splitlines() if line.startswith("| NPO |"))
    _, _, seed, mean, std, ed, most, kept, _ = (cell.strip() for cell in row.split("|"))
    miss = 2 / 7
    assert (seed, kept) == ("1", "–")
    assert "| 0.875 |" in text
    assert float(mean) == pytest.approx(0.25 + 0.75 * miss, abs=0.03)
    assert float(std) == pytest.approx((1 - miss) * 0.1875**0.5, abs=0.03)
    assert float(ed) == pytest.approx(float(mean) + 2 * float(std), abs=0.002)
    assert float(mean) < float(most) < 0.6
    assert not list(tables.reworded(lab_of(tmp_path / "none"), (0, 1), Kept()))


@pytest.mark.slow
def test_what_has_no_runs_is_named_and_not_judged(stored: Path, tmp_path: Path) -> None:
    fewer = tmp_path / "runs"
    shutil.copytree(stored, fewer)
    shutil.rmtree(fewer / "small" / "runs" / "plain" / "control-1")
    findings.write(fewer, tmp_path / "findings.md")
    page = (tmp_path / "findings.md").read_text("utf-8")
    assert "### 3a-hidden" not in page
    assert "### 4a-spread" in page
    (missing,) = (line for line in page.splitlines() if line.startswith("Not run: "))
    assert "3a-hidden" in missing
