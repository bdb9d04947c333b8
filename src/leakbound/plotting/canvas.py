"""The canvas: size, fonts, axes and marks of every figure, and files with equal bytes.

The only module that imports matplotlib. Colours are Okabe and Ito's, which colour-blind readers
tell apart; marks and dashes tell models apart in greyscale. Nothing of the machine's own settings
counts, and no file holds a date.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from leakbound.plotting.style import BAND, GREY, METADATA, SETTINGS, Format, Stroke
from leakbound.stats import percent

RATIO, TALLEST = 0.68, 2.6  # of a single panel: height by width, and its height in inches
COLUMN, NARROWEST = 3.3, 1.6  # inches: panels as wide as a column, or as narrow where many
MANY = 6  # panels one above the other
OWN = 1 / 3  # a panel that shows less than this share of the highest has its own scale
_HANDLE, _LINE = 0.42, 0.115  # inches that the line of a legend takes, and a line of text
_SMALL, _GAP = 6.5, 9.0  # points of a small text, pixels between two tick labels


@dataclass
class Canvas:
    """One figure under way.

    Attributes:
        width: in inches.
        series: how each model is drawn, by its label.
        figure: matplotlib's, once panels were made.
        panel: inches that a panel is wide, about.
    """

    width: float
    series: Mapping[str, Stroke]
    figure: Figure = field(init=False)
    panel: float = field(init=False)
    _down: int = field(init=False)
    _legend: dict[str, Line2D] = field(init=False, default_factory=dict)

    def panels(
        self,
        down: int = 1,
        across: int = 1,
        *,
        height: float | None = None,
        sharey: bool = True,
    ) -> list[Axes]:
        """So many panels, row by row; `height` of each in inches (None: as its width asks)."""
        self.panel, self._down = self.width / across - 0.6, down
        tall = min(self.width / across * RATIO, TALLEST) if height is None else height
        self.figure = Figure(figsize=(self.width, tall * down + 0.35))
        FigureCanvasAgg(self.figure)
        made = self.figure.subplots(down, across, sharex=True, sharey=sharey, squeeze=False)
        return [axes for row in made for axes in row]

    def grid(
        self,
        count: int,
        height: float,
        *,
        across: int | None = None,
        larger: bool = True,
    ) -> list[Axes]:
        """So many panels of this height, as few below each other as can be read.

        larger: one alone is as high as its width asks.
        """
        wide = max(round(self.width / COLUMN), min(int(self.width / NARROWEST), -(-count // MANY)))
        across = min(count, max(1, wide)) if across is None else across
        down = -(-count // across)
        tall = None if larger and count == 1 else height
        panels = self.panels(down, across, height=tall, sharey=False)
        for axes in panels[count:]:
            axes.set_visible(False)
        for axes in panels[max(0, count - across) : count]:
            axes.tick_params(labelbottom=True)
        return panels[:count]

    def lanes(self, labels: Sequence[str], across: int, lane: float) -> list[Axes]:
        """Panels side by side, a lane a label from above, each at least so many inches high."""
        texts = [self.folded(label, self.width / 3) for label in labels]
        lane = max(lane, _LINE * (0.5 + max(text.count("\n") + 1 for text in texts)))
        panels = self.panels(1, across, height=lane * len(texts) + 0.3)
        for axes in panels:
            axes.set_ylim(len(texts) - 0.5, -0.5)
            axes.set_yticks(range(len(texts)), texts)
            axes.tick_params(axis="y", length=0)
            axes.grid(axis="x", linewidth=0.3, color="#dddddd")
            axes.set_axisbelow(True)
        return panels

    def rise(self, axes: Axes, top: float | None = None) -> None:
        """Scale a panel from 0 to just above the highest that is drawn, or above `top`."""
        axes.set_ylim(0, 1.06 * (_top(axes) if top is None else top) or 1.0)
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axes.yaxis.set_major_formatter("{x:g}")

    def name(self, panels: Sequence[Axes], names: Sequence[str]) -> None:
        """Scale what was drawn in panels, together but for far lower ones, and write their names.

        A panel alone has no name.
        """
        tops = [_top(axes) for axes in panels]
        own = [top < OWN * max(tops) for top in tops]
        for axes, top, alone in zip(panels, tops, own, strict=True):
            self.rise(axes, top if alone else max(tops))
        if len(panels) > 1:
            pairs = zip(names, own, strict=True)
            self.titles(panels, [f"{name} (own\u00a0scale)" * o or name for name, o in pairs])

    def titles(self, panels: Sequence[Axes], texts: Sequence[str]) -> None:
        """A text above each panel's left end, in as many lines as it needs."""
        folded = [self.folded(text, self.panel - 0.1) for text in texts]
        for axes, text in zip(panels, folded, strict=True):
            axes.annotate(
                text, (0, 1), (0, 4), xycoords="axes fraction", textcoords="offset points",
                ha="left", va="bottom", fontsize=_SMALL, annotation_clip=False,
            )  # fmt: skip
        self._grow(self._down * _LINE * max(text.count("\n") + 1 for text in folded))

    def _grow(self, inches: float) -> None:
        self.figure.set_figheight(self.figure.get_figheight() + inches)

    @staticmethod
    def folded(text: str, inches: float) -> str:
        """A text in lines that are at most so long, broken between words if that will do."""
        font = FontProperties(size=_SMALL)

        def long(line: str) -> float:
            width: float = text_to_path.get_text_width_height_descent(line, font, ismath=False)[0]
            return width / 72

        for letters in range(len(text), 1, -1):
            lines = textwrap.wrap(text, letters)
            if max(map(long, lines), default=0.0) <= inches:
                return "\n".join(lines)
        return text

    def label(self, across: str, up: str) -> None:
        """One label for the horizontal axes of all panels, one for the vertical."""
        panels = [axes for axes in self.figure.axes if axes.get_visible()]
        if len(panels) == 1:
            panels[0].set_xlabel(across)
            panels[0].set_ylabel(up)
        else:
            self.figure.supxlabel(across, fontsize=7.0)
            self.figure.supylabel(up, fontsize=7.0)

    def line(self, axes: Axes, label: str, x: Sequence[float], y: Sequence[float | None]) -> None:
        """A model's estimates, joined, each with its mark."""
        points = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
        pen = self.series[label]
        axes.plot(
            [at for at, _ in points], [value for _, value in points],
            color=pen.colour, marker=pen.mark, linestyle=pen.dash, markeredgewidth=0, zorder=3,
            clip_on=False,
        )  # fmt: skip
        self.tell(label, color=pen.colour, marker=pen.mark, linestyle=pen.dash, markeredgewidth=0)

    def whiskers(self, axes: Axes, label: str, x: Sequence[float], rows: Sequence[Any]) -> None:
        """Bounds as lines with caps, of rows all of which have both ends; else nothing."""
        if any(None in (row.lower, row.upper) for row in rows):
            return
        middle = [(row.lower + row.upper) / 2 for row in rows]
        half = [(row.upper - row.lower) / 2 for row in rows]
        axes.errorbar(
            x, middle, half, fmt="none", ecolor=self.series[label].colour, elinewidth=0.7,
            capsize=1.8, capthick=0.7, zorder=2,
        )  # fmt: skip

    def band(
        self,
        axes: Axes,
        label: str,
        x: Sequence[float],
        lower: Sequence[float],
        upper: Sequence[float],
    ) -> None:
        """Bounds that hold at these points, shaded."""
        pen = self.series[label]
        axes.fill_between(x, lower, upper, color=pen.colour, lw=0,
                          alpha=BAND * min(1.0, 4 / len(self.series)))  # fmt: skip
        for ends in (lower, upper):
            axes.plot(x, ends, color=pen.colour, linestyle=pen.dash, linewidth=0.4, clip_on=False)

    def band_of(self, axes: Axes, label: str, x: Sequence[float], rows: Sequence[Any]) -> None:
        """The bounds of rows that have both ends."""
        self.band(axes, label, x, [row.lower for row in rows], [row.upper for row in rows])

    def hollow(
        self,
        axes: Axes,
        label: str,
        x: Sequence[float],
        y: Sequence[float | None],
        size: float = 3.6,
    ) -> None:
        """Greedy answers, and naive estimates: hollow marks."""
        points = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
        axes.plot(
            [at for at, _ in points], [value for _, value in points], linestyle="none", marker="o",
            markerfacecolor="none", markeredgecolor=self.series[label].colour,
            markeredgewidth=0.7, markersize=size, zorder=4, clip_on=False,
        )  # fmt: skip

    def tell(self, text: str, **how: Any) -> None:
        """Add a line to the legend, once."""
        self._legend.setdefault(text, Line2D([], [], **how))

    def tell_models(self, labels: Sequence[str]) -> None:
        """Say which colour is which model's, where none is drawn as a line."""
        for label in labels:
            pen = self.series[label]
            self.tell(label, color=pen.colour, marker=pen.mark, linestyle="none", markeredgewidth=0)

    def tell_hollow(self, text: str = "greedy") -> None:
        """Say what hollow marks are."""
        self.tell(
            text, linestyle="none", marker="o", markerfacecolor="none",
            markeredgecolor="black", markeredgewidth=0.7, markersize=3.6,
        )  # fmt: skip

    def tell_whiskers(self, rows: Sequence[Any]) -> None:
        """Say how sure whiskers are, by the least sure of the rows that they are drawn from."""
        confidence = min(row.confidence for row in rows)
        self.tell(f"{percent(confidence)} bounds", color="black", linewidth=0.7, marker="_")

    def tell_bounds(self, text: str) -> None:
        """Say what a shaded band or a whisker is."""
        self.tell(text, color=GREY, linewidth=4, alpha=2 * BAND)

    def finish(self) -> None:
        """The legend above all panels, room for it, and no tick label that touches another."""
        entries = {label: self._legend[label] for label in self.series if label in self._legend}
        entries |= self._legend
        pixels = self.figure.dpi
        texts = [self.folded(text, self.width - _HANDLE - 0.2) for text in entries]
        for columns in range(min(len(entries), MANY), 0, -1):
            legend = self.figure.legend(
                list(entries.values()), texts, loc="outside upper center", ncols=columns
            )
            box = legend.get_window_extent()
            if columns == 1 or box.width <= pixels * (self.width - 0.05):
                self._grow(box.height / pixels)
                break
            legend.remove()
        self.figure.draw_without_rendering()
        for axes in self.figure.axes:
            _thin(axes.xaxis)
        self.figure.set_layout_engine("none")  # laid out once for all formats

    def bytes(self, form: Format) -> bytes:
        """The figure as a file holds it."""
        stream = io.BytesIO()
        self.figure.savefig(stream, format=form, metadata=METADATA[form])
        return stream.getvalue()


def _top(axes: Axes) -> float:
    """The highest that is drawn in a panel."""
    return max(0.0, float(axes.dataLim.y1))


def _thin(axis: Axis) -> None:
    """Take away the tick labels that touch the one before."""
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
    """Draw by matplotlib's own defaults and ours, whatever this machine's settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(SETTINGS)
        yield
