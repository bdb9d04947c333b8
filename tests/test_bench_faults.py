"""The bench of faults goes on where it was stopped, and its tables say what its lines say."""

from __future__ import annotations

from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"


@pytest.fixture(autouse=True)
def _bench(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))


def test_a_line_that_was_cut_is_made_again_and_the_others_are_not(tmp_path: Path) -> None:
    from faults import Book, Row

    file = tmp_path / "results.jsonl"
    book = Book(file)
    book.add(Row("faults", "score", "EIO at 3", "same"))
    book.add(Row("faults", "score", "EIO at 4", "same"))
    file.write_text(file.read_text()[:-9])
    again = Book(file)
    assert again.has("faults", "score", "EIO at 3")
    assert not again.has("faults", "score", "EIO at 4")
    again.add(Row("faults", "score", "EIO at 4", "same"))
    assert set(Book(file).rows) == set(book.rows)


def test_the_tables_count_every_try_once_and_leave_the_page_around_them(tmp_path: Path) -> None:
    from faults import BEGIN, END, Row, write

    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    rows = [Row("faults", "score", f"EIO at {n}", "same") for n in range(3)]
    rows += [Row("faults", "bound", "EIO at 1", "lost"), Row("finished", "score", "all", "same")]
    write(page, rows)
    told = page.read_text()
    assert told.startswith("before\n")
    assert told.endswith("\nafter\n")
    assert "old" not in told
    assert "| `score` | 3 | 3 | 0 | 0 | 0 | 0 |" in told
    assert "| `bound` | 1 | 0 | 0 | 1 | 0 | 0 |" in told
    assert "| together | 4 | 3 | 0 | 1 | 0 | 0 |" in told
    assert "| `EIO` | 4 |" in told


def test_the_page_shows_tables_of_the_bench() -> None:
    from faults import BEGIN, END

    page = (BENCH.parent / "docs" / "reliability.md").read_text()
    _, _, rest = page.partition(BEGIN)
    tables, _, _ = rest.partition(END)
    for line in tables.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if len(cells) == 7 and cells[1].replace(",", "").isdigit():
            tries, *ended = (int(cell.replace(",", "")) for cell in cells[1:])
            assert sum(ended) == tries, line
            assert ended[2:] == [0, 0, 0], line
    assert tables.count("together") >= 5
