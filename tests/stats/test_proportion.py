"""Leaks in draws: where every draw leaks, where none was scored, and where there is one draw."""

from __future__ import annotations

import numpy as np
import pytest

from leakbound.stats import proportion_bound


@pytest.mark.parametrize(("hits", "n", "missing", "value"), [(1, 1, 0, 1.0), (1, 3, 2, 1.0)])
def test_the_value_is_the_share_of_what_was_scored(
    hits: int, n: int, missing: int, value: float
) -> None:
    assert proportion_bound(hits, n, missing=missing).value == value


def test_without_a_score_there_is_no_value_and_nothing_is_known() -> None:
    made = proportion_bound(0, 4, missing=4, side="both")
    assert np.isnan(made.value)
    assert (made.lower, made.upper) == (0.0, 1.0)
