"""Numbers for a person never say more than was shown."""

from __future__ import annotations

import pytest

from leakbound.stats import percent
from leakbound.text.figures import share


@pytest.mark.parametrize(
    ("confidence", "text"),
    [
        (0.5, "50 %"),
        (0.95, "95 %"),
        (0.99, "99 %"),
        (0.9975, "99.75 %"),
        (0.999, "99.9 %"),
        (0.9999, "99.99 %"),
        (0.9999999, "99.99999 %"),
        (1 - 1e-11, "99.999999999 %"),
        ((1 + 0.99) / 2, "99.5 %"),
        (0.995 + 0.995 - 1, "99 %"),  # 0.9900000000000002 in floats
        (1 - 0.01 / 3, "99.666667 %"),
        (0.0, "0 %"),
        (1.0, "100 %"),
    ],
)
def test_a_confidence_keeps_its_nines(confidence: float, text: str) -> None:
    assert percent(confidence) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (0.0, "0.0 %"),
        (1e-6, "<0.1 %"),
        (0.0001, "<0.1 %"),
        (0.0005, "0.1 %"),
        (0.123, "12.3 %"),
        (0.9994, "99.9 %"),
        (0.99999, ">99.9 %"),
        (1.0, "100.0 %"),
        (1.04, "104.0 %"),
    ],
)
def test_a_share_is_neither_none_nor_all_unless_it_is(part: float, text: str) -> None:
    assert share(part) == text
