"""What an arm has scores of, and what each of its completions was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc

from leakbound.store import tables
from leakbound.store.arm import Arm


def row_scores(arm: Arm, slug: str) -> list[float | None]:
    """The stored scores, one for each completion in the order of the parts."""
    found: list[float | None] = tables.read_table(arm.scores_file(slug))["score"].to_pylist()
    return found


def score_files(arm: Arm) -> Iterator[tuple[str, Path]]:
    """(scorer, file) of every scorer whose scores are stored of just the completions there are.

    DamagedError where a file of scores is not as it was written: whose they are is unknown.
    """
    for file in sorted((arm.folder / "scores").glob("*.parquet")):
        tables.read_table(file, tables.SCORED_AGAIN)
        name = tables.read_meta(file).get("scorer")
        if isinstance(name, str) and arm.has_scores(name, file.stem):
            yield name, file


def scorers_of_arm(arm: Arm) -> list[str]:
    """The scorers of `score_files`."""
    return [name for name, _ in score_files(arm)]


def leaking(arm: Arm, slug: str) -> Iterator[tuple[str, tuple[int, ...], float, float]]:
    """(query id, token ids, log-probability at least, score) of completions above 0.

    Those of which the engine gave neither ids nor probabilities are left out.
    """
    scores, start = tables.read_table(arm.scores_file(slug))["score"], 0
    for part in arm.parts:
        table = arm.completions(part)
        table = table.append_column("score", scores.slice(start, table.num_rows))
        start += table.num_rows
        above = pc.greater(table["score"], 0)
        known = pc.and_(table["token_ids"].is_valid(), table["logprob_floor"].is_valid())
        names = ("query_id", "token_ids", "logprob_floor", "score")
        table = table.filter(pc.and_(above, known))
        columns = (table[name].to_pylist() for name in names)
        for query_id, ids, floor, score in zip(*columns, strict=True):
            yield query_id, tuple(ids), floor, score
