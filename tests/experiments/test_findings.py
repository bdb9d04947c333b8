"""The page of findings is made of stored runs and of what was kept of others, always the same."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import findings
import leak_at_k
import pytest
import scholten
import tables
from claims import Claim, Figure, Need
from common import Cost
from kept import Drawn, Found, Kept
from made_up import ask, lab_of
from sizes import CONTROL, PLAIN, REWORDED, SIZES, TARGET, Size
from tables import EARLIER

import leakbound
from pages import DOCS
from unlearning import _cell

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
        files = (folder / f"{name}.csv" for folder in (tmp_path, EXPECTED))
        made, expected = (re.split(r"(\d+\.\d+)", file.read_text("utf-8")) for file in files)
        assert made[::2] == expected[::2]  # processors differ in the last bit of the others
        assert [*map(float, made[1::2])] == pytest.approx([*map(float, expected[1::2])], rel=1e-12)


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
    assert float(corrected[0]) == pytest.approx((value - 19 / 72) / (1 - 19 / 72), abs=5e-3)


def entry_of(claim: Claim, size: str) -> str:
    """What a page says of a claim whose two intervals reach from 0 to .2."""
    found = Found((Figure(0.1, 0.0, 0.2, 0.99),) * 2, Cost())
    finding = findings.Finding("leak_at_k.py", claim, found, size)
    return "\n".join(findings._entry(finding, (0, 1)))


@pytest.mark.parametrize("size", ["small", "middle", "full"])
def test_a_claim_shows_its_verdict_or_its_reason_and_what_was_seen_at_its_size(size: str) -> None:
    for claim in (claim for claims in findings.SCRIPTS.values() for claim in claims):
        reason = claim.untested.get(size) or claim.untested.get("", "")
        entry = entry_of(claim, size)
        assert reason in entry
        assert ("The claim asks for" in entry) == (not reason), claim.name
        assert ("Not tested here." in entry) == bool(reason), claim.name
    known = next(one for one in leak_at_k.CLAIMS if one.name == "k-npo")
    entry = entry_of(replace(known, small="When small.", middle="In the middle."), size)
    assert ("When small." in entry, "In the middle." in entry) == (
        size == "small",
        size == "middle",
    )


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
    assert _cell("S_mean at most", [0.1, 0.3001]) == "0.31"


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
    assert "| 0.88 |" in text
    assert float(mean) == pytest.approx(0.25 + 0.75 * miss, abs=0.03)
    assert float(std) == pytest.approx((1 - miss) * 0.1875**0.5, abs=0.03)
    assert float(ed) == pytest.approx(float(mean) + 2 * float(std), abs=0.02)
    assert float(mean) < float(most) < 0.6
    assert not list(tables.reworded(lab_of(tmp_path / "none"), (0, 1), Kept()))


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
    before = page.read_text("utf-8").splitlines()
    assert "### 3a-hidden" in before
    for folder in ("runs", "models"):
        shutil.rmtree(tmp_path / "runs" / "small" / folder)
    ask(lab, "GA", 0, 0.5)
    findings.write(tmp_path / "runs", page, kept=file)
    after = page.read_text("utf-8").splitlines()
    assert any(f"--kept {file}" in line for line in after)
    for lines, others, told in ((after, before, ["| GA"] * 3), (before, after, [])):
        *rows, minutes = (line for line in lines if line not in others)
        assert [row.split(" | ")[0] for row in rows] == [*told, "| all"]
        assert re.match(r"\d+ minutes in all", minutes)


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
    """What a method goes on from is part of its settings."""
    kept = Kept()
    kept.put(CLAIM, SIZE, (0, 1), FOUND)
    fewer = {**SIZE.asked, PLAIN: replace(SIZE.asked[PLAIN], n=9)}
    other = with_method("NPO", "npo:beta=9")
    assert kept.get(CLAIM, SIZE, (0,)) is None
    for change in ({"rule": replace(CLAIM.rule, limit=0.5)}, {"figure": "x"}, {"name": "x"}):
        assert kept.get(replace(CLAIM, **change), SIZE, (0, 1)) is None
    for size in (replace(SIZE, dtype="bfloat16"), replace(SIZE, asked=fewer), other):
        assert kept.get(CLAIM, size, (0, 1)) is None
    assert kept.get(CLAIM, with_method("GA", "gd"), (0, 1)) == FOUND
    claim = replace(CLAIM, needs=(Need("NPO then entropy"),))
    kept.put(claim, SIZE, (0, 1), FOUND)
    assert [kept.get(claim, size, (0, 1)) for size in (SIZE, other)] == [FOUND, None]


def test_rows_are_joined_in_the_order_of_names_and_fewer_seeds_replace_none() -> None:
    kept, header, settings = Kept(), ("method", "seed", "x"), {"a": "1", "b": "2"}
    rows = {"b 0": ("b", "0", "1"), "a 1": ("a", "1", "2")}
    assert list(kept.rows("t", header, rows, settings)) == [("a", "1", "2"), ("b", "0", "1")]
    more = {"a 0": ("a", "0", "3"), "b 0": ("b", "0", "4")}
    assert list(kept.rows("t", header, more, settings)) == [
        ("a", "0", "3"), ("a", "1", "2"), ("b", "0", "4"),
    ]  # fmt: skip
    assert list(kept.rows("t", header, {}, {"a": "9", "b": "2"})) == [("b", "0", "4")]
    assert list(kept.rows("t", ("method", "y"), {}, settings)) == []
    two, one = {"a": ("a", "2", "x")}, {"a": ("a", "1", "y")}
    for row, how, told in ((two, "1", two), (one, "1", two), (one, "9", one)):
        found = kept.rows("u", ("method", "seeds", "x"), row, {"a": how})
        assert list(found) == [told["a"]]
    for draws, how, told in ((2, "1", 2), (1, "1", 2), (1, "9", 1)):
        assert kept.cost("a", how, Cost(draws=draws)) == Cost(draws=told)
