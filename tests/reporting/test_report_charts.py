"""Charts put marks where the numbers say, on axes made of the data, and escape what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
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
)
from leakbound.reporting.difference_figures import difference_figures
from opened import charts, of_class

import leakbound
from leakbound.errors import InputError
from leakbound.evaluation.views.compared import ModelMoves, Move, Moved
from leakbound.evaluation.views.draws import FAR, known_of, known_of_mean, known_of_worst
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.table import Interval
from leakbound.evaluation.views.view import Model, ScorerView, View
from leakbound.reporting.figures import (
    APART,
    far_figures,
    first_figures,
    highest,
    lane_of,
)
from leakbound.reporting.page import render
from leakbound.store import EstimateRow, Run

HOSTILE = "</title><script>alert(1)</script>"
AXES = Axes(title="a <b> & c", description="d", x_label="x", y_label='"y"')
PLOT_HEIGHT = HEIGHT - TOP - BOTTOM
PLOT_WIDTH = WIDTH - LEFT - RIGHT
KEYWORD = ScorerView("keyword", True)
SVG = "{http://www.w3.org/2000/svg}"


def share_of(y: object) -> float:
    """The value that stands at this height."""
    return (HEIGHT - BOTTOM - float(str(y))) / PLOT_HEIGHT


def at(nodes: Iterable[ElementTree.Element], name: str = "x") -> list[float]:
    """Where these stand, or how large they are."""
    return [float(node.attrib[name]) for node in nodes]


def test_text_is_escaped_and_the_chart_is_named() -> None:
    root = ElementTree.fromstring(lanes_chart(AXES, []))
    assert (root.findtext("title"), root.get("role")) == ("a <b> & c", "img")


def test_a_question_spans_its_bounds() -> None:
    mark = Mark("q-7", "t", Interval(0.5, 0.25, 0.75), greedy=1.0, control=Interval(0.1, 0.0, 0.2))
    svg = lanes_chart(AXES, [Lane("a", [mark], style="m1")])
    (bar,), (control,), (dot,) = (of_class(svg, name) for name in ("bar", "beside", "dot"))
    assert share_of(bar.get("y")) == pytest.approx(0.75, abs=0.001)
    assert at([bar], "height")[0] / PLOT_HEIGHT == pytest.approx(0.5, abs=0.001)
    assert share_of(control.get("y")) == pytest.approx(0.2, abs=0.001)
    assert share_of(dot.get("cy")) == pytest.approx(1.0)
    assert at([dot], "cx") == [pytest.approx(LEFT + PLOT_WIDTH / 2)]
    assert 'data-question="q-7"' in svg
    places = re.findall(r'(?:x|y|cx|cy|width|height|r|d)="([^"]*)"', svg)
    assert len(places) > 10
    assert not [place for place in places if re.search(r"\.0(?!\d)", place)]  # whole: no decimals


def test_what_is_unknown_is_not_drawn() -> None:
    svg = lanes_chart(AXES, [Lane("a", [Mark("q-1", "t", Interval(None, 0, 1))])])
    found = [len(of_class(svg, name)) for name in ("bar", "dot", "value", "beside")]
    assert found == [1, 0, 0, 0]


def test_a_curve_runs_through_its_values_inside_its_band() -> None:
    points = [(0.0, Interval(0.2, 0.1, 0.3)), (1.0, Interval(0.6, 0.5, 0.9))]
    series = [Series("one", "m0", points, [(0.5, 0.25)]), Series("none", "m1", [])]
    svg = curves_chart(AXES, series)
    (line,), (band,), (dot,) = (of_class(svg, name) for name in ("line", "band", "naive"))

    def heights(node: ElementTree.Element) -> list[float]:
        return [share_of(pair.split(",")[1]) for pair in node.get("points", "").split()]

    assert heights(line) == pytest.approx([0.2, 0.6], abs=0.001)
    assert heights(band) == pytest.approx([0.3, 0.9, 0.5, 0.1], abs=0.001)
    assert share_of(dot.get("cy")) == pytest.approx(0.25, abs=0.001)
    assert at([dot], "cx") == [pytest.approx(LEFT + PLOT_WIDTH / 2)]
    assert not of_class(svg, "m1")


def test_lanes_share_the_width_and_carry_their_means() -> None:
    marks = [Mark("q-1", "t", Interval(0.2, 0.1, 0.3)), Mark("q-2", "t", Interval(0.4, 0.3, 0.5))]
    lanes = [Lane("a", marks, Interval(0.3, 0.25, 0.5)), Lane("b", [Mark("q-1", "t", None, 0.6)])]
    svg = lanes_chart(AXES, lanes)
    (band,), (line,), (dot,) = (of_class(svg, n) for n in ("mean-band", "mean-line", "dot"))
    assert share_of(band.get("y")) == pytest.approx(0.5, abs=0.001)
    assert at([band], "height")[0] / PLOT_HEIGHT == pytest.approx(0.25, abs=0.005)
    assert at([band], "width") == [pytest.approx(LANE * PLOT_WIDTH / 2, abs=0.1)]
    left, height, right = map(float, re.findall(r"[\d.]+", line.get("d", "")))
    assert share_of(height) == pytest.approx(0.3, abs=0.003)
    assert (left + right) / 2 == pytest.approx(LEFT + PLOT_WIDTH / 4, abs=0.1)
    assert at([dot], "cx") == [pytest.approx(LEFT + PLOT_WIDTH * 3 / 4, abs=0.1)]
    bars, first = of_class(svg, "bar"), LEFT + PLOT_WIDTH * (1 - LANE) / 4
    centres = [x + width / 2 for x, width in zip(at(bars), at(bars, "width"), strict=True)]
    assert centres == pytest.approx(
        [first + PLOT_WIDTH * LANE / 2 * share for share in (0.25, 0.75)], abs=0.1
    )
    names = [node for node in of_class(svg, "mid") if node.text in ("a", "b")]
    assert at(names) == pytest.approx([LEFT + PLOT_WIDTH / 4, LEFT + PLOT_WIDTH * 3 / 4], abs=0.1)


def test_spots_stand_where_they_are_told_and_the_own_one_is_told_apart() -> None:
    spots = [Spot("one <b>", 0.25, 0.5), Spot("its own", 0.75, 1.0, own=True)]
    svg = scatter_chart(AXES, spots, "m0")
    (spot,), (own,) = of_class(svg, "spot"), of_class(svg, "dot")
    assert at([spot], "cx") == [pytest.approx(LEFT + PLOT_WIDTH / 4, abs=0.1)]
    assert [share_of(node.get("cy")) for node in (spot, own)] == pytest.approx([0.5, 1.0])
    assert ["".join(node.itertext()) for node in (spot, own)] == ["one <b>", "its own"]


def test_histogram_bars_fill_the_axis_up_to_its_top() -> None:
    svg = histogram_chart(replace(AXES, top=0.4), [0.4, 0.0, 0.2, 0.0], "m0")
    (bars,) = of_class(svg, "bin")
    tops = [share_of(y) for y in re.findall(r"V([\d.]+)H", bars.get("d", ""))]
    assert tops == pytest.approx([1.0, 0.5], abs=0.001)
    assert [n.text for n in of_class(svg, "end")] == ["0", "0.1", "0.2", "0.3", "0.4"]


def test_heat_grows_with_the_estimate_and_figures_stand_in_their_cells() -> None:
    axes = replace(AXES, x_ticks=[(0, "a"), (0.5, "b")])
    low, high = Interval(0.1, 0.0501, 0.1999), Interval(0.4, 0.3, 0.5)
    svg = heat_chart(axes, ["1", "2"], [[low, high], [Interval(None, 0, 1), low]], "m3")
    cells = of_class(svg, "heat")
    assert at(cells, "fill-opacity") == pytest.approx([STRONGEST / 4, STRONGEST, 0, STRONGEST / 4])
    assert [n.text for n in of_class(svg, "mid cell")] == ["0.10", "0.40", "–", "0.10"]
    ends = [n.text for n in of_class(svg, "mid label")][:4]
    assert ends == ["[0.050, 0.20]", "[0.30, 0.50]", "[0, 1]", "[0.050, 0.20]"]
    assert [n.text for n in of_class(svg, "end")] == ["1", "2"]
    first, second = at(cells[:2])
    places = at(n for n in of_class(svg, "mid") if str(n.text) in "ab")
    assert places == pytest.approx([(first + second) / 2, second + (second - first) / 2], abs=0.1)
    assert at(cells, "y")[2] > at(cells, "y")[0]
    wide = ElementTree.fromstring(heat_chart(AXES, ["1"], [[Interval(0, 0, 0)] * 9], "m0"))
    assert wide.get("viewBox", "").split()[2] == f"{LEFT + 9 * CELL_WIDTH + RIGHT}"


def move(value: float, half: float = 0.05, name: str = "q") -> Move:
    how: Moved = "rose" if value > half else "fell" if value < -half else "not shown"
    return Move(name, Interval(value, value - half, value + half), how)


def moves(label: str, *each: Move, mean: Interval | None = None) -> ModelMoves:
    return ModelMoves(label=label, mean=mean, each=each)


def differences(*models: ModelMoves) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(one.svg) for one in difference_figures(models, "before")]


def test_every_difference_has_its_interval_those_that_fell_first_and_says_so() -> None:
    three = (move(0.4), move(-0.6), move(0.0))
    (svg,) = differences(moves("after", *three, mean=Interval(-0.1, -0.2, 0)))
    marks = svg.findall("g")
    assert [mark.get("class") for mark in marks] == ["fell", "not-shown", "rose"]
    assert [len(mark.findall("svg")) for mark in marks] == [1, 0, 1]  # told apart by more than hue
    places = [float(line.attrib["x1"][:-1]) for line in svg.findall("g/line")]
    assert places == sorted(places)
    # from -1 to 0.5 on the axis, the first interval lies from -0.65 to -0.55
    (line,) = marks[0].findall("line")
    top, bottom = (float(line.attrib[end][:-1]) for end in ("y1", "y2"))
    assert (top, bottom) == pytest.approx((70.0, 76.67), abs=0.01)
    (band,) = svg.findall("rect")
    assert float(band.attrib["y"][:-1]) == pytest.approx(100 * 0.5 / 1.5, abs=0.01)
    assert svg.get("role") == "img"
    assert svg.findtext("title") == "after beside before, question by question"
    assert svg.findtext("desc") == (
        "An interval of the difference for each of 3 questions, −0.10 [−0.20, 0] on average: "
        "1 rose, 1 fell, 1 not shown to differ. The table of each question holds the same figures."
    )
    (one,) = differences(moves("after", move(0.4)))
    assert "each of 1 question: 1 rose, 0 fell" in (one.findtext("desc") or "")


def test_names_are_text_and_many_questions_keep_their_room() -> None:
    (figure,) = difference_figures([moves(HOSTILE, move(0.4, name=HOSTILE))], HOSTILE)
    assert "<script>" not in figure.svg
    ElementTree.fromstring(figure.svg)
    (svg,) = differences(moves("after", *(move(i / 500) for i in range(400))))
    assert len(svg.findall("g")) == 400
    assert max(at(svg.findall("g/line"), "stroke-width")) < 300 / 400  # of a telephone


@pytest.fixture(scope="module")
def far(proved: dict[str, Run]) -> View:
    return read_view(proved)


@pytest.mark.slow
def test_leak_at_k_goes_on_where_the_estimates_end(far: View) -> None:
    """The bounds of leak@k that are stated are those of p put into the same formula."""
    for model in far.models:
        for cell in model.measured.values():
            stated = cell.by_parameter("leak@k")
            sure = {r.parameter: r.lower for r in cell.rows.where(quantity="leak@k", proved=True)}
            for known in known_of(cell, KEYWORD, [int(k) for k in stated]):
                row = stated[known.k]
                assert (known.lower, known.upper) == pytest.approx((row.lower, row.upper), rel=1e-9)
                assert known.proved == pytest.approx(sure.get(known.k, 0.0), rel=1e-9)


def test_the_worst_question_and_the_mean_have_bounds_of_their_own(far: View) -> None:
    """The largest proof and the worst's bound; the mean of the proofs and that of the counts."""
    for model in far.models:
        proofs = [cell.proved.lower for cell in model.measured.values() if cell.proved]
        worst, mean = known_of_worst(model, KEYWORD), known_of_mean(model, KEYWORD)
        row = model.rows.leakage("keyword", scope="worst question", beyond=None)
        assert row is not None
        first = (worst[0].proved, worst[0].lower, worst[0].upper)
        assert first == pytest.approx((max(proofs, default=0.0), row.lower, row.upper))
        assert mean[0].proved == pytest.approx(sum(proofs) / len(model.measured))
        assert [known.k for known in worst] == [known.k for known in mean] == list(FAR)
        assert 0 < mean[0].lower < mean[0].upper < 1
        assert mean[-1].lower <= worst[-1].upper


def test_the_page_has_far_charts_of_each_target_with_their_data(far: View) -> None:
    shown, page = far_figures(far, KEYWORD), render(far)
    assert [one.caption.split(", ")[0] for one in shown] == ["full", "full", "NPO", "NPO"]
    for one in shown:
        assert one.caption in page
        assert ">1G<" in one.svg
        drawn = re.findall(r'<(polygon|polyline)[^>]*class="([\w-]+)"', str(one.svg))
        assert drawn == [
            ("polygon", "unknown"), ("polyline", "at-least"), ("polyline", "proved")
        ]  # fmt: skip
        assert one.data.columns == ("k", "proved", "at least", "at most")
        for k, proved, lower, upper in one.data.rows:
            assert isinstance(k, int)
            assert 0 <= proved <= upper <= 1  # type: ignore[operator]
            assert lower <= upper  # type: ignore[operator]
    assert charts(page, 1, "repeated")[0]["rows"][-1][0] == 10**9


@pytest.mark.slow
def test_scores_between_0_and_1_have_no_closed_form(runs: dict[str, Run]) -> None:
    view = read_view(runs)
    (graded,) = (scorer for scorer in view.scorers if not scorer.binary)
    assert far_figures(view, graded) == []
    assert known_of_mean(view.models[0], graded) == []
    assert known_of(next(iter(view.models[0].measured.values())), graded) == []


def test_a_picture_has_every_question_of_every_target_and_stands_alone(
    runs: dict[str, Run], tmp_path: Path
) -> None:
    drawn = leakbound.picture(runs)
    root = ElementTree.fromstring(drawn.svg)
    bars = [e for e in root.iter(f"{SVG}rect") if e.get("class") == "bar"]
    assert len(bars) == sum(len(run.questions) for run in runs.values())
    lanes = [e.text for e in root.iter(f"{SVG}text") if e.get("class") == "mid"]
    assert lanes == list(runs)  # the control has none
    file = drawn.save(tmp_path / "leaks.svg")
    assert file.read_text(encoding="utf-8") == drawn.svg == drawn._repr_svg_()
    assert "--card" in drawn.svg  # the style sheet is in it
    assert not re.search(r"(?:href|src|url\()", drawn.svg.replace('href="#', ""))
    run = next(iter(runs.values()))
    other = leakbound.picture(run, scorer=run.estimates.scorers[-1])
    assert leakbound.picture(run).svg != other.svg
    with pytest.raises(InputError, match=r"`scorer` must be one .*keyword.* got 'nobody'"):
        leakbound.picture(runs, scorer="nobody")


@pytest.fixture(scope="module")
def view(runs: dict[str, Run]) -> View:
    return read_view(runs)


def lower(model: Model, label: str, times: float) -> Model:
    """The same model, with every figure so many times lower."""

    def less(row: EstimateRow) -> EstimateRow:
        ends = {end: (getattr(row, end) or 0.0) / times for end in ("value", "lower", "upper")}
        return replace(row, estimate=replace(row.estimate, **ends))

    measured = {
        key: replace(cell, leakage=less(cell.leakage), greedy=0.0)
        for key, cell in model.measured.items()
    }
    return replace(model, label=label, measured=measured, control=None)


def test_all_models_are_on_one_axis_from_the_data(view: View) -> None:
    (shown,) = first_figures(view, view.scorers[0])
    assert shown.caption == "every model: axis to 1"
    assert {row[0] for row in shown.data.rows} == {"full", "NPO"}
    assert ">NPO</text>" in shown.svg
    (npo,) = first_figures(replace(view, models=(lower(view.models[0], "low", 3),)), KEYWORD)
    assert npo.caption == "low: axis to 0.4"  # a third of 1


def test_what_is_ten_times_lower_is_drawn_once_more_on_an_axis_of_its_own(view: View) -> None:
    full = view.models[0]
    apart = replace(view, models=(full, lower(full, "low", 1.1 * APART), lower(full, "mid", 4)))
    every, own = first_figures(apart, view.scorers[0])
    assert (every.caption, own.caption) == ("every model: axis to 1", "low: own axis, to 0.1")
    assert {row[0] for row in every.data.rows} == {"full", "low", "mid"}
    assert {row[0] for row in own.data.rows} == {"low"}
    assert highest(lane_of(apart, apart.models[1], view.scorers[0])) * APART < 1
