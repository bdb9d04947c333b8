"""Clusterings of contrast centres as one SVG file (Cheng et al. 2025, Figure 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

import numpy as np
from markupsafe import Markup

from leakbound.text.shown import tag
from leakbound.unlearning.centres import Centres

PANELS = 6
_ACROSS, _WIDTH, _HEIGHT = 3, 240, 250
_LEFT, _TOP, _SIDE = 28, 24, 200  # the square of a panel that holds its points
_HEAD, _FOOT = 36, 34
_INSET = 14  # no point is nearer to the square's edge
# Okabe and Ito's colours, which colour-blind readers tell apart; one a component.
_COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a7f00", "#555555"
)  # fmt: skip


def centres_picture(clustered: Mapping[str, Centres]) -> str:
    """A panel for each of the first six questions, by name: an SVG document, on white.

    Points lie at their first two principal components, drawn to one scale within a panel.
    """
    shown = dict(islice(clustered.items(), PANELS))
    across = min(_ACROSS, len(shown))
    down = -(-len(shown) // across)
    width, height = across * _WIDTH, _HEAD + down * _HEIGHT + _FOOT
    panels = []
    for number, (name, centres) in enumerate(shown.items()):
        row, column = divmod(number, across)
        place = f"translate({column * _WIDTH} {_HEAD + row * _HEIGHT})"
        panels.append(tag("g", *_panel(name, centres), transform=place))
    return tag(
        "svg",
        tag("title", "Contrast centres"),
        tag("rect", width=width, height=height, fill="#ffffff"),
        tag("text", "Contrast centres", x=12, y=22, font_size=14),
        *panels,
        *_legend(height - 12),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
        font_family="system-ui, sans-serif",
        font_size=11,
        fill="#222222",
    )


def _panel(name: str, centres: Centres) -> Iterator[Markup]:
    middle, bottom = _LEFT + _SIDE / 2, _TOP + _SIDE
    yield tag("text", name, x=_LEFT, y=_TOP - 7)
    yield tag("rect", x=_LEFT, y=_TOP, width=_SIDE, height=_SIDE, fill="none", stroke="#bbbbbb")
    yield tag("text", "first principal component", x=middle, y=bottom + 14, text_anchor="middle")
    turn = f"translate({_LEFT - 8} {_TOP + _SIDE / 2}) rotate(-90)"
    yield tag("text", "second principal component", transform=turn, text_anchor="middle")
    # The question last: it lies above what it covers.
    for i, (x, y) in reversed([*enumerate(_places(centres))]):
        marks = [tag("title", centres.texts[i]), _point(x, y, centres.component[i], i == 0)]
        if i in centres.chosen:
            marks.append(_ring(x, y))
        yield tag("g", *marks)


def _places(centres: Centres) -> list[tuple[float, float]]:
    """Where the candidates lie in a panel, from its left and from its top."""
    points = np.array(centres.coordinates)
    low, high = points.min(0), points.max(0)
    scale = (_SIDE - 2 * _INSET) / (np.max(high - low) or 1.0)
    offsets = (points - (low + high) / 2) * scale
    x, y = _LEFT + _SIDE / 2 + offsets[:, 0], _TOP + _SIDE / 2 - offsets[:, 1]
    return [(round(a, 1), round(b, 1)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]


def _point(x: float, y: float, component: int, question: bool) -> Markup:
    fill = _COLOURS[component % len(_COLOURS)]
    if question:
        return tag("rect", x=f"{x - 4.5:.1f}", y=f"{y - 4.5:.1f}", width=9, height=9, fill=fill)
    return tag("circle", cx=x, cy=y, r=4.5, fill=fill)


def _ring(x: float, y: float) -> Markup:
    return tag("circle", cx=x, cy=y, r=8.5, fill="none", stroke="#222222", stroke_width=1.5)


def _legend(y: float) -> Iterator[Markup]:
    yield _point(18, y - 4, 0, question=True)
    yield tag("text", "question", x=28, y=y)
    yield _ring(88, y - 4)
    yield tag("text", "centre", x=101, y=y)
    for component in range(3):
        yield _point(147 + 9 * component, y - 4, component, question=False)
    yield tag("text", "component", x=173, y=y)
