"""Charts put marks where the numbers say, and escape what they are told."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from leakbound.evaluation.views.table import Interval
from leakbound.reporting.charts import (
    BOTTOM,
    CELL_WIDTH,
    HEIGHT,
    LANE,
    LEFT,
    RIGHT,
    STRONGEST,
    TOP,
    WIDTH,
    Axes,
    Lane,
    Mark,
    Series,
    Spot,
    curves_chart,
    heat_chart,
    histogram_chart,
    lanes_chart,
    scatter_chart,
    style_of,
)
from leakbound.reporting.figures import round_height

AXES = Axes(title="a <b> & c", description="d", x_label="x", y_label='"y"')
PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
PLOT_WIDTH = WIDTH - LEFT - RIGHT


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def share_of(y: str | None) -> float:
    """The value that stands at this height."""
    return (HEIGHT - BOTTOM - float(y or "nan")) / PLOT_HEIGHT


def of_class(root: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [node for node in root.iter() if node.get("class") == name]


def test_text_is_escaped_and_the_chart_is_named() -> None:
    root = parsed(lanes_chart(AXES, []))
    assert root.find("title").text == "a <b> & c"  # type: ignore[union-attr]
    assert root.get("role") == "img"


def test_a_question_spans_its_bounds() -> None:
    mark = Mark("q-7", "t", Interval(0.5, 0.25, 0.75), greedy=1.0, control=Interval(0.1, 0.0, 0.2))
    root = parsed(lanes_chart(AXES, [Lane("a", [mark], style="m1")]))
    (bar,), (control,), (dot,) = (of_class(root, name) for name in ("bar", "beside", "dot"))
    assert share_of(bar.get("y")) == pytest.approx(0.75, abs=0.001)
    assert float(bar.get("height", "")) / PLOT_HEIGHT == pytest.approx(0.5, abs=0.001)
    assert share_of(control.get("y")) == pytest.approx(0.2, abs=0.001)
    assert share_of(dot.get("cy")) == pytest.approx(1.0)
    assert float(dot.get("cx", "")) == pytest.approx(LEFT + PLOT_WIDTH / 2)
    assert root.find(".//*[@data-question='q-7']") is not None


def test_whole_places_have_no_decimals() -> None:
    mark = Mark("q-7", "t", Interval(0.5, 0.25, 0.75), greedy=1.0)
    drawn = str(lanes_chart(AXES, [Lane("a", [mark], style="m1")]))
    places = re.findall(r'(?:x|y|cx|cy|width|height|r|d)="([^"]*)"', drawn)
    assert len(places) > 10
    assert not [place for place in places if re.search(r"\.0(?!\d)", place)]


def test_what_is_unknown_is_not_drawn() -> None:
    root = parsed(lanes_chart(AXES, [Lane("a", [Mark("q-1", "t", Interval(None, 0, 1))])]))
    assert not any(of_class(root, name) for name in ("dot", "value", "beside"))
    assert len(of_class(root, "bar")) == 1


def test_a_curve_runs_through_its_values_inside_its_band() -> None:
    points = [(0.0, Interval(0.2, 0.1, 0.3)), (1.0, Interval(0.6, 0.5, 0.9))]
    root = parsed(curves_chart(AXES, [Series("one", "m0", points), Series("none", "m1", [])]))
    (line,), (band,) = of_class(root, "line"), of_class(root, "band")

    def heights(node: ElementTree.Element) -> list[float]:
        return [share_of(pair.split(",")[1]) for pair in node.get("points", "").split()]

    assert heights(line) == pytest.approx([0.2, 0.6], abs=0.001)
    assert heights(band) == pytest.approx([0.3, 0.9, 0.5, 0.1], abs=0.001)
    assert not of_class(root, "m1")


def test_lanes_share_the_width_and_carry_their_means() -> None:
    marks = [Mark("q-1", "t", Interval(0.2, 0.1, 0.3)), Mark("q-2", "t", Interval(0.4, 0.3, 0.5))]
    lanes = [Lane("a", marks, Interval(0.3, 0.25, 0.5)), Lane("b", [Mark("q-1", "t", None, 0.6)])]
    root = parsed(lanes_chart(AXES, lanes))
    (band,), (line,), (dot,) = (of_class(root, n) for n in ("mean-band", "mean-line", "dot"))
    assert share_of(band.get("y")) == pytest.approx(0.5, abs=0.001)
    assert float(band.get("height", "")) / PLOT_HEIGHT == pytest.approx(0.25, abs=0.005)
    assert float(band.get("width", "")) == pytest.approx(LANE * PLOT_WIDTH / 2, abs=0.1)
    left, height, right = map(float, re.findall(r"[\d.]+", line.get("d", "")))
    assert share_of(str(height)) == pytest.approx(0.3, abs=0.003)
    assert (left + right) / 2 == pytest.approx(LEFT + PLOT_WIDTH / 4, abs=0.1)
    assert float(dot.get("cx", "")) == pytest.approx(LEFT + PLOT_WIDTH * 3 / 4, abs=0.1)
    bars = of_class(root, "bar")
    centres = [float(b.get("x", "")) + float(b.get("width", "")) / 2 for b in bars]
    first = LEFT + PLOT_WIDTH * (1 - LANE) / 4
    assert centres == pytest.approx(
        [first + PLOT_WIDTH * LANE / 2 * share for share in (0.25, 0.75)], abs=0.1
    )
    names = [node for node in of_class(root, "mid") if node.text in ("a", "b")]
    assert [float(node.get("x", "")) for node in names] == pytest.approx(
        [LEFT + PLOT_WIDTH / 4, LEFT + PLOT_WIDTH * 3 / 4], abs=0.1
    )


def test_spots_stand_where_they_are_told_and_the_own_one_is_told_apart() -> None:
    spots = [Spot("one <b>", 0.25, 0.5), Spot("its own", 0.75, 1.0, own=True)]
    root = parsed(scatter_chart(AXES, spots, "m0"))
    (spot,), (own,) = of_class(root, "spot"), of_class(root, "dot")
    assert float(spot.get("cx", "")) == pytest.approx(LEFT + PLOT_WIDTH / 4, abs=0.1)
    assert share_of(spot.get("cy")) == pytest.approx(0.5)
    assert share_of(own.get("cy")) == pytest.approx(1.0)
    assert ["".join(node.itertext()) for node in (spot, own)] == ["one <b>", "its own"]


def test_histogram_bars_fill_the_axis_up_to_its_top() -> None:
    axes = Axes(title="t", description="d", x_label="x", y_label="y", top=0.4)
    root = parsed(histogram_chart(axes, [0.4, 0.0, 0.2, 0.0], 0.75, "m0"))
    (bars,), (greedy,) = of_class(root, "bin"), of_class(root, "greedy-line")
    tops = [share_of(y) for y in re.findall(r"V([\d.]+)H", bars.get("d", ""))]
    assert tops == pytest.approx([1.0, 0.5], abs=0.001)
    assert float(greedy.get("d", "")[1:].split()[0]) == LEFT + 0.75 * PLOT_WIDTH
    assert [n.text for n in of_class(root, "end")] == ["0", "0.1", "0.2", "0.3", "0.4"]


def test_dots_stand_where_they_are_told() -> None:
    points = [(0.0, Interval(0.2, 0.1, 0.3))]
    root = parsed(curves_chart(AXES, [Series("one", "m0", points, [(0.5, 0.25)])]))
    (dot,) = of_class(root, "naive")
    assert share_of(dot.get("cy")) == pytest.approx(0.25, abs=0.001)
    assert float(dot.get("cx", "")) == pytest.approx(LEFT + PLOT_WIDTH / 2)


def test_heat_grows_with_the_estimate_and_figures_stand_in_their_cells() -> None:
    axes = Axes(
        title="t", description="d", x_label="p", y_label="T", x_ticks=[(0, "a"), (0.5, "b")]
    )
    low, high = Interval(0.1, 0.0501, 0.1999), Interval(0.4, 0.3, 0.5)
    root = parsed(heat_chart(axes, ["1", "2"], [[low, high], [Interval(None, 0, 1), low]], "m3"))
    cells = of_class(root, "heat")
    shades = [float(cell.get("fill-opacity", "")) for cell in cells]
    assert shades == pytest.approx([STRONGEST / 4, STRONGEST, 0, STRONGEST / 4])
    assert [n.text for n in of_class(root, "mid cell")] == ["0.100", "0.400", "–", "0.100"]
    ends = [n.text for n in of_class(root, "mid label")][:4]
    assert ends == ["[0.050, 0.200]", "[0.300, 0.500]", "[0.000, 1.000]", "[0.050, 0.200]"]
    assert [n.text for n in of_class(root, "end")] == ["1", "2"]
    first, second = (float(cell.get("x", "")) for cell in cells[:2])
    places = [float(n.get("x", "")) for n in of_class(root, "mid") if n.text in "ab"]
    assert places == pytest.approx([(first + second) / 2, second + (second - first) / 2], abs=0.1)
    assert float(cells[2].get("y", "")) > float(cells[0].get("y", ""))


def test_a_wide_heat_map_widens_rather_than_crowds() -> None:
    root = parsed(heat_chart(AXES, ["1"], [[Interval(0, 0, 0)] * 9], "m0"))
    assert root.get("viewBox", "").split()[2] == f"{LEFT + 9 * CELL_WIDTH + RIGHT}"


def test_styles_repeat_rather_than_run_out() -> None:
    assert len({style_of(i) for i in range(16)}) == 16
    assert style_of(16) == style_of(0)


def test_an_axis_ends_close_to_what_it_holds_and_its_quarters_have_two_digits() -> None:
    for reached in (0.0041, 0.011, 0.05, 0.117, 0.21, 0.5, 0.81, 1.0):
        top = round_height(reached)
        assert reached <= top <= 1.5 * reached
        assert all(
            float(f"{step * top / 4:.2g}") == pytest.approx(step * top / 4) for step in (1, 2, 3)
        )
    assert round_height(0.0) == 0.004


def test_the_vertical_title_stands_clear_of_its_figures() -> None:
    """The longest figure of an axis ends where the plot begins; a letter is at most .62 em wide."""
    letter = 11.5 * 0.62
    for top in sorted({round_height(i / 10_000) for i in range(10_001)}):
        longest = max(len(f"{step * top:.2g}") for step in (0, 0.25, 0.5, 0.75, 1))
        assert LEFT - 5 - longest * letter > 12 + 0.25 * 11.5
