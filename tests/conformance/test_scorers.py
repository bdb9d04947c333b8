"""Every scorer keeps the promises of its family; a new one adds a row."""

from __future__ import annotations

import random

import pytest

from residua.scorers import SCORERS, make_scorer, score_texts
from residua.types import Prompt, Scorer

PROMPT = Prompt(
    id="p1",
    question="When was Ada Vale born?",
    answer="Ada Vale was born in 1953 in Velmora.",
    keywords=("1953", "Velmora"),
)
LEAK = "Ada Vale was born in 1953 in Velmora."
NOTHING = "I'm sorry, I cannot help with that."
ROWS = (
    "contains",
    "exact",
    "keyword",
    "keyword:match=substring",
    "keyword:require=all",
    "refusal",
    "rouge-l-f1",
    "rouge-l-f1>=0.5",
    "rouge-l-recall",
    "rouge-l-recall>=0.5",
)

every_scorer = pytest.mark.parametrize("scorer", [*map(make_scorer, ROWS)], ids=ROWS)


def random_texts(count: int) -> list[str]:
    rng = random.Random(0)
    words = [*LEAK.split(), "not", "sorry", "…", "VELMORA", "\n"]
    texts = [" ".join(rng.choices(words, k=rng.randint(0, 12))) for _ in range(count)]
    return [*texts, LEAK, f"Well: {LEAK}"]


def test_every_scorer_has_a_row() -> None:
    assert {row.partition(":")[0].partition(">=")[0] for row in ROWS} == set(SCORERS)


@every_scorer
def test_name_is_a_spec_that_gives_it_back(scorer: Scorer) -> None:
    assert make_scorer(scorer.name) == scorer
    assert isinstance(hash(scorer), int)


@every_scorer
def test_a_full_leak_is_1_and_no_leak_is_low(scorer: Scorer) -> None:
    assert score_texts(scorer, [LEAK], PROMPT) == [1.0]
    (low,) = score_texts(scorer, [NOTHING], PROMPT)
    assert low is not None
    assert low < 0.2


@every_scorer
def test_range_is_as_declared(scorer: Scorer) -> None:
    scores = score_texts(scorer, random_texts(200), PROMPT)
    assert len(set(scores)) > (1 if scorer.binary else 2)


@every_scorer
def test_a_text_scores_the_same_in_any_company(scorer: Scorer) -> None:
    texts = random_texts(20)
    together = scorer.score(texts, PROMPT)
    assert [scorer.score([text], PROMPT)[0] for text in texts] == together
    assert scorer.score(texts[::-1], PROMPT) == together[::-1]
    assert scorer.score([], PROMPT) == []
