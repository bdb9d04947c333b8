"""Texts of others in tables: nothing of them is computed."""

from __future__ import annotations

import csv
import io

import pytest

from leakbound.evaluation.views.table import csv_of

FORMULA = '=HYPERLINK("https://example.invalid","x")'


@pytest.mark.parametrize("text", [FORMULA, "+1", "-1", "@SUM(A1)", "\t=1"])
def test_no_cell_is_a_formula(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(csv_of([{"model": text, "upper": -0.5}]), newline=""))
    assert row == {"model": f"'{text}", "upper": "-0.5"}


@pytest.mark.parametrize("text", ["NPO", "", "a=b", "1 + 1"])
def test_other_cells_stay_as_they_are(text: str) -> None:
    (row,) = csv.DictReader(io.StringIO(csv_of([{"model": text, "n": 3}])))
    assert row == {"model": text, "n": "3"}
