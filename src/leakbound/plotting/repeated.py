"""Figures over numbers of draws: bounds as draws come in, leak@k, and its naive estimate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.statements.rows import STANDARD_K
from leakbound.evaluation.views.table import Interval
from leakbound.evaluation.views.view import Measured, Model
from leakbound.evaluation.views.words import mean_of, means_by
from leakbound.plotting.material import DEVIATION, Material, PaperFigure, by
from leakbound.stats import percent
from leakbound.store import EstimateRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.plotting.canvas import Canvas

Moment = Literal["mean", "standard deviation"]
_PANEL = 1.2  # inches
_SHOWN = 1e-3  # a proof below it lies on the axis


@dataclass(frozen=True, slots=True)
class DrawsRow:
    """A moment of a question by its first n draws, with bounds that hold for each n by itself."""

    model: str
    question: str
    moment: Moment
    quantity: str
    confidence: float
    n: int
    value: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class LeakAtKRow:
    """leak@k, mean over the questions.

    `lower` and `upper` hold for all k of the model at once, at `confidence`; None where n was not
    fixed, or blocks of k draws are too few. `proved`: what single texts of known probability prove
    of it, given their margin.
    """

    model: str
    confidence: float
    k: int
    value: float | None
    lower: float | None
    upper: float | None
    proved: float | None


@dataclass(frozen=True, slots=True)
class NaiveRow:
    """The mean over the questions of the largest of the first k draws, and of the estimate that
    uses all subsets of k."""

    model: str
    k: int
    unbiased: float
    naive: float


def draws_rows(material: Material) -> Iterator[DrawsRow]:
    """One question of every model of fixed n."""
    for model in material.view.models:
        growing = material.draws(model).growing(material.question, material.view.confidence)
        moments: Sequence[tuple[Moment, str]] = (
            ("mean", material.quantity), (DEVIATION, DEVIATION)
        )  # fmt: skip
        for n, bounds in growing.items():
            for (moment, quantity), bound in zip(moments, bounds, strict=True):
                named = (model.label, material.question, moment, quantity)
                ends = (bound.value, bound.lower, bound.upper)
                yield DrawsRow(*named, material.view.confidence, n, *ends)


def draw_convergence(rows: Sequence[DrawsRow], canvas: Canvas) -> None:
    """Mean above, deviation below; n on a logarithmic scale."""
    moments = by(rows, "moment")
    panels = canvas.panels(len(moments), height=_PANEL, sharey=False)
    for axes, own in zip(panels, moments.values(), strict=True):
        for model, mine in by(own, "model").items():
            n = [float(row.n) for row in mine]
            canvas.band_of(axes, model, n, mine)
            canvas.line(axes, model, n, [row.value for row in mine])
        axes.set_ylabel(canvas.folded(own[0].quantity, _PANEL))
        canvas.rise(axes)
        _powers(axes, canvas.panel, [row.n for row in rows])
    canvas.tell_bounds(f"{percent(rows[0].confidence)} bounds, each n by itself")
    panels[-1].set_xlabel("draws n")


def leak_at_k_rows(material: Material) -> list[LeakAtKRow]:
    """leak@k of every model for each k; the estimates are the unbiased ones."""
    rows: list[LeakAtKRow] = []
    for model in material.view.models:
        if cells := model.cells(material.scorer):
            rows += _leak_at_k(material, model, cells)
    return rows


def _leak_at_k(material: Material, model: Model, cells: Sequence[Measured]) -> list[LeakAtKRow]:
    confidence = material.view.confidence
    whole = len(cells) == len(material.view.questions)
    bounds = material.draws(model).repeated(confidence) if whole else {}
    rows = []
    for k in STANDARD_K:
        estimates = [cell.by_parameter("leak@k").get(k) for cell in cells]
        value, ends = mean_of(estimates), bounds.get(k)
        bounded = [row for row in estimates if row is not None]
        if ends is None and bounded and all(row.confidence == 1 for row in bounded):
            ends = _mean(bounded)  # exact for every question: so for their mean
        if value is None and ends is None:
            continue
        lower, upper = (ends.lower, ends.upper) if ends else (None, None)
        proof = _proved(cells, k)
        rows.append(LeakAtKRow(model.label, confidence, k, value, lower, upper, proof))
    return rows


def _mean(rows: Sequence[EstimateRow]) -> Interval:
    """The mean of estimates whose ends are certain."""
    lower, upper = sum(row.lower for row in rows), sum(row.upper for row in rows)
    return Interval(mean_of(rows), lower / len(rows), upper / len(rows))


def _proved(cells: Sequence[Measured], k: int) -> float | None:
    """The mean over the questions of what is proved, 0 where nothing is; None if of none."""
    rows = [cell.rows.where(quantity="leak@k", proved=True, parameter=k).rows for cell in cells]
    if not any(rows):
        return None
    return sum(max((row.lower for row in proofs), default=0.0) for proofs in rows) / len(cells)


def draw_leak_at_k(rows: Sequence[LeakAtKRow], canvas: Canvas) -> None:
    """A curve a model over k on a logarithmic scale, its band, and dotted what is proved."""
    (axes,) = canvas.panels()
    for model, mine in by(rows, "model").items():
        bounded = [row for row in mine if row.lower is not None]
        if bounded:
            canvas.band_of(axes, model, [float(row.k) for row in bounded], bounded)
        canvas.line(axes, model, [float(row.k) for row in mine], [row.value for row in mine])
        proofs = [(row.k, row.proved) for row in mine if row.proved is not None]
        if max((proved for _, proved in proofs), default=0.0) > _SHOWN:
            axes.plot(*zip(*proofs, strict=True), color=canvas.series[model].colour, linewidth=0.8,
                      linestyle=(0, (1, 1)), marker=6, markersize=3, zorder=2)  # fmt: skip
            canvas.tell("proved", color="black", linewidth=0.8, linestyle=(0, (1, 1)), marker=6,
                        markersize=3)  # fmt: skip
    if any(row.lower is not None for row in rows):
        canvas.tell_bounds(f"{percent(rows[0].confidence)} bounds, all k at once")
    _powers(axes, canvas.panel, [row.k for row in rows])
    canvas.rise(axes)
    axes.set_xlabel("draws k")
    axes.set_ylabel("leak@k,\nmean over the questions")


def naive_rows(material: Material) -> Iterator[NaiveRow]:
    """Both estimates of every model, where every question has both."""
    for model in material.view.models:
        cells = model.cells(material.scorer)
        unbiased, naive = means_by(cells, "leak@k"), means_by(cells, "worst of k")
        for k in STANDARD_K:
            if k in unbiased and k in naive:
                yield NaiveRow(model.label, k, unbiased[k], naive[k])


def draw_naive(rows: Sequence[NaiveRow], canvas: Canvas) -> None:
    """The unbiased estimate as a line, the naive one as hollow marks."""
    (axes,) = canvas.panels()
    for model, mine in by(rows, "model").items():
        k = [float(row.k) for row in mine]
        canvas.line(axes, model, k, [row.unbiased for row in mine])
        canvas.hollow(axes, model, k, [row.naive for row in mine], 5.4)
    canvas.tell_hollow("largest of the first k (naive)")
    _powers(axes, canvas.panel, [row.k for row in rows])
    canvas.rise(axes)
    axes.set_xlabel("draws k")
    axes.set_ylabel("leak@k,\nmean over the questions")


def _powers(axes: Axes, wide: float, sizes: Sequence[int]) -> None:
    """A logarithmic axis, so many inches wide, with as many powers of two as it has room for."""
    axes.set_xscale("log", base=2)
    ticks = [1 << i for i in range(min(sizes).bit_length() - 1, max(sizes).bit_length())]
    ticks = ticks[:: math.ceil(len(ticks) * (0.06 * len(str(ticks[-1])) + 0.06) / wide)]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.margins(x=0.03)


KINDS = (
    PaperFigure(
        "convergence",
        "mean and standard deviation of one question against the number of draws, with bounds",
        "Scholten et al. Fig. 3e, 3f",
        "a run of fixed n",
        draws_rows,
        draw_convergence,
        "n was not fixed, or draws have no score",
    ),
    PaperFigure(
        "leak-at-k",
        "leak@k over k by model, with a band that holds at all k, and what is proved",
        "Leak@k, curves over k",
        "a run in which every question was sampled",
        leak_at_k_rows,
        draw_leak_at_k,
        "leak@k of no model is known at every question",
    ),
    PaperFigure(
        "naive",
        "the naive worst of k beside the unbiased estimate of leak@k",
        "Leak@k, naive estimate",
        "a run of fixed n",
        naive_rows,
        draw_naive,
        "n was not fixed, or draws have no score",
    ),
)
