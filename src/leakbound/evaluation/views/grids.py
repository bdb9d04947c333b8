"""Tables of the page: cells that are read as text and sorted as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.evaluation.views.table import Table, interval
from leakbound.evaluation.views.view import (
    DecodingGrid,
    Interval,
    Measured,
    Model,
    Overall,
    ScorerView,
    Statement,
    View,
)
from leakbound.evaluation.views.words import (
    at_least,
    ceiling,
    cells_of,
    mean,
    of_count,
    quantity,
)
from leakbound.store import CONTROL
from leakbound.text.figures import DASH, number

SHOWN_K = (1, 8, 32, 128)
BEYOND = ("Beyond the control, mean", "Beyond the control, worst question")
LEVEL = 1e-6  # a probability below it is one that any text has, of any model
PROVED_TO_LEAK = "Proved to leak above 10⁻⁶ and the control"


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
    """A row a model: what it leaks beyond its control, its greedy answers, its distribution.

    Without a control no column speaks of one.
    """
    name = quantity(scorer)
    columns = (
        "Model",
        *(BEYOND if any(model.control for model in view.models) else ()),
        "Greedy leaks" if scorer.binary else "Greedy score, mean",
        f"Mean {name}" if scorer.binary else "Mean score",
        "Worst question",
        "Deviation, mean",
        "Deviation, worst",
        "ED, mean",
        *(f"leak@{k}" for k in SHOWN_K),
    )
    rows = tuple(_summary_row(view, model, scorer) for model in view.models)
    return Grid(f"Scorer {scorer.name}: all questions", columns, rows)


def statements_grid(view: View, scorer: ScorerView) -> Grid | None:
    """A row a model: what else holds of all questions, and what leaking texts prove; or None."""
    said = [(model.label, model.overall[scorer.name]) for model in view.models]
    caption = f"Scorer {scorer.name}: more on all questions"
    if not proved(view):
        return others_grid(caption, said)
    columns = (PROVED_TO_LEAK, "Most that is proved", "Most in a million draws")
    proofs = [_proof_cells(view, model, scorer) for model in view.models]
    return others_grid(caption, said, columns, proofs)


def others_grid(
    caption: str,
    said: Sequence[tuple[str, Overall]],
    columns: Sequence[str] = (),
    cells: Sequence[Sequence[Cell]] = (),
) -> Grid | None:
    """A row for each label: the statements but for the mean and the worst, and then these cells.

    None where there is neither.
    """
    others = [{one.name: one for one in overall.others} for _, overall in said]
    names = tuple(dict.fromkeys(name for mine in others for name in mine))
    if not names and not columns:
        return None
    rows = tuple(
        (Cell(label), *(_statement_cell(mine.get(name)) for name in names), *more)
        for (label, _), mine, more in zip(said, others, cells or [()] * len(said), strict=True)
    )
    return Grid(caption, ("Model", *names, *columns), rows)


def questions_grid(view: View, scorer: ScorerView) -> Grid:
    """A row a question: each model's greedy score, expected leakage with its bounds, and claim."""
    columns = ["Question"]
    for model in view.models:
        columns += [f"{model.label}: greedy", f"{model.label}: {quantity(scorer)}"]
        columns += [f"{model.label}: {claim}" for claim in _claims(view, model, scorer)]
    rows = []
    for number_, question in enumerate(view.questions, 1):
        row = [Cell(f"{question.id}: {question.text}", number_, anchor(number_))]
        for model in view.models:
            cell = model.measured.get((scorer.name, question.id))
            row += _question_cells(cell)
            if _claims(view, model, scorer):
                row.append(_claim_cell(cell))
        rows.append(tuple(row))
    return Grid(f"Scorer {scorer.name}: every question", tuple(columns), tuple(rows))


def decodings_grid(grid: DecodingGrid) -> Grid:
    """A row a decoding: the figures of the heat maps."""
    columns = ["Decoding", "Temperature", "Top-p", "Mean over the questions"]
    columns += [f"leak@{grid.k}"] if grid.k else []
    rows = []
    for t, p in grid.leakage:
        row = [Cell(f"T={t:g}, top-p={p:g}"), Cell(f"{t:g}", t), Cell(f"{p:g}", p)]
        row += [bound_cell(grid.leakage[t, p])]
        row += [bound_cell(grid.leak_at_k[t, p])] if grid.k else []
        rows.append(tuple(row))
    return Grid(f"Scorer {grid.scorer}: every decoding", tuple(columns), tuple(rows))


def effects_grid(grid: DecodingGrid) -> Grid:
    """How far each knob moves the mean leakage, and what both together add."""
    rows = tuple((Cell(knob), bound_cell(bound)) for knob, bound in grid.effects.items())
    return Grid("What moves leakage", ("Knob", "Effect, root mean square"), rows)


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


def proved(view: View) -> bool:
    """True if leaking texts were looked for that prove something."""
    return any(cell.proof for model in view.models for cell in model.measured.values())


def _claims(view: View, model: Model, scorer: ScorerView) -> list[str]:
    """The claim that was made of the model's questions, if one was."""
    claims = (cell.claim for cell in cells_of(view, model, scorer))
    return list(dict.fromkeys(claim.text for claim in claims if claim is not None))


def _claim_cell(measured: Measured | None) -> Cell:
    if measured is None or measured.claim is None:
        return Cell(DASH)
    return Cell(f"{measured.claim.decision} after {measured.n:,}", measured.n)


def _statement_cell(statement: Statement | None) -> Cell:
    if statement is None:
        return Cell(DASH)
    text = of_count(statement.bound) if statement.is_count else interval(statement.bound)
    return Cell(text, statement.bound.value)


def _proof_cells(view: View, model: Model, scorer: ScorerView) -> list[Cell]:
    """How many questions are proved to leak, and the most that is proved of one.

    Any text is possible, so some chance of the answer can be proved of a model that never saw it:
    counted are proofs above a stated level, and above what is proved of the control.
    """
    cells = cells_of(view, model, scorer)
    proofs = [cell.proof for cell in cells if cell.proof is not None]
    leaking = sum(
        cell.proof.leakage > max(LEVEL, _proved_of_controls(view, scorer.name, question.id))
        for question in view.questions
        if (cell := model.measured.get((scorer.name, question.id))) and cell.proof is not None
    )
    ends = (
        max((proof.leakage for proof in proofs), default=0.0),
        max((max(proof.leak_at_k.values(), default=0.0) for proof in proofs), default=0.0),
    )
    return [
        Cell(f"{leaking} of {len(cells)}", leaking),
        *(Cell(f"≥ {at_least(end)}", end) for end in ends),
    ]


def _proved_of_controls(view: View, scorer: str, question: str) -> float:
    """The most that is proved of any control about a question."""
    measured = (m.measured.get((scorer, question)) for m in view.models if m.is_control)
    proofs = (cell.proof.leakage for cell in measured if cell is not None and cell.proof)
    return max(proofs, default=0.0)


def _summary_row(view: View, model: Model, scorer: ScorerView) -> tuple[Cell, ...]:
    cells = cells_of(view, model, scorer)
    controlled = any(other.control for other in view.models)
    overall = model.overall[scorer.name]
    named = model.is_control and model.label != str(CONTROL)
    return (
        Cell(f"{model.label} (control)" if named else model.label),
        *(map(bound_cell, (overall.excess, overall.worst_excess)) if controlled else ()),
        _greedy_cell(cells, scorer),
        bound_cell(overall.mean),
        bound_cell(overall.worst),
        _mean_cell([cell.deviation for cell in cells]),
        _largest_cell([cell.deviation for cell in cells]),
        _mean_cell([cell.expectation_deviation for cell in cells]),
        *(number_cell(mean_leak_at_k(cells, k)) for k in SHOWN_K),
    )


def cost_grid(view: View) -> Grid:
    """A row a model: how much was drawn, and what that took."""
    rows = []
    for model in view.models:
        usage = model.usage
        saving = usage.sampled_tokens / usage.forwards if usage.forwards else None
        rows.append(
            (
                Cell(model.label),
                Cell(f"{usage.draws:,}", usage.draws),
                Cell(f"{usage.forwards:,}" if usage.forwards else DASH, usage.forwards),
                Cell(f"{saving:.1f}×" if saving else DASH, saving),
            )
        )
    columns = ("Model", "Draws", "Tokens forwarded", "Prefix saving")
    return Grid("What the draws took", columns, tuple(rows))


def _greedy_cell(cells: list[Measured], scorer: ScorerView) -> Cell:
    scores = [cell.greedy for cell in cells if cell.greedy is not None]
    if not scorer.binary or not scores:
        return number_cell(mean(scores))
    leaks = sum(score == 1 for score in scores)
    return Cell(f"{leaks} of {len(scores)}", leaks)


def bound_cell(bound: Interval | None) -> Cell:
    return Cell(interval(bound), bound.value if bound else None)


def _mean_cell(bounds: Sequence[Interval | None]) -> Cell:
    return number_cell(mean(_values(bounds)))


def _largest_cell(bounds: Sequence[Interval | None]) -> Cell:
    """The largest estimate, and the largest upper bound, which needs no correction."""
    values = _values(bounds)
    if not values:
        return Cell(DASH)
    upper = max(bound.upper for bound in bounds if bound is not None)
    return Cell(ceiling(max(values), upper), max(values))


def _values(bounds: Sequence[Interval | None]) -> list[float]:
    """The estimates there are; none where some question has no bound, and so any value."""
    known = [bound for bound in bounds if bound is not None]
    whole = len(known) == len(bounds)
    return [bound.value for bound in known if whole and bound.value is not None]


def number_cell(value: float | None) -> Cell:
    return Cell(number(value), value)
