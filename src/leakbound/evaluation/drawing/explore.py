"""Explored arms: exact masses of a query's outputs, and draws from what they leave.

Which prefixes are settled depends on a scorer, so one is named when the arm is planned, and
recorded. Another scorer may look at the same masses and draws: where it cannot settle a prefix,
its statements are wider, never wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from leakbound.engines.addresses import server_of
from leakbound.errors import InputError
from leakbound.evaluation.drawing.parts import Meter, Reach, costing, draw_parts, machine
from leakbound.evaluation.planning.plan import HeldScorer, SteeredPlan
from leakbound.evaluation.scoring.score import prompts_by_query
from leakbound.scorers import check_bounds, score_ranges
from leakbound.store import Arm, DrawnPart, ExploredDraws, Part
from leakbound.types import (
    Decoding,
    Effort,
    Exploration,
    Explores,
    Failure,
    Generate,
    Opener,
    Progress,
    Prompt,
    Query,
    Ranges,
    Sample,
    Scorer,
    Usage,
    silent,
)

TRIED = 16  # completions of a question on which the scorer's bounds are tried


@dataclass(frozen=True, slots=True)
class Purpose:
    """What masses are for, in words: what an arm cannot be without them, and how to do without."""

    verb: str
    without: str


EXPLORING = Purpose("explored", "leave --explore out")
PROVING = Purpose("searched for rare leaks", "leave `prove` out")
SEARCHING = Purpose("searched by proofs", "do with a search by draws")


def require_explorable(model: object, purpose: Purpose = EXPLORING) -> None:
    """Refuse, before it is opened, a model whose outputs can have no known masses: a served one."""
    if isinstance(model, str) and server_of(model) is not None:
        raise InputError(
            f"`{model}` cannot be {purpose.verb}: a server gives no probabilities. Use a "
            f"transformers model, or {purpose.without}."
        )


def require_explores(
    engine: Generate, arm: str, decoding: Decoding, purpose: Purpose = EXPLORING
) -> Explores:
    """The engine as one that knows the masses of this decoding's outputs, or InputError."""
    if why := why_unknown(engine, decoding, purpose):
        raise InputError(f"arm {arm!r} cannot be {purpose.verb}: {why}")
    return cast(Explores, engine)


def why_unknown(engine: Generate, decoding: Decoding, purpose: Purpose = EXPLORING) -> str | None:
    """Why the masses of this decoding's outputs are not known; None where they are."""
    if not isinstance(engine, Explores):
        return (
            f"the engine {type(engine).__name__} gives no probabilities. Use a transformers model, "
            f"or {purpose.without}."
        )
    if decoding.adaptive_temperature is not None and decoding.adaptive_mode == "two_pass":
        return (
            "adaptive temperature in two passes has no exact mode. Use adaptive_mode 'running', or "
            f"{purpose.without}."
        )
    if decoding.max_tokens is not None:
        return (
            f"max_tokens {decoding.max_tokens} bounds prompt and completion together, which has no "
            "exact mode. Use --max-new-tokens."
        )
    if not math.isfinite(engine.margin):
        return (
            "in half precision probabilities move too much with the batch to be exact. Load the "
            "model with --dtype float32."
        )
    return None


def ranges(scorer: Scorer, prompts: Mapping[str, Prompt]) -> Ranges:
    """How far the scorer settles prefixes; `prompts` by query id."""

    def settle(query: Query, texts: Sequence[tuple[str, bool]]) -> list[tuple[float, float]]:
        return score_ranges(scorer, texts, prompts[query.id])

    return settle


def with_answers(
    samples: Sequence[Sample], engine: Generate, decoding: Decoding, prompts: Mapping[str, Prompt]
) -> dict[str, Sample]:
    """The samples by query id, the true answer's probability beside the draws where it is known.

    It is a completion of count 0, teacher-forced. Where the decoding cannot produce it, or it was
    drawn, there is none.
    """
    found = {sample.query.id: sample for sample in samples}
    answers = ((sample.query, prompts[sample.query.id].answer) for sample in samples)
    asked = [(query, answer) for query, answer in answers if answer and answer.strip()]
    if decoding.greedy or not asked or why_unknown(engine, decoding):
        return found
    forced = require_explores(engine, "", decoding).force(asked, decoding)
    for (query, _), answer in zip(asked, forced, strict=True):
        drawn = found[query.id].completions
        if answer is not None and answer.token_ids not in [one.token_ids for one in drawn]:
            found[query.id] = replace(found[query.id], completions=(*drawn, answer))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploreJob:
    """A part to be explored: its queries with this effort, the scorer settling prefixes.

    prompts: by query id.
    """

    part: Part
    queries: tuple[Query, ...]
    decoding: Decoding
    effort: Effort
    scorer: Opener[Scorer]
    prompts: Mapping[str, Prompt]


def explore_arm(
    arm: Arm,
    planned: ExploredDraws,
    engine: Generate,
    drawing: SteeredPlan,
    progress: Progress = silent,
) -> Usage:
    """Explore and draw what is missing of an arm, part by part; each is stored as it is done."""
    require_explores(engine, arm.name, arm.decoding)
    purpose, seed = arm.purpose, arm.spec.seed or 0
    effort = Effort(mode=planned.mode, forwards=planned.forwards, seed=seed, purpose=purpose)
    total = sum(len(part.query_ids) for part in arm.parts)
    done = total - sum(len(part.query_ids) for part in arm.missing_parts())
    phase, worth = f"exploring {arm.name}", 1 / effort.forwards
    meter = Meter(progress, phase, "questions", done, total, worth)
    steering, at = drawing.steering, drawing.at
    scorer = HeldScorer(steering) if at is None else at.opener(steering)
    return draw_parts(arm, _jobs(arm, effort, scorer), engine, explore_part, meter)


def _jobs(arm: Arm, effort: Effort, scorer: Opener[Scorer]) -> Iterator[ExploreJob]:
    """The missing parts of an arm, each as it is planned."""
    queries, prompts = {query.id: query for query in arm.queries}, prompts_by_query(arm)
    for part in arm.parts_to_draw():
        yield ExploreJob(
            part=part,
            queries=tuple(queries[q] for q in part.query_ids),
            decoding=arm.decoding,
            effort=effort,
            scorer=scorer,
            prompts={q: prompts[q] for q in part.query_ids},
        )


def explore_part(reach: Reach, engine: Generate, job: ExploreJob) -> DrawnPart:
    """What the engine finds of a part, and draws of what that leaves; `reach` is told of it."""
    explorer, scorer = cast(Explores, engine), job.scorer.open()
    settle = ranges(scorer, job.prompts)
    with costing(engine) as cost:
        found: list[Exploration | Failure] = []
        for result in explorer.explore(job.queries, job.decoding, job.effort, settle):
            found.append(result)
            if isinstance(result, Exploration):
                _try_bounds(scorer, result, job.prompts[result.query.id])
            reach(len(found) / len(job.queries))
        samples = [one.sample for one in found if isinstance(one, Exploration)]
        drawn = with_answers(samples, engine, job.decoding, job.prompts)
    found = [
        replace(one, sample=drawn[one.query.id]) if isinstance(one, Exploration) else one
        for one in found
    ]
    return DrawnPart.of(job.part.query_ids, found, cost, machine(engine))


def _try_bounds(scorer: Scorer, found: Exploration, prompt: Prompt) -> None:
    """Refuse a scorer whose `bounds` some continuation was seen to violate."""
    texts = [e.text for e in found.events if e.ended] + [c.text for c in found.sample.completions]
    check_bounds(scorer, texts[:TRIED], prompt)
