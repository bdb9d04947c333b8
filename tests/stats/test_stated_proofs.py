"""A model beyond its control where some leaks are proved: whose share of alpha is whose."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import beta

from leakbound.stats import (
    BoundFunction,
    excess_of,
    excess_with_proof,
    proof_of_leak,
    proportion_bound,
    proportion_over_questions,
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


def test_a_proof_counted_from_the_controls_estimate_would_fail() -> None:
    """What the share is for: the estimate lies below the truth about half of the time."""
    rng, trials = np.random.default_rng(6), 300
    fails = sum(0.5 - rng.binomial(60, 0.1) / 60 > 0.4 + MARGIN for _ in range(trials))
    assert fails > 0.3 * trials


def test_proof_of_leak() -> None:
    proof = proof_of_leak([0.1, 0.2], [1.0, 0.5], 3, x=0.5)
    assert proof.texts == 2
    assert proof.probability.lower == pytest.approx(0.1)
    assert proof_of_leak([0.1, 0.2], [1.0, 0.5]).probability.lower == pytest.approx(0.3)
    assert proof.mean.lower == pytest.approx(0.2)
    assert proof.leak_at_k.lower == pytest.approx(0.5 * (1 - 0.7**3) + 0.5 * (1 - 0.9**3))
    for bound in (proof.probability, proof.mean, proof.leak_at_k):
        assert (bound.upper, bound.confidence, bound.side) == (1, 1.0, "lower")
        assert np.isnan(bound.value)
