"""Scorers that break a promise are named for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pytest

from leakbound.errors import InputError
from leakbound.scorers import make_scorer
from leakbound.testing import FakeScorer, check_scorer
from leakbound.types import Prompt

PROMPT = Prompt(id="q", question="Who?", answer="Ann", keywords=("Ann",))


def test_a_table_of_scores_is_a_scorer() -> None:
    scorer = FakeScorer({"Ann": 1.0, "Anna": 0.5, "?": None})
    assert scorer.score(["Ann", "?", "Bob"], PROMPT) == [1.0, None, 0.0]
    check_scorer(scorer, PROMPT, texts=["Anna", "?"])
    check_scorer(make_scorer("keyword"), PROMPT, texts=["Anna"], make=make_scorer)


@dataclass(frozen=True)
class Broken(FakeScorer):
    """Scores the number of texts it is given with, or their order."""

    by: ClassVar[str] = "company"

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return [1.0 if text == "Ann" or len(texts) > 1 else 0.0 for text in texts]


class Bounded(FakeScorer):
    __slots__ = ()

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        return (0.0, 0.5)


@pytest.mark.parametrize(
    ("scorer", "named"),
    [
        (FakeScorer({"Ann": 0.9}), "a full leak must score 1, got 0.9 for 'Ann'"),
        (FakeScorer({"Ann": 1.0, "x": 1.5}), "must"),
        (FakeScorer({"Ann": 1.0, "x": 0.5}, binary=True), "binary"),
        (Broken({}), "must score the same alone"),
        (Bounded({"Ann": 1.0}), "`bounds` must hold"),
    ],
)
def test_a_scorer_that_breaks_a_promise_is_named(scorer: FakeScorer, named: str) -> None:
    with pytest.raises(InputError, match=named):
        check_scorer(scorer, PROMPT, texts=["x", "y"])


def test_a_name_that_gives_another_scorer_is_refused() -> None:
    with pytest.raises(InputError, match="the name must give the scorer back"):
        check_scorer(FakeScorer({"Ann": 1.0}), PROMPT, make=lambda name: make_scorer("keyword"))
