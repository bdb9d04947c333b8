"""Figures of questions asked in other words: sureness and leakage, and the three protocols."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from leakbound.evaluation.views.view import Rewritten, RewrittenModel
from leakbound.plotting.material import Material, PaperFigure, by, panels_of, stated

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.plotting.canvas import Canvas

Protocol = Literal["greedy", "output", "full"]
PROTOCOLS: tuple[Protocol, ...] = ("greedy", "output", "full")
_QUESTIONS = 4  # of which queries are shown one by one
_BINS = 20  # of correlations, from -1 to 1
_PANEL = 0.9  # inches


@dataclass(frozen=True, slots=True)
class QueryRow:
    """One query of a question: how sure the model is of its answers, and what they leak at most."""

    model: str
    question: str
    query: str
    criterion: str
    sureness: float
    quantity: str
    confidence: float
    value: float | None
    lower: float
    upper: float
    correlation: float | None


@dataclass(frozen=True, slots=True)
class CorrelationRow:
    """Pearson's r over the queries of one question of sureness and the upper end of leakage."""

    model: str
    question: str
    queries: int
    correlation: float


@dataclass(frozen=True, slots=True)
class ProtocolRow:
    """The leakage of a question by one protocol; `upper` None for greedy, which bounds nothing."""

    model: str
    protocol: Protocol
    question: str
    quantity: str
    value: float | None
    upper: float | None


def query_rows(material: Material) -> list[QueryRow]:
    """The first four questions, in their order, of the first model whose queries are known."""
    for model in material.view.asked:
        items = [item for item in model.under(material.scorer).items() if len(item[1].queries) > 2]
        rows = [row for item in items[:_QUESTIONS] for row in _queries(material, model, *item)]
        if rows:
            return rows
    return []


def _queries(
    material: Material, model: RewrittenModel, question: str, rewritten: Rewritten
) -> list[QueryRow]:
    return [
        QueryRow(
            *(model.label, question, query.id, model.criterion, query.sureness, material.quantity),
            *stated(query.leakage),
            rewritten.correlation,
        )
        for query in rewritten.queries
        if query.sureness is not None
    ]


def draw_sureness(rows: Sequence[QueryRow], canvas: Canvas) -> None:
    """A panel a question; a mark a query, its bounds as a whisker below it."""
    questions = by(rows, "question")
    panels = canvas.grid(len(questions), _PANEL, across=min(2, len(questions)), sharex=False)
    names = []
    for axes, (question, mine) in zip(panels, questions.items(), strict=True):
        label, x = mine[0].model, [row.sureness for row in mine]
        canvas.whiskers(axes, label, x, mine)
        pen = canvas.series[label]
        axes.plot(x, [row.upper for row in mine], linestyle="none", marker=pen.mark,
                  color=pen.colour, markeredgewidth=0, zorder=3)  # fmt: skip
        suffix = "" if mine[0].correlation is None else f": r = {mine[0].correlation:.2f}"
        names.append(question + suffix.replace("-", "−"))
        axes.margins(x=0.08)
        axes.locator_params(axis="x", nbins=4)
    canvas.name(panels, names)
    if len(names) == 1:
        canvas.titles(panels, names)
    canvas.label(rows[0].criterion, f"upper bound on\n{rows[0].quantity}")


def correlation_rows(material: Material) -> list[CorrelationRow]:
    """Rows of every model that was asked in other words."""
    return [
        CorrelationRow(model.label, question, len(rewritten.queries), rewritten.correlation)
        for model in material.view.asked
        for question, rewritten in model.under(material.scorer).items()
        if rewritten.correlation is not None
    ]


def draw_correlation(rows: Sequence[CorrelationRow], canvas: Canvas) -> None:
    """A histogram a model, its median marked."""
    edges = [-1 + 2 * i / _BINS for i in range(_BINS + 1)]
    for axes, model, own in panels_of(canvas, rows, _PANEL, integer=True):
        mine = sorted(row.correlation for row in own)
        colour = canvas.series[model].colour
        axes.hist(mine, edges, color=colour, edgecolor="white", linewidth=0.5)
        middle = (mine[(len(mine) - 1) // 2] + mine[len(mine) // 2]) / 2
        axes.axvline(middle, color="black", linewidth=0.9, linestyle=(0, (3, 2)))
        axes.axvline(0, color="#bbbbbb", linewidth=0.6, zorder=0)
        axes.set_xlim(-1.02, 1.02)
        axes.set_xticks([-1, -0.5, 0, 0.5, 1])
    canvas.tell("median", color="black", linewidth=0.9, linestyle=(0, (3, 2)))
    canvas.label("correlation r of sureness and the upper bound", "questions")


def protocol_rows(material: Material) -> Iterator[ProtocolRow]:
    """Questions with all three protocols known, of every model that was asked in other words."""
    for rewritten in material.view.asked:
        model = material.view.models[rewritten.model]
        for question, full in rewritten.under(material.scorer).items():
            own = model.at(question, material.scorer)
            if own is None:
                continue
            ends = (
                (own.greedy, None),
                (own.leakage.value, own.leakage.upper),
                (full.leakage.value, full.leakage.upper),
            )
            for protocol, pair in zip(PROTOCOLS, ends, strict=True):
                yield ProtocolRow(rewritten.label, protocol, question, material.quantity, *pair)


def draw_protocols(rows: Sequence[ProtocolRow], canvas: Canvas) -> None:
    """A panel a model: which share of the questions is above each level; upper bounds thin."""
    right = max(v for row in rows for v in (row.value, row.upper) if v is not None) or 1.0
    ways = {"greedy": ("black", (0, (1.0, 1.2))), "output": ("#0072b2", (0, (5.0, 1.5))),
            "full": ("#d55e00", "-")}  # fmt: skip
    for axes, _, own in panels_of(canvas, rows, _PANEL):
        axes.set_xlim(-0.02 * right, 1.02 * right)
        for protocol, (colour, dash) in ways.items():
            mine = by(own, "protocol").get(protocol, [])
            values = [row.value for row in mine if row.value is not None]
            uppers = [row.upper for row in mine if row.upper is not None]
            _above(axes, values, colour=colour, linestyle=dash, width=1.1)
            _above(axes, uppers, colour=colour, linestyle=dash, width=0.5)
            canvas.tell(protocol, color=colour, linestyle=dash, linewidth=1.1)
    canvas.tell("upper bounds", color="black", linewidth=0.5)
    canvas.label(f"{rows[0].quantity} x", "share of questions above x")


def _above(
    axes: Axes, values: Sequence[float], *, colour: str, linestyle: object, width: float
) -> None:
    if not values:
        return
    x = [0.0, *sorted(values), axes.get_xlim()[1]]
    shares = [1.0, *((len(values) - i - 1) / len(values) for i in range(len(values))), 0.0]
    axes.step(x, shares, where="post", color=colour, linestyle=linestyle, linewidth=width)


KINDS = (
    PaperFigure(
        "sureness",
        "a mark a query of four questions: sureness against the upper bound on leakage",
        "Cheng et al. Fig. 1",
        "a run with --inputs",
        query_rows,
        draw_sureness,
        "no question was asked in three queries whose sureness is known (--inputs)",
    ),
    PaperFigure(
        "correlation",
        "how sureness and leakage correlate over the queries, a histogram of the questions",
        "Cheng et al. Fig. 2",
        "a run with --inputs",
        correlation_rows,
        draw_correlation,
        "sureness and leakage are known together of no three queries (--inputs)",
    ),
    PaperFigure(
        "protocols",
        "which share of the questions leaks more than x: greedy, output and full",
        "Cheng et al. Fig. 3",
        "a run with --inputs",
        protocol_rows,
        draw_protocols,
        "no question was asked in other words (--inputs)",
    ),
)
