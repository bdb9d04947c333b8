"""Charts of a page: their data are the view's, and a style sheet colours them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from opened import Page, rendered

import leakbound
from leakbound import stats
from leakbound.errors import InputError
from leakbound.plotting import KINDS
from leakbound.plotting.canvas import Canvas, settings
from leakbound.plotting.charts import PAINT
from leakbound.plotting.material import ChartRow, Material
from leakbound.plotting.rows import DIFFERENCES
from leakbound.plotting.style import BLACK, COLOURS, GREY, styles
from leakbound.presenting.overall import FAR, known_at_k
from leakbound.presenting.view import View, read_view
from leakbound.reporting.figures import difference_figures, figures_of
from leakbound.reporting.page import asset, render
from leakbound.scorers import make_scorer
from leakbound.store import EstimateRow, Run

HOSTILE = "</title><script>alert(1)</script>\u202e$x$"
KEYWORD = make_scorer("keyword")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def far(proofs: dict[str, Run]) -> View:
    return read_view(proofs)


def test_leak_at_k_of_the_worst_question_and_of_the_mean(far: View) -> None:
    """The largest proof and the worst's bound; the mean of the proofs and of the counts."""
    for model in far.models:
        for leakage in model.leakages(KEYWORD):
            known = model.by_parameter(KEYWORD, leakage.query_id, quantity="leak@k")
            carried = stats.carried(leakage.estimate, [int(k) for k in known])
            rows = list(known.values())
            assert list(carried.lower) == pytest.approx([row.lower for row in rows], rel=1e-9)
            assert list(carried.upper) == pytest.approx([row.upper for row in rows], rel=1e-9)
        proofs = [row.lower for row in model.leakages(KEYWORD, proved=True)]
        points = known_at_k(model, KEYWORD)
        worst, mean = points["worst question"], points["mean"]
        row = model.leakage(KEYWORD, scope="worst question")
        assert row is not None
        assert worst[0] == pytest.approx([max(proofs, default=0.0), row.lower, row.upper])
        proved, lower, upper = mean[0]
        assert proved == pytest.approx(sum(proofs) / len(model.questions(KEYWORD)))
        assert len(worst) == len(mean) == len(FAR)
        assert 0 < lower < upper < 1
        assert mean[-1][1] <= worst[-1][2]


@pytest.mark.slow
def test_scores_between_0_and_1_have_no_closed_form(view: View) -> None:
    (graded,) = (scorer for scorer in view.scorers if not scorer.binary)
    assert figures_of(view, "far", "", graded) == []
    assert known_at_k(view.models[0], graded) == {}


def drawn(name: str, rows: Any, labels: Any) -> Canvas:
    with settings():
        canvas = Canvas(3.3, styles(labels))
        PAINT[name](rows, canvas)
        canvas.finish()
    return canvas


def heights(canvas: Canvas) -> list[float]:
    """Return the height of every line and mark of a panel, rounded."""
    lines = [line for axes in canvas.figure.axes for line in axes.lines]
    return [round(float(y), 9) for line in lines for y in line.get_ydata()]


@pytest.mark.parametrize("name", ["questions", "naive", "far", "spread"])
def test_charts_draw_the_numbers_of_their_rows(name: str, far: View) -> None:
    """Each number of the rows is drawn, and no other: estimates, bounds and greedy answers."""
    material = Material(far)
    rows = KINDS[name].made(material)
    got = {y for y in heights(drawn(name, rows, material.labels)) if y == y}
    wanted = {
        round(end, 9)
        for row in rows
        for end in (row.value, row.lower, row.upper)
        if end is not None and (row.quantity, end) != ("control", row.value)
    }
    assert got == wanted


def move(value: float, name: str | None) -> EstimateRow:
    about = stats.About(quantity="leak probability", beyond="baseline", scope="query")
    half = 0.05 if name else 0.1
    bounds = {"value": value, "lower": value - half, "upper": value + half, "confidence": 0.99}
    made: Any = {"about": about, "side": "both", "n": 1, "missing": 0, "method": "", **bounds}
    return EstimateRow("after", "keyword", name, stats.Estimate(**made))


def test_differences_are_drawn_by_their_size(runs: dict[str, Run]) -> None:
    four = (move(0.4, "b"), move(-0.6, "a"), move(0.0, "c"), move(-0.1, None))
    rows = list(DIFFERENCES.rows({"after": four}))
    assert [(row.quantity, row.question) for row in rows] == [
        ("fell", "a"), ("not shown", "c"), ("rose", "b"), ("mean", "")
    ]  # fmt: skip
    canvas = drawn("differences", rows, [])
    ends = {round(end, 9) for row in rows for end in (row.value, row.lower, row.upper)}
    assert {0.0, *heights(canvas)} - {float("nan")} >= ends - {-0.2, 0.0, -0.05, 0.05} - {-0.0}
    (axes,) = canvas.figure.axes
    assert {line.get_marker() for line in axes.lines} >= {"^", "v"}  # they differ by more than hue
    assert axes.get_ylim()[0] < -0.65 < 0.45 < axes.get_ylim()[1]
    (shown,) = difference_figures(leakbound.compare(runs), KEYWORD)
    assert shown.caption == "difference from full, by question"


def test_hostile_texts_of_charts_stay_text(runs: dict[str, Run]) -> None:
    named = dict(zip((HOSTILE, f"{HOSTILE}1"), runs.values(), strict=True))
    (shown,) = difference_figures(leakbound.compare(named), KEYWORD)
    assert "<script>" not in shown.svg + shown.csv
    assert "\u202e" not in shown.svg + shown.csv
    pages = ElementTree.fromstring(f"<div>{shown.svg}</div>")
    for root in pages:
        assert root.get("role") == "img"
        assert HOSTILE.replace("\u202e", "\\u202e") in (root.findtext(f"{SVG}title") or "")
        assert root.findtext(f"{SVG}desc")
    rows = [
        ChartRow(label, "leak@k", 0.5, x=k)
        for label in ("_a", "\uffff\x00", 400 * "W")
        for k in (1, 2)
    ]
    canvas = drawn("naive", rows, [(row.model, False) for row in rows])
    legend = [text.get_text() for text in canvas.figure.legends[0].get_texts()]
    assert legend[0].strip() == "_a"
    assert legend[1] == "\ufffd\\u0000"
    assert "280 more characters" in legend[2].replace("\n", " ")


def test_the_style_sheet_of_the_page_colours_charts(page: Page) -> None:
    drawings = page.named("svg")
    assert len(drawings) > 4
    assert all(one.get("class") == "chart" for one in drawings)
    assert not any("style" in attributes for _, attributes in page.elements)
    assert not page.named("clippath")
    sheet = asset("charts.css")
    inks = {a[of] for _, a in page.elements for of in ("fill", "stroke") if a.get(of)} - {"none"}
    assert inks <= {*COLOURS, GREY, BLACK}
    for colour in (*COLOURS, GREY):  # a variable sets it on light and dark pages
        for of in ("fill", "stroke"):
            assert re.search(rf'\.chart \[{of}="{colour}"\][^{{]*{{ {of}: var\(--', sheet), colour
    light, dark = re.findall(r":root {([^}]*)}", sheet)
    variables = [set(re.findall(r"--[\w-]+", part)) for part in (light, dark)]
    assert variables[0] == variables[1]
    assert set(re.findall(r"var\((--[\w-]+)\)", sheet)) - {"--c"} <= variables[0]


def test_two_pages_are_equal(view: View, html: str) -> None:
    assert rendered(view) == html


@pytest.mark.thorough
def test_a_page_of_many_questions_is_small(proved: dict[str, Run]) -> None:
    assert len(render(read_view(proved)).encode()) < 400_000


def test_a_picture_of_all_targets_needs_no_other_file(runs: dict[str, Run], tmp_path: Path) -> None:
    shown = leakbound.picture(runs)
    root = ElementTree.fromstring(shown.svg)
    texts = {"".join(e.itertext()) for e in root.iter(f"{SVG}text")}
    assert set(runs) <= {text.partition(" (own")[0] for text in texts}  # the control has no panel
    file = shown.save(tmp_path / "leaks.svg")
    assert file.read_text(encoding="utf-8") == shown.svg == shown._repr_svg_()
    assert "--card" in shown.svg  # the style sheet is in it
    assert not re.search(r"(?:href|src|url\()", shown.svg.replace('href="#', ""))
    run = next(iter(runs.values()))
    other = leakbound.picture(run, scorer=run.estimates.scorers[-1])
    assert leakbound.picture(run).svg != other.svg
    with pytest.raises(InputError, match=r"`scorer` must be a scorer .*keyword.* got 'nobody'"):
        leakbound.picture(runs, scorer="nobody")


@pytest.mark.slow
def test_without_matplotlib_a_page_has_its_tables(runs: dict[str, Run], tmp_path: Path) -> None:
    run = next(iter(runs.values()))
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import leakbound, leakbound.plotting\n"
        f"run = leakbound.load({str(run.path)!r})\n"
        f"leakbound.report(run, {str(tmp_path / 'page.html')!r})\n"
        "leakbound.plotting.figures_table([run])\n"
        f"for verb in leakbound.picture, lambda run: leakbound.figures([run], {str(tmp_path)!r}):\n"
        "    try: verb(run)\n"
        "    except leakbound.LeakboundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    for shown, times in ((done.stdout, 2), (Page(page).body, 1)):
        assert len(re.findall("drawing (?:charts|figures) needs matplotlib", shown)) == times
        assert shown.count("pip install '.[figures]'") == times
    assert not Page(page).named("svg")
    whole = render(read_view({run.path.name: run}))
    assert len(Page(page).named("td")) == len(Page(whole).named("td")) > 0


LOADS = r"^(?:from|import) (?:matplotlib|leakbound\.plotting\b.*\b(?:canvas|drawing|inline)\b)"


def test_only_drawing_loads_matplotlib() -> None:
    """Other modules import it and these modules within functions, or not at all."""
    package = Path(leakbound.__file__).parent
    files = {file for file in package.rglob("*.py") if re.search(LOADS, file.read_text(), re.M)}
    names = {file.relative_to(package).as_posix() for file in files}
    assert names == {f"plotting/{name}.py" for name in ("canvas", "charts", "inline")}
