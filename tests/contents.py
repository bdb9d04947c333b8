"""What a run says, to compare it with another that should say the same."""

from __future__ import annotations

from typing import Any

from leakbound.store import Run
from leakbound.types import object_of


def contents(run: Run) -> dict[str, Any]:
    """All that a run says: completions and scores of every arm, and the estimates."""
    found: dict[str, Any] = {"estimates": run.estimates}
    for name, arm in run.arms.items():
        found[name, "completions"] = [arm.completions(part).to_pylist() for part in arm.parts]
        found[name, "failures"] = arm.failures
        found[name, "masses"] = [table.to_pylist() for table in arm.masses.tables()]
        found[name, "explored"] = object_of(arm.masses.found())
        for file in sorted((arm.folder / "scores").glob("*.parquet")):
            if file.suffixes[-2:] == [".ranges", ".parquet"]:
                found[name, file.name] = list(arm.masses.scored(file.name.split(".ranges")[0]))
                continue
            scores = arm.scores(file.stem)
            found[name, file.name] = (
                scores.query_ids,
                scores.scores.tolist(),
                scores.counts.tolist(),
                scores.missing.tolist(),
            )
    return found
