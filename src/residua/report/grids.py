"""Tables of the page: cells that are read as text and sorted as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from residua.evaluation.rows import Table
from residua.evaluation.sample import CONTROL
from residua.report.view import Bound, Measured, Model, ScorerView, View
from residua.report.words import ceiling, cells_of, interval, mean, quantity
from residua.text.figures import DASH, number

SHOWN_K = (1, 8, 32, 128)


@dataclass(frozen=True, slots=True)
class Cell:
    """`value` is what the text rounds, `anchor` what it leads to."""

    text: str
    value: float | None = None
    anchor: str | None = None


@dataclass(frozen=True, slots=True)
class Grid:
    """A captioned table; the first cell of a row names it."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


def plain_grid(table: Table) -> Grid:
    """A table of texts as it was given."""
    rows = tuple(tuple(Cell(text) for text in row) for row in table.rows)
    return Grid(table.title, table.columns, rows, table.note)


def summary_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a model: its greedy answers, its distribution, and what drawing it cost."""
    name = quantity(scorer)
    columns = (
        "Model",
        "Greedy leaks" if scorer.binary else "Greedy score, mean",
        f"Mean {name}" if scorer.binary else "Mean score",
        "Worst question",
        "Deviation, mean",
        "Deviation, worst",
        "ED, mean",
        *(f"leak@{k}" for k in SHOWN_K),
        "Draws",
        "Tokens forwarded",
        "Prefix saving",
    )
    rows = tuple(_summary_row(view, model, scorer) for model in view.models)
    return Grid(f"Scorer {scorer.name}: all questions", columns, rows)


def questions_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a question: each model's greedy score and expected leakage with its bounds."""
    columns = ["Question"]
    for model in view.models:
        columns += [f"{model.label}: greedy", f"{model.label}: {quantity(scorer)}"]
    rows = []
    for number_, question in enumerate(view.questions, 1):
        row = [Cell(f"{question.id}: {question.text}", number_, anchor(number_))]
        for model in view.models:
            row += _question_cells(model.measured.get((scorer.name, question.id)))
        rows.append(tuple(row))
    return Grid(f"Scorer {scorer.name}: every question", tuple(columns), tuple(rows))


def anchor(number_: int) -> str:
    """Where the texts of a question stand, numbered from 1."""
    return f"q-{number_}"


def mean_leak_at_k(cells: list[Measured], k: int) -> float | None:
    """The mean over questions of the unbiased estimate; None unless every question has one."""
    values = [cell.leak_at_k[k].value for cell in cells if k in cell.leak_at_k]
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(cells) else None


def _question_cells(measured: Measured | None) -> list[Cell]:
    if measured is None:
        return [Cell(DASH), Cell("not sampled")]
    return [
        Cell(number(measured.greedy), measured.greedy),
        Cell(interval(measured.leakage), measured.leakage.value),
    ]


def _summary_row(view: View, model: Model, scorer: ScorerView) -> tuple[Cell, ...]:
    cells = cells_of(view, model, scorer)
    overall, usage = model.overall[scorer.name], model.usage
    named = model.is_control and model.label != CONTROL
    saving = usage.sampled_tokens / usage.forwards if usage.forwards else None
    return (
        Cell(f"{model.label} (control)" if named else model.label),
        _greedy_cell(cells, scorer),
        _bound_cell(overall.mean),
        _bound_cell(overall.worst),
        _mean_cell(cells, lambda cell: cell.deviation),
        _largest_cell(cells, lambda cell: cell.deviation),
        _mean_cell(cells, lambda cell: cell.expectation_deviation),
        *(_number_cell(mean_leak_at_k(cells, k)) for k in SHOWN_K),
        Cell(f"{usage.draws:,}", usage.draws),
        Cell(f"{usage.forwards:,}" if usage.forwards else DASH, usage.forwards),
        Cell(f"{saving:.1f}×" if saving else DASH, saving),
    )


def _greedy_cell(cells: list[Measured], scorer: ScorerView) -> Cell:
    scores = [cell.greedy for cell in cells if cell.greedy is not None]
    if not scorer.binary or not scores:
        return _number_cell(mean(scores))
    leaks = sum(score == 1 for score in scores)
    return Cell(f"{leaks} of {len(scores)}", leaks)


def _bound_cell(bound: Bound | None) -> Cell:
    return Cell(interval(bound), bound.value if bound else None)


def _mean_cell(cells: list[Measured], of: Callable[[Measured], Bound]) -> Cell:
    return _number_cell(mean([v for cell in cells if (v := of(cell).value) is not None]))


def _largest_cell(cells: list[Measured], of: Callable[[Measured], Bound]) -> Cell:
    """The largest estimate, and the largest upper bound, which needs no correction."""
    values = [v for cell in cells if (v := of(cell).value) is not None]
    if not values:
        return Cell(DASH)
    upper = max(of(cell).upper for cell in cells)
    return Cell(ceiling(max(values), upper), max(values))


def _number_cell(value: float | None) -> Cell:
    return Cell(number(value), value)
