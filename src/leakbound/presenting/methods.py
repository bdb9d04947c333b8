"""Comparisons of unlearning methods over their training seeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev

from leakbound.presenting.sentences import counted
from leakbound.presenting.table import Cell, Shown, Table, written
from leakbound.presenting.templates import say
from leakbound.stats import Estimate
from leakbound.text.counting import Ledger
from leakbound.text.shown import number
from leakbound.types import Json, to_json


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodStanding:
    """The leakage of one method under one scorer.

    Attributes:
        method: the name of the method.
        median: the median, over its training seeds, of the mean leakage over the questions. An
            upper bound of 1 carries no information.
        seeds: the leakage of each of its models, by the label of its run.
    """

    method: str
    median: Estimate
    seeds: Mapping[str, float | None]

    @property
    def values(self) -> list[float]:
        """The values of the seeds."""
        return [value for value in self.seeds.values() if value is not None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodComparison:
    """A comparison of methods over their training seeds.

    Attributes:
        standings: the leakage of every method, by the name of the scorer.
        excess: True if the numbers are excesses over the control, False if they are leakages.
        under: the stress of all models; empty without stress.
        confidence: the confidence of each individual statement.
        ledgers: by the label of each run, how the draws are counted.
    """

    standings: Mapping[str, tuple[MethodStanding, ...]]
    excess: bool
    under: str
    confidence: float
    ledgers: Mapping[str, Ledger] = field(default_factory=dict)

    def tables(self) -> Iterator[Table]:
        """Yield a table per scorer with a row per method, the least leakage first."""
        kind = "excess over the control" if self.excess else "leakage"
        columns = ("Method", "Seeds", f"Median {kind}", "Each seed", "Mean ± sd of the seeds")
        note = say("methods", confidence=self.confidence)
        under = f", under {self.under}" if self.under else ""
        for scorer, standings in self.standings.items():
            rows: list[list[Shown]] = []
            for standing in sorted(standings, key=lambda row: float(row.median.value)):
                values, median = standing.values, standing.median
                spread = stdev(values) if len(values) > 1 else 0.0
                mean = f"{number(fmean(values))} ± {number(spread)}" if spread else None  # no bound
                listed = Cell(", ".join(map(number, sorted(values))), prose=True)
                seeds = len(standing.seeds)
                rows.append([standing.method, seeds, median, listed, mean])
            title = f"{scorer}: methods by their median {kind}{under}"
            yield Table.plain(title, columns, rows, f"{note}\n{counted(self.ledgers)}")

    def to_dict(self) -> dict[str, Json]:
        """Return every statement, unrounded."""
        return {
            "confidence": self.confidence,
            "under": self.under,
            "ledgers": {label: {**own.to_dict()} for label, own in self.ledgers.items()},
            "rows": [*self._rows()],
        }

    def written(self, form: str) -> str:
        """Return the comparison as Markdown, LaTeX or CSV."""
        return written(form, self.tables(), self._rows())

    def _rows(self) -> Iterator[dict[str, Json]]:
        for scorer, standings in self.standings.items():
            for standing in standings:
                median = standing.median
                yield {
                    "scorer": scorer,
                    "method": standing.method,
                    "seeds": len(standing.seeds),
                    "of": "excess" if self.excess else "leakage",
                    **{end: float(getattr(median, end)) for end in ("value", "lower", "upper")},
                    "side": median.side,
                    "each": to_json(list(standing.seeds.values())),
                }
