"""Explore outputs: compute exact masses (probabilities) of a query's outputs, and their scores.

A scorer settles a prefix if all continuations of the prefix have the same
score; then the exploration does not extend the prefix. One scorer guides the
exploration, and the plan of the arm records this scorer. Other scorers can use
the same masses and draws. If such a scorer does not settle a prefix, its
intervals are wider but still valid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from leakbound.engines.addresses import server_of
from leakbound.errors import InputError
from leakbound.scorers import check_bounds, score_ranges
from leakbound.types import (
    Completion,
    Decoding,
    Event,
    Exploration,
    Explores,
    Failure,
    Generate,
    Prompt,
    Query,
    Ranges,
    Sample,
    Scorer,
)

Result = Sample | Exploration | Failure
TRIED = 16  # the number of completions of a question that test the scorer's bounds


@dataclass(frozen=True, slots=True)
class Purpose:
    """Words for messages: the method that needs masses of outputs, and the fix without masses."""

    verb: str
    without: str


EXPLORING = Purpose("explored", "omit --explore")
PROVING = Purpose("searched for rare leaks", "omit `prove`")
SEARCHING = Purpose("searched for rare leaks", "search with draws only")


def require_explorable(model: object, purpose: Purpose = EXPLORING) -> None:
    """Raise InputError for a model on a server, because servers do not return masses."""
    if isinstance(model, str) and server_of(model) is not None:
        raise InputError(
            f"`{model}` cannot be {purpose.verb}, because its server returns no probabilities. Use "
            f"a transformers model, or {purpose.without}."
        )


def require_explores(
    engine: Generate, arm: str, decoding: Decoding, purpose: Purpose = EXPLORING
) -> Explores:
    """Return the engine if it computes masses under this decoding; otherwise raise InputError."""
    if why := why_unknown(engine, decoding, purpose):
        raise InputError(f"arm {arm!r} cannot be {purpose.verb}: {why}")
    return cast(Explores, engine)


def why_unknown(engine: Generate, decoding: Decoding, purpose: Purpose = EXPLORING) -> str | None:
    """Return why an engine cannot compute exact masses under a decoding; None if it can."""
    if not isinstance(engine, Explores):
        return (
            f"the engine {type(engine).__name__} returns no probabilities. Use a transformers "
            f"model, or {purpose.without}."
        )
    if why := decoding.inexact:
        return f"{why}, or {purpose.without}."
    if not math.isfinite(engine.margin):
        return (
            "in half precision, probabilities are not exact, because they depend on the shape of "
            "the batch. Load the model with --dtype float32."
        )
    return None


def ranges(scorer: Scorer, prompts: Mapping[str, Prompt], stop: Sequence[str] = ()) -> Ranges:
    """Return a function that bounds the scores of events (sets of outputs).

    `prompts` has the prompts by query id; `stop` has the stop strings of the decoding.
    """

    def settle(query: Query, events: Sequence[Event]) -> list[tuple[float, float]]:
        return score_ranges(scorer, events, prompts[query.id], stop)

    return settle


def with_answers(
    results: Sequence[Result], engine: Generate, decoding: Decoding, prompts: Mapping[str, Prompt]
) -> list[Result]:
    """Add the reference answer to each result where possible, as a completion with count 0.

    The probability of the answer is computed by teacher forcing. The answer is not added if the
    decoding cannot produce it, or if it was drawn. `prompts` has the prompts by query id.
    """
    drawn = [result.query for result in results if not isinstance(result, Failure)]
    answers = ((query, prompts[query.id].answer) for query in drawn)
    pairs = [(query, answer) for query, answer in answers if answer and answer.strip()]
    if decoding.greedy or not pairs or why_unknown(engine, decoding):
        return list(results)
    forced = cast(Explores, engine).force(pairs, decoding)
    answer_of = {query.id: answer for (query, _), answer in zip(pairs, forced, strict=True)}
    return [_with_answer(result, answer_of.get(result.query.id)) for result in results]


def _with_answer(result: Result, answer: Completion | None) -> Result:
    """Return the result with the answer among its completions, if the answer was not drawn."""
    if answer is None or isinstance(result, Failure):
        return result
    sample = result.sample if isinstance(result, Exploration) else result
    if answer.token_ids in [completion.token_ids for completion in sample.completions]:
        return result
    more = replace(sample, completions=(*sample.completions, answer))
    return replace(result, sample=more) if isinstance(result, Exploration) else more


def try_bounds(
    scorer: Scorer, prompt: Prompt, events: Sequence[Event], drawn: Sequence[Completion] = ()
) -> None:
    """Raise InputError if the score of a known output violates the `bounds` of the scorer."""
    texts = [output.answer for output in (*(e for e in events if e.ended), *drawn)]
    check_bounds(scorer, texts[:TRIED], prompt)
