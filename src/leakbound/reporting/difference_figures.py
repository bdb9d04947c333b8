"""Pictures of a comparison: how far every question moved from the baseline, a chart a model.

Places along both axes are shares of the drawing, so that a chart is as wide as its room while its
figures keep their size. What is written around it stands outside, where the style sheet of the
page leaves room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from leakbound.evaluation.views.compared import ModelMoves, Move, Moved
from leakbound.evaluation.views.table import Interval, interval
from leakbound.text.shown import tag

_HEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5)  # of an axis above 0, or below it
_APART = 10  # times as long as a model needs: then it has an axis of its own
_NEAR = 0.15  # of an axis: figures closer than that would touch
_THICKEST, _ROOM = 6.0, 170.0  # of an interval, and of all together, in pixels
_POINTS: dict[Moved, str] = {"rose": "M-4.5 3.5h9l-4.5-8z", "fell": "M-4.5-3.5h9l-4.5 8z"}


@dataclass(frozen=True, slots=True)
class DifferenceFigure:
    """A chart of one model beside the baseline, under its caption."""

    caption: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class _Axis:
    """A vertical axis with 0 on it: its ends, as differences."""

    bottom: float
    top: float

    @classmethod
    def of(cls, models: Sequence[ModelMoves]) -> _Axis:
        """From the data: the least round ends that show every interval."""
        bounds = [move.bound for model in models for move in model.each]
        fall, rise = -min(bound.lower for bound in bounds), max(bound.upper for bound in bounds)
        return cls(-_rounded(fall), _rounded(rise if max(fall, rise) > 0 else _HEIGHTS[0]))

    @property
    def length(self) -> float:
        return self.top - self.bottom

    def place(self, difference: float) -> str:
        """How far from the top a difference lies."""
        return _per_cent(100 * (self.top - difference) / self.length)

    @property
    def ticks(self) -> tuple[float, ...]:
        """0, both ends, and half of a long one."""
        ends = [end for end in (self.bottom, self.top) if abs(end) >= _NEAR * self.length]
        halves = [end / 2 for end in ends if abs(end) >= 2 * _NEAR * self.length]
        return (*halves, *ends, 0.0)  # 0 over the others


def difference_figures(models: Sequence[ModelMoves], baseline: str) -> list[DifferenceFigure]:
    """A chart a model: an interval a question, those that fell most first, and their mean.

    All have one axis, but for a model that would fill no tenth of it.
    """
    common = _Axis.of(models)
    figures = []
    for model in models:
        own = _Axis.of([model])
        apart = common.length >= _APART * own.length
        caption = f"{model.label}{' (on an axis of its own)' if apart else ''}"
        figures.append(DifferenceFigure(caption, _chart(model, baseline, own if apart else common)))
    return figures


def _rounded(reach: float) -> float:
    return next((height for height in _HEIGHTS if reach <= height), 1.0) if reach > 0 else 0.0


def _chart(model: ModelMoves, baseline: str, axis: _Axis) -> Markup:
    number = f"{len(model.each):,} question{'' if len(model.each) == 1 else 's'}"
    return tag(
        "svg",
        tag("title", f"{model.label} beside {baseline}, question by question"),
        tag("desc", _described(model, number)),
        *_grid(axis),
        *_mean(model.mean, axis),
        *_marks(model.each, axis),
        tag("text", f"▲ more than {baseline}", x=0, y=-7),
        tag("text", f"▼ less than {baseline}", x=0, y="100%", dy=18),
        tag("text", f"{number}, sorted", x="100%", y="100%", dy=18, class_="end"),
        role="img",
        class_="difference",
    )


def _described(model: ModelMoves, number: str) -> str:
    how = [move.moved for move in model.each]
    mean = "" if model.mean is None else f", {interval(model.mean)} on average"
    return (
        f"An interval of the difference for each of {number}{mean}: {how.count('rose'):,} rose, "
        f"{how.count('fell'):,} fell, {how.count('not shown'):,} not shown to differ. The table of "
        "each question holds the same figures."
    )


def _grid(axis: _Axis) -> Iterator[Markup]:
    for at in axis.ticks:
        y = axis.place(at)
        yield tag("line", x1=0, x2="100%", y1=y, y2=y, class_="grid" if at else "zero")
        figure = f"{at:+g}".replace("-", "−") if at else "0"
        yield tag("text", figure, x=-6, y=y, dy=4, class_="end")


def _mean(mean: Interval | None, axis: _Axis) -> Iterator[Markup]:
    if mean is None or mean.value is None:
        return
    top, bottom = (float(axis.place(end)[:-1]) for end in (mean.upper, mean.lower))
    extent = _per_cent(max(bottom - top, 0.5))
    yield tag("rect", x=0, width="100%", y=_per_cent(top), height=extent, class_="mean-band")
    y = axis.place(mean.value)
    yield tag("line", x1=0, x2="100%", y1=y, y2=y, class_="mean-line")


def _marks(moves: Sequence[Move], axis: _Axis) -> Iterator[Markup]:
    """From left to right by difference; whichever is shown to have moved has a point."""
    thickness = min(_THICKEST, _ROOM / len(moves))
    ordered = sorted(moves, key=lambda move: move.bound.value or 0.0)
    for i, move in enumerate(ordered):
        x = _per_cent(100 * (i + 0.5) / len(ordered))
        low, high = axis.place(move.bound.lower), axis.place(move.bound.upper)
        yield tag(
            "g",
            tag("title", f"{move.question}: {interval(move.bound)}"),
            tag("line", x1=x, x2=x, y1=high, y2=low, stroke_width=f"{thickness:.2f}"),
            *_point(move, x, axis, max(thickness / _THICKEST, 0.4)),
            class_=move.moved.replace(" ", "-"),
        )


def _point(move: Move, x: str, axis: _Axis, size: float) -> Iterator[Markup]:
    if move.moved in _POINTS and move.bound.value is not None:
        path = tag("path", d=_POINTS[move.moved], transform=f"scale({size:.2f})")
        yield tag("svg", path, x=x, y=axis.place(move.bound.value), overflow="visible")


def _per_cent(length: float) -> str:
    """A place or a length, as a part of the whole picture."""
    return f"{length:.2f}" + "%"
