"""The page of findings is made of stored runs and nothing else, the same every time."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import findings
import leak_at_k
import pytest
import tables
from claims import Claim, Figure
from common import Cost
from kept import Found, Kept
from made_up import ask, lab_of
from sizes import CONTROL, REWORDED, TARGET

import leakbound
from pages import DOCS
from unlearning import _cell, columns

VERDICTS = ("agrees", "contradicts", "undecided", "not tested")
MULTILINE = re.DOTALL | re.MULTILINE
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


def entry_of(claim: Claim, size: str) -> str:
    """What a page says of a claim whose two intervals reach from 0 to .2."""
    found = Found((Figure(0.1, 0.0, 0.2, 0.99),) * 2, Cost())
    finding = findings.Finding("leak_at_k.py", claim, found, size)
    return "\n".join(findings._entry(finding, (0, 1)))


@pytest.mark.parametrize("size", ["small", "middle", "full"])
def test_a_claim_that_is_not_tested_shows_its_reason_and_no_verdict(size: str) -> None:
    for claim in (claim for claims in findings.SCRIPTS.values() for claim in claims):
        reason = claim.untested.get(size) or claim.untested.get("", "")
        entry = entry_of(claim, size)
        assert reason in entry
        assert ("The claim asks for" in entry) == (not reason), claim.name
        assert ("Not tested here." in entry) == bool(reason), claim.name


@pytest.mark.parametrize("page", ["findings", "findings-middle"])
def test_every_verdict_of_a_page_rests_on_an_interval_beside_it(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    verdicts = re.findall(r"^\| \[(.*)\]\(#.*\| (.*) \|$", text, flags=re.MULTILINE)
    (told,) = re.findall(r"^Of \d+ claims .*?\. Seeds", text, flags=re.MULTILINE)
    each = Counter(verdict.strip("*") for _, verdict in verdicts)
    assert re.findall(r"\d+", told) == [str(len(verdicts)), *(str(each[one]) for one in VERDICTS)]
    for name, verdict in verdicts:
        if verdict != "not tested":
            (rows,) = re.findall(rf"^### {name}$.*?\|---\|---\|---\|\n(.*?)\n\n", text, MULTILINE)
            assert all("[" in row.split(" | ")[1] for row in rows.splitlines()), name


@pytest.mark.slow
def test_the_small_page_is_what_its_kept_figures_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for the line that tells which figures are by earlier code of the bounds."""
    shutil.copytree(DOCS / "findings", tmp_path / "docs" / "findings")
    monkeypatch.chdir(tmp_path)
    page, kept = Path("docs/findings.md"), Path("docs/findings/kept.json")
    findings.write(Path("runs"), page, kept=kept)
    made, committed = (
        re.sub(r"^Figures kept of .*\n\n", "", file.read_text("utf-8"), flags=re.MULTILINE)
        for file in (page, DOCS / "findings.md")
    )
    assert made == committed


def test_upper_ends_of_several_models_are_told_by_the_largest() -> None:
    assert _cell("S_mean", [0.1, 0.3]) == "0.200 (0.100–0.300)"
    assert _cell("S_mean at most", [0.1, 0.3001]) == "0.301"


@pytest.mark.slow
def test_no_table_has_a_mean_of_upper_ends(stored: Path) -> None:
    header, *rows = columns(lab_of(stored / "small"))
    (npo,) = (row for row in rows if row[:2] == ("NPO", "2"))
    said = {name: cell for name, cell in zip(header, npo, strict=True) if "at most" in name}
    assert len(said) == 4
    assert all(re.fullmatch(r"\d\.\d{3}", cell) for cell in said.values())


@pytest.mark.parametrize("size", ["small", "middle", "full"])
def test_what_was_seen_at_one_size_is_said_on_its_page_alone(size: str) -> None:
    known = next(one for one in leak_at_k.CLAIMS if one.name == "k-npo")
    claim = replace(known, small="Seen when small.", middle="Seen in the middle.")
    entry = entry_of(claim, size)
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
