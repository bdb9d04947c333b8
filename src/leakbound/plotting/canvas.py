"""What is drawn on: size, fonts, colours and marks of every figure, and files with equal bytes.

The only module that imports matplotlib. Colours are Okabe and Ito's, which colour-blind readers
tell apart; marks and dashes tell models apart in greyscale. Nothing of the machine's own settings
counts, and no file holds a date.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from leakbound.plotting.style import BAND, GREY, Format, Stroke

RATIO = 0.68  # of a single panel: height by width
_LETTER, _HANDLE = 0.052, 0.42  # inches that a letter of a legend takes, about, and its line
_METADATA: Mapping[Format, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 7.0,
    "axes.labelsize": 7.0,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.minor.visible": False,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.2,
    "legend.borderaxespad": 0.1,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.2,
    "savefig.dpi": 300,
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "leakbound",
}


@dataclass
class Canvas:
    """One figure under way.

    width: in inches.
    series: how each model is drawn, by its label.
    """

    width: float
    series: Mapping[str, Stroke]
    figure: Figure = field(init=False)
    _legend: dict[str, Line2D] = field(init=False, default_factory=dict)

    def panels(
        self,
        down: int = 1,
        across: int = 1,
        *,
        height: float | None = None,
        sharex: bool = True,
        sharey: bool = True,
    ) -> list[Axes]:
        """So many panels, row by row; `height` of each in inches (None: as its width asks)."""
        tall = self.width / across * RATIO if height is None else height
        self.figure = Figure(figsize=(self.width, tall * down + 0.35))
        FigureCanvasAgg(self.figure)
        made = self.figure.subplots(down, across, sharex=sharex, sharey=sharey, squeeze=False)
        return [axes for row in made for axes in row]

    def line(self, axes: Axes, label: str, x: Sequence[float], y: Sequence[float | None]) -> None:
        """A model's estimates, joined, each with its mark."""
        known = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
        of = self.series[label]
        axes.plot(
            [at for at, _ in known], [value for _, value in known],
            color=of.colour, marker=of.mark, linestyle=of.dash, markeredgewidth=0, zorder=3,
        )  # fmt: skip
        self.tell(label, color=of.colour, marker=of.mark, linestyle=of.dash, markeredgewidth=0)

    def whiskers(
        self, axes: Axes, label: str, x: Sequence[float], ends: Sequence[tuple[float, float]]
    ) -> None:
        """Bounds as lines with caps."""
        middle = [(low + high) / 2 for low, high in ends]
        half = [(high - low) / 2 for low, high in ends]
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
        axes.fill_between(x, lower, upper, color=self.series[label].colour, alpha=BAND, lw=0)

    def hollow(
        self,
        axes: Axes,
        label: str,
        x: Sequence[float],
        y: Sequence[float | None],
        size: float = 3.6,
    ) -> None:
        """Greedy answers, and naive estimates: hollow marks."""
        known = [(at, value) for at, value in zip(x, y, strict=True) if value is not None]
        axes.plot(
            [at for at, _ in known], [value for _, value in known], linestyle="none", marker="o",
            markerfacecolor="white", markeredgecolor=self.series[label].colour,
            markeredgewidth=0.7, markersize=size, zorder=4, clip_on=False,
        )  # fmt: skip

    def tell(self, text: str, **how: Any) -> None:
        """Add a line to the legend, once."""
        self._legend.setdefault(text, Line2D([], [], **how))

    def tell_models(self, labels: Sequence[str]) -> None:
        """Say which colour is which model's, where none is drawn as a line."""
        for label in labels:
            of = self.series[label]
            self.tell(label, color=of.colour, marker=of.mark, linestyle="none", markeredgewidth=0)

    def tell_hollow(self, text: str = "greedy") -> None:
        """Say what hollow marks are."""
        self.tell(
            text, linestyle="none", marker="o", markerfacecolor="white",
            markeredgecolor="black", markeredgewidth=0.7, markersize=3.6,
        )  # fmt: skip

    def tell_bounds(self, text: str) -> None:
        """Say what a shaded band or a whisker is."""
        self.tell(text, color=GREY, linewidth=4, alpha=2 * BAND)

    def legend(self) -> None:
        """Above all panels, as many side by side as the width holds."""
        told = {label: self._legend[label] for label in self.series if label in self._legend}
        told |= self._legend
        if not told:
            return
        columns = max(n for n in range(1, len(told) + 1) if n == 1 or self._fits(list(told), n))
        self.figure.legend(
            list(told.values()), list(told), loc="outside upper center", ncols=columns
        )

    def _fits(self, labels: Sequence[str], columns: int) -> bool:
        """True if these labels, put into so many columns one after the other, are not too wide."""
        rest, longer = divmod(len(labels), columns)
        sizes = [rest + (i < longer) for i in range(columns)]
        wide, start = 0.0, 0
        for size in sizes:
            wide += max(map(len, labels[start : start + size])) * _LETTER + _HANDLE
            start += size
        return wide <= self.width - 0.1

    def bytes(self, form: Format) -> bytes:
        """The figure as a file holds it."""
        stream = io.BytesIO()
        self.figure.savefig(stream, format=form, metadata=_METADATA[form])
        return stream.getvalue()


@contextmanager
def settings() -> Iterator[None]:
    """Draw by matplotlib's own defaults and ours, whatever this machine's settings are."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_RC)
        yield
