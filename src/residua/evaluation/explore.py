"""Explored arms: exact masses of a query's outputs, and draws from what they leave.

Which prefixes are settled depends on a scorer, so one is named when the arm is planned, and
recorded. Another scorer may look at the same masses and draws: where it cannot settle a prefix,
its statements are wider, never wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from residua.errors import InputError
from residua.evaluation.score import prompts_by_query
from residua.scorers import check_bounds, score_ranges, settings
from residua.store import Arm, Part
from residua.types import (
    Effort,
    Exploration,
    ExploreMode,
    Explores,
    Failure,
    Generate,
    Progress,
    Prompt,
    Query,
    Scorer,
    Usage,
    silent,
)

TRIED = 16  # completions of a question on which the scorer's bounds are tried


def plan_of(mode: ExploreMode, forwards: int, scorer: Scorer) -> dict[str, Any]:
    """What an arm's spec says of its exploration."""
    return {"mode": mode, "forwards": forwards, "scorer": settings(scorer)}


def require_explores(engine: Generate, arm: str) -> Explores:
    """The engine as one that knows masses, or InputError."""
    if not isinstance(engine, Explores):
        raise InputError(
            f"arm {arm!r} cannot be explored: the engine {type(engine).__name__} gives no "
            "probabilities. Use a transformers model, or leave --certify out."
        )
    return engine


def explore_arm(arm: Arm, engine: Generate, scorer: Scorer, progress: Progress = silent) -> Usage:
    """Explore and draw what is missing of an arm, part by part; each is stored as it is done."""
    explorer, prompts = require_explores(engine, arm.name), prompts_by_query(arm.run)
    queries = {query.id: query for query in arm.run.queries}
    plan = arm.spec["explore"]
    effort = Effort(
        mode=plan["mode"],
        forwards=plan["forwards"],
        seed=int(arm.spec["seed"]),
        purpose=f"score:{arm.name}",
    )

    def ranges(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        return score_ranges(scorer, texts, prompts[query.id])

    todo, spent = arm.missing_parts(), Usage()
    total = sum(len(part.query_ids) for part in arm.parts)
    done = total - sum(len(part.query_ids) for part in todo)
    for part in todo:
        before, started = replace(engine.usage, notes=[]), time.perf_counter()
        found: list[Exploration | Failure] = []
        mine = [queries[q] for q in part.query_ids]
        progress(f"exploring {arm.name}", done, total, "questions")
        for result in explorer.explore(mine, arm.decoding, effort, ranges):
            found.append(result)
            if isinstance(result, Exploration):
                _try_bounds(scorer, result, prompts[result.query.id])
            progress(f"exploring {arm.name}", done + len(found), total, "questions")
        usage = engine.usage.since(before, time.perf_counter() - started)
        arm.write_explored(part, found, usage, getattr(engine, "machine", {}))
        spent.add(usage)
        done += len(mine)
    progress(f"exploring {arm.name}", total, total, "questions")
    return spent


def _try_bounds(scorer: Scorer, found: Exploration, prompt: Prompt) -> None:
    """Refuse a scorer whose `bounds` some continuation was seen to violate."""
    texts = [e.text for e in found.events if e.ended] + [c.text for c in found.sample.completions]
    check_bounds(scorer, texts[:TRIED], prompt)


__all__ = ["Part", "explore_arm", "plan_of", "require_explores"]
