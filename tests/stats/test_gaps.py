"""What exceeds what, question by question: the halves of alpha, the largest, the count."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    Mass,
    every_question,
    excess,
    excess_of,
    gaps_over_questions,
    mass_mean_over_questions,
    mean_bound,
    proportion_bound,
    stopped_leak_at_k_bound,
    stopped_proportion_bound,
)

MORE = partial(proportion_bound, [30, 2, 9], [60, 60, 60])
BASE = partial(proportion_bound, [5, 2, 1], [60, 60, 60])


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_an_excess_of_bounds_gives_each_half_of_alpha(side: str) -> None:
    opposite = {"upper": "lower", "lower": "upper", "both": "both"}[side]
    made = excess_of(MORE, BASE, confidence=0.9, side=side)
    want = excess(MORE(confidence=0.95, side=side), BASE(confidence=0.95, side=opposite))
    np.testing.assert_array_equal(made.upper, want.upper)
    np.testing.assert_array_equal(made.lower, want.lower)
    assert made.confidence == pytest.approx(0.9)
    assert made.about.beyond == "control"
    assert excess_of(MORE, BASE, beyond="own words").estimand == "gap in leak probability"
    with pytest.raises(InputError, match="one quantity"):
        excess_of(MORE, partial(mean_bound, [[0.1] * 9] * 3))


def test_the_largest_gap_and_the_count_are_read_off_joint_lower_ends() -> None:
    made = gaps_over_questions(MORE, BASE, 3, confidence=0.9)
    each = every_question(partial(excess_of, MORE, BASE), 3, confidence=0.9, side="lower")
    lower = np.asarray(each.lower)
    assert (made.largest.lower, made.largest.upper) == (lower.max(), 1)
    assert (made.count.lower, made.count.value, made.count.upper) == ((lower > 0).sum(), 2, 3)
    assert made.largest.estimand == "gap in leak probability, largest of 3"
    assert made.count.estimand == "questions with gap in leak probability above 0"
    assert made.count.target.endswith("under this decoding, beyond the question's own words")
    assert not made.largest.about.jointly


def test_gaps_hold_as_often_as_they_say() -> None:
    """At alpha = .2: the largest gap, and the number of gaps, are rarely overstated."""
    rng = np.random.default_rng(11)
    p, q = np.array([0.3, 0.1, 0.1, 0.1]), np.full(4, 0.1)
    trials, n, missed = 400, 80, [0, 0, 0]
    for _ in range(trials):
        more = partial(proportion_bound, rng.binomial(n, p), np.full(4, n))
        base = partial(proportion_bound, rng.binomial(n, q), np.full(4, n))
        found = gaps_over_questions(more, base, 4, confidence=0.8)
        one = excess_of(more, base, confidence=0.8, side="lower")
        missed[0] += bool(found.largest.lower > 0.2 + 1e-12)
        missed[1] += bool(found.count.lower > 1)
        missed[2] += bool(np.asarray(one.lower)[0] > 0.2 + 1e-12)
    assert max(missed) <= 0.2 * trials


def masses(rng: np.random.Generator, number: int) -> tuple[list[Mass], np.ndarray]:
    """Half of each law settled at a score of .2, a remainder of .4, a tenth unknown."""
    chances = rng.uniform(0, 0.6, number)
    return [Mass(np.array([0.5]), np.array([0.2]), np.array([0.2]), 0.4)] * number, chances


def test_the_mean_of_masses_adds_what_is_known_and_what_was_drawn() -> None:
    known = [
        Mass(np.array([0.5, 0.1]), np.array([0.0, 1.0]), np.array([0.0, 1.0]), 0.4),
        Mass(np.array([0.7]), np.array([1.0]), np.array([1.0])),
    ]
    scores, counts = [[0.0, 1.0], [0.0, 1.0]], [[80, 20], [0, 0]]
    made = mass_mean_over_questions(known, scores, counts, binary=True, confidence=0.9)
    inside = proportion_bound(20, 100, confidence=0.9, side="both")
    assert made.lower == pytest.approx((0.1 + 0.4 * inside.lower + 0.7) / 2, abs=1e-12)
    assert made.upper == pytest.approx((0.1 + 0.4 * inside.upper + 1.0) / 2, abs=1e-12)
    assert (made.n, made.confidence, made.about.over) == (100, 0.9, 2)
    assert made.target == "the mean over these questions under this decoding"
    below = mass_mean_over_questions(known, scores, counts, binary=True, side="lower")
    assert (made.side, below.side, below.upper) == ("both", "lower", 1.0)
    sure = mass_mean_over_questions(known[1:], [[0.0]], [[0]])
    assert (sure.lower, sure.upper, sure.confidence) == (0.7, 1.0, 1.0)
    assert sure.method == "exact mass"
    with pytest.raises(InputError, match="no remainder"):
        mass_mean_over_questions(known[:1], [[0.0]], [[0]])
    with pytest.raises(InputError, match="one row for each of 2 masses"):
        mass_mean_over_questions(known, [[0.0]])


@pytest.mark.parametrize("binary", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_the_mean_of_masses_holds_as_often_as_it_says(binary: bool) -> None:
    rng = np.random.default_rng(5)
    known, chances = masses(rng, 5)
    truth = 0.5 * 0.2 + 0.4 * chances.mean()  # the unknown tenth scores 0
    trials, missed = 300, [0, 0]
    for seed in range(trials):
        scores = (rng.random((5, 40)) < chances[:, None]).astype(float)
        how = {"binary": binary, "confidence": 0.8, "seed": seed}
        missed[0] += mass_mean_over_questions(known, scores, side="upper", **how).upper < truth
        missed[1] += mass_mean_over_questions(known, scores, side="lower", **how).lower > truth
    assert max(missed) <= 0.2 * trials


def test_leak_at_k_after_stopping_carries_the_bound_of_p_over() -> None:
    hits, n, k = [0, 3, 12], [8, 16, 64], [1, 8, 1024]
    leak = stopped_proportion_bound(hits, n, 64, side="both")
    made = stopped_leak_at_k_bound(hits, n, k, 64, side="both")
    for end in ("value", "lower", "upper"):
        want = 1 - (1 - np.asarray(getattr(leak, end))[:, None]) ** np.array(k)
        np.testing.assert_allclose(getattr(made, end), want, atol=1e-12)
    assert made.about.parameter == (1.0, 8.0, 1024.0)
    assert made.stopping == leak.stopping
    assert stopped_leak_at_k_bound(0, 64, 2, 64).upper == pytest.approx(
        1 - (1 - stopped_proportion_bound(0, 64, 64).upper) ** 2
    )
