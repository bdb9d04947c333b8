"""A model's leakage minus its control's: from two estimates, two bounds, the draws of both."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from leakbound.errors import InputError
from leakbound.stats import (
    LEAKAGE,
    Estimate,
    Pair,
    Quantity,
    Rows,
    bound,
    excess,
    excess_of,
    excess_over_sets,
)

every_statement = pytest.mark.parametrize("quantity", [LEAKAGE, LEAKAGE.mean()])
RNG = np.random.default_rng(0)
SCORES, CONTROL = RNG.beta(2, 3, (5, 48)).round(2), RNG.beta(1, 6, (5, 48)).round(2)
PAIR = Pair(Rows.of(SCORES), Rows.of(CONTROL))


def ends(made: Estimate) -> np.ndarray:
    return np.stack([np.atleast_1d(made.lower), np.atleast_1d(made.upper)])


@every_statement
def test_the_value_is_the_observed_difference(quantity: Quantity) -> None:
    both = bound(PAIR, quantity, confidence=0.9, seed=1)
    axis = 1 if quantity is LEAKAGE else None
    np.testing.assert_allclose(both.value, (SCORES - CONTROL).mean(axis=axis), atol=1e-12)
    assert both.target.endswith("relative to the control")
    assert (both.estimand, np.sum(both.n), np.sum(both.seed)) == ("excess mean leakage", 240, 1)


@every_statement
def test_the_controls_draws_count_like_the_models(quantity: Quantity) -> None:
    """Missing draws count against the claim; counts change nothing; the questions are the same."""
    plain = ends(bound(PAIR, quantity, seed=1))
    gone = bound(Pair(PAIR.rows, Rows.of(CONTROL, missing=12)), quantity, seed=1)
    assert (ends(gone)[0] < plain[0]).all()
    assert (ends(gone)[1] > plain[1]).all()
    assert np.sum(gone.missing) == 60
    lost = Pair(Rows.of(SCORES, missing=12), PAIR.control)
    assert np.sum(bound(lost, quantity).missing) == 60
    values = np.unique(CONTROL)
    tally = (CONTROL[:, :, None] == values).sum(axis=1)
    counted = Pair(PAIR.rows, Rows.of(np.tile(values, (5, 1)), tally))
    np.testing.assert_array_equal(ends(bound(counted, quantity, seed=1)), plain)


def test_one_question_has_the_same_bound_among_others() -> None:
    every = bound(Pair(Rows.of(SCORES), Rows.of(CONTROL)), side="both", seed=[5, 6, 7, 8, 9])
    alone = bound(Pair(Rows.of(SCORES[2]), Rows.of(CONTROL[2])), side="both", seed=7)
    assert (alone.lower, alone.upper) == (every.lower[2], every.upper[2])  # type: ignore[index]
    assert isinstance(alone.upper, float)
    assert alone.seed == 7


def test_the_longer_row_is_used_in_batches() -> None:
    few = bound(Pair(Rows.of(np.ones(24)), Rows.of(np.zeros(24))), side="both", seed=1)
    many = bound(Pair(Rows.of(np.ones(61)), Rows.of(np.zeros(24))), side="both", seed=1)
    assert (many.lower, many.upper) == (few.lower, few.upper)
    assert many.value == 1


GOLDEN = {
    "each": [0.03502541955293692, 0.4312304397418838],
    "mean": [0.15083522293929907, 0.31679819607678117],
    "sets": [0.24510776953018287, 0.30044073214743383],
    "63 draws": [0.2752310646639322, 0.3780348633722652],
    "64 draws": [0.2656728080022186, 0.33688985339222],
}


def width_of_two_bounds(rows: Rows, others: Rows) -> float:
    means = (
        partial(bound, own, LEAKAGE.mean(), seed=seed) for seed, own in ((2, rows), (3, others))
    )
    return float(np.ptp(ends(excess_of(*means, confidence=0.9))))


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("sizes", [(20, 20), (40, 10)])
def test_two_sets_without_leaks_have_narrow_bounds(sizes: tuple[int, int], binary: bool) -> None:
    """With rows of 0 and of 1, the centres of the sets and the limit of a set's bets decide."""
    sets = [Rows.of(np.zeros((size, 64)), binary=binary) for size in sizes]
    made = excess_over_sets(*sets, confidence=0.9, seed=2)
    assert np.ptp(ends(made)) < 1.06 * width_of_two_bounds(*sets)


def test_two_sets_of_questions_have_one_bound() -> None:
    more, others = Rows.of(SCORES), Rows.of(CONTROL[:3])
    made = excess_over_sets(more, others, confidence=0.9, seed=2)
    assert made.value == pytest.approx(SCORES.mean() - CONTROL[:3].mean())
    assert ends(made)[:, 0].tolist() == pytest.approx(GOLDEN["sets"], abs=1e-12)
    assert np.ptp(ends(made)) < 0.8 * width_of_two_bounds(more, others)
    assert made.target.endswith("relative to other questions, in the same model")
    lost = excess_over_sets(more, Rows.of(CONTROL[:3], missing=12), confidence=0.9, seed=2)
    assert lost.lower < made.lower < made.upper < lost.upper
    with pytest.raises(InputError, match="need the same scorer"):
        excess_over_sets(more, Rows.of_hits([1], 5))


@pytest.mark.parametrize("n", [63, 64])
def test_leaks_of_two_sets_are_bounded_by_a_pilot_from_64_draws(n: int) -> None:
    rng, rates = np.random.default_rng(n), (np.linspace(0, 0.8, 8), np.linspace(0, 0.2, 8))
    sets = [Rows.of_hits(rng.binomial(n, p), [n] * 8) for p in rates]
    made = excess_over_sets(*sets, confidence=0.9, seed=2)
    assert ends(made)[:, 0].tolist() == pytest.approx(GOLDEN[f"{n} draws"], abs=1e-12)
    assert made.method.endswith("pilot") == (n == 64)


def test_bounds_equal_their_golden_values() -> None:
    """The bets of `betting` and `rounds`, tested against oracles elsewhere, give these values."""
    places = np.arange(160).reshape(4, 40)
    scores, control = (places * 7919 % 101 / 100), (places * 6007 % 97 / 96) ** 3
    each = bound(Pair(Rows.of(scores), Rows.of(control)), confidence=0.98, side="both", seed=7)
    mean = bound(
        Pair(Rows.of(scores), Rows.of(control)),
        LEAKAGE.mean(),
        confidence=0.98,
        side="both",
        seed=7,
    )
    assert ends(each)[:, 1].tolist() == pytest.approx(GOLDEN["each"], abs=1e-12)
    assert ends(mean)[:, 0].tolist() == pytest.approx(GOLDEN["mean"], abs=1e-12)


MORE = partial(bound, Rows.of_hits([30, 2, 9], [60, 60, 60]))
FEWER = partial(bound, Rows.of_hits([5, 2, 1], [60, 60, 60]))


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
def test_an_excess_of_bounds_gives_each_half_of_alpha(side: str) -> None:
    opposite = {"upper": "lower", "lower": "upper", "both": "both"}[side]
    made = excess_of(MORE, FEWER, confidence=0.9, side=side)
    want = excess(MORE(confidence=0.95, side=side), FEWER(confidence=0.95, side=opposite))
    np.testing.assert_array_equal(made.upper, want.upper)
    np.testing.assert_array_equal(made.lower, want.lower)
    assert made.confidence == pytest.approx(0.9)
    assert made.about.beyond == "control"
    assert excess_of(MORE, FEWER, beyond="own words").estimand == "gap in leak probability"
    with pytest.raises(InputError, match="the same quantity"):
        excess_of(MORE, partial(bound, Rows.of([[0.1] * 9] * 3)))
    with pytest.raises(InputError, match="`confidence` must lie"):
        excess_of(MORE, FEWER, confidence=-0.5, side=side)


def test_excess_takes_opposite_bounds_and_adds_errors() -> None:
    upper = bound(Rows.of_hits(10, 100), confidence=0.995, side="upper")
    lower = bound(Rows.of_hits(4, 100), confidence=0.995, side="lower")
    joint = excess(upper, lower)
    assert joint.upper == upper.upper - lower.lower
    assert joint.lower == -1
    assert (joint.side, joint.value) == ("upper", pytest.approx(0.06))
    assert joint.confidence == pytest.approx(0.99)
    reverse = excess(lower, upper)
    assert (reverse.side, reverse.lower) == ("lower", lower.lower - upper.upper)
    both = [bound(Rows.of_hits(hits, 100)) for hits in (10, 4)]
    assert excess(*both).side == "both"
    assert excess(*both).lower == both[0].lower - both[1].upper
