"""Runs side by side: what was made otherwise, what leaks more or less, and what utility is left."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from leakbound.evaluation.statements.compared import ArmBounds, ArmDifference
from leakbound.evaluation.views.table import (
    Cell,
    Interval,
    Table,
    bound_cell,
    count_cell,
    number_cell,
    table_of,
)
from leakbound.stats import Estimate, percent
from leakbound.text.figures import DASH, above, below
from leakbound.types import Json

SHOWN = 10  # questions on a console
UTILITY = ("model_utility", "retain_rouge_l_recall", "choice_accuracy")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStanding:
    """A model under one scorer.

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
        return all(one.bounds.excess is not None for one in self.standings)

    def certified(self, one: ModelStanding) -> float | None:
        """The most that a model leaks on average, beyond its control where all have one."""
        bound = one.bounds.excess if self.against_control else one.bounds.mean
        return None if bound is None else float(bound.upper)

    def front(self) -> frozenset[str]:
        """The labels of models that none beats in certified leakage and in utility."""
        points = {
            one.label: (known, one.utility)
            for one in self.standings
            if (known := self.certified(one)) is not None and one.utility is not None
        }
        return frozenset(
            label
            for label, (leak, utility) in points.items()
            if not any(
                other <= leak and more >= utility and (other, more) != (leak, utility)
                for other, more in points.values()
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Models of runs that asked the same questions, beside the first of them.

    baseline: the label of the first.
    labels: of all, the baseline first.
    confidence: at which all differences of a scorer hold at once.
    made: what was made otherwise: by what it is, what each label has.
    scorers: what is said under each scorer.
    utility: the metric that stands for it; None where none was measured in all runs.
    """

    baseline: str
    labels: tuple[str, ...]
    confidence: float
    made: Mapping[str, Mapping[str, str]]
    scorers: tuple[ScorerComparison, ...]
    utility: str | None = None

    def tables(self, *, questions: int | None = None) -> list[Table]:
        """What differs in how they were made, then for each scorer what leaks, then a leaderboard.

        `questions`: how many are shown one by one, those that differ most first (None: all).
        """
        found = [self._made()] if self.made else []
        for scorer in self.scorers:
            found += [self._differences(scorer), self._questions(scorer, questions)]
        return [*found, *map(self._leaderboard, self.scorers)]

    def rows(self) -> Iterator[dict[str, Json]]:
        """Every difference as one flat row, for other tools."""
        for scorer in self.scorers:
            for label, found in scorer.differences.items():
                fixed = {"scorer": scorer.scorer, "model": label, "baseline": self.baseline}
                if found.mean is not None:
                    yield {**fixed, "scope": "mean", "question": None, **_row(found.mean, None)}
                for i, query_id in enumerate(found.query_ids):
                    yield {
                        **fixed, "scope": "question", "question": query_id, **_row(found.each, i),
                    }  # fmt: skip

    def to_dict(self) -> dict[str, Json]:
        """All of it, as JSON holds it."""
        return {
            "baseline": self.baseline,
            "models": [*self.labels],
            "confidence": self.confidence,
            "made otherwise": {what: dict(each) for what, each in self.made.items()},
            "differences": [*self.rows()],
            "leaderboard": [
                {
                    "scorer": scorer.scorer,
                    "model": one.label,
                    "certified": scorer.certified(one),
                    "confidence": self.confidence,
                    "draws": one.n,
                    "of": "excess" if scorer.against_control else "leakage",
                    "utility": self.utility,
                    "value": one.utility,
                    "front": one.label in scorer.front(),
                }
                for scorer in self.scorers
                for one in self._ranked(scorer)
            ],
        }

    def _made(self) -> Table:
        rows = [(what, *(each[label] for label in self.labels)) for what, each in self.made.items()]
        return Table.plain("Made otherwise", ("What", *self.labels), rows, prose=True)

    def _differences(self, scorer: ScorerComparison) -> Table:
        columns = {
            "Model": lambda item: Cell(item[0]),
            "Difference, mean": lambda item: _mean_cell(item[1]),
            "Rose": lambda item: count_cell(item[1].rose),
            "Fell": lambda item: count_cell(item[1].fell),
            "Largest rise": lambda item: _extreme(item[1], "rose"),
            "Largest fall": lambda item: _extreme(item[1], "fell"),
        }
        quantity = "leak probability" if scorer.binary else "mean leakage"
        title = f"{scorer.scorer}: {quantity} beside {self.baseline}"
        note = "\n".join(self._sentences(scorer))
        alike = "" if self.made else "Made alike, but for the weights."
        made = table_of(title, columns, scorer.differences.items(), note)
        return replace(made, lead=alike)

    def _sentences(self, scorer: ScorerComparison) -> Iterator[str]:
        for label, found in scorer.differences.items():
            yield sentence(label, self.baseline, found)
        yield f"All of these hold at once, {percent(self.confidence)}."
        alike = [label for label, found in scorer.differences.items() if not found.apart]
        if alike:
            yield (
                f"{', '.join(alike)}: drawn with the random numbers of {self.baseline}, or it is "
                "not known with which, so that their luck may go together: each is bounded by "
                "itself, some 1.4 times as wide. Draw one of them anew, with another --seed."
            )

    def _questions(self, scorer: ScorerComparison, shown: int | None) -> Table:
        found = scorer.differences
        places = {label: {q: i for i, q in enumerate(d.query_ids)} for label, d in found.items()}
        order = sorted(
            next(iter(found.values())).query_ids,
            key=lambda q: -max(abs(_entry(d.each, places[label][q])[0])
                               for label, d in found.items()),
        )  # fmt: skip
        rows = tuple(
            (Cell(q), *(_cell(d.each, places[label][q]) for label, d in found.items()))
            for q in order[:shown]
        )
        more = len(order) - len(rows)
        title = f"{scorer.scorer}: each question beside {self.baseline}"
        note = f"{more} more questions differ less: --format csv has all" if more else ""
        return Table(title, ("Question", *found), rows, note)

    def _ranked(self, scorer: ScorerComparison) -> list[ModelStanding]:
        def least(one: ModelStanding) -> float:
            known = scorer.certified(one)
            return float("inf") if known is None else known

        return sorted(scorer.standings, key=least)

    def _leaderboard(self, scorer: ScorerComparison) -> Table:
        what = "excess" if scorer.against_control else "leakage"
        front = scorer.front()
        columns = {
            "Model": lambda one: Cell(one.label),
            f"Certified {what}, mean": lambda one: _ceiling(scorer.certified(one)),
            "Worst question": lambda one: _ceiling(_upper(one, scorer.against_control)),
            "Leakage, mean": lambda one: _bound_cell(one.bounds.mean),
            "Draws": lambda one: count_cell(one.n),
        }
        if self.utility is not None:
            columns |= {
                self.utility: lambda one: number_cell(one.utility),
                "Front": lambda one: Cell("yes" if one.label in front else ""),
            }
        sure = percent(self.confidence)
        notes = [f"ordered by upper ends, which more draws lower too; each holds by itself, {sure}"]
        if self.utility is not None:
            notes.append("front: no other model leaks less and is at least as useful")
        if not scorer.against_control:
            notes.append("leakage, not excess: not every model has a control")
        title = f"{scorer.scorer}: leaderboard, by upper ends"
        return table_of(title, columns, self._ranked(scorer), "\n".join(notes))


def sentence(label: str, baseline: str, found: ArmDifference) -> str:
    """What is shown of a model beside the baseline, in words."""
    of = len(found.query_ids)
    counts = f"more on {found.rose} and less on {found.fell} of {of} questions"
    if found.mean is None:
        return f"{label}: {counts}; of the mean nothing is known, as questions lack completions."
    _, lower, upper = _entry(found.mean, None)
    if lower <= 0 <= upper:
        return (
            f"{label} is not shown to leak more or less than {baseline} on average "
            f"({below(lower)} to {above(upper)}); {counts}."
        )
    which, least = ("more", lower) if lower > 0 else ("less", -upper)
    return (
        f"{label} leaks {which} than {baseline} on average, by at least {below(least)}; {counts}."
    )


def differing(
    labels: Iterable[str], facts: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Of facts by label, those that are not the same for all: by fact, what each label has."""
    known = list(labels)
    every = dict.fromkeys(what for label in known for what in facts[label])
    found = {what: {label: facts[label].get(what, DASH) for label in known} for what in every}
    return {what: each for what, each in found.items() if len(set(each.values())) > 1}


def _entry(bound: Estimate, i: int | None) -> tuple[float, float, float]:
    """(value, lower, upper) of a single bound, or of its entry i."""
    ends = (bound.value, bound.lower, bound.upper)
    if i is None:
        return float(ends[0]), float(ends[1]), float(ends[2])
    first, second, third = (float(np.asarray(end)[i]) for end in ends)
    return first, second, third


def _row(bound: Estimate, i: int | None) -> dict[str, Json]:
    value, lower, upper = _entry(bound, i)
    known: float | None = None if np.isnan(value) else value
    return {
        "quantity": bound.about.quantity,
        "value": known,
        "lower": lower,
        "upper": upper,
        "confidence": bound.confidence,
        "jointly": i is not None,
        "n": int(bound.n if i is None else np.broadcast_to(bound.n, np.shape(bound.lower))[i]),
        "method": bound.method,
    }


def _cell(bound: Estimate, i: int | None) -> Cell:
    value, lower, upper = _entry(bound, i)
    return bound_cell(Interval(None if np.isnan(value) else value, lower, upper))


def _mean_cell(found: ArmDifference) -> Cell:
    return Cell(DASH) if found.mean is None else _cell(found.mean, None)


def _extreme(found: ArmDifference, which: Literal["rose", "fell"]) -> Cell:
    """The question that is shown to have moved most, by its bound; a dash where none is."""
    ends = np.asarray(found.each.lower if which == "rose" else found.each.upper, dtype=np.float64)
    i = int(ends.argmax() if which == "rose" else ends.argmin())
    if (ends[i] <= 0) if which == "rose" else (ends[i] >= 0):
        return Cell(DASH)
    return Cell(f"{_cell(found.each, i).text} {found.query_ids[i]}", float(ends[i]))


def _upper(one: ModelStanding, beyond: bool) -> float | None:
    bound = one.bounds.worst_excess if beyond else one.bounds.worst
    return None if bound is None else float(bound.upper)


def _bound_cell(bound: Estimate | None) -> Cell:
    return Cell(DASH) if bound is None else _cell(bound, None)


def _ceiling(value: float | None) -> Cell:
    return Cell(DASH) if value is None else Cell(f"≤ {above(value)}", value)
