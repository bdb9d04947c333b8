"""The order of draws is independent of their scores, and no two rows share an order.

Evaluations often have rows of equal tallies: one scorer, one n, similar questions. With the tally
in the key of the shuffle their bounds failed together, and the statements below missed nearly
always.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from leakbound.stats import (
    Mass,
    Masses,
    Rows,
    bound,
    leak_at,
    leaking_questions,
    order_key,
    proof_of_leak,
    tail,
)
from leakbound.stats.order import ONE_BY_ONE

COINS = np.array([0.0, 1.0])


def test_mean_leak_at_k_of_equal_tallies_is_covered() -> None:
    questions, n, k, p, missed = 400, 1_024, 32, 0.0304, 0
    rng = np.random.default_rng(0)
    for _ in range(4):  # with the tally in the key, nearly all would miss
        hits = rng.binomial(n, p, questions)
        made = bound(
            Rows.of(
                np.tile(COINS, (questions, 1)), np.stack([n - hits, hits], axis=1), binary=True
            ),
            leak_at(k).mean(),
        )
        missed += not made.lower <= 1 - (1 - p) ** k <= made.upper
    assert missed <= 1


def test_an_order_does_not_depend_on_the_scores() -> None:
    low, high = np.arange(40) / 40, np.arange(40) / 80 + 0.5
    orders = [Rows.of(row).ordered(3).shuffled(missing=1)[0] for row in (low, high)]
    assert np.array_equal(np.argsort(orders[0]), np.argsort(orders[1]))
    assert not np.array_equal(orders[0], low)
    nudged = low.copy()
    nudged[7] = np.nextafter(nudged[7], 1)
    assert bound(Rows.of(nudged), seed=3).upper == bound(Rows.of(low), seed=3).upper


def test_one_more_leak_in_the_same_order_never_lowers_a_bound() -> None:
    n = 128
    made = [bound(Rows.of(COINS, np.array([n - hits, hits]))) for hits in range(1, 25)]
    for end in ("lower", "upper"):
        ends = [getattr(each, end) for each in made]
        assert ends == sorted(ends)


def test_a_key_is_the_same_in_every_version() -> None:
    fixed = {"model": {"weights": "ab"}, "question": "q1", "draw seed": 0}
    assert order_key(fixed) == order_key(dict(reversed(fixed.items()))) == KEY
    assert order_key({**fixed, "question": "q2"}) != KEY


KEY = 1_235_095_439_613_506_434


def test_float32_scores_are_the_decimals_that_they_print_as() -> None:
    """A float32 .1 is stored as .10000000149, and does not exceed .1."""
    draws = np.array([0.1, 0.1, 0.7], dtype=np.float32)
    exact = np.array([0.1, 0.1, 0.7])
    assert bound(Rows.of(draws), tail(0.1)).value == bound(Rows.of(exact), tail(0.1)).value < 0.4
    assert bound(Rows.of(draws), seed=1).upper == bound(Rows.of(exact), seed=1).upper
    assert (Rows.of(draws).values == exact).all()


def test_float32_points_and_ranges_are_the_decimals_that_they_print_as() -> None:
    """Scores of .7 do not exceed a float32 .7, although it is stored as .69999999."""
    at, scores = np.float32(0.7), np.array([0.7, 0.7, 0.1])
    assert (
        bound(Rows.of(scores), tail(at)).value == bound(Rows.of(scores), tail([at])).value[0] == 0
    )  # type: ignore[index]
    made = partial(bound, Rows.of(np.full((2, 40), 0.7)), seed=1)
    assert leaking_questions(made, 2, np.array([at])).value == [0]
    low = np.array([0.1], dtype=np.float32)
    mass = Mass(np.array([0.5]), low, low)
    assert bound(Masses.of(mass), tail(0.1), side="lower").lower == 0
    assert proof_of_leak([0.5], low, tail(0.1)).lower == 0


def test_draws_for_display_have_their_own_order() -> None:
    """Draws without a score have a place in this order too."""
    rows = Rows.of(np.array([0.0, 0.5, 1.0]), np.array([3, 2, 1]), 2)
    nan = float("nan")
    (shown,) = rows.ordered([7], ONE_BY_ONE).shuffled(missing=nan)
    np.testing.assert_array_equal(shown, [0.5, 1.0, nan, 0.0, 0.5, nan, 0.0, 0.0])
    (shown,) = rows.scored().ordered([8], ONE_BY_ONE).shuffled(missing=nan)
    np.testing.assert_array_equal(shown, [0.5, 0.5, 0.0, 0.0, 1.0, 0.0])
    (bets,) = rows.scored().ordered([8]).shuffled(missing=nan)
    assert not np.array_equal(shown, bets)
