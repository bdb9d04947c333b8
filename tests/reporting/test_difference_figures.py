"""Pictures of a comparison: every interval, one axis made of the data, and words for it."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from leakbound.evaluation.views.compared import ModelMoves, Move, Moved
from leakbound.evaluation.views.table import Interval
from leakbound.reporting.difference_figures import difference_figures

HOSTILE = "</title><script>alert(1)</script>"


def move(value: float, half: float = 0.05, name: str = "q") -> Move:
    how: Moved = "rose" if value > half else "fell" if value < -half else "not shown"
    return Move(name, Interval(value, value - half, value + half), how)


def model(label: str, *moves: Move, mean: Interval | None = None) -> ModelMoves:
    return ModelMoves(label=label, mean=mean, each=moves)


def drawn(*models: ModelMoves) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(one.svg) for one in difference_figures(models, "before")]


def ticks(svg: ElementTree.Element) -> set[str]:
    found = {one.text or "" for one in svg.findall("text")}
    return {text for text in found if re.fullmatch(r"[+−]?[\d.]+", text)}


def test_every_question_has_its_interval_those_that_fell_first() -> None:
    (svg,) = drawn(model("after", move(0.4), move(-0.6), move(0.0), mean=Interval(-0.1, -0.2, 0)))
    marks = svg.findall("g")
    assert [mark.get("class") for mark in marks] == ["fell", "not-shown", "rose"]
    assert [len(mark.findall("svg")) for mark in marks] == [1, 0, 1]  # told apart by more than hue
    at = [float(line.attrib["x1"][:-1]) for mark in marks for line in mark.findall("line")]
    assert at == sorted(at)
    # from -1 to 0.5 on the axis, the first interval lies from -0.65 to -0.55
    (line,) = marks[0].findall("line")
    top, bottom = (float(line.attrib[end][:-1]) for end in ("y1", "y2"))
    assert (top, bottom) == pytest.approx((70.0, 76.67), abs=0.01)
    (band,) = svg.findall("rect")
    assert float(band.attrib["y"][:-1]) == pytest.approx(100 * 0.5 / 1.5, abs=0.01)


def test_it_says_in_words_what_it_shows() -> None:
    mean = Interval(-0.1, -0.2, 0.05)
    (svg,) = drawn(model("after", move(0.4), move(-0.6), move(0.0), mean=mean))
    assert svg.get("role") == "img"
    assert svg.findtext("title") == "after beside before, question by question"
    assert svg.findtext("desc") == (
        "An interval of the difference for each of 3 questions, −0.100 [−0.200, 0.050] on average: "
        "1 rose, 1 fell, 1 not shown to differ. The table of each question holds the same figures."
    )
    (one,) = drawn(model("after", move(0.4)))
    assert "each of 1 question: 1 rose, 0 fell" in (one.findtext("desc") or "")


def test_the_axis_comes_of_the_data_and_is_one() -> None:
    near, far = model("near", move(0.2), move(-0.04)), model("far", move(0.9))
    both = drawn(near, far)
    assert [ticks(svg) for svg in both] == [{"0", "+1", "+0.5"}] * 2
    (alone,) = drawn(model("near", move(0.004, 0.001), move(-0.008, 0.001)))
    assert ticks(alone) == {"0", "−0.01", "+0.01", "−0.005", "+0.005"}
    (exact,) = drawn(model("same", move(0.0, 0.0)))
    assert "0" in ticks(exact)


def test_a_model_that_would_not_be_seen_has_an_axis_of_its_own_and_says_so() -> None:
    small, large = model("small", move(-0.03, 0.01)), model("large", move(0.9))
    first, second = difference_figures([small, large], "before")
    assert first.caption == "small (on an axis of its own)"
    assert second.caption == "large"
    assert "−0.05" in first.svg


def test_names_are_text() -> None:
    (figure,) = difference_figures([model(HOSTILE, move(0.4, name=HOSTILE))], HOSTILE)
    assert "<script>" not in figure.svg
    ElementTree.fromstring(figure.svg)


def test_many_questions_keep_their_room() -> None:
    (svg,) = drawn(model("after", *(move(i / 500) for i in range(400))))
    widths = {float(line.attrib["stroke-width"]) for line in svg.findall("g/line")}
    assert len(svg.findall("g")) == 400
    assert max(widths) < 300 / 400  # of a telephone
