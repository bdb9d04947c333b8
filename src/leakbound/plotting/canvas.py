"""The canvas of every chart: size, fonts, axes, marks, and files with reproducible bytes.

This module configures matplotlib. Colour-blind readers can distinguish the colours (Okabe and Ito).
Marks and dashes distinguish models in greyscale. The matplotlib settings of the machine have no
effect, and no file contains a date.
"""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from leakbound.plotting.material import ChartRow
from leakbound.plotting.style import BAND, BLACK, GREY, METADATA, SETTINGS, Format, Stroke
from leakbound.presenting.sentences import MOST_NAME, clipped
from leakbound.stats import percent
from leakbound.text.shown import visible

RATIO, TALLEST = 0.68, 2.6  # a single panel: height / width, and its largest height in inches
COLUMN, NARROWEST = 3.3, 1.6  # inches: the width of a panel, and the smallest width of many panels
MANY = 6  # the largest number of panels in a column, and of columns in a legend
OWN = 1 / 3  # a panel below this fraction of the highest panel has its own scale
_HANDLE, _LINE = 0.42, 0.115  # inches: a legend's line sample, and a line of text
_NO_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")
_SMALL, _GAP = 6.5, 9.0  # points of a small text, pixels between two tick labels
HOLLOW: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 3.6,
    "markerfacecolor": "none",
    "markeredgecolor": BLACK,
    "markeredgewidth": 0.7,
}
"""The style of the marks of greedy answers and naive estimates."""


@dataclass
class Canvas:
    """One chart while it is drawn.

    Attributes:
        width: the width in inches.
        series: the pen (colour, mark and dash) of each model, by label.
        stretch: the factor by which panels are higher than in a paper. A factor above 1 means that
            the chart is for a screen, where panels are side by side.
        figure: the matplotlib figure, which `panels` makes.
        panel: the approximate width of a panel in inches.
    """

    width: float
    series: Mapping[str, Stroke]
    stretch: float = 1.0
    figure: Figure = field(init=False)
    panel: float = field(init=False)
    _down: int = field(init=False)
    _legend: dict[str, Line2D] = field(init=False, default_factory=dict)

    def panels(
        self, count: int = 1, height: float | None = None, across: int | None = None
    ) -> list[Axes]:
        """Make `count` panels, in as few rows as are readable, and return them.

        `height` is the height of a panel in inches. `across` is the number of panels in a row. The
        height of a single panel follows from its width, unless `across` is given.
        """
        if across is None:
            most = int(self.width / NARROWEST)
            few = min(most, -(-count // MANY))  # only a paper has room for rows
            wide = max(round(self.width / COLUMN), most if self.stretch > 1 else few)
            across = min(count, max(1, wide))
            height = None if count == 1 else height
        self.panel, self._down = self.width / across - 0.6, -(-count // across)
        tall = min(self.width / across * RATIO, TALLEST) if height is None else height
        tall *= self.stretch if count > 1 else 1.0
        self.figure = Figure(figsize=(self.width, tall * self._down + 0.35))
        FigureCanvasAgg(self.figure)
        made = self.figure.subplots(self._down, across, sharex=True, squeeze=False)
        panels = [axes for row in made for axes in row]
        for axes in panels[count:]:
            axes.set_visible(False)
        for axes in panels[max(0, count - across) : count]:
            axes.tick_params(labelbottom=True)
        return panels[:count]

    def rise(self, axes: Axes, reach: tuple[float, float] | None = None) -> None:
        """Set the vertical range of a panel: it includes 0 and all marks, with a small margin."""
        low, high = _reach(axes) if reach is None else reach
        axes.set_ylim(1.06 * low, 1.06 * high or float(low == 0))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter("{x:g}")

    def name(self, panels: Sequence[Axes], names: Sequence[str]) -> None:
        """Set the scales of panels and write their names; a single panel has no name.

        Panels have a common scale. A panel with far lower values has a separate scale.
        """
        reached = [_reach(axes) for axes in panels]
        size = max(high - low for low, high in reached)
        own = [high - low < OWN * size for low, high in reached]
        shared = [reach for reach, apart in zip(reached, own, strict=True) if not apart]
        common = min(low for low, _ in shared), max(high for _, high in shared)
        for axes, reach, apart in zip(panels, reached, own, strict=True):
            self.rise(axes, reach if apart else common)
        if len(panels) > 1:
            pairs = zip(names, own, strict=True)
            texts = [f"{_name(name)} (own\u00a0scale)" if o else name for name, o in pairs]
            self.titles(panels, texts)

    def titles(self, panels: Sequence[Axes], texts: Sequence[str]) -> None:
        """Write a text above the left edge of each panel, in as many lines as it needs."""
        folded = [self.folded(text, self.panel - 0.1) for text in texts]
        at: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
        for axes, text in zip(panels, folded, strict=True):
            axes.annotate(
                text,
                (0, 1),
                (0, 4),
                ha="left",
                va="bottom",
                fontsize=_SMALL,
                annotation_clip=False,
                **at,
            )
        self._grow(self._down * _LINE * max(text.count("\n") + 1 for text in folded))

    def _grow(self, inches: float) -> None:
        self.figure.set_figheight(self.figure.get_figheight() + inches)

    @staticmethod
    def folded(text: str, inches: float) -> str:
        """Break a text into lines of at most this length, between words where possible."""
        font, text = FontProperties(size=_SMALL), _name(text)

        def long(line: str) -> float:
            width: float = text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
            return width / 72

        for letters in range(len(text), 1, -1):
            lines = textwrap.wrap(text, letters)
            if max(map(long, lines), default=0.0) <= inches:
                return "\n".join(lines)
        return text

    def label(self, across: str, up: str) -> None:
        """Write one label for all horizontal axes, and one label for all vertical axes."""
        panels = [axes for axes in self.figure.axes if axes.get_visible()]
        if len(panels) == 1:
            panels[0].set_xlabel(across)
            panels[0].set_ylabel(up)
        else:
            self.figure.supxlabel(across, fontsize=7.0)
            self.figure.supylabel(up, fontsize=7.0)

    def powers(self, axes: Axes, x: Sequence[float], base: int = 2) -> None:
        """Make the horizontal axis logarithmic, with as many labels as fit."""
        axes.set_xscale("log", base=base)
        first, last = (round(math.log(end, base), 9) for end in (min(x), max(x)))
        ticks = [base**i for i in range(math.floor(first), math.floor(last) + 1)]
        labels = [_short(tick) for tick in ticks]
        step = math.ceil(len(ticks) * (0.06 * max(map(len, labels)) + 0.06) / self.panel)
        axes.set_xticks(ticks[::step], labels[::step])
        axes.minorticks_off()
        axes.margins(x=0.03)

    def points(self, axes: Axes, x: Sequence[float], y: Sequence[float | None], **how: Any) -> None:
        """Draw the points that have a value."""
        known = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
        if known:
            axes.plot(*zip(*known, strict=True), clip_on=False, **how)

    def line(
        self, axes: Axes, rows: Sequence[ChartRow], at: Sequence[float] = (), end: str = "value"
    ) -> None:
        """Draw a line through a model's estimates (with marks), or through its bounds.

        `end`: "value", "lower" or "upper".
        """
        pen = self.series[rows[0].model]
        how = {"color": pen.colour, "linestyle": pen.dash}
        how["marker"] = pen.mark if end == "value" else ""
        self.points(axes, at or places(rows), [getattr(row, end) for row in rows], zorder=3, **how)
        self.tell(rows[0].model, **how)

    def bars(self, axes: Axes, at: Sequence[float], rows: Sequence[ChartRow], **how: Any) -> None:
        """Draw bounds as bars in one path; a bar without a lower bound starts at the estimate."""
        x: list[float] = []
        y: list[float | None] = []
        for place, row in zip(at, rows, strict=True):
            if row.upper is not None:
                x += [place, place, math.nan]
                y += [row.value if row.lower is None else row.lower, row.upper, math.nan]
        self.points(axes, x, y, solid_capstyle="butt", **how)

    def ticks(
        self, axes: Axes, at: Sequence[float], values: Sequence[float | None], half: float
    ) -> None:
        """Draw estimates as short horizontal lines, in one path."""
        x = [end for place in at for end in (place - half, place + half, math.nan)]
        y = [value for value in values for _ in range(3)]
        self.points(axes, x, y, color=BLACK, linewidth=0.8, zorder=3)

    def band(self, axes: Axes, rows: Sequence[ChartRow]) -> None:
        """Draw the bounds of a model as a shaded band."""
        bounded = [row for row in rows if row.lower is not None]
        if not bounded:
            return
        pen, x = self.series[rows[0].model], places(bounded)
        lower = [row.lower or 0.0 for row in bounded]
        upper = [row.upper or 0.0 for row in bounded]
        alpha = BAND * min(1.0, 4 / len(self.series))
        axes.fill_between(x, lower, upper, color=pen.colour, lw=0, alpha=alpha)
        for end in (lower, upper):
            self.points(axes, x, end, color=pen.colour, linestyle=pen.dash, linewidth=0.4)

    def hollow(
        self, axes: Axes, at: Sequence[float], rows: Sequence[ChartRow], size: float = 3.6
    ) -> None:
        """Draw greedy answers or naive estimates as hollow marks."""
        for row in rows[:1]:
            how = HOLLOW | {"markeredgecolor": self.series[row.model].colour, "markersize": size}
            self.points(axes, at, [row.value for row in rows], zorder=4, **how)

    def tell(self, text: str, **how: Any) -> None:
        """Add an entry to the legend, unless the legend has it already."""
        self._legend.setdefault(text, Line2D([], [], **how))

    def tell_bounds(self, rows: Sequence[ChartRow], more: str = "", **how: Any) -> None:
        """Add bounds with their lowest confidence to the legend, by default as a band."""
        bounded = [row.confidence for row in rows if row.confidence is not None]
        if bounded:
            how = how or {"color": GREY, "linewidth": 4, "alpha": 2 * BAND}
            self.tell(f"{percent(min(bounded))} bounds{more}", **how)

    def finish(self) -> None:
        """Write the legend above all panels, and remove tick labels that touch other labels."""
        entries = {label: self._legend[label] for label in self.series if label in self._legend}
        entries |= self._legend
        pixels = self.figure.dpi
        texts = [self.folded(text, self.width - _HANDLE - 0.2) for text in entries]
        lines, place = list(entries.values()), "outside upper center"
        for columns in range(min(len(entries), MANY), 0, -1):
            legend = self.figure.legend(lines, texts, loc=place, ncols=columns)
            box = legend.get_window_extent()
            if columns == 1 or box.width <= pixels * (self.width - 0.05):
                self._grow(box.height / pixels)
                break
            legend.remove()
        if engine := self.figure.get_layout_engine():
            engine.execute(self.figure)
        for axes in self.figure.axes:
            _thin(axes.xaxis)
        self.figure.set_layout_engine("none")  # laid out once for all formats

    def bytes(self, form: Format) -> bytes:
        """Return the bytes of a file with the chart."""
        stream = io.BytesIO()
        if form == "svg":  # `savefig` lays all texts out again
            FigureCanvasSVG(self.figure).print_svg(stream, metadata=METADATA[form])
        else:
            self.figure.savefig(stream, format=form, metadata=METADATA[form])
        return stream.getvalue()


def places(rows: Sequence[ChartRow]) -> list[float]:
    """Return the positions of the rows on the horizontal axis."""
    return [row.x or 0.0 for row in rows]


def _short(number: int) -> str:
    """Return a number as short text, such as 1M for a million and 1G for 10⁹."""
    for size, letter in ((10**9, "G"), (10**6, "M")):
        if number >= size and not number % size:
            return f"{number // size}{letter}"
    return str(number)


def _name(text: str) -> str:
    """Return a text as a label that matplotlib shows: it hides labels that begin with `_`."""
    text = _NO_XML.sub("\ufffd", visible(clipped(text, MOST_NAME)))
    return f"\N{NO-BREAK SPACE}{text}" if text.startswith("_") else text


def _reach(axes: Axes) -> tuple[float, float]:
    """Return the range of values of the marks of a panel; the range includes 0."""
    low, high = float(axes.dataLim.y0), float(axes.dataLim.y1)
    return (min(0.0, low), max(0.0, high)) if low <= high else (0.0, 0.0)


def _thin(axis: Axis) -> None:
    """Remove each tick label that touches the previous label."""
    low, high = sorted(axis.get_view_interval())
    pairs = zip(axis.get_majorticklocs(), axis.get_majorticklabels(), strict=False)
    ticks = [(at, label) for at, label in pairs if low <= at <= high and label.get_visible()]
    end, texts = -math.inf, []
    for _, label in ticks:
        box = label.get_window_extent()
        texts.append(label.get_text() if box.x0 > end else "")
        end = box.x1 + _GAP if texts[-1] else end
    if "" in texts:
        axis.set_ticks([at for at, _ in ticks], labels=texts)


@contextmanager
def settings() -> Iterator[None]:
    """Use matplotlib's defaults and this style; hide warnings about letters missing in the font."""
    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield
