"""A model beyond its control where some leaks are proved: whose share of alpha is whose."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

from leakbound.stats import (
    BoundFunction,
    Estimate,
    excess_of,
    excess_of_mean_and_worst,
    excess_with_proof,
    proportion_bound,
    proportion_over_questions,
    worst_question,
)
from leakbound.stats.proof import PROVED, SHARE, raised


def asked(bound: BoundFunction) -> BoundFunction:
    """The same, where side and confidence have to be said."""
    return lambda *, confidence, side: bound(confidence=confidence, side=side)


HITS, BASE, N = [30, 12, 6], [5, 2, 1], [60, 60, 60]
CONTROL = asked(partial(proportion_bound, BASE, N))
EXCESS = asked(partial(excess_of, partial(proportion_bound, HITS, N), CONTROL))
MEAN_CONTROL = asked(partial(proportion_over_questions, BASE, N, seed=1))
MEAN = asked(partial(excess_of, partial(proportion_over_questions, HITS, N, seed=1), MEAN_CONTROL))
MARGIN = 1e-12


def upper_end(hits: int, n: int, alpha: float) -> float:
    """Clopper-Pearson's, from its definition."""
    return float(beta.ppf(1 - alpha, hits + 1, n - hits))


def test_a_proof_is_counted_from_the_control_at_its_share_of_alpha() -> None:
    made = excess_with_proof(EXCESS, CONTROL, [0.0, 0.15, 0.09], confidence=0.9, side="both")
    drawn = EXCESS(confidence=1 - 0.9 * 0.05, side="lower").lower
    want = [drawn[0], 0.15 - upper_end(2, 60, 0.005), 0.09 - upper_end(1, 60, 0.005)]  # type: ignore[index]
    np.testing.assert_allclose(made.lower, want)
    np.testing.assert_array_equal(made.upper, EXCESS(confidence=0.95, side="upper").upper)
    assert SHARE == 0.1
    assert (made.confidence, made.side, made.about.beyond) == (0.9, "both", "control")
    assert made.method.endswith(PROVED)


def test_the_share_is_set_aside_whether_or_not_anything_is_proved() -> None:
    """Else whoever proves once the draws have disappointed fails more often than is said."""
    bare = excess_with_proof(EXCESS, CONTROL, confidence=0.9, side="lower")
    np.testing.assert_allclose(bare.lower, EXCESS(confidence=0.91, side="lower").lower)
    assert PROVED not in bare.method
    assert (np.asarray(bare.upper) == 1).all()
    above = excess_with_proof(EXCESS, CONTROL, confidence=0.9)
    np.testing.assert_array_equal(above.upper, EXCESS(confidence=0.9, side="upper").upper)
    assert (above.side, above.confidence) == ("upper", pytest.approx(0.9))


def test_no_excess_lies_below_what_the_control_leaks_at_most() -> None:
    """A model leaks no less than never, whatever bets on the difference say."""
    loose = asked(lambda **how: replace(EXCESS(**how), lower=np.full(3, -0.9)))
    made = excess_with_proof(loose, CONTROL, confidence=0.9, side="lower")
    np.testing.assert_allclose(made.lower, [-upper_end(hits, 60, 0.01) for hits in BASE])
    assert PROVED not in made.method


def test_at_99_per_cent_unless_it_is_said() -> None:
    made = excess_with_proof(EXCESS, CONTROL)
    np.testing.assert_array_equal(made.upper, EXCESS(confidence=0.99, side="upper").upper)


def test_a_proof_above_an_upper_end_raises_nothing() -> None:
    """One of the two is wrong, and no interval says which."""
    tally = proportion_bound([3, 3], [60, 60], confidence=0.9, side="both")
    made = raised(tally, [0.9, tally.upper[1]])  # type: ignore[index]
    assert (made.lower == [tally.lower[0], tally.upper[1]]).all()  # type: ignore[index]
    assert raised(tally, [0.9, 0.0]) is tally
    assert raised(tally, tally.lower) is tally
    both = excess_with_proof(EXCESS, CONTROL, [0.0, 0.0, 0.99], confidence=0.9, side="both")
    assert (np.asarray(both.lower) <= both.upper).all()


def test_mean_and_worst_share_one_alpha() -> None:
    each = asked(partial(excess_with_proof, EXCESS, CONTROL))
    mean = asked(partial(excess_with_proof, MEAN, MEAN_CONTROL))
    made = excess_of_mean_and_worst(mean, each, 3, confidence=0.9)
    worst = partial(worst_question, each, 3)
    assert made.mean.lower == mean(confidence=0.975, side="lower").lower
    assert made.mean.upper == mean(confidence=0.95, side="upper").upper
    assert made.worst.lower == worst(confidence=0.975, side="lower").lower
    assert made.worst.upper == worst(confidence=0.95, side="upper").upper
    assert {made.mean.confidence, made.worst.confidence} == {0.9}
    assert (made.mean.side, made.worst.side) == ("both", "both")
    assert (made.mean.about.scope, made.worst.about.scope) == ("mean", "worst question")
    assert made.worst.about.over == 3


def test_the_worst_exceeds_no_less_than_the_mean_does() -> None:
    """Where all questions leak alike the mean knows more than any of them."""
    more = partial(proportion_bound, [9] * 40, [60] * 40)
    base = partial(proportion_bound, [1] * 40, [60] * 40)
    over = partial(proportion_over_questions, [9] * 40, [60] * 40, seed=1)
    beside = partial(proportion_over_questions, [1] * 40, [60] * 40, seed=2)
    mean, each = partial(excess_of, over, beside), partial(excess_of, more, base)
    made = excess_of_mean_and_worst(mean, each, 40)
    assert made.worst.lower == made.mean.lower
    assert made.worst.method == made.mean.method
    assert made.mean.lower > worst_question(each, 40, confidence=0.9975, side="lower").lower


def simulated(
    rng: np.random.Generator, p: np.ndarray, q: np.ndarray, n: int, proved: np.ndarray
) -> tuple[Estimate, Estimate]:
    hits, base = rng.binomial(n, p), rng.binomial(n, q)
    size: Any = np.full(len(p), n)
    control, beside = (
        partial(proportion_bound, base, size),
        partial(proportion_over_questions, base, size, seed=3),
    )
    each = partial(excess_of, partial(proportion_bound, hits, size), control)
    mean = partial(excess_of, partial(proportion_over_questions, hits, size, seed=4), beside)
    made = excess_of_mean_and_worst(
        partial(excess_with_proof, mean, beside, proved.mean()),
        partial(excess_with_proof, each, control, proved),
        len(p),
        confidence=0.8,
    )
    return made.mean, made.worst


@pytest.mark.parametrize("proves", [0.0, 1.0])
def test_both_lower_ends_and_the_upper_one_of_the_worst_hold_together(proves: float) -> None:
    """At alpha = .2, of a model equal to its control and of one that leaks at one question."""
    for p in (np.full(4, 0.1), np.array([0.4, 0.1, 0.1, 0.1])):
        rng, q = np.random.default_rng(5), np.full(4, 0.1)
        missed, trials = 0, 60
        for _ in range(trials):
            mean, worst = simulated(rng, p, q, 60, proves * p)
            low = mean.lower > (p - q).mean() + MARGIN or worst.lower > (p - q).max() + MARGIN
            missed += bool(low or worst.upper < (p - q).max() - MARGIN)
        assert missed <= 0.2 * trials


def test_a_proof_counted_from_the_controls_estimate_would_fail() -> None:
    """What the share is for: the estimate lies below the truth about half of the time."""
    rng, trials = np.random.default_rng(6), 300
    fails = sum(0.5 - rng.binomial(60, 0.1) / 60 > 0.4 + MARGIN for _ in range(trials))
    assert fails > 0.3 * trials
