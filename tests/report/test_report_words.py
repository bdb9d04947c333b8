"""What is rounded never says more than was shown."""

from __future__ import annotations

import pytest

from residua.report import words
from residua.report.view import Bound
from residua.types import Decoding


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0.0, "0.000"),
        (1.0, "1.000"),
        (0.0004, "<0.001"),
        (0.9997, ">0.999"),
        (-0.0004, ">−0.001"),
        (-0.25, "−0.250"),
        (0.12345, "0.123"),
        (-17.5, "−17.500"),
    ],
)
def test_number(value: float | None, text: str) -> None:
    assert words.number(value) == text


def test_ends_are_rounded_outward() -> None:
    shown = words.interval(Bound(0.5, 0.4999, 0.5001))
    assert shown == "0.500 [0.499,\N{NO-BREAK SPACE}0.501]"
    assert words.above(1e-7) == "0.001"
    assert words.below(0.3) == words.above(0.3) == "0.300"
    assert words.below(-0.0001) == "−0.001"


def test_a_decoding_says_whether_it_truncates() -> None:
    assert words.described(Decoding()) == "T=1, nothing truncated, at most 200 new tokens"
    assert "nothing" not in words.described(Decoding(top_p=0.9))
    assert "nothing" not in words.described(Decoding(top_k=50))


def test_long_texts_are_cut_and_say_so() -> None:
    whole = "x" * words.MOST_CHARACTERS
    assert words.clipped(whole) == whole
    assert words.clipped(whole + "yz") == whole + "… (2 more characters)"


def test_percent_keeps_its_nines() -> None:
    assert words.percent(0.99) == "99\N{NO-BREAK SPACE}%"
    assert words.percent(0.9975) == "99.75\N{NO-BREAK SPACE}%"
