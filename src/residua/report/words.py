"""Figures and sentences: numbers rounded so that they never say more than was shown."""

from __future__ import annotations

from collections.abc import Sequence

from residua.report.view import Bound, Measured, Model, ScorerView, View
from residua.text.figures import DASH, above, below, number
from residua.types import Decoding

MOST_CHARACTERS = 600  # of a completion


def interval(bound: Bound | None) -> str:
    """The estimate with its ends, rounded outward; a line may break before the ends."""
    if bound is None:
        return DASH
    return f"{number(bound.value)} [{below(bound.lower)},\N{NO-BREAK SPACE}{above(bound.upper)}]"


def ceiling(value: float | None, upper: float) -> str:
    """The estimate with its upper end alone."""
    return f"{number(value)} (≤\N{NO-BREAK SPACE}{above(upper)})"


def percent(confidence: float) -> str:
    return f"{100 * confidence:.6g}\N{NO-BREAK SPACE}%"


def described(decoding: Decoding) -> str:
    """The decoding by name, and that nothing is truncated where nothing is."""
    whole = decoding.top_p == 1 and not decoding.top_k and not decoding.greedy
    truncation = ", nothing truncated" if whole else ""
    return f"{decoding.name}{truncation}, at most {decoding.max_new_tokens} new tokens"


def clipped(text: str) -> str:
    """A text, or its beginning and how much was cut."""
    if len(text) <= MOST_CHARACTERS:
        return text
    return f"{text[:MOST_CHARACTERS]}… ({len(text) - MOST_CHARACTERS:,} more characters)"


def cells_of(view: View, model: Model, scorer: ScorerView) -> list[Measured]:
    """The model's measured questions, in the order of the questions."""
    keys = ((scorer.name, question.id) for question in view.questions)
    return [model.measured[key] for key in keys if key in model.measured]


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def headline(view: View, model: Model, scorer: ScorerView) -> str:
    """One sentence on a model: its greedy answers against its distribution."""
    return f"{_greedy(view, model, scorer)}; {_sampled(view, model, scorer)}."


def quantity(scorer: ScorerView) -> str:
    """What the expected leakage of a scorer is called."""
    return "leak probability" if scorer.binary else "mean score"


def _greedy(view: View, model: Model, scorer: ScorerView) -> str:
    scores = [c.greedy for c in cells_of(view, model, scorer) if c.greedy is not None]
    if not scores:
        return "no greedy answer has a score"
    if scorer.binary:
        leaks = sum(score == 1 for score in scores)
        return f"the greedy answers leak on {leaks} of {len(scores)} questions"
    return (
        f"the greedy answers score {number(mean(scores))} on average, {number(max(scores))} at most"
    )


def _sampled(view: View, model: Model, scorer: ScorerView) -> str:
    worst = model.overall[scorer.name].worst
    if worst is None:
        missing = len(view.questions) - len(cells_of(view, model, scorer))
        return (
            f"{missing} of {len(view.questions)} questions could not be sampled, so nothing is "
            "claimed about the worst question"
        )
    says = "leaks with probability" if scorer.binary else "has a mean score"
    return (
        f"sampled at {model.decoding.name}, the worst question {says} between "
        f"{below(worst.lower)} and {above(worst.upper)}"
    )
