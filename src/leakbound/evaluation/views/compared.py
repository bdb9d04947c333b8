"""Runs side by side: what was made otherwise, what leaks more or less, and what utility is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from leakbound.evaluation.statements.comparisons import ArmBounds, ArmDifference
from leakbound.evaluation.views.table import (
    Cell,
    Interval,
    Table,
    bound_cell,
    count_cell,
    interval,
    number_cell,
    table_of,
    written,
)
from leakbound.evaluation.views.words import MOST_NAME, clipped, counted, quantity
from leakbound.stats import Estimate, percent
from leakbound.text.counting import Ledger
from leakbound.text.shown import DASH, above, as_html, as_lines, below
from leakbound.types import Json, to_json

Change = Literal["less", "more", "mixed", "not shown"]
Moved = Literal["rose", "fell", "not shown"]
Form = Literal["markdown", "latex", "csv"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceVerdict:
    """The verdict on a model beside the baseline, under one scorer.

    Attributes:
        scorer: by its name.
        model, baseline: their labels.
        kind: less or more, where nothing that is shown speaks against it; mixed, where something
            does; not shown, where nothing is.
        sentence: that in words, with the mean, the questions that moved, and how sure all of it is.
    """

    scorer: str
    model: str
    baseline: str
    kind: Change
    sentence: str


@dataclass(frozen=True, slots=True)
class Move:
    """A question, how much more it leaks than under the baseline, and what is shown of that.

    Attributes:
        question: as a page names it.
        bound: on the difference.
        moved: rose or fell, where that is shown.
    """

    question: str
    bound: Interval
    moved: Moved

    @property
    def shown(self) -> float:
        """The end that is nearer to no difference: how far it moved at least, with its sign."""
        return self.bound.upper if self.moved == "fell" else self.bound.lower


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMoves:
    """How far the questions of a model moved.

    Attributes:
        label: the model's.
        mean: how far they moved on average; None where it is not known.
        each: how far each of them moved.
    """

    label: str
    mean: Interval | None
    each: tuple[Move, ...]

    def furthest(self, which: Moved) -> Cell:
        """The question that is shown to have moved most, by its bound; a dash where none is."""
        shown = [move for move in self.each if move.moved == which]
        if not shown:
            return Cell(DASH)
        most = max(shown, key=lambda move: abs(move.shown))
        return Cell(f"{interval(most.bound)} {most.question}", most.shown, prose=True)


def difference_verdict(
    model: str, difference: ArmDifference, scorer: str, binary: bool, baseline: str, sure: float
) -> DifferenceVerdict:
    """The verdict on `model`; `binary`: whether the scores are leaks or none.

    It holds together with all that is said of this scorer, at the confidence `sure`.
    """
    kind = _kind(difference)
    more, less = ("more", "less") if binary else ("higher", "lower")
    verb = "leaks" if binary else "scores"
    says = {
        "more": f"{model} {verb} {more.upper()} than {baseline}",
        "less": f"{model} {verb} {less.upper()} than {baseline}",
        "mixed": f"{model} beside {baseline} is MIXED",
        "not shown": f"NO DIFFERENCE is shown between {model} and {baseline}",
    }
    mean, counts = _mean(difference, kind, more, less), _counts(difference)
    return DifferenceVerdict(
        scorer=scorer,
        model=model,
        baseline=baseline,
        kind=kind,
        sentence=f"{says[kind]}: {mean}; {counts} ({percent(sure)}, all at once).",
    )


def moved(bounds: Estimate) -> tuple[Moved, ...]:
    """Whether each question is shown to leak more, or less, than under the baseline."""
    ends = zip(np.asarray(bounds.lower), np.asarray(bounds.upper), strict=True)
    return tuple("rose" if low > 0 else "fell" if high < 0 else "not shown" for low, high in ends)


def _kind(difference: ArmDifference) -> Change:
    mean = difference.mean
    more = difference.rose > 0 or (mean is not None and mean.lower > 0)
    less = difference.fell > 0 or (mean is not None and mean.upper < 0)
    if more and less:
        return "mixed"
    return "more" if more else "less" if less else "not shown"


def _mean(difference: ArmDifference, kind: Change, more: str, less: str) -> str:
    """The mean as far as it is known; its direction where the verdict has not said it."""
    if difference.mean is None:
        return "on average not known, as questions lack completions"
    lower, upper = float(difference.mean.lower), float(difference.mean.upper)
    if lower <= 0 <= upper:
        shown = "" if kind == "not shown" else "no difference is shown, "
        return f"on average {shown}{below(lower)} to {above(upper)}"
    which, least = (more, lower) if lower > 0 else (less, -upper)
    extent = f"by at least {below(least)} on average"
    return f"{which} {extent}" if kind == "mixed" else extent


def _counts(difference: ArmDifference) -> str:
    """How many questions are shown to have moved; the rest may have, unseen."""
    rose, fell, total = difference.rose, difference.fell, len(difference.query_ids)
    both = {"rose": rose, "fell": fell}
    if total in (rose, fell):
        every = {1: "the one question", 2: "both questions"}.get(total, f"all {total:,} questions")
        return f"{every} {'rose' if rose else 'fell'}"
    if not rose and not fell:
        none = "the one question is not" if total == 1 else f"none of {total:,} questions is"
        return f"{none} shown to rise or fall"
    first, *other = (f"{count:,} {which}" for which, count in both.items() if count)
    still = "rise" if not rose else "fall"
    second = other[0] if other else f"none is shown to {still}"
    return f"of {total:,} questions {first}, {second}"


SHOWN = 10  # questions on a console
_SHOWN = 8  # verdicts in a shell or a notebook
_FIGURES = ("quantity", "value", "lower", "upper", "confidence", "jointly", "n", "method")
UTILITY = ("model_utility", "retain_rouge_l_recall", "choice_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStanding:
    """A model under one scorer.

    Attributes:
        label: the model's.
        n: the draws that its bounds rest on, of all questions.
        bounds: what it leaks, at the comparison's confidence.
        utility: what it is still good for; None where it was not measured.
    """

    label: str
    n: int
    bounds: ArmBounds
    utility: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerComparison:
    """Models under one scorer: each beside the baseline, and each by itself.

    Attributes:
        scorer: by its name.
        binary: whether it declares the range {0, 1}.
        differences: by label, of every model but the baseline; all hold at once.
        standings: of every model.
    """

    scorer: str
    binary: bool
    differences: Mapping[str, ArmDifference]
    standings: tuple[ModelStanding, ...]

    @property
    def against_control(self) -> bool:
        """Whether every model stands beside a control, so that what is certified is the excess."""
        return all(standing.bounds.excess is not None for standing in self.standings)

    def certified(self, standing: ModelStanding, *, worst: bool = False) -> float | None:
        """The most that a model leaks, beyond its control where all have one.

        On average, or at its `worst` question.
        """
        bounds = standing.bounds
        if self.against_control:
            bound = bounds.worst_excess if worst else bounds.excess
        else:
            bound = bounds.worst if worst else bounds.mean
        return None if bound is None else float(bound.upper)

    def front(self) -> frozenset[str]:
        """The labels of models that none beats in certified leakage and in utility."""
        points = {
            standing.label: (upper, standing.utility)
            for standing in self.standings
            if (upper := self.certified(standing)) is not None and standing.utility is not None
        }
        return frozenset(
            label
            for label, (leak, utility) in points.items()
            if not any(
                other <= leak and more >= utility and (other, more) != (leak, utility)
                for other, more in points.values()
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison:
    """Models of runs that asked the same questions, beside the first of them.

    Attributes:
        baseline: the label of the first.
        labels: of all, the baseline first.
        confidence: at which all differences of a scorer hold at once.
        questions: their words, by id; empty where they are withheld.
        made: what was made otherwise: by what it is, what each label has.
        scorers: what is said under each scorer.
        utility: the metric that stands for it; None where none was measured in all runs.
        ledgers: by label, how the draws are counted.
    """

    baseline: str
    labels: tuple[str, ...]
    confidence: float
    made: Mapping[str, Mapping[str, str]]
    scorers: tuple[ScorerComparison, ...]
    utility: str | None = None
    questions: Mapping[str, str] = field(default_factory=dict)
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)

    def __repr__(self) -> str:
        return as_lines(f"{', '.join(self.labels[1:])} beside {self.baseline}", self._shown())

    def _repr_html_(self) -> str:
        return as_html(f"{', '.join(self.labels[1:])} beside {self.baseline}", self._shown())

    def _shown(self) -> Iterator[tuple[str]]:
        """The first verdicts."""
        lines = self.opening.splitlines()
        yield from ((line,) for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield (f"and {len(lines) - _SHOWN:,} more, see verdicts",)

    @property
    def verdicts(self) -> tuple[DifferenceVerdict, ...]:
        """One of every model beside the baseline, under each scorer."""
        return tuple(verdict for scorer in self.scorers for verdict in self.under(scorer))

    def under(self, scorer: ScorerComparison) -> tuple[DifferenceVerdict, ...]:
        """The verdicts under one scorer."""
        subject = {label: f"{label}{self.ledgers[label].within}" for label in self.labels}
        shared = scorer.scorer, scorer.binary, subject[self.baseline], self.confidence
        made = {
            label: difference_verdict(subject[label], diff, *shared)
            for label, diff in scorer.differences.items()
        }
        return tuple(
            replace(verdict, model=label, baseline=self.baseline) for label, verdict in made.items()
        )

    @property
    def opening(self) -> str:
        """The lines that come first: one a verdict, of several scorers under the name of each."""
        several = len(self.scorers) > 1
        return "\n".join(
            f"{v.scorer}: {v.sentence}" if several else v.sentence for v in self.verdicts
        )

    def moves(self, scorer: ScorerComparison) -> tuple[ModelMoves, ...]:
        """How far the questions of every model but the baseline moved."""
        return tuple(
            ModelMoves(
                label=label,
                mean=None if diff.mean is None else Interval.of(diff.mean),
                each=tuple(
                    Move(self.asked(query_id), Interval.of(diff.each, i), direction)
                    for i, (query_id, direction) in enumerate(
                        zip(diff.query_ids, moved(diff.each), strict=True)
                    )
                ),
            )
            for label, diff in scorer.differences.items()
        )

    def asked(self, query_id: str) -> str:
        """A question by its id and, where they may be shown, its words."""
        return clipped(f"{query_id} {self.questions.get(query_id, '')}".strip(), MOST_NAME)

    def tables(self, *, questions: int | None = None) -> list[Table]:
        """Tables of what was made otherwise, then for each scorer what leaks, then a leaderboard.

        `questions`: how many are shown one by one, those that differ most first (None: all).
        """
        tables = [self._made()] if self.made else []
        for scorer in self.scorers:
            tables += [self._differences(scorer), self._questions(scorer, questions)]
        return [*tables, *map(self._leaderboard, self.scorers)]

    def rows(self) -> Iterator[dict[str, Json]]:
        """Every difference as one flat row, for other tools."""
        for scorer in self.scorers:
            verdicts = {verdict.model: verdict.sentence for verdict in self.under(scorer)}
            for label, diff in scorer.differences.items():
                fixed = {"scorer": scorer.scorer, "model": label, "baseline": self.baseline}
                whole = {**fixed, "scope": "mean", "question": None, "asked": None}
                yield {**whole, "verdict": verdicts[label], **_row(diff.mean, None)}
                moves = zip(diff.query_ids, moved(diff.each), strict=True)
                for i, (query_id, direction) in enumerate(moves):
                    text = self.questions.get(query_id)
                    row = {**fixed, "scope": "question", "question": query_id, "asked": text}
                    yield {**row, "verdict": direction, **_row(diff.each, i)}

    def written(self, form: Form) -> str:
        """Every difference as CSV; or the tables in another form, under what is said first."""
        return written(form, self.tables(), self.rows(), self.opening)

    def to_dict(self) -> dict[str, Json]:
        """All of it, as JSON holds it."""
        return {
            "baseline": self.baseline,
            "models": [*self.labels],
            "confidence": self.confidence,
            "verdicts": [to_json(verdict) for verdict in self.verdicts],
            "ledgers": {label: own.to_dict() for label, own in self.ledgers.items()},
            "made otherwise": {key: dict(facts) for key, facts in self.made.items()},
            "differences": [*self.rows()],
            "leaderboard": [
                {
                    "scorer": scorer.scorer,
                    "model": standing.label,
                    "certified": scorer.certified(standing),
                    "confidence": self.confidence,
                    "draws": standing.n,
                    "of": "excess" if scorer.against_control else "leakage",
                    "utility": self.utility,
                    "value": standing.utility,
                    "front": standing.label in scorer.front(),
                }
                for scorer in self.scorers
                for standing in self._ranked(scorer)
            ],
        }

    def _made(self) -> Table:
        rows = [(key, *(facts[label] for label in self.labels)) for key, facts in self.made.items()]
        return Table.plain("Made otherwise", ("What", *self.labels), rows, prose=True)

    def _differences(self, scorer: ScorerComparison) -> Table:
        columns = {
            "Model": lambda model: Cell(model.label),
            "Difference, mean": lambda model: bound_cell(model.mean),
            "Rose": lambda model: count_cell(scorer.differences[model.label].rose),
            "Fell": lambda model: count_cell(scorer.differences[model.label].fell),
            "Largest rise": lambda model: model.furthest("rose"),
            "Largest fall": lambda model: model.furthest("fell"),
        }
        title = f"{scorer.scorer}: {quantity(scorer)} beside {self.baseline}"
        return table_of(title, columns, self.moves(scorer), self._caveat(scorer))

    def _caveat(self, scorer: ScorerComparison) -> str:
        """Whose bounds are wider than they need be; empty where none is."""
        alike = [label for label, diff in scorer.differences.items() if not diff.apart]
        if not alike:
            return ""
        return (
            f"{', '.join(alike)}: not known to have random numbers of their own, so bounded each "
            "by itself, some 1.4 times as wide; another --seed helps."
        )

    def _questions(self, scorer: ScorerComparison, shown: int | None) -> Table:
        """A row a question, whatever differs most between any two first."""
        arms = [
            {query_id: Interval.of(diff.each, i) for i, query_id in enumerate(diff.query_ids)}
            for diff in scorer.differences.values()
        ]
        order = sorted(arms[0], key=lambda q: -max(abs(bounds[q].value or 0.0) for bounds in arms))
        rows = tuple(
            (Cell(self.asked(q)), *(bound_cell(bounds[q]) for bounds in arms))
            for q in order[:shown]
        )
        more = len(order) - len(rows)
        title = f"{scorer.scorer}: each question beside {self.baseline}"
        note = f"{more:,} more differ less: --format csv has all" if more else ""
        return Table(title, ("Question", *scorer.differences), rows, note)

    def _ranked(self, scorer: ScorerComparison) -> list[ModelStanding]:
        def least(standing: ModelStanding) -> float:
            upper = scorer.certified(standing)
            return float("inf") if upper is None else upper

        return sorted(scorer.standings, key=least)

    def _leaderboard(self, scorer: ScorerComparison) -> Table:
        kind = "excess" if scorer.against_control else "leakage"
        front = scorer.front()
        columns = {
            "Model": lambda standing: Cell(standing.label),
            f"Certified {kind}, mean": lambda standing: _ceiling(scorer.certified(standing)),
            "Worst question": lambda standing: _ceiling(scorer.certified(standing, worst=True)),
            "Leakage, mean": lambda standing: bound_cell(
                standing.bounds.mean and Interval.of(standing.bounds.mean)
            ),
            "Draws": lambda standing: count_cell(standing.n),
        }
        if self.utility is not None:
            columns |= {
                self.utility: lambda standing: number_cell(standing.utility),
                "Front": lambda standing: Cell("yes" if standing.label in front else ""),
            }
        notes = [f"Each by itself, {percent(self.confidence)}; more draws lower an upper end too."]
        if self.utility is not None:
            notes.append("Front: no other model leaks less and is at least as useful.")
        if not scorer.against_control:
            notes.append("Chance is not subtracted: not every model has a control.")
        title = f"{scorer.scorer}: leaderboard, by upper ends"
        notes = [" ".join(notes), counted(self.ledgers)]
        return table_of(title, columns, self._ranked(scorer), "\n".join(notes))


def differing(
    labels: Iterable[str], facts: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """The facts that are not the same for all labels: by fact, what each label has."""
    names = list(labels)
    every = dict.fromkeys(fact for label in names for fact in facts[label])
    table = {fact: {label: facts[label].get(fact, DASH) for label in names} for fact in every}
    return {fact: values for fact, values in table.items() if len(set(values.values())) > 1}


def _row(bound: Estimate | None, i: int | None) -> dict[str, Json]:
    if bound is None:  # of a mean of which nothing is known
        return dict.fromkeys(_FIGURES)
    ends = Interval.of(bound, i)
    n = int(bound.n if i is None else np.broadcast_to(bound.n, np.shape(bound.lower))[i])
    jointly = i is not None
    figures = (ends.value, ends.lower, ends.upper, bound.confidence, jointly, n, bound.method)
    return dict(zip(_FIGURES, (bound.about.quantity, *figures), strict=True))


def _ceiling(value: float | None) -> Cell:
    return Cell(DASH) if value is None else Cell(f"≤ {above(value)}", value)
