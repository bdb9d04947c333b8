"""The data of charts: rows, kinds of charts, and the runs and models from which rows are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from leakbound.bounding.drawn import Drawn
from leakbound.bounding.evidence import drawn_of
from leakbound.errors import InputError, LeakboundError
from leakbound.presenting.table import ends_of
from leakbound.presenting.templates import quantity
from leakbound.presenting.view import View
from leakbound.registry import suggestion
from leakbound.stats import Rows
from leakbound.store import EstimateRow
from leakbound.store.trained import TrainedFolder
from leakbound.text.rows import csv_of
from leakbound.types import Scorer


class LackingError(LeakboundError):
    """Raised if the runs lack data that a chart needs; the message describes the data."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class ChartRow:
    """One number of a chart, with its bounds if it has any.

    Attributes:
        model: the label of the model, run or line to which the number belongs.
        quantity: the name of the quantity.
        value, lower, upper: the estimate and its bounds; None for each that is missing.
        confidence: the confidence of the bounds.
        question: the question's id; empty for a number about all questions.
        group: the panel or the setting; the name of its CSV column depends on the kind of chart.
        x: the position on the horizontal axis, if the axis is numeric.
    """

    model: str
    quantity: str
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    confidence: float | None = None
    question: str = ""
    group: str = ""
    x: float | None = None

    @classmethod
    def of(
        cls, model: str, quantity: str, number: EstimateRow | float, question: str = "",
        group: str = "", x: float | None = None,
    ) -> ChartRow:  # fmt: skip
        """Return the row of a number, with the bounds that are stated and their confidence."""
        confidence = None if isinstance(number, float) else number.confidence
        return cls(model, quantity, *ends_of(number), confidence, question, group, x)


@dataclass(frozen=True, slots=True)
class Chart:
    """One kind of chart; `charts.PAINT` has the function that draws its rows.

    Attributes:
        name: the name on the command line and of the files.
        shows: the content of the chart in one line.
        paper: the figure of a paper to which the chart corresponds.
        needs: the input that the chart needs.
        columns: the columns of the CSV, each a field of `ChartRow` or `name=field`.
        rows: a function that makes the rows from the material.
    """

    name: str
    shows: str
    paper: str
    needs: str
    columns: str
    rows: Callable[[Any], Iterable[ChartRow]]

    def made(self, material: Material) -> Sequence[ChartRow]:
        """Return the rows; raise LackingError if there are none."""
        if rows := tuple(self.rows(material)):
            return rows
        raise LackingError(f"this figure needs {self.needs}")

    def csv(self, rows: Sequence[ChartRow], shown: Callable[[str], str] = str) -> str:
        """Return the rows as CSV with unrounded numbers; `shown` changes texts for display."""
        names = {column.partition("=")[0]: column.split("=")[-1] for column in self.columns.split()}
        values = [{name: getattr(row, field) for name, field in names.items()} for row in rows]
        return csv_of([
            {n: shown(v) if isinstance(v, str) else v for n, v in row.items()} for row in values
        ])  # fmt: skip


@dataclass(frozen=True)
class Material:
    """A view of runs and trained models, with the scorer and the question to show.

    Attributes:
        runs: the view of the runs; None without runs.
        trained: folders of trained models with the logs of their training, by name.
        wanted_scorer: the name of the scorer (None: the first scorer of the runs).
        wanted_question: the id of the question (None: the question with the largest lower bound of
            the first target).
    """

    runs: View | None = None
    trained: Mapping[str, TrainedFolder] = field(default_factory=dict)
    wanted_scorer: str | None = None
    wanted_question: str | None = None

    @property
    def view(self) -> View:
        """The view of the runs; raises LackingError without runs."""
        if self.runs is None:
            raise LackingError("no run was given")
        return self.runs

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer to show; raises InputError if the runs have no scores by this scorer."""
        by_name = {scorer.name: scorer for scorer in self.view.scorers}
        name = self.view.scorers[0].name if self.wanted_scorer is None else self.wanted_scorer
        if name not in by_name:
            raise InputError(
                f"the runs have no scores of `--scorer {name}`. {suggestion(name, by_name)}"
            )
        return by_name[name]

    @property
    def quantity(self) -> str:
        """The name of the expected score."""
        return quantity(self.scorer)

    @cached_property
    def question(self) -> str:
        """The id of the question to show; raises InputError if the runs do not have the question.

        By default it is the question with the largest lower bound, which is not typical.
        """
        ids, wanted = [question.id for question in self.view.questions], self.wanted_question
        if wanted is not None:
            if wanted not in ids:
                raise InputError(
                    f"the runs have no `--question {wanted}`. {suggestion(wanted, ids)}"
                )
            return wanted
        for model in (*self.view.targets, *self.view.models):
            rows = {q: row for q in ids if (row := model.leakage(self.scorer, q))}
            if rows:
                return max(rows, key=lambda q: rows[q].lower)
        raise LackingError("no question could be sampled")

    @cached_property
    def drawn(self) -> Mapping[str, Drawn]:
        """The draws of every model as evidence for `stats`, by label."""
        return {model.label: drawn_of(model.arm, self.scorer) for model in self.view.models}

    def scores(self, label: str) -> Mapping[str, Rows]:
        """Return the scored draws of a model by question; empty if the model was explored."""
        drawn = self.drawn[label]
        if drawn.arm.explored:
            return {}
        rows = drawn.draws.scored()
        every = zip(rows.ids, rows.n.tolist(), strict=True)
        return {query_id: rows.among((query_id,)) for query_id, n in every if n}

    @cached_property
    def labels(self) -> list[tuple[str, bool]]:
        """The label of every model, and whether it is a control; models without a run are last."""
        models = self.runs.models if self.runs else ()
        shown = {model.label: model.is_control for model in models}
        return list((shown | {n: False for n in self.names.values() if n not in shown}).items())

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each trained model: the label of the model in the view, or its folder's name.

        The folder's name is used unless exactly one model of the view is from this folder.
        """
        models = self.runs.models if self.runs else ()
        folders = [(Path(model.facts.get("model", "")).resolve(), model.label) for model in models]
        names = {}
        for label, trained in self.trained.items():
            labels = [name for path, name in folders if path == trained.path.resolve()]
            names[label] = labels[0] if len(labels) == 1 else label
        return names


def by(rows: Iterable[ChartRow], *fields: str) -> dict[Any, list[ChartRow]]:
    """Return rows grouped by one field or by several fields, in their original order."""
    groups: dict[Any, list[ChartRow]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in fields)
        groups.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    return groups
