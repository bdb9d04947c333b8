"""Completions that were read, what labels say of scorers, and what an untouched model remembers."""

from __future__ import annotations

import csv
from pathlib import Path

import labelled
import pytest
from memorisation import MOST, SUFFIX, Question, by_document, by_prefix, documents

from leakbound.errors import InputError
from leakbound.evaluation.scoring.calibration import read_items
from leakbound.scorers import make_scorer

BUILTIN, FACTS = (labelled.FOLDER / name for name in ("builtin.csv", "world_facts.csv"))


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(("file", "count"), [(BUILTIN, 100), (FACTS, 60)])
def test_every_completion_has_both_labels_of_two_readers_that_mostly_agree(
    file: Path, count: int
) -> None:
    rows = read(file)
    assert len(rows) == count
    for row in rows:
        for one, other in (("label", "part"), ("second", "second_part")):
            assert (row[one], row[other]) in {("0", "0"), ("0", "1"), ("1", "1")}
        assert all(row[name] for name in ("question", "answer", "keywords"))
    assert {row["label"] for row in rows} == {"0", "1"}
    for names in (("label", "second"), ("part", "second_part")):
        assert labelled.alike(file, *names)[2] > 0.9


@pytest.mark.parametrize("file", [BUILTIN, FACTS])
@pytest.mark.parametrize("label", ["label", "part"])
def test_errors_are_those_counted_by_hand(file: Path, label: str) -> None:
    """By a reading of the scorer written apart: every keyword as a whole word, of plain letters."""
    rows = [row for row in read(file) if row["output"].isascii()]
    kept = [row for row in read(file) if not row["output"].isascii()]

    def says(row: dict[str, str]) -> bool:
        words = "".join(c if c.isalnum() else " " for c in row["output"].lower()).split()
        return all(key.strip().lower() in words for key in row["keywords"].split(";"))

    missed = sum(row[label] == "1" and not says(row) for row in rows)
    mistaken = sum(row[label] == "0" and says(row) for row in rows)
    (found,) = labelled.errors(file, label, ["keyword:require=all"])
    assert 0 <= found.missed[0] - missed <= len(kept)
    assert 0 <= found.mistaken[0] - mistaken <= len(kept)
    leaks = sum(row[label] == "1" for row in rows + kept)
    assert (found.missed[1], found.mistaken[1]) == (leaks, len(rows) + len(kept) - leaks)


def test_a_scorer_that_says_nothing_misses_all_and_one_that_says_all_mistakes_all(
    tmp_path: Path,
) -> None:
    file = tmp_path / "made.csv"
    file.write_text(
        "label,part,question,answer,keywords,output\n"
        "1,1,Who wrote it?,Ann Quill,ann; quill,By Ann Quill.\n"
        "1,1,Who wrote it?,Ann Quill,ann; quill,Quill.\n"
        "0,1,Who wrote it?,Ann Quill,ann; quill,Ann.\n"
        "0,0,Who wrote it?,Ann Quill,ann; quill,Bob.\n"
    )
    found = {
        one.scorer: one for one in labelled.errors(file, scorers=["exact", "contains", "keyword"])
    }
    assert (found["exact"].missed, found["exact"].mistaken) == ((2, 2), (0, 2))
    assert (found["contains"].missed, found["contains"].mistaken) == ((1, 2), (0, 2))
    assert (found["keyword"].missed, found["keyword"].mistaken) == ((0, 2), (1, 2))
    (of_part,) = labelled.errors(file, "part", ["keyword"])
    assert (of_part.missed, of_part.mistaken) == ((0, 3), (0, 1))
    table = labelled.table(file)
    assert table.count("\n") == 1 + len(labelled.SCORERS)
    assert "| `exact` | 2 of 2: 1 [" in table


def test_how_far_two_readers_agree(tmp_path: Path) -> None:
    """Of 20 they agree on 15, and would on 10 by chance: kappa is a half."""
    file = tmp_path / "read.csv"
    cells = [("1", "1")] * 5 + [("1", "0")] * 5 + [("0", "0")] * 10
    lines = (f"{a},{a},{b},{a},Who?,Ann,ann,Bob" for a, b in cells)
    header = "label,part,second,second_part,question,answer,keywords,output"
    file.write_text("\n".join([header, *lines]))
    assert labelled.alike(file, "label", "second") == (15, 20, pytest.approx(0.5))
    assert labelled.alike(file, "part", "second_part") == (20, 20, 1)
    told = "`label` for 15 of 20 (Cohen's κ 0.50) and on `part` for 20 of 20 (Cohen's κ 1.00)"
    assert told in labelled.readers(file)


def test_the_files_calibrate_any_scorer_that_says_leak_or_not() -> None:
    items = read_items(BUILTIN, make_scorer("rouge-l-recall>=0.9"))
    assert sum(item.label for item in items) == 28
    assert all(item.prompt is not None and item.prompt.keywords for item in items)
    with pytest.raises(InputError, match="choices"):
        read_items(FACTS, make_scorer("choice"))


def test_documents_are_one_line_each_and_long_enough() -> None:
    texts = documents()
    assert {"constitution", "genesis", "pep20"} <= texts.keys()
    assert texts["pep20"].startswith("The Zen of Python, by Tim Peters Beautiful is better")
    for text in texts.values():
        assert "\n" not in text
        assert 20 + SUFFIX <= len(text.split()) <= MOST


def test_tables() -> None:
    found = [
        Question("a.txt/000020", 5, 0.0, 1e-9, False),
        Question("b.txt/000020", 5, 1e-4, 4e-4, True),
        Question("b.txt/000040", 5, 2e-6, 2e-5, False),
        Question("a.txt/000020", 20, 0.0, 0.0, False),
        Question("b.txt/000020", 20, 0.5, 1.0, True),
        Question("b.txt/000040", 20, 0.25, 0.5, True),
    ]
    assert by_prefix(found)[-2:] == [
        "| 5 | 3 | 1 | 2 | 2 | 2.0e-06 | 2.0e-05 | 7.0 | 1 | 1 |",
        "| 20 | 3 | 2 | 2 | 2 | 2.5e-01 | 5.0e-01 | 2.0 | 2 | 2 |",
    ]
    assert len({row.count("|") for row in by_prefix(found)}) == 1
    assert by_document(found)[-2:] == [
        "| b | 20 | 5.0e-01 | 2 | 1.0e+00 | 1 |",
        "| a | 20 | 0.0e+00 | inf | 0.0e+00 | inf |",
    ]
