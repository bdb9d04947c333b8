"""Numbers as text, cells of tables, and users' YAML, which may contain plain values only."""

from __future__ import annotations

import csv
import io
import math
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import percent
from leakbound.study import Study
from leakbound.text.rows import MOST, csv_of, read_yaml
from leakbound.text.shown import above, below, number, share, tied


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (0.95, "95 %"),
        (0.9975, "99.75 %"),
        (1 - 1e-11, "99.999999999 %"),
        (0.995 + 0.995 - 1, "99 %"),  # 0.9900000000000002 in floats
        (1 - 0.01 / 3, "99.666667 %"),
        (0.0, "0 %"),
    ],
)
def test_a_confidence_keeps_its_nines(confidence: float, text: str) -> None:
    assert percent(confidence) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0, "0.0 %"),
        (0.0001, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.9994, "99.9 %"),
        (0.99999, ">99.9 %"),
        (1.0, "100.0 %"),
    ],
)
def test_a_fraction_is_shown_as_0_or_1_only_if_exact(part: float, text: str) -> None:
    assert share(part) == text


@pytest.mark.parametrize(
    ("value", "down", "nearest", "up"),
    [
        (0, "0", "0", "0"),
        (-0.0, "0", "0", "0"),
        (1, "1", "1", "1"),
        (-1, "−1", "−1", "−1"),
        (0.345, "0.34", "0.34", "0.35"),
        (0.0996, "0.099", "0.10", "0.10"),
        (0.00129, "0.0012", "0.0013", "0.0013"),
        (0.99871, "0.9987", "0.9987", "0.9988"),
        (0.995, "0.9950", "0.9950", "0.9950"),
        (0.9999999999999999, "0.99999999999999990", ">0.9999", "0.99999999999999990"),
        (1.23e-5, "1.2e−5", "1.2e−5", "1.3e−5"),
        (9.99e-5, "9.9e−5", "0.00010", "0.00010"),
        (-0.3456, "−0.35", "−0.35", "−0.34"),
        (1.2345, "1.23", "1.23", "1.24"),
        (1 - 0.93, "0.070", "0.070", "0.070"),  # 0.06999999999999995 in floats
        (None, None, "–", None),
        (math.nan, None, "–", None),
    ],
)
def test_a_figure_has_two_significant_digits(
    value: float | None, down: str | None, nearest: str, up: str | None
) -> None:
    assert number(value) == nearest
    if down is not None and value is not None:
        assert (below(value), above(value)) == (down, up)


def test_a_printed_bound_is_never_on_the_wrong_side_nor_0_or_1() -> None:
    """Nor is an estimate outside its printed interval."""
    rng = np.random.default_rng(0)
    sizes = 10.0 ** -rng.uniform(0, 12, 1000)
    for figure in (*sizes, *(1 - sizes), *-sizes):
        low, near, high = (
            Decimal(shown(figure).replace("−", "-").strip("<>")) for shown in (below, number, above)
        )
        exact, slack = Decimal(figure), Decimal(f"{abs(figure) * 1e-11}")
        assert low - slack <= exact <= high + slack
        assert low <= near <= high or abs(near) == Decimal("0.9999") < abs(exact)
        assert not {abs(low), abs(near), abs(high)} & {Decimal(0), Decimal(1)}
        assert high - low <= min(abs(exact), 1 - abs(exact)) / 10 + slack


FORMULA = '=HYPERLINK("https://example.invalid","x")'


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        *((text, f"'{text}") for text in (FORMULA, "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1")),
        *((text, f"'{text}") for text in ("'=1", "\uff1d1", "\n")),  # a literal apostrophe
        *((text, text) for text in ("NPO", "", "a=b", "1 + 1", "'tis", "a\r=1", "a\t=1", " b;=1")),
    ],
)
def test_no_cell_is_a_formula_and_others_stay_as_they_are(text: str, cell: str) -> None:
    written = csv_of([{text: text, "upper": -0.5, "lower": None, "ids": [1, 2]}])
    header, row = csv.reader(io.StringIO(written, newline=""))
    assert (header[0], row) == (cell, [cell, "-0.5", "", "[1, 2]"])
    assert "\r" not in text or f'"{cell}"' in written  # quoted, which every CSV reader supports


def test_figures_stay_in_one_piece() -> None:
    """Other words break anywhere."""
    space = "\N{NO-BREAK SPACE}"
    assert tied("0.500 [0.499, 0.501]") == f"0.500 [0.499,{space}0.501]"
    assert tied("0.1 (≤ 0.2) at 99 % of 3, and [so on]") == (
        f"0.1 (≤{space}0.2) at 99{space}% of 3, and [so on]"
    )


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def written(folder: Path, text: str) -> Path:
    file = folder / "study.yaml"
    file.write_text(text)
    return file


def test_plain_yaml_is_read(tmp_path: Path) -> None:
    assert read_yaml(written(tmp_path, "a: [1, {b: x}]\nc: null\n")) == {
        "a": [1, {"b": "x"}],
        "c": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, r"an alias \(\*a\) is not allowed: write its value instead.*line 2"),
        ("a: &a [*a]", r"an alias \(\*a\) is not allowed"),
        ("[" * 1_000, "is nested too deep"),
        ("a: " + "x" * MOST, "bytes, more than 1,048,576"),
        ("a: [", "is not valid YAML"),
    ],
    ids=["bomb", "of itself", "deep", "large", "torn"],
)
def test_yaml_that_could_hang_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"(?s){message}"):
        read_yaml(written(tmp_path, text))


@pytest.mark.parametrize("start", ["benchmark: ", ""])
def test_a_message_shows_the_beginning_of_a_long_value(start: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="got ") as caught:
        Study.read(written(tmp_path, f"{start}[{'x, ' * 1_000}x]"))
    assert len(str(caught.value)) < 600
