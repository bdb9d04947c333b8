"""The contents of a run, to compare it with another run."""

from __future__ import annotations

from collections import Counter
from typing import Any

from leakbound.formats.grouping import Draw, Scores
from leakbound.store import Arm, EstimateRow, Run
from leakbound.store.estimates import DECIDING
from leakbound.types import Output, object_of

PROBABILITY: Any = {
    "quantity": "leak probability",
    "scope": ("query", "question", "mean"),
    "beyond": None,
    "proved": False,
}
"""Fields of leak probabilities that were drawn: per query or question, and their mean."""
LEAKAGE: Any = PROBABILITY | {"quantity": "mean leakage"}
EXCESS: Any = PROBABILITY | {"beyond": "control"}


def drawn(answer: str, scores: Scores = (), **output: Any) -> Draw:
    """Return a draw in the form of another tool's file."""
    return Draw(Output(answer=answer, **output), scores)


def completions(arm: Arm) -> list[dict[str, Any]]:
    """Return the completions of an arm as rows."""
    return [row for part in arm.parts for row in arm.completions(part).to_pylist()]


def counts(arm: Arm, *by: str) -> Counter[Any]:
    """Return the draws of an arm by the values of these columns, as tuples if there are several."""
    tally: Counter[Any] = Counter()
    for row in completions(arm):
        tally[row[by[0]] if len(by) == 1 else tuple(row[name] for name in by)] += row["count"]
    return tally


def contents(run: Run) -> dict[str, Any]:
    """Return completions and scores of every arm, and the estimates."""
    got: dict[str, Any] = {"estimates": run.estimates}
    for name, arm in run.arms.items():
        got[name, "completions"] = [arm.completions(part).to_pylist() for part in arm.parts]
        got[name, "failures"] = arm.failures
        got[name, "masses"] = [table.to_pylist() for table in arm.masses.tables()]
        got[name, "explored"] = object_of(arm.masses.explored())
        for file in sorted((arm.folder / "scores").glob("*.parquet")):
            if file.suffixes[-2:] == [".ranges", ".parquet"]:
                got[name, file.name] = list(arm.masses.scored(file.name.split(".ranges")[0]))
                continue
            scores = arm.scores(file.stem, binary=False)
            got[name, file.name] = (
                scores.ids,
                scores.values.tolist(),
                scores.counts.tolist(),
                scores.missing.tolist(),
            )
    return got


def rows(run: Run, **wanted: Any) -> list[EstimateRow]:
    """Return the estimates with these fields; those of claims only if the family is given."""
    every = run.estimates.where(**wanted)
    return [row for row in every if "family" in wanted or row.family not in DECIDING]
