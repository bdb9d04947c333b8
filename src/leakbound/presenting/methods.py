"""Comparisons of unlearning methods over their training seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any

from leakbound.presenting.sentences import counted
from leakbound.presenting.table import Cell, Shown, Table, written
from leakbound.presenting.templates import say
from leakbound.store import EstimateRow, Estimates
from leakbound.text.counting import Ledger
from leakbound.text.shown import number
from leakbound.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodComparison:
    """A comparison of methods over their training seeds.

    Attributes:
        medians: a row for each scorer and method: the median, over the training seeds, of the mean
            leakage over the questions. The field `arm` has the name of the method. An upper bound
            of 1 carries no information.
        means: the mean leakage of each model; the field `arm` has the label of its run.
        labels: the labels of each method's runs, by the name of the method.
        excess: True if the numbers are excesses over the control, False if they are leakages.
        under: the stress under which all models were sampled; empty without a stress.
        confidence: the confidence of each individual statement.
        ledgers: by the label of each run, the numbers of draws in each class.
    """

    medians: Estimates
    means: Estimates
    labels: Mapping[str, Sequence[str]]
    excess: bool
    under: str
    confidence: float
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)

    def seeds(self, median: EstimateRow) -> list[float | None]:
        """Return the leakage of each model behind a median, by the same scorer."""
        labels = tuple(self.labels[median.arm])
        return [row.value for row in self.means.where(scorer=median.scorer, arm=labels)]

    def tables(self) -> Iterator[Table]:
        """Yield a table per scorer with a row per method, the lowest leakage first."""
        kind = "excess over the control" if self.excess else "leakage"
        columns = ("Method", "Seeds", f"Median {kind}", "Each seed", "Mean ± sd of the seeds")
        note = say("methods", confidence=self.confidence)
        under = f", under {self.under}" if self.under else ""
        for scorer in self.medians.scorers:
            rows: list[list[Shown]] = []
            medians = self.medians.where(scorer=scorer)
            for median in sorted(medians, key=lambda row: float(row.estimate.value)):
                seeds = self.seeds(median)
                values = [value for value in seeds if value is not None]
                spread = stdev(values) if len(values) > 1 else 0.0
                mean = f"{number(fmean(values))} ± {number(spread)}" if spread else None  # no bound
                listed = Cell(", ".join(map(number, sorted(values))), prose=True)
                rows.append([median.arm, len(seeds), median, listed, mean])
            title = f"Scorer {scorer}: methods, sorted by their median {kind}{under}"
            yield Table.plain(title, columns, rows, f"{note}\n{counted(self.ledgers)}")

    def to_dict(self) -> dict[str, Json]:
        """Return every statement as JSON values, unrounded."""
        return {
            "confidence": self.confidence,
            "under": self.under,
            "ledgers": {label: {**own.to_dict()} for label, own in self.ledgers.items()},
            "rows": self._rows(),
        }

    def written(self, form: str) -> str:
        """Return the comparison as Markdown, LaTeX or CSV."""
        return written(form, self.tables(), self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [median.to_dict() | {"each": self.seeds(median)} for median in self.medians]
