"""How many prefixes a draw takes: exact where all was seen, near where much was, else unknown."""

from __future__ import annotations

import math

import numpy as np
import pytest

from leakbound.sampling.lengths import Lengths


def seen(longest: int, *rows: tuple[int, int, int, int]) -> float:
    """What is foreseen after rows of (tokens, draws, of which end, prefixes of the others)."""
    lengths = Lengths(longest)
    for row in rows:
        lengths.add(*(np.array([each]) for each in row))
    return lengths.forwards()


def test_where_all_ended_it_is_what_was_forwarded() -> None:
    done = [(0, 100, 20, 4), (1, 80, 40, 8), (2, 40, 40, 0)]
    assert seen(8, *done) == pytest.approx((4 + 8) / 100)  # the prompt is read before
    assert seen(3, *done) == pytest.approx((4 + 8) / 100)


def test_draws_that_go_on_count_as_far_as_they_are() -> None:
    """Half of the draws end with each token, the others each on a prefix of its own."""
    halves = (0, 100, 50, 50), (1, 50, 25, 25)
    assert seen(64, *halves) == pytest.approx(sum(0.5**k for k in range(1, 64)))
    assert seen(4, *halves) == pytest.approx(0.5 + 0.25 + 0.125)  # with the fourth all end


def test_the_later_half_says_how_it_goes_on() -> None:
    """Nine in ten end at once, and nobody afterwards: those who are left go on to the end."""
    steps = [(0, 100, 90, 10), *((k, 10, 0, 10) for k in range(1, 5))]
    assert seen(10, *steps) == pytest.approx(0.1 * 9)
    assert seen(10, *steps[:2]) == pytest.approx(0.1 * 9)


def test_shared_prefixes_are_forwarded_once_and_the_last_ones_go_on() -> None:
    assert seen(5, (0, 100, 0, 2), (1, 100, 0, 10)) == pytest.approx(0.02 + 3 * 0.1)


def test_rows_at_other_places_are_counted_together() -> None:
    rows = [(0, 50, 0, 50), (0, 50, 0, 10), (1, 30, 30, 0), (1, 20, 20, 0)]
    assert seen(2, *rows) == pytest.approx(0.6)
    lengths = Lengths(2)
    lengths.add(*(np.array(column) for column in zip(*rows, strict=True)))
    assert lengths.forwards() == pytest.approx(0.6)


def test_nothing_is_foreseen_before_a_tenth_ended_or_an_eighth_of_the_way() -> None:
    assert seen(64) == math.inf
    assert seen(64, (0, 100, 9, 91)) == math.inf
    assert seen(64, (0, 100, 10, 90)) < math.inf
    on = [(k, 100, 0, 100) for k in range(9)]
    assert seen(64, *on[:8]) == math.inf
    assert seen(64, *on) == pytest.approx(63)
