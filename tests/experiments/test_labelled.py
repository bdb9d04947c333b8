"""Labelled completions, and the errors of scorers on them."""

from __future__ import annotations

import csv
from pathlib import Path

import labelled
import pytest

BUILTIN, FACTS = (labelled.FOLDER / name for name in ("builtin.csv", "world_facts.csv"))


def read(file: Path) -> list[dict[str, str]]:
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize(("file", "count"), [(BUILTIN, 100), (FACTS, 60)])
def test_every_completion_has_labels_of_two_readers(file: Path, count: int) -> None:
    rows = read(file)
    assert len(rows) == count
    for row in rows:
        for one, other in (("label", "part"), ("second", "second_part")):
            assert (row[one], row[other]) in {("0", "0"), ("0", "1"), ("1", "1")}
        assert all(row[name] for name in ("question", "answer", "keywords"))
    assert {row["label"] for row in rows} == {"0", "1"}
    for names in (("label", "second"), ("part", "second_part")):
        assert labelled.agreement(file, *names)[2] > 0.9


def test_errors_of_scorers_are_counted_by_label(tmp_path: Path) -> None:
    file = tmp_path / "made.csv"
    file.write_text(
        "label,part,question,answer,keywords,output\n"
        "1,1,Who wrote it?,Ann Quill,ann; quill,By Ann Quill.\n"
        "1,1,Who wrote it?,Ann Quill,ann; quill,Quill.\n"
        "0,1,Who wrote it?,Ann Quill,ann; quill,Ann.\n"
        "0,0,Who wrote it?,Ann Quill,ann; quill,Bob.\n"
    )
    scorers = ["exact", "contains", "keyword"]
    errors = [(one.missed, one.mistaken) for one in labelled.errors(file, scorers=scorers)]
    assert errors == [((2, 2), (0, 2)), ((1, 2), (0, 2)), ((0, 2), (1, 2))]
    (of_part,) = labelled.errors(file, "part", ["keyword"])
    assert (of_part.missed, of_part.mistaken) == ((0, 3), (0, 1))
    header, *rows = labelled.table([file])
    assert header == ["scorer", "missed, made", "mistaken, made"]
    assert [row[0] for row in rows] == [f"`{name}`" for name in labelled.SCORERS]
    assert rows[0][1].startswith("2/2: 1 [")


def test_agreement_of_two_readers(tmp_path: Path) -> None:
    """They agree on 15 of 20, and would on 10 by chance: kappa is a half."""
    file = tmp_path / "read.csv"
    cells = [("1", "1")] * 5 + [("1", "0")] * 5 + [("0", "0")] * 10
    lines = (f"{a},{a},{b},{a},Who?,Ann,ann,Bob" for a, b in cells)
    header = "label,part,second,second_part,question,answer,keywords,output"
    file.write_text("\n".join([header, *lines]))
    assert labelled.agreement(file, "label", "second") == (15, 20, pytest.approx(0.5))
    assert labelled.agreement(file, "part", "second_part") == (20, 20, 1)
