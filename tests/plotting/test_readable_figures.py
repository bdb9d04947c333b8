"""Charts that can be printed: no overlaps, no cuts, and models differ without colour."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.lines import Line2D
from matplotlib.text import Text
from numpy.typing import NDArray

from leakbound.plotting import KINDS, WIDTHS
from leakbound.plotting.canvas import OWN, Canvas, settings
from leakbound.plotting.charts import PAINT
from leakbound.plotting.material import ChartRow
from leakbound.plotting.rows import (
    BINS,
    CONTROL,
    DEVIATION,
    GREEDY,
    HALF,
    MEAN,
    MOST,
    NAIVE,
    PROVED,
    WORST,
    front_of,
)  # fmt: skip
from leakbound.plotting.style import styles

SURE = 0.99
LEAK = "leak probability"


@dataclass(frozen=True)
class Size:
    """models: by name, the last a control if there are several. low: the leakage of the first."""

    models: tuple[str, ...]
    questions: tuple[str, ...]
    settings: int
    low: float

    @property
    def labels(self) -> list[tuple[str, bool]]:
        return [(name, 0 < i == len(self.models) - 1) for i, name in enumerate(self.models)]


FEWEST = Size(("npo",), ("q0",), 2, 0.01)

LARGEST = Size(
    (
        *(f"llama-3.2-1b-instruct_npo-entropy-lambda-{i / 10} seed {i}" for i in range(14)),
        24 * "W",
        "the control that never saw $any$ of the forget set",
    ),
    tuple(f"q{i}" for i in range(400)),
    8,
    0.97,
)


def share(size: Size, model: int, question: int = 0) -> tuple[float, float, float]:
    """Value, lower, upper: later models leak far less, and leakage grows with the question."""
    value = size.low * 0.6**model * (1 + question) / len(size.questions)
    wide = 0.3 * value * (1 - value) + 0.002
    return value, max(0.0, value - wide), min(1.0, value + wide)


def every(
    size: Size,
    *quantities: str,
    groups: Sequence[str] = ("",),
    xs: Iterable[float | None] = (None,),
    questions: bool = False,
) -> list[ChartRow]:
    """Return these numbers of every model: per group, per question if wanted, per place."""
    return [
        ChartRow(model, quantity, *share(size, i, j), SURE, question, group, x)
        for i, model in enumerate(size.models)
        for group in groups
        for j, question in enumerate(size.questions if questions else [""])
        for quantity in quantities
        for x in xs
    ]


def powers(base: int, number: int) -> list[float]:
    return [base**i for i in range(number)]


def bins(size: Size) -> list[ChartRow]:
    rows = []
    for i, model in enumerate(size.models):
        law = [math.exp(-k * (i + 0.2)) for k in range(BINS)]
        rows += [ChartRow(model, "draws", p / sum(law), x=k / BINS) for k, p in enumerate(law)]
        rows += [ChartRow(model, "mean", share(size, i)[0]), ChartRow(model, GREEDY, 0.0)]
    return rows


def utilities(size: Size) -> list[ChartRow]:
    names = size.models if len(size.models) > 1 else ("npo", "ours")
    rows = [
        ChartRow(name, LEAK, *share(size, i), SURE, group="r_avg", x=0.58 + i / 500)
        for i, name in enumerate(names)
    ]
    return [*rows, *front_of(rows)]


MEANS = (WORST, MEAN)
ROWS: dict[str, Callable[[Size], Sequence[ChartRow]]] = {
    "questions": lambda size: every(
        size, LEAK, *[CONTROL] * (len(size.models) > 1), GREEDY, questions=True
    ),
    "histogram": bins,
    "tail": lambda size: every(size, "Pr[X > x]", xs=[x / 10 for x in range(10)]),
    "answers": lambda size: every(size, MOST, HALF, "mean", GREEDY, questions=True),
    "moments": lambda size: every(size, GREEDY, LEAK, "mean + 2 sd (ED)", groups=MEANS),
    "spread": lambda size: every(size, DEVIATION, questions=True),
    "utility": utilities,
    "convergence": lambda size: [
        row
        for quantity in (LEAK, DEVIATION)
        for row in every(size, quantity, groups=[quantity], xs=powers(2, 2 * size.settings + 1))
    ],
    "leak-at-k": lambda size: every(
        size, "leak@k", PROVED, groups=[MEAN], xs=powers(2, size.settings)
    ),
    "naive": lambda size: every(size, "leak@k", NAIVE, groups=[MEAN], xs=powers(2, size.settings)),
    "far": lambda size: every(size, "leak@k", PROVED, groups=MEANS, xs=powers(10, 10)),
    "grid": lambda size: every(
        replace(size, models=size.models[-2:]),
        *("mean score", "leak@8")[: len(size.models)],
        groups=[str(0.5 + i / 20) for i in range(size.settings)],
        xs=[0.5 + i / 20 for i in range(size.settings)],
    ),
    "temperature": lambda size: [
        row
        for quantity in (LEAK, DEVIATION)
        for row in every(
            replace(size, models=tuple(f"{m}, top-p 0.9, k 50" for m in size.models)), quantity,
            groups=[quantity], xs=[0.25 + i / 4 for i in range(size.settings)],
        )
    ],
    "confidence": lambda size: every(
        size, "entropy", "probability", xs=range(1, 40 * size.settings),
        groups=("forget", "retain", "holdout")[: max(1, len(size.models) - 1)],
    ),
    "differences": lambda size: every(size, "rose", questions=True),
}  # fmt: skip
"""The rows of each chart, by its name."""
SIZES = {"fewest": FEWEST, "most": LARGEST}
SVG_TEXT = "{http://www.w3.org/2000/svg}text"

EACH = [
    pytest.param((name, size, width), id=f"{name}-{size}-{width}", marks=pytest.mark.slow)
    for name in PAINT
    for size in SIZES
    for width in WIDTHS
]


def drawn(name: str, size: Size, width: float) -> Canvas:
    canvas = Canvas(width, styles([*size.labels, ("ours", False)]))
    PAINT[name](ROWS[name](size), canvas)
    canvas.finish()
    return canvas


@pytest.fixture(scope="module")
def shown(request: pytest.FixtureRequest) -> tuple[str, Canvas, dict[Text, list[float]]]:
    """Return a figure, and every text with its box: left, bottom, right, top in pixels."""
    name, size, width = request.param
    got: dict[Text, list[float]] = {}
    draw = Text.draw

    def noted(text: Text, renderer: object) -> None:
        if text.get_visible() and text.get_text().strip():
            got[text] = [*text.get_window_extent(renderer).extents]  # type: ignore[arg-type]
        draw(text, renderer)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch, settings():
        canvas = drawn(name, SIZES[size], WIDTHS[width])
        patch.setattr(Text, "draw", noted)
        canvas.figure.draw_without_rendering()
    return name, canvas, got


def overlapping(boxes: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the pairs of boxes that overlap."""
    low, high = boxes[:, None, :2], boxes[:, None, 2:]
    both = (low < high.swapaxes(0, 1)).all(-1) & (low.swapaxes(0, 1) < high).all(-1)
    return np.argwhere(np.triu(both, 1))


def test_every_figure_has_its_fewest_and_its_most() -> None:
    assert set(ROWS) == set(PAINT) == {*KINDS, "differences"}


@pytest.mark.parametrize("shown", EACH, indirect=True)
def test_no_texts_overlap_or_are_cut(shown: tuple[str, Canvas, dict[Text, list[float]]]) -> None:
    name, canvas, got = shown
    texts, boxes = [text.get_text() for text in got], np.array([*got.values()])
    assert not [(texts[i], texts[j]) for i, j in overlapping(boxes)]
    width, height = canvas.figure.get_size_inches() * canvas.figure.dpi
    assert (boxes >= -0.5).all()
    assert (boxes[:, 2] <= width + 0.5).all()
    assert (boxes[:, 3] <= height + 0.5).all()
    for axes in canvas.figure.axes if name != "grid" else ():
        if axes.get_visible():
            area = axes.get_window_extent().padded(8).extents  # marks at its edge are complete
            on = [text for text, box in got.items() if len(overlapping(np.array([area, box])))]
            assert not [text.get_text() for text in on]


@pytest.mark.parametrize("shown", EACH, indirect=True)
def test_axes_fit_what_is_drawn(shown: tuple[str, Canvas, dict[Text, list[float]]]) -> None:
    name, canvas, _ = shown
    panels = [axes for axes in canvas.figure.axes if axes.get_visible()]
    for axes in panels:
        for drawn_, limits in (
            (axes.dataLim.intervalx, axes.get_xlim()),
            (axes.dataLim.intervaly, axes.get_ylim()),
        ):
            low, high = sorted(limits)
            assert low - 1e-9 <= min(drawn_)
            assert max(drawn_) <= high + 1e-9
        bottom, top = sorted(axes.get_ylim())
        if name != "grid":
            assert axes.dataLim.y1 - bottom >= 0.9 * OWN * (top - bottom)
            assert bottom == 0 or name == "confidence"
    if name != "grid":
        highest = max(panels, key=lambda axes: axes.get_ylim()[1])
        assert max(axes.dataLim.y1 for axes in panels) > 0.9 * highest.get_ylim()[1]
    if name == "histogram":  # whose horizontal axis has scores too
        right = panels[0].get_xlim()[1]
        assert max(axes.dataLim.x1 for axes in panels) > 0.9 * right


@pytest.mark.slow
@pytest.mark.parametrize("name", PAINT)
def test_fonts_of_pdfs_and_texts_of_svgs(name: str) -> None:
    with settings():
        canvas = drawn(name, FEWEST, WIDTHS["one"])
        pdf, svg = canvas.bytes("pdf"), canvas.bytes("svg")
    descriptors = len(re.findall(rb"/Type /FontDescriptor", pdf))
    assert descriptors == len(re.findall(rb"/FontFile2", pdf)) > 0
    assert b"/Type3" not in pdf
    seen = {"".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(SVG_TEXT)}
    labels = [axes.get_xlabel() for axes in canvas.figure.axes if axes.get_visible()]
    lines = {line for label in labels if "$" not in label for line in label.splitlines()}
    assert seen
    assert lines <= seen
    assert b"sans-serif" in svg


def test_models_differ_by_mark_or_dash() -> None:
    ways = list(styles(LARGEST.labels).values())
    assert len({(way.mark, way.dash) for way in ways}) == len(ways) == 16
    assert all(way.mark in Line2D.filled_markers for way in ways)
    for one, two in combinations(ways, 2):
        if one.colour == two.colour:
            assert one.mark != two.mark
            assert one.dash != two.dash
