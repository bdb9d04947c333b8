"""The style table: fonts, lines, and one pen per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Literal, TypeAlias

Format = Literal["pdf", "svg", "png"]
Dash: TypeAlias = str | tuple[int, tuple[float, ...]]

GREY = "#5f5f5f"  # colour-blind readers confuse a lighter grey with the green and the purple
BLACK, WHITE = "#000000", "#ffffff"
BAND = 0.22  # the opacity of a band
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", BLACK)
MARKS = ("o", "s", "^", "D", "v", "P", "h", "<", ">")
DASHES: tuple[Dash, ...] = (
    "-", (0, (5.0, 1.5)), (0, (1.0, 1.2)), (0, (5.0, 1.5, 1.0, 1.5)), (0, (3.0, 1.0))
)  # fmt: skip

METADATA: Mapping[Format, dict[str, str | None]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
SETTINGS = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
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
    "text.parse_math": False,  # names of models may contain dollars
    "lines.linewidth": 1.0,
    "lines.markersize": 3.2,
    "lines.markeredgewidth": 0.0,
    "path.simplify": False,
    "figure.dpi": 300,  # the resolution of layout and drawing
    "savefig.dpi": "figure",
    "text.hinting": "none",
    "figure.constrained_layout.use": True,
    "figure.constrained_layout.h_pad": 0.02,
    "figure.constrained_layout.w_pad": 0.02,
    "figure.constrained_layout.wspace": 0.05,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "leakbound",
}


@dataclass(frozen=True, slots=True)
class Stroke:
    """The pen of one model: its colour, mark and dash."""

    colour: str
    mark: str
    dash: Dash


def styles(labels: Sequence[tuple[str, bool]]) -> dict[str, Stroke]:
    """Return the pens by label; `labels` are (label, is a control), and controls are grey."""
    ways = zip(cycle(COLOURS), cycle(MARKS), cycle(DASHES), strict=False)
    dashes = cycle(reversed(DASHES))
    return {
        label: Stroke(GREY, "X", next(dashes)) if control else Stroke(*next(ways))
        for label, control in labels
    }


def class_of(pen: Stroke) -> str:
    """Return the class in the style sheet for the colour of a pen."""
    return f"m{COLOURS.index(pen.colour)}" if pen.colour in COLOURS else "grey"
