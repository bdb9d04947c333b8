"""What an arm has scores of, and what each of its completions was given."""

from __future__ import annotations

from residua.store import tables
from residua.store.arm import Arm


def row_scores(arm: Arm, slug: str) -> list[float | None]:
    """The stored scores, one for each completion in the order of the parts."""
    found: list[float | None] = tables.read_table(arm.scores_file(slug))["score"].to_pylist()
    return found


def scorers_of_arm(arm: Arm) -> list[str]:
    """The scorers whose scores are stored, whole, of just the completions that are there."""
    found = []
    for file in sorted((arm.folder / "scores").glob("*.parquet")):
        try:
            name = str(tables.read_meta(file)["scorer"])
        except (tables.DamagedError, KeyError):
            continue
        if arm.has_scores(name, file.stem):
            found.append(name)
    return found
