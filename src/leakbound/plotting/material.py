"""The material of figures: the view of the runs, their draws, and the logs of trained models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from leakbound.errors import InputError, LeakboundError
from leakbound.evaluation.views.draws import DrawnScores, ScoredDraws
from leakbound.evaluation.views.read import read_view
from leakbound.evaluation.views.summary import metrics_of
from leakbound.evaluation.views.view import Model, ScorerView, View
from leakbound.evaluation.views.words import mean_of, quantity
from leakbound.registry import suggestion
from leakbound.store import EstimateRow, Run
from leakbound.store.trained import TrainedFolder

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from leakbound.plotting.canvas import Canvas

DEVIATION: Literal["standard deviation"] = "standard deviation"


class LackingError(LeakboundError):
    """The material does not have what a figure needs; the message says what."""

    exit_status = 2


@dataclass(frozen=True)
class Material:
    """Runs and trained models by label, and which scorer and question are meant.

    Attributes:
        runs: those with estimates of the same questions, scorers and confidence.
        trained: folders of models with the log of their training.
        wanted_scorer: its name; None: the runs' first.
        wanted_question: by its id; None: the one of the first target with the largest lower bound.
    """

    runs: Mapping[str, Run]
    trained: Mapping[str, TrainedFolder] = field(default_factory=dict)
    wanted_scorer: str | None = None
    wanted_question: str | None = None

    @cached_property
    def view(self) -> View:
        """The estimates side by side; LackingError without a run."""
        if not self.runs:
            raise LackingError("no run was given")
        return read_view(self.runs)

    @cached_property
    def scorer(self) -> ScorerView:
        """The scorer meant; InputError for one that the runs do not have."""
        by_name = {scorer.name: scorer for scorer in self.view.scorers}
        if self.wanted_scorer is not None and self.wanted_scorer not in by_name:
            raise InputError(
                f"the runs have no scores of `--scorer {self.wanted_scorer}`. "
                f"{suggestion(self.wanted_scorer, by_name)}"
            )
        return by_name[self.wanted_scorer or self.view.scorers[0].name]

    @property
    def quantity(self) -> str:
        """The name of the expected score."""
        return quantity(self.scorer)

    def deviation(self, model: Model) -> tuple[float, float, float | None, float | None] | None:
        """The mean over the questions of the deviations: confidence, value, ends if it has any."""
        rows = model.rows.of(self.scorer.name)
        if (row := rows.first(quantity=DEVIATION, scope="mean")) and row.value is not None:
            return row.confidence, row.value, row.lower, row.upper
        value = mean_of([cell.rows.first(quantity=DEVIATION) for cell in model.cells(self.scorer)])
        return None if value is None else (1.0, value, None, None)

    @cached_property
    def question(self) -> str:
        """The question meant; InputError for one that the runs did not ask.

        Chosen by what it leaks, where none is named: it shows a tail, and stands for no other.
        """
        ids = [question.id for question in self.view.questions]
        if self.wanted_question is not None:
            if self.wanted_question not in ids:
                raise InputError(
                    f"the runs asked no `--question {self.wanted_question}`. "
                    f"{suggestion(self.wanted_question, ids)}"
                )
            return self.wanted_question
        for model in (*self.view.targets, *self.view.models):
            ends = {q: cell.leakage.lower for q in ids if (cell := model.at(q, self.scorer))}
            if ends:
                return max(ends, key=lambda q: ends[q])
        raise LackingError("no question could be sampled")

    def draws(self, model: Model) -> ScoredDraws:
        """A model's draws as the scorer scores them."""
        arm = self.runs[model.run].arm(model.key)
        assert arm is not None  # the view was read from it
        return ScoredDraws(arm, self.scorer.name)

    @cached_property
    def scores(self) -> Mapping[str, Mapping[str, DrawnScores]]:
        """The scores of every model's draws, by label and question."""
        return {model.label: self.draws(model).of_questions() for model in self.view.models}

    def metrics(self, model: Model) -> Mapping[str, float]:
        """Utility and memorisation of a model, where they were measured."""
        return metrics_of(self.runs[model.run], model.key.model)

    @cached_property
    def labels(self) -> list[tuple[str, bool]]:
        """Every model and whether it is a control; trained ones that no run has come last."""
        shown = [(model.label, model.is_control) for model in self.view.models] if self.runs else []
        labels = {label for label, _ in shown}
        return [*shown, *((name, False) for name in self.names.values() if name not in labels)]

    @cached_property
    def names(self) -> Mapping[str, str]:
        """The name of each trained model: that of its run, where there is one alone."""
        by_path: dict[Path, list[str]] = {}
        for model in self.view.models if self.runs else ():
            by_path.setdefault(Path(model.facts.get("model", "")).resolve(), []).append(model.label)
        names = {}
        for label, trained in self.trained.items():
            labels = by_path.get(trained.path.resolve(), [])
            names[label] = labels[0] if len(labels) == 1 else label
        return names


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PaperFigure(Generic[R]):
    """One of the figures.

    Attributes:
        name: what it is called on the command line and on disk.
        shows: what it shows.
        paper: whose figure it is.
        needs: what must have been given.
        rows: makes what it is drawn from, frozen values of single numbers and texts; LackingError
            where something is not there.
        draw: draws them, and nothing else.
        lacking: what is not there where there are no rows.
    """

    name: str
    shows: str
    paper: str
    needs: str
    rows: Callable[[Material], Iterable[R]]
    draw: Callable[[Sequence[R], Canvas], None]
    lacking: str = ""

    def made(self, material: Material) -> Sequence[R]:
        """The rows, of which there is one at least; LackingError where there is none."""
        rows = tuple(self.rows(material))
        if not rows:
            raise LackingError(self.lacking)
        return rows


def by(rows: Sequence[R], *fields: str) -> dict[Any, list[R]]:
    """The rows by what they have in a field, or in several; in their order, as the keys are."""
    groups: dict[Any, list[R]] = {}
    for row in rows:
        key = tuple(getattr(row, name) for name in fields)
        groups.setdefault(key[0] if len(key) == 1 else key, []).append(row)
    return groups


def panels_of(
    canvas: Canvas, rows: Sequence[R], height: float
) -> Iterator[tuple[Axes, str, list[R]]]:
    """A panel a model with its rows; once they are drawn, scaled and named as by `name`."""
    models = by(rows, "model")
    panels = canvas.grid(len(models), height)
    yield from ((axes, *group) for axes, group in zip(panels, models.items(), strict=True))
    canvas.name(panels, list(models))


def stated(row: EstimateRow) -> tuple[float, float | None, float, float]:
    """An estimate's confidence, value, lower and upper end."""
    return row.confidence, row.value, row.lower, row.upper
