"""The transformers engine says while it works what it has done: every draw and token once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from test_hf import QUERIES, engine

from leakbound.engines.hf import TransformersEngine
from leakbound.types import Decoding, Draws, Effort

N = 50
DRAWS = Draws(sizes=(30, 20))


def heard(
    made: TransformersEngine, work: Callable[[], object]
) -> tuple[list[int], list[int], list[int]]:
    """The draws and the tokens told at a time, and the forwards counted when all was done."""
    draws: list[int] = []
    tokens: list[int] = []

    def tell(finished: int, forwarded: int, each: float | None = None) -> None:
        draws.append(finished)
        tokens.append(forwarded)

    made.tell = tell
    work()
    return draws, tokens, [made.usage.forwards]


@pytest.mark.parametrize("rows", [1, 16, None])
def test_every_draw_and_token_is_told_once_and_early(rows: int | None) -> None:
    made = engine(rows=rows)
    decoding = Decoding(max_new_tokens=6)
    draws, tokens, [forwards] = heard(made, lambda: list(made.generate(QUERIES, decoding, DRAWS)))
    assert sum(draws) == N * len(QUERIES)
    assert sum(tokens) == forwards > 0
    assert len(tokens) >= 5  # after each step
    assert max(draws) < sum(draws)


def test_the_greedy_pass_of_adaptive_temperature_finishes_no_draws() -> None:
    made = engine()
    decoding = Decoding(max_new_tokens=6, adaptive_temperature=0.999, adaptive_mode="two_pass")
    draws, tokens, [forwards] = heard(made, lambda: list(made.generate(QUERIES, decoding, DRAWS)))
    assert sum(draws) == N * len(QUERIES)
    assert sum(tokens) == forwards


def test_how_many_tokens_a_draw_takes_is_told_long_before_it_ends() -> None:
    made, told = engine(rows=16), list[tuple[int, float]]()

    def tell(finished: int, forwarded: int, each: float | None = None) -> None:
        assert each is not None
        told.append((forwarded, each))

    made.tell = tell
    list(made.generate(QUERIES, Decoding(max_new_tokens=24), DRAWS))
    most = made.usage.forwards
    known = [(sum(tokens for tokens, _ in told[: i + 1]), each) for i, (_, each) in enumerate(told)]
    assert known[-1][1] * N * len(QUERIES) == pytest.approx(most)
    early = [each for tokens, each in known if each < float("inf") and tokens < most / 4]
    assert early
    assert all(most / 3 < each * N * len(QUERIES) < 3 * most for each in early)


def test_an_exploration_tells_its_forwards() -> None:
    made = engine()
    effort = Effort(mode="hybrid", forwards=40)
    ranges = lambda query, texts: [(0.0, 1.0)] * len(texts)  # noqa: E731
    _, tokens, [forwards] = heard(
        made, lambda: list(made.explore(QUERIES, Decoding(max_new_tokens=4), effort, ranges))
    )
    assert sum(tokens) == forwards > 40
    assert max(tokens) < forwards / 2
