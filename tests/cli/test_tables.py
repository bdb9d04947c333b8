"""Tables on terminals of any width: no figure is cut, and nothing is left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from commands import SMALL, done

from leakbound.cli.console import print_table
from leakbound.evaluation import Table, summary
from leakbound.store import Run
from suites import slow_but

ROWS = "question,answer\nwho wrote red?,Ann\nwho wrote blue?,Bob\n"
WIDTHS = (20, 60, 80, 100, 200)
Report = Callable[[int], str]


@pytest.fixture(scope="module")
def several(model: Path, control: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of several arms: two decodings, a control, and rewritings."""
    out = tmp_path_factory.mktemp("tables") / "run"
    asked = out.with_name("asked.csv")
    asked.write_text(ROWS)
    done("evaluate", model, "--benchmark", asked, "--out", out, "--control", control,
         "--inputs", "rules", "--queries", 2, "--temperature", "0.5,1",
         *SMALL)  # fmt: skip
    return out


@pytest.fixture(scope="module")
def report(several: Path) -> Report:
    """What its `report` prints at a terminal of some width."""

    @cache
    def shown(width: int) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            return done("report", several).out

    return shown


def words(text: str) -> list[str]:
    """What is read, without rules, in order."""
    return re.sub(r"[─-╿]", " ", text).split()


@pytest.mark.parametrize("width", slow_but((), WIDTHS))
def test_every_cell_is_whole_at_any_width(several: Path, report: Report, width: int) -> None:
    shown = report(width)
    assert "…" not in shown
    assert "..." not in shown
    for table in summary(Run.open(several)):
        for cells in (table.columns[1:], *table.texts):
            for cell in cells:
                for word in _figures(cell):
                    assert word in shown, (cell, width)


@pytest.mark.parametrize("width", slow_but((), WIDTHS[1:]))
def test_no_line_of_a_table_is_wider_than_the_terminal(
    several: Path, report: Report, width: int
) -> None:
    shown = report(width)
    notes = {line for table in summary(Run.open(several)) for line in _prose(table)}
    lines = [line.rstrip() for line in shown.splitlines()]
    wide = [line for line in lines if len(line) > width and line not in notes]
    assert [line for line in wide if not line.startswith("report: ")] == []


@pytest.mark.slow
def test_where_no_two_columns_fit_each_row_is_a_list(several: Path, report: Report) -> None:
    (table, *_) = summary(Run.open(several))
    narrow = report(27)
    for row in table.texts:
        place = narrow.index(f"\n{row[0]}\n")
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            words_ = r"\s+".join(map(re.escape, cell.split()))
            line = re.compile(rf"^  {re.escape(column)}\s+{words_}$", re.M)
            assert line.search(narrow, place), (column, cell)
    wide = report(200)
    for row in table.texts:
        assert any(all(cell in line for cell in row) for line in wide.splitlines()), row


@pytest.mark.slow
def test_the_tables_of_a_run_with_control_fit_eighty_columns(
    run: Path, model: Path, control: Path, questions: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("COLUMNS", "80")
    out = tmp_path / "controlled"
    how = ("--benchmark", questions, "--control", control, "--out", out)
    shown = done("evaluate", model, *how, *SMALL).out
    assert max(map(len, shown.replace(str(out), "").splitlines())) <= 80
    for table in summary(Run.open(out)):
        headings = {word for column in table.columns for word in column.split()}
        rules = [i for i, line in enumerate(shown.splitlines()) if set(line) == {"─"}]
        above = [" ".join(shown.splitlines()[i - 3 : i]).split() for i in rules]
        assert any(headings <= set(words_) for words_ in above), table.title


@pytest.mark.slow
def test_columns_that_do_not_fit_follow_below_under_the_first_one(
    several: Path, report: Report
) -> None:
    (table, *_) = summary(Run.open(several))
    first = report(60).partition(table.title)[2].partition("\n\n\n")[0]
    names = [row[0] for row in table.texts]
    starts = [line for line in first.splitlines() if line.startswith(names[0])]
    assert len(starts) > 2  # two blocks, and the sentence about it
    for name in names:
        assert len(re.findall(rf"^{re.escape(name)} ", first, re.M)) >= 2


@pytest.mark.slow
def test_sentences_break_where_a_terminal_ends_and_nowhere_in_a_pipe(
    several: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table, *_) = summary(Run.open(several))
    monkeypatch.delenv("COLUMNS", raising=False)
    assert table.note.splitlines()[0] in done("report", several).out.splitlines()
    shown = report(60).replace(str(several), "")
    assert max(map(len, shown.splitlines())) <= 60
    for word in words(table.note):
        assert word in shown


def _figures(cell: str) -> list[str]:
    """An interval's ends stay together; of other words each must be there."""
    found = re.findall(r"\[[^\]]*\]", cell)
    return found + re.sub(r"\[[^\]]*\]", " ", cell).split()


def _prose(table: Table) -> list[str]:
    return [line.rstrip() for line in f"{table.lead}\n{table.note}".splitlines()]


def test_a_table_fits_and_is_whole_at_every_width(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = "0.123 [0.100, 0.200]"
    rows = [
        ("target T=0.5", "T=0.5, top-p=0.9", "0.125", ends, "a long list, of, short words, here"),
        ("control", "T=1", "–", "−0.100 [−0.100, 0.200]", ""),
    ]
    columns = ("arm", "decoding", "greedy", "mean", "asked")
    forms = set()
    for width in range(40, 140):
        monkeypatch.setenv("COLUMNS", str(width))
        lines: list[str] = []
        print_table(Table.plain("a title", columns, rows), echo=lines.append)
        shown = "\n".join(lines)
        assert all(len(line) <= width for line in shown.splitlines()), width
        for row in rows:
            assert row[0] in shown, width
            for cell in row[1:]:
                assert all(figure in shown for figure in _figures(cell)), (cell, width)
        forms.add(shown.count("─\n"))
    assert forms >= {1, 2}  # side by side; and in two blocks
