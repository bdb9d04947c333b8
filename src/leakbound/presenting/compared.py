"""The result of a comparison of runs: settings, differences in leakage, verdicts and utility."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Unpack

from leakbound.presenting.sentences import MOST_NAME, clipped, counted
from leakbound.presenting.table import Cell, Shown, Table, interval, written
from leakbound.presenting.templates import quantity, say
from leakbound.stats import percent
from leakbound.stats.about import Beyond, Scope
from leakbound.store import ALL, EstimateRow, Estimates
from leakbound.store.estimates import Fields
from leakbound.text.counting import Ledger
from leakbound.text.shown import DASH, Displayed, above
from leakbound.types import Json, Scorer, to_json

Change = Literal["less", "more", "mixed", "not shown"]
Moved = Literal["rose", "fell", "not shown"]
Form = Literal["markdown", "latex", "csv"]
SHOWN = 10  # number of questions that a console shows
_SHOWN = 8  # number of verdicts that a shell or a notebook shows
UTILITY = ("model_utility", "retain_rouge_l_recall", "choice_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceVerdict:
    """The verdict on a model compared with the baseline, under one scorer.

    Attributes:
        scorer: the name of the scorer.
        model, baseline: the labels of the two models.
        kind: "less" or "more" if all significant differences have this direction, "mixed" if some
            are positive and others negative, "not shown" if no difference is significant. A
            difference is significant if its bounds exclude 0.
        sentence: the verdict in words, with the mean difference, the number of questions that
            changed, and the confidence.
    """

    scorer: str
    model: str
    baseline: str
    kind: Change
    sentence: str


def moved(row: EstimateRow) -> Moved:
    """Return whether the bounds on a difference show more leakage than the baseline, or less."""
    return "rose" if row.lower > 0 else "fell" if row.upper < 0 else "not shown"


def change(rows: Sequence[EstimateRow]) -> Change:
    """Return whether a model leaks more or less than the baseline, see `DifferenceVerdict.kind`."""
    directions = set(map(moved, rows))
    if {"rose", "fell"} <= directions:
        return "mixed"
    return "more" if "rose" in directions else "less" if "fell" in directions else "not shown"


def difference_sentence(
    model: str, baseline: str, rows: Sequence[EstimateRow], binary: bool, confidence: float
) -> str:
    """Return the verdict in words, valid simultaneously with all statements by the same scorer.

    Args:
        model: the label of the model, with which the sentence begins.
        baseline: the label of the baseline.
        rows: the differences of the model from the baseline: the mean difference, if it is known,
            and one difference per question.
        binary: whether the scorer is binary.
        confidence: the confidence at which all statements are valid simultaneously.
    """
    kind = change(rows)
    verb, more, less = ("leaks", "more", "less") if binary else ("scores", "higher", "lower")
    word = {"more": more, "less": less}.get(kind, "").upper()
    text = say(f"difference {kind}", model=model, baseline=baseline, verb=verb, word=word)
    mean, others = mean_and_others(rows)
    if mean is None:
        extent = say("difference unknown")
    elif moved(mean) == "not shown":
        extent = say("difference between", mean=mean, none=kind != "not shown")
    else:
        which, least = (more, mean.lower) if mean.lower > 0 else (less, -mean.upper)
        extent = say("difference at least", which=kind == "mixed" and which, least=least)
    counts = _counts(list(map(moved, others)))
    return f"{text}: {extent}; {counts} (simultaneously valid, {percent(confidence)} confidence)."


def mean_and_others(
    rows: Iterable[EstimateRow],
) -> tuple[EstimateRow | None, list[EstimateRow]]:
    """Return the mean difference (None if it is unknown), and the list of all other differences."""
    split: tuple[list[EstimateRow], list[EstimateRow]] = ([], [])
    for row in rows:
        split[row.query_id is not ALL].append(row)
    return next(iter(split[0]), None), split[1]


def _counts(directions: Sequence[Moved]) -> str:
    """Return in words the numbers of questions that are shown to leak more or less."""
    total = len(directions)
    rose, fell = directions.count("rose"), directions.count("fell")
    which, other = ("rose", "fall") if rose else ("fell", "rise")
    if max(rose, fell) == total:
        every = {1: "the one question", 2: "both questions"}.get(total, f"all {total:,} questions")
        return say("counts every", questions=every, which=which)
    if not rose and not fell:
        none = "the one question" if total == 1 else f"any of {total:,} questions"
        return say("counts none", questions=none)
    name = "counts" if rose and fell else "counts one"
    counts = {"total": total, "rose": rose, "fell": fell, "count": rose or fell}
    return say(name, **counts, which=which, other=other)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Comparison(Displayed):
    """A comparison of models on the same questions; the first model is the baseline.

    Attributes:
        baseline: the label of the first model.
        labels: the labels of all models, the baseline first.
        confidence: the confidence at which all differences of a scorer are valid simultaneously.
        made: the settings in which the models differ, by name; each contains its value by label.
        scorers: the scorers for which all runs have bounds.
        statements: the differences of every model from the baseline, and the leakage of each model.
            The field `arm` of a row has the label of the model.
        dependent: the labels of models whose draws may share random numbers with the baseline.
        draws: the number of draws for all questions, by label.
        utility: the metric that represents utility; None if no metric was measured in all runs.
        useful: the metrics of each model, by label.
        questions: the text of each question, by id; empty if texts are withheld.
        ledgers: the numbers of draws in each class, by label.
    """

    baseline: str
    labels: tuple[str, ...]
    confidence: float
    made: Mapping[str, Mapping[str, str]]
    scorers: tuple[Scorer, ...]
    statements: Estimates
    dependent: tuple[str, ...] = ()
    draws: Mapping[str, int]
    utility: str | None = None
    useful: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)

    def _shown(self) -> Iterator[tuple[str]]:
        """Yield the lines of a short text: a heading and the first verdicts."""
        yield (f"{', '.join(self.labels[1:])} compared with {self.baseline}",)
        lines = self.opening.splitlines()
        yield from ((line,) for line in lines[:_SHOWN])
        if len(lines) > _SHOWN:
            yield (f"and {len(lines) - _SHOWN:,} more, see verdicts",)

    def differences(self, scorer: Scorer) -> dict[str, Estimates]:
        """Return the differences from the baseline by label: the mean, and each question."""
        return {
            label: self.statements.matching(arm=label, scorer=scorer.name, beyond="baseline")
            for label in self.labels[1:]
        }

    @property
    def verdicts(self) -> tuple[DifferenceVerdict, ...]:
        """The verdicts: one for each scorer and each model except the baseline."""
        return tuple(verdict for scorer in self.scorers for verdict in self.under(scorer))

    def under(self, scorer: Scorer) -> tuple[DifferenceVerdict, ...]:
        """Return the verdicts by one scorer: one for each model except the baseline."""
        subject = {label: f"{label}{self.ledgers[label].within}" for label in self.labels}
        return tuple(
            DifferenceVerdict(
                scorer=scorer.name,
                model=label,
                baseline=self.baseline,
                kind=change(rows),
                sentence=difference_sentence(
                    subject[label], subject[self.baseline], rows, scorer.binary, self.confidence
                ),
            )
            for label, rows in self.differences(scorer).items()
        )

    @property
    def opening(self) -> str:
        """The verdicts in words, one per line.

        If there are several scorers, each line begins with the name of a scorer.
        """
        several = len(self.scorers) > 1
        return "\n".join(
            f"{v.scorer}: {v.sentence}" if several else v.sentence for v in self.verdicts
        )

    def named(self, query_id: str) -> str:
        """Return the id of a question, followed by its text unless texts are withheld."""
        return clipped(f"{query_id} {self.questions.get(query_id, '')}".strip(), MOST_NAME)

    def tables(self, *, questions: int | None = None) -> list[Table]:
        """Return the tables: the settings, the differences by each scorer, and the leaderboards.

        `questions`: the number of questions to show, largest differences first (None: all).
        """
        made = [(key, *(facts[la] for la in self.labels)) for key, facts in self.made.items()]
        columns = ("Setting", *self.labels)
        tables = [Table.plain("Settings that differ", columns, made, prose=True)] if made else []
        for scorer in self.scorers:
            tables += [self._differences(scorer), self._questions(scorer, questions)]
        return [*tables, *map(self._leaderboard, self.scorers)]

    def rows(self) -> Iterator[dict[str, Json]]:
        """Yield every difference as one flat row, for other tools."""
        for row in self.statements.matching(beyond="baseline"):
            text = self.questions.get(row.query_id or "")
            more = {"baseline": self.baseline, "question": text, "moved": moved(row)}
            yield row.to_dict() | more

    def written(self, form: Form) -> str:
        """Return every difference as CSV, or the verdicts and the tables in another form."""
        return written(form, self.tables(), self.rows(), self.opening)

    def to_dict(self) -> dict[str, Json]:
        """Return the comparison as JSON values."""
        return {
            "baseline": self.baseline,
            "models": [*self.labels],
            "confidence": self.confidence,
            "verdicts": [to_json(verdict) for verdict in self.verdicts],
            "ledgers": {label: own.to_dict() for label, own in self.ledgers.items()},
            "settings": {key: dict(facts) for key, facts in self.made.items()},
            "differences": [*self.rows()],
            "leaderboard": [row for scorer in self.scorers for row in self.leaderboard(scorer)],
        }

    def leaderboard(self, scorer: Scorer) -> list[dict[str, Any]]:
        """Return a row per model, lowest upper bound first; `front` marks the Pareto front."""
        stated = {label: self.certified(label, scorer) for label in self.labels}
        upper = {label: row.upper for label, row in stated.items() if row}
        useful = {la: self.useful[la][self.utility] if self.utility else None for la in self.labels}
        best = front({label: (upper.get(label), useful[label]) for label in self.labels})
        rows = [
            {
                **(row.to_dict() if row else {"arm": label, "scorer": scorer.name}),
                "draws": self.draws[label],
                "utility": self.utility,
                "useful": useful[label],
                "front": label in best,
            }
            for label, row in stated.items()
        ]
        return sorted(rows, key=lambda row: upper.get(row["arm"], math.inf))

    def leakage(
        self, label: str, scorer: Scorer, /, **wanted: Unpack[Fields]
    ) -> EstimateRow | None:
        """Return the leakage of a model over all questions, or its excess over the control."""
        place: Fields = {"arm": label, "scorer": scorer.name, "query_id": ALL}
        return self.statements.first(**place | wanted)

    def against_control(self, scorer: Scorer) -> bool:
        """Return whether every model has a control, so that the leaderboard shows the excess."""
        excess: Fields = {"scope": "mean", "beyond": "control"}
        return all(self.leakage(label, scorer, **excess) for label in self.labels)

    def certified(self, label: str, scorer: Scorer, scope: Scope = "mean") -> EstimateRow | None:
        """Return the statement on the excess if all models have a control, else on the leakage."""
        beyond: Beyond | None = "control" if self.against_control(scorer) else None
        return self.leakage(label, scorer, scope=scope, beyond=beyond)

    def _differences(self, scorer: Scorer) -> Table:
        rows: list[list[Shown]] = []
        for label, differences in self.differences(scorer).items():
            mean, others = mean_and_others(differences)
            rose, fell = ([r for r in others if moved(r) == which] for which in ("rose", "fell"))
            cells: list[Shown] = [label, mean, len(rose), len(fell)]
            for side, shown in (("lower", rose), ("upper", fell)):
                far = max(shown, key=lambda row: abs(getattr(row, side)), default=None)
                text = far and f"{interval(far)} {self.named(str(far.query_id))}"
                cells.append(Cell(text, getattr(far, side), prose=True) if text else None)
            rows.append(cells)
        columns = ("Model", "Mean difference", "Rises", "Falls", "Largest rise", "Largest fall")
        title = f"Scorer {scorer.name}: difference in {quantity(scorer)} from {self.baseline}"
        labels = ", ".join(self.dependent)
        return Table.plain(title, columns, rows, labels and say("random numbers", labels=labels))

    def _questions(self, scorer: Scorer, shown: int | None) -> Table:
        """Return a table with a row per question, the largest difference first."""
        split = map(mean_and_others, self.differences(scorer).values())
        models = [{row.query_id: row for row in others} for _, others in split]
        order = sorted(models[0], key=lambda q: -max(abs(rows[q].value or 0.0) for rows in models))
        cells: list[list[Shown]] = [
            [self.named(str(q)), *(rows[q] for rows in models)] for q in order[:shown]
        ]
        more = len(order) - len(cells)
        title = f"Scorer {scorer.name}: differences from {self.baseline}, by question"
        note = f"not shown: {more:,} questions, see --format csv" if more else ""
        return Table.plain(title, ("Question", *self.labels[1:]), cells, note)

    def _leaderboard(self, scorer: Scorer) -> Table:
        kind = "excess" if self.against_control(scorer) else "leakage"
        columns = ["Model", f"Upper bound: mean {kind}", "Worst question", "Mean leakage", "Draws"]
        columns += [self.utility, "Front"] if self.utility else []
        rows: list[list[Shown]] = []
        for row in self.leaderboard(scorer):
            label = row["arm"]
            bounds = (self.certified(label, scorer, scope) for scope in ("mean", "worst question"))
            most = [b and Cell(f"≤ {above(b.upper)}", b.upper) for b in bounds]
            leakage = self.leakage(label, scorer, scope="mean")
            useful = [row["useful"], "yes" if row["front"] else ""] if self.utility else []
            rows.append([label, *most, leakage, row["draws"], *useful])
        note = say(
            "caveats",
            confidence=self.confidence,
            utility=self.utility,
            chance_counts=not self.against_control(scorer),
        )
        title = f"Scorer {scorer.name}: leaderboard, sorted by the upper bound on the mean {kind}"
        return Table.plain(title, columns, rows, f"{note}\n{counted(self.ledgers)}")


def front(points: Mapping[str, tuple[float | None, float | None]]) -> frozenset[str]:
    """Return the names of the points (leakage, utility) that no other point dominates."""
    whole = {
        name: (leak, use)
        for name, (leak, use) in points.items()
        if leak is not None and use is not None
    }
    return frozenset(
        name
        for name, (leak, use) in whole.items()
        if not any(a <= leak and u >= use and (a, u) != (leak, use) for a, u in whole.values())
    )


def differing(
    facts: Mapping[str, Mapping[str, str]], leave_out: Collection[str] = ()
) -> dict[str, dict[str, str]]:
    """Return the facts whose values differ between labels, each with its value by label."""
    every = dict.fromkeys(fact for own in facts.values() for fact in own if fact not in leave_out)
    table = {fact: {la: own.get(fact, DASH) for la, own in facts.items()} for fact in every}
    return {fact: values for fact, values in table.items() if len(set(values.values())) > 1}
