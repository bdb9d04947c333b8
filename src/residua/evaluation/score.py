"""Scores: no model of the engine runs; only distinct completions are scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from residua.scorers import check_prompts, digest, make_scorer, score_ranges, score_texts
from residua.store import Arm, Run
from residua.types import Progress, Prompt, Scorer, silent


def scorers_for(specs: Sequence[str], prompts: Sequence[Prompt]) -> tuple[Scorer, ...]:
    """The scorers named, each checked against every prompt before anything is run."""
    scorers = tuple(make_scorer(spec) for spec in dict.fromkeys(specs))
    for scorer in scorers:
        check_prompts(scorer, prompts)
    return scorers


def scorers_of(run: Run) -> tuple[str, ...]:
    """The scorers of a run's last command, else its benchmark's."""
    named = run.record.get("settings", {}).get("scorers") or run.record.get("scorers") or ()
    return tuple(named)


def slug(scorer: Scorer) -> str:
    """The name of a scorer's files: readable, and different where its settings are."""
    readable = "".join(c if c.isalnum() or c in "-." else "_" for c in scorer.name)
    return f"{readable}-{digest(scorer)}"


def prompts_by_query(run: Run) -> dict[str, Prompt]:
    """The prompt of each query, by the query's id."""
    prompts = {prompt.id: prompt for prompt in run.prompts}
    return {query.id: prompts[query.prompt_id] for query in run.queries}


def score_part(arm: Arm, scorer: Scorer, table: Any) -> list[float | None]:
    """One score, or None, for each row of a table of the arm's completions."""
    prompt_of = prompts_by_query(arm.run)
    query_ids, texts = table["query_id"].to_pylist(), table["text"].to_pylist()
    rows: dict[str, list[int]] = {}
    for i, query_id in enumerate(query_ids):
        rows.setdefault(query_id, []).append(i)
    scores: list[float | None] = [None] * len(texts)
    for query_id, mine in rows.items():
        found = score_texts(scorer, [texts[i] for i in mine], prompt_of[query_id])
        for i, value in zip(mine, found, strict=True):
            scores[i] = value
    return scores


def range_part(arm: Arm, scorer: Scorer, table: Any) -> list[tuple[float, float]]:
    """The lowest and highest score for each row of a table of events, sorted by query."""
    prompt_of = prompts_by_query(arm.run)
    rows: dict[str, list[tuple[str, bool]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["query_id"], []).append((row["text"], row["ended"]))
    return [ends for q, texts in rows.items() for ends in score_ranges(scorer, texts, prompt_of[q])]


def score_arm(arm: Arm, scorer: Scorer) -> None:
    """Score all completions of an arm, and the events that were explored, unless that is done."""
    arm.score(scorer.name, slug(scorer), lambda table: score_part(arm, scorer, table))
    if arm.exploring is not None:
        arm.masses.score(
            scorer.name, slug(scorer), arm.parts, lambda table: range_part(arm, scorer, table)
        )


def score_run(run: Run, scorers: Sequence[Scorer], progress: Progress = silent) -> None:
    """Score every arm of a run with every scorer."""
    jobs = [(arm, scorer) for arm in run.arms.values() for scorer in scorers]
    for i, (arm, scorer) in enumerate(jobs):
        progress("scoring", i, len(jobs), "arms × scorers")
        score_arm(arm, scorer)
    progress("scoring", len(jobs), len(jobs), "arms × scorers")
