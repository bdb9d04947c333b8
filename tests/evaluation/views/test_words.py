"""What is rounded never says more than was shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leakbound.evaluation.views import words
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import Interval, interval
from leakbound.evaluation.views.view import ScorerView, Text, Texts
from leakbound.store import Run
from leakbound.types import Decoding


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
    shown = interval(Interval(0.5, 0.4999, 0.5001))
    assert shown == "0.500 [0.499, 0.501]"
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
    assert words.clipped("abc", 2) == "ab… (1 more character)"


def test_counts_agree() -> None:
    counts = [words.many(n, "draw") for n in (0, 1, 2, 1000)]
    assert counts == ["0 draws", "1 draw", "2 draws", "1,000 draws"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (0.0019, "0.001"),
        (1.27e-5, "1.2e−5"),
        (1e-7, "1.0e−7"),
        (9.99e-300, "9.9e−300"),
    ],
)
def test_certain_bounds_are_rounded_down_but_never_away(value: float, text: str) -> None:
    assert words.at_least(value) == text


def test_how_often_a_text_comes() -> None:
    text = Text(text="t", count=1200, share=0.125, mass=0.0, logprob=None, scores=())
    assert words.how_often(text) == "1,200 (12.5 %)"
    both = replace(text, mass=0.25)
    assert words.how_often(both) == "mass 0.250, 1,200 (12.5 %)"
    assert words.how_often(replace(both, count=0)) == "mass 0.250"


def test_what_is_left_out_is_counted() -> None:
    texts = Texts(greedy=None, shown=(), left_out=2, left_out_draws=30, left_out_mass=0.0)
    assert words.left_out(texts) == "2 more distinct completions, 30 draws, are not shown."
    assert ", mass 0.125, " in words.left_out(replace(texts, left_out_mass=0.125))
    assert words.left_out(replace(texts, left_out=0)) == ""


def test_what_several_scorers_measure_is_named_once_each() -> None:
    graded, binary = ScorerView("rouge-l-recall", binary=False), ScorerView("contains", binary=True)
    assert words.quantities([graded, binary]) == "mean score or leak probability"
    assert words.quantities([graded, graded]) == "mean score"


def test_an_estimate_that_a_proof_excludes_is_shown_at_its_end() -> None:
    assert interval(Interval(0.0625, 0.137, 0.382)) == "0.137 [0.137, 0.382]"
    assert interval(Interval(0.0, 1e-6, 0.006)) == "0.000 [0.000, 0.006]"
    assert interval(Interval(0.2, 0.1, 0.3)) == "0.200 [0.100, 0.300]"
    assert interval(Interval(None, 0.1, 0.3)) == "– [0.100, 0.300]"


def test_someone_who_needs_one_try_asks_once(proved: dict[str, Run]) -> None:
    view = read_view(proved)
    said = words.proved(view, view.models[0], view.scorers[0])
    assert "who asks once gets the former" in said
    assert "1 times" not in said
