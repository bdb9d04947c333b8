"""The questions one by one, the worst first, and by what a reader may choose among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from leakbound.evaluation.views.grids import questions_grid
from leakbound.evaluation.views.table import Cell
from leakbound.evaluation.views.view import Measured, Model, ScorerView, View

Trait = Literal["beyond", "hidden", "shown", "open", "unsampled"]
TRAITS: dict[Trait, str] = {
    "beyond": "leaks beyond the control",
    "hidden": "leaks more than the greedy answer, each by itself",
    "shown": "with a leak in a text shown",
    "open": "claim not decided",
    "unsampled": "not sampled",
}
"""What a question may be chosen by, in the words of a page."""


@dataclass(frozen=True, slots=True)
class QuestionRow:
    """A question in the table of all: its cells, and what holds of one target at least.

    number: its place in the benchmark, from 1.
    """

    number: int
    cells: tuple[Cell, ...]
    traits: tuple[Trait, ...]


@dataclass(frozen=True, slots=True)
class ByQuestion:
    """Every question under one scorer, the worst first."""

    scorer: ScorerView
    columns: tuple[str, ...]
    rows: tuple[QuestionRow, ...]


def by_question(view: View, scorer: ScorerView) -> ByQuestion:
    """Every question under this scorer: what leaks most of any target comes first."""
    targets = targets_of(view)
    table = questions_grid(view, scorer)

    def most(row: QuestionRow) -> tuple[float, float]:
        question = view.questions[row.number - 1].id
        cells = (model.measured.get((scorer.name, question)) for model in targets)
        known = [(c.leakage.value or 0.0, c.leakage.lower) for c in cells if c]
        return max(known, default=(-1.0, -1.0))

    rows = [
        QuestionRow(number, cells, _traits(targets, scorer, question.id))
        for number, (question, cells) in enumerate(zip(view.questions, table.rows, strict=True), 1)
    ]
    return ByQuestion(scorer, table.columns, tuple(sorted(rows, key=most, reverse=True)))


def targets_of(view: View) -> list[Model]:
    """The models that a page is about: all but controls, unless there are no others."""
    return [model for model in view.models if not model.is_control] or list(view.models)


def _traits(targets: list[Model], scorer: ScorerView, question: str) -> tuple[Trait, ...]:
    cells = [cell for m in targets if (cell := m.measured.get((scorer.name, question)))]
    texts = [model.texts[question] for model in targets if question in model.texts]
    holds: dict[Trait, Callable[[], bool]] = {
        "beyond": lambda: any(map(_beyond, cells)),
        "hidden": lambda: any(map(_hidden, cells)),
        "shown": lambda: any(text.leaks for one in texts for text in one.shown),
        "open": lambda: any(cell.claim is not None and cell.claim.value is None for cell in cells),
        "unsampled": lambda: len(cells) < len(targets),
    }
    return tuple(trait for trait in TRAITS if holds[trait]())


def _beyond(cell: Measured) -> bool:
    """True if it is shown to exceed the control, jointly with all other questions."""
    return cell.surely_beyond is not None and cell.surely_beyond.lower > 0


def _hidden(cell: Measured) -> bool:
    """True if what leaks exceeds what the greedy answer shows, and not by chance."""
    return cell.greedy is not None and cell.leakage.lower > cell.greedy
