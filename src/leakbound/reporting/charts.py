"""Inline SVG: marks that carry titles, every vertical axis from 0, and no script.

Colours and dashes come from the style sheet by class (`m0`, `m1`, ... for the models), so one
chart serves light and dark pages and paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from leakbound.evaluation.views.table import Bound, interval, nearest
from leakbound.text.shown import above, below, number, tag

WIDTH, HEIGHT = 420, 230
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 10, 40
CELL_WIDTH, CELL_HEIGHT = 96, 48  # of a heat map, at least
STRONGEST = 0.5  # of a heat map's cells: figures stay legible on it, on light pages and dark
LANE = 0.8  # of the width a lane has, the rest is space
_STYLES = 16  # of which the style sheet knows


Line = Sequence[tuple[float, float]]
"""Heights at positions along the axis, both in [0, 1]."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A question in a chart of questions: its interval, the control's, and the greedy score.

    `bound` None: the greedy score alone.
    """

    anchor: str
    title: str
    bound: Bound | None
    greedy: float | None = None
    control: Bound | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """A model's curve: bounds at positions along the axis, and single dots, each in [0, 1]."""

    label: str
    style: str
    points: Sequence[tuple[float, Bound]]
    dots: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True, slots=True)
class Lane:
    """Questions side by side under one heading, in the order given, and their mean."""

    label: str
    marks: Sequence[Mark]
    mean: Bound | None = None
    style: str = ""


@dataclass(frozen=True, slots=True)
class Spot:
    """A point at shares of both axes; `own` marks the one that the others are compared with."""

    title: str
    x: float
    y: float
    own: bool = False


def _tenth(place: float) -> float:
    """A place to a tenth of a pixel, as an integer where it is one: a page has thousands."""
    rounded = round(float(place), 1)
    return int(rounded) if rounded.is_integer() else rounded


@dataclass(frozen=True, slots=True)
class Frame:
    """The room of a chart, its margins included: shares of the axes into places."""

    width: int = WIDTH
    height: int = HEIGHT

    @property
    def across(self) -> int:
        """The length of the horizontal axis."""
        return self.width - LEFT - RIGHT

    def x(self, share: float) -> float:
        """How far from the left a share of the horizontal axis lies."""
        return _tenth(LEFT + share * self.across)

    def y(self, share: float) -> float:
        """How far from the top a share of the vertical axis lies."""
        return _tenth(self.height - BOTTOM - share * (self.height - TOP - BOTTOM))


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The words of a chart; `x_ticks` are (position in [0, 1], text), `top` the largest y."""

    title: str
    description: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]] = ()
    top: float = 1.0
    frame: Frame = Frame()


def style_of(index: int) -> str:
    """The class of the model with this index; beyond the last they start again."""
    return f"m{index % _STYLES}"


def lanes_chart(axes: Axes, lanes: Sequence[Lane]) -> Markup:
    """Lanes of questions from left to right, each with its mean across it."""
    width = 1 / max(len(lanes), 1)
    room = width * LANE
    drawn: list[Markup] = []
    for i, lane in enumerate(lanes):
        left, slot = (i + 0.5) * width - room / 2, room / max(len(lane.marks), 1)
        body = [] if lane.mean is None else [_mean(lane.label, lane.mean, left, room, axes)]
        body += [
            _question_mark(mark, left + (j + 0.5) * slot, slot, axes)
            for j, mark in enumerate(lane.marks)
        ]
        drawn.append(tag("g", *body, class_=lane.style))
    ticks = [((i + 0.5) * width, lane.label) for i, lane in enumerate(lanes)]
    return _plot(replace(axes, x_ticks=ticks), drawn)


def scatter_chart(axes: Axes, spots: Sequence[Spot], style: str) -> Markup:
    """A dot at each spot."""
    body = (
        tag(
            "circle",
            tag("title", spot.title),
            cx=axes.frame.x(spot.x),
            cy=axes.frame.y(spot.y),
            r=4,
            class_="dot" if spot.own else "spot",
        )
        for spot in spots
    )
    return _plot(axes, [tag("g", *body, class_=style)])


def curves_chart(axes: Axes, series: Sequence[Series]) -> Markup:
    """A line and a band a model: the estimate, and all between the bounds; dots over both."""
    return _plot(axes, [_curve(curve, axes.frame) for curve in series if curve.points])


def known_chart(axes: Axes, proved: Line, least: Line, most: Line, style: str) -> Markup:
    """A curve lies between its least and its most, of which the dashed part is proved."""
    unknown = _through(axes.frame, [*most, *reversed(least)])
    body = [
        tag("polygon", points=unknown, class_="unknown"),
        tag("polyline", points=_through(axes.frame, least), class_="at-least"),
    ]
    if any(height for _, height in proved):
        body.append(tag("polyline", points=_through(axes.frame, proved), class_="proved"))
    return _plot(axes, [tag("g", *body, class_=style)])


def histogram_chart(axes: Axes, shares: Sequence[float], style: str) -> Markup:
    """Bars over equal bins of the horizontal axis."""
    width, frame = 1 / max(len(shares), 1), axes.frame
    outline = "".join(
        f"M{frame.x(i * width)} {frame.y(0)}V{frame.y(share / axes.top)}"
        f"H{frame.x((i + 1) * width)}V{frame.y(0)}Z"
        for i, share in enumerate(shares)
        if share > 0
    )
    return _plot(axes, [tag("g", tag("path", d=outline, class_="bin"), class_=style)])


def heat_chart(
    axes: Axes, rows: Sequence[str], cells: Sequence[Sequence[Bound]], style: str
) -> Markup:
    """A cell a pair of settings, its colour stronger where more leaks, its figures inside.

    `rows` names the rows of `cells` from above, the axis' ticks its columns.
    """
    across = len(cells[0])
    width = max(WIDTH, LEFT + CELL_WIDTH * across + RIGHT)
    height = TOP + CELL_HEIGHT * len(cells) + BOTTOM
    step = (width - LEFT - RIGHT) / across
    largest = max((b.value or 0.0 for row in cells for b in row), default=0.0) or 1.0
    body = []
    for i, (name, row) in enumerate(zip(rows, cells, strict=True)):
        top = TOP + i * CELL_HEIGHT
        body.append(tag("text", name, x=LEFT - 5, y=top + CELL_HEIGHT / 2 + 4, class_="end"))
        for j, bound in enumerate(row):
            shade = STRONGEST * (bound.value or 0.0) / largest
            body.append(_heat_cell(bound, LEFT + j * step, top, step, shade))
    for j, (_, text) in enumerate(axes.x_ticks):
        x = LEFT + (j + 0.5) * step
        body.append(tag("text", text, x=_tenth(x), y=height - BOTTOM + 15, class_="mid"))
    return _svg(axes, [tag("g", *body, class_=style)], width, height)


def _heat_cell(bound: Bound, x: float, y: float, width: float, shade: float) -> Markup:
    middle = _tenth(x + width / 2)
    ends = f"[{below(bound.lower)}, {above(bound.upper)}]"
    return tag(
        "g",
        tag(
            "rect",
            x=_tenth(x),
            y=y,
            width=_tenth(width),
            height=CELL_HEIGHT,
            fill_opacity=f"{shade:.3f}",
            class_="heat",
        ),
        tag("text", number(bound.value), x=middle, y=y + 21, class_="mid cell"),
        tag("text", ends, x=middle, y=y + 37, class_="mid label"),
    )


def _question_mark(mark: Mark, centre: float, slot: float, axes: Axes) -> Markup:
    """The control's bar lies behind, wider and pale; the dot lies over both."""
    frame = axes.frame
    half = min(max(slot * frame.across * 0.32, 0.5), 7.0)
    x = frame.x(centre)
    parts = [tag("title", mark.title)]
    if mark.control is not None:
        parts.append(_bar(mark.control, x, half * 1.5, "beside", axes))
    if mark.bound is not None:
        parts.append(_bar(mark.bound, x, half, "bar", axes))
    if mark.bound is not None and (shown := nearest(mark.bound)) is not None:
        y = frame.y(shown / axes.top)
        parts.append(tag("path", d=f"M{_tenth(x - half)} {y}H{_tenth(x + half)}", class_="value"))
    if mark.greedy is not None:
        radius = _tenth(min(max(half, 1.4), 3.6))
        y = frame.y(mark.greedy / axes.top)
        parts.append(tag("circle", cx=x, cy=y, r=radius, class_="dot"))
    return tag("g", *parts, data_question=mark.anchor)


def _mean(label: str, mean: Bound, left: float, room: float, axes: Axes) -> Markup:
    """A line at the estimate, and all between its ends."""
    frame = axes.frame
    centre, half = frame.x(left + room / 2), room * frame.across / 2
    title = f"{label}: mean {interval(mean)}"
    parts = [tag("title", title), _bar(mean, centre, half, "mean-band", axes)]
    if (shown := nearest(mean)) is not None:
        line = f"M{frame.x(left)} {frame.y(shown / axes.top)}H{frame.x(left + room)}"
        parts.append(tag("path", d=line, class_="mean-line"))
    return tag("g", *parts)


def _bar(bound: Bound, x: float, half: float, kind: str, axes: Axes) -> Markup:
    top, bottom = axes.frame.y(bound.upper / axes.top), axes.frame.y(bound.lower / axes.top)
    return tag(
        "rect",
        x=_tenth(x - half),
        y=top,
        width=_tenth(2 * half),
        height=_tenth(max(bottom - top, 0.8)),
        class_=kind,
    )


def _through(frame: Frame, line: Line) -> str:
    return " ".join(f"{frame.x(at)},{frame.y(height)}" for at, height in line)


def _curve(series: Series, frame: Frame) -> Markup:
    around = [(at, bound.upper) for at, bound in series.points]
    around += [(at, bound.lower) for at, bound in reversed(series.points)]
    line = [(at, bound.value) for at, bound in series.points if bound.value is not None]
    return tag(
        "g",
        tag("title", series.label),
        tag("polygon", points=_through(frame, around), class_="band"),
        tag("polyline", points=_through(frame, line), class_="line"),
        *(
            tag("circle", cx=frame.x(at), cy=frame.y(y), r=2.6, class_="naive")
            for at, y in series.dots
        ),
        class_=series.style,
    )


def _plot(axes: Axes, body: Iterable[Markup]) -> Markup:
    """A chart with a vertical axis from 0."""
    return _svg(axes, [*_grid(axes), *body], axes.frame.width, axes.frame.height)


def _svg(axes: Axes, body: Iterable[Markup], width: float, height: float) -> Markup:
    middle, centre = _tenth((LEFT + width - RIGHT) / 2), _tenth((TOP + height - BOTTOM) / 2)
    turn = f"translate(12 {centre:g}) rotate(-90)"
    return tag(
        "svg",
        tag("title", axes.title),
        tag("desc", axes.description),
        *body,
        tag("text", axes.x_label, x=middle, y=height - 6, class_="mid label"),
        tag("text", axes.y_label, transform=turn, class_="mid label"),
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
    )


def _grid(axes: Axes) -> Iterable[Markup]:
    """The grid with its figures."""
    frame = axes.frame
    for step in (0, 0.25, 0.5, 0.75, 1):
        y = frame.y(step)
        yield tag("path", d=f"M{LEFT} {y}H{frame.width - RIGHT}", class_="grid")
        yield tag("text", f"{step * axes.top:.2g}", x=LEFT - 5, y=y + 4, class_="end")
    for at, text in axes.x_ticks:
        yield tag("text", text, x=frame.x(at), y=frame.height - BOTTOM + 15, class_="mid")
