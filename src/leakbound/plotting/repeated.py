"""Charts over numbers of draws: bounds as draws come in, leak@k near and far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.statements.rows import STANDARD_K
from leakbound.evaluation.views.draws import FAR, KnownAtK, known_of_mean, known_of_worst
from leakbound.evaluation.views.table import Interval
from leakbound.evaluation.views.view import Measured, Model
from leakbound.evaluation.views.words import mean_of, means_by
from leakbound.plotting.material import DEVIATION, MEAN, WORST, Chart, Material, Row, by, ends
from leakbound.plotting.style import BLACK
from leakbound.store import EstimateRow

if TYPE_CHECKING:
    from leakbound.plotting.canvas import Canvas

Moment = Literal["mean", "standard deviation"]
NAIVE, PROVED = "largest of the first k (naive)", "proved"
_PANEL = 1.2  # inches
_SHOWN = 1e-3  # a proof below it is on the axis
_DOTS = (0, (1, 1))


def draws_rows(material: Material) -> Iterator[Row]:
    """Yield the moments of one question by its first n draws, for every model of fixed n."""
    question, sure = material.question, material.view.confidence
    moments: Sequence[tuple[Moment, str]] = (("mean", material.quantity), (DEVIATION, DEVIATION))
    for model in material.view.models:
        for n, bounds in material.draws(model).growing(question, sure).items():
            for (moment, name), bound in zip(moments, bounds, strict=True):
                yield Row(model.label, name, *ends(bound, sure), question, moment, n)


def draw_convergence(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw the mean above, the deviation below; n on a logarithmic scale."""
    _draw_over_k(rows, canvas, "draws n", by(rows, "group"))
    canvas.tell_bounds(rows, ", for each n separately")


def leak_at_k_rows(material: Material) -> Iterator[Row]:
    """Yield leak@k, mean over the questions, of every model: the estimates are unbiased.

    The bounds are valid for all k of the model simultaneously. There are none where n was not
    fixed, or where blocks of k draws are too few. `proved` rows have the lower bound that single
    texts of known probability prove, given their margin.
    """
    sure = material.view.confidence
    for model in material.view.models:
        cells = model.cells(material.scorer)
        whole = len(cells) == len(material.view.questions)
        bounds = material.draws(model).repeated(sure) if whole else {}
        for k in STANDARD_K if cells else ():
            estimates = [cell.by_parameter("leak@k").get(k) for cell in cells]
            value, bound = mean_of(estimates), bounds.get(k)
            bounded = [row for row in estimates if row is not None]
            if bound is None and bounded and all(row.confidence == 1 for row in bounded):
                bound = _mean(bounded)  # exact for every question: so for their mean
            if bound is not None:
                yield Row(model.label, "leak@k", value, bound.lower, bound.upper, sure, x=k)
            elif value is not None:
                yield Row(model.label, "leak@k", value, x=k)
            if (value, bound) != (None, None) and (proof := _proved(cells, k)) is not None:
                yield Row(model.label, PROVED, lower=proof, x=k)


def _mean(rows: Sequence[EstimateRow]) -> Interval:
    """Return the mean of estimates whose bounds are certain."""
    lower, upper = sum(row.lower for row in rows), sum(row.upper for row in rows)
    return Interval(mean_of(rows), lower / len(rows), upper / len(rows))


def _proved(cells: Sequence[Measured], k: int) -> float | None:
    """Return the mean of the questions' proofs, 0 where there is none; None if there are none."""
    rows = [cell.rows.where(quantity="leak@k", proved=True, parameter=k).rows for cell in cells]
    if not any(rows):
        return None
    return sum(max((row.lower for row in proofs), default=0.0) for proofs in rows) / len(cells)


def draw_leak_at_k(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a curve per model over k with its band; proofs are dotted, naive estimates hollow."""
    _draw_over_k(rows, canvas, "draws k", {"leak@k,\nmean over the questions": rows})
    canvas.tell_bounds(rows, ", all k simultaneously")


def naive_rows(material: Material) -> Iterator[Row]:
    """Yield the unbiased estimate of every model, and the mean of the largest of k draws."""
    for model in material.view.models:
        cells = model.cells(material.scorer)
        unbiased, naive = means_by(cells, "leak@k"), means_by(cells, "worst of k")
        for k in sorted({*unbiased} & {*STANDARD_K}):
            yield Row(model.label, "leak@k", unbiased[k], x=k)
            if k in naive:
                yield Row(model.label, NAIVE, naive[k], x=k)


def far_rows(material: Material) -> Iterator[Row]:
    """Yield bounds on leak@k of every target to k = 10⁹, at its worst question and on average.

    There are none for scores between 0 and 1.
    """
    for model in material.view.targets:
        for group, known in (
            (WORST, known_of_worst(model, material.scorer)),
            (MEAN, known_of_mean(model, material.scorer)),
        ):
            yield from _far(model, group, known[:: len(FAR) // 45], material.view.confidence)


def _far(model: Model, group: str, known: Sequence[KnownAtK], sure: float) -> Iterator[Row]:
    for at in known:
        yield Row(model.label, "leak@k", None, at.lower, at.upper, sure, group=group, x=at.k)
        if known[-1].proved:
            yield Row(model.label, PROVED, lower=at.proved, group=group, x=at.k)


def draw_far(rows: Sequence[Row], canvas: Canvas) -> None:
    """Draw a panel for the worst question and one for the mean, k on a logarithmic scale."""
    panels = {f"leak@k,\n{group}": own for group, own in by(rows, "group").items()}
    _draw_over_k(rows, canvas, "answers k", panels, base=10)
    canvas.tell_bounds(rows)


def _draw_over_k(
    rows: Sequence[Row],
    canvas: Canvas,
    across: str,
    panels: Mapping[str, Sequence[Row]],
    base: int = 2,
) -> None:
    """Draw curves of models over a logarithmic axis, in panels one above the other."""
    height = None if len(panels) == 1 else _PANEL
    made = canvas.panels(len(panels), height=height, sharey=False)
    for axes, (name, own) in zip(made, panels.items(), strict=True):
        for model, mine in by(own, "model").items():
            quantities = by(mine, "quantity")
            proofs, naive = quantities.pop(PROVED, []), quantities.pop(NAIVE, [])
            (main,) = quantities.values()
            bounded = [row for row in main if row.lower is not None]
            pairs = [(row.lower or 0.0, row.upper or 0.0) for row in bounded]
            if bounded:
                canvas.band(axes, model, [row.x or 0.0 for row in bounded], pairs)
            x = [row.x or 0.0 for row in main]
            if any(row.value is not None for row in main):
                canvas.line(axes, model, x, [row.value for row in main])
            else:  # no more than bounds is known
                pen = canvas.series[model]
                axes.plot(x, [row.lower for row in main], color=pen.colour, linestyle=pen.dash)
                canvas.tell(model, color=pen.colour, linestyle=pen.dash)
            canvas.hollow(axes, model, [r.x or 0.0 for r in naive], [r.value for r in naive], 5.4)
            if max((row.lower or 0.0 for row in proofs), default=0.0) > _SHOWN:
                dotted = {"linewidth": 0.8, "linestyle": _DOTS, "markersize": 3, "marker": 6}
                axes.plot([row.x for row in proofs], [row.lower for row in proofs], zorder=2,
                          color=canvas.series[model].colour, markevery=4 if base > 2 else 1,
                          **dotted)  # fmt: skip
                canvas.tell(PROVED, color=BLACK, **dotted)
        axes.set_ylabel(name if "\n" in name else canvas.folded(own[0].quantity, _PANEL))
        canvas.rise(axes)
        canvas.powers(axes, [row.x for row in rows if row.x is not None], base)
    if any(row.quantity == NAIVE for row in rows):
        canvas.tell_hollow(NAIVE)
    made[-1].set_xlabel(across)


_BOUNDED = "value lower upper confidence"
KINDS = (
    Chart(
        "convergence",
        "mean and standard deviation of one question against the number of draws, with bounds",
        "Scholten et al. Fig. 3e, 3f",
        "a run of fixed n",
        f"model question moment=group quantity n=x {_BOUNDED}",
        draws_rows,
        draw_convergence,
        "n was not fixed, or draws have no score",
    ),
    Chart(
        "leak-at-k",
        "leak@k over k by model, with a band that is valid at all k, and proofs",
        "Leak@k, curves over k",
        "a run in which every question was sampled",
        f"model quantity k=x {_BOUNDED}",
        leak_at_k_rows,
        draw_leak_at_k,
        "leak@k of no model is known at every question",
    ),
    Chart(
        "naive",
        "the unbiased estimate of leak@k, and the naive worst of k",
        "Leak@k, naive estimate",
        "a run of fixed n",
        "model quantity k=x value",
        naive_rows,
        draw_leak_at_k,
        "n was not fixed, or draws have no score",
    ),
    Chart(
        "far",
        "bounds on leak@k to a thousand million answers, and proofs",
        "Leak@k, curves over k",
        "a scorer that is binary",
        "model over=group quantity k=x lower upper confidence",
        far_rows,
        draw_far,
        "no scorer is binary, or no bound on all questions is known",
    ),
)
