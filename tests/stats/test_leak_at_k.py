"""leak@k at one k fixed beforehand: bets on block maxima, or the band that holds at every k."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom
from stretches import SCORES, lone_mean_upper

from leakbound.errors import InputError
from leakbound.stats import (
    Estimate,
    Mass,
    leak_at_k,
    leak_at_k_bound,
    leak_at_k_proportion_bound,
    mass_leak_at_k_bound,
    mass_leak_at_k_proportion_bound,
    mean_bound,
    stopped_leak_at_k_bound,
)

BLOCKS, BAND = "betting on block maxima", "Berk-Jones"
SHUFFLE = 0x5B0F


def lone_blocks(scores: np.ndarray, k: int, seed: int) -> list[list[float]]:
    """As they are defined: ascending, permuted and cut."""
    draws = np.random.default_rng([SHUFFLE, seed, 0]).permutation(np.sort(scores)).tolist()
    return [draws[start : start + k] for start in range(0, len(draws) - k + 1, k)]


@pytest.mark.parametrize(
    ("name", "k"), [("ties_10", 3), ("spread_12", 2), ("grid_200", 8), ("leak_1024", 16)]
)
def test_block_maxima_are_bet_on_as_defined(name: str, k: int) -> None:
    """The lower end on the mirror image of each maximum."""
    how = {"confidence": 0.95, "method": "block-maxima", "seed": 7}
    scores = SCORES[name]
    low, high = lone_mean_upper([max(block) for block in lone_blocks(scores, k, 7)], 0.05)
    assert low - 1e-9 <= leak_at_k_bound(scores, k, side="upper", **how).upper <= high + 1e-9
    mirrored = [min(block) for block in lone_blocks(1 - scores, k, 7)]
    low, high = lone_mean_upper(mirrored, 0.05)
    below = leak_at_k_bound(scores, k, side="lower", **how).lower
    assert low - 1e-9 <= 1 - below <= high + 1e-9
    at_one = leak_at_k_bound(scores, 1, side="both", **how)
    mean = mean_bound(scores, side="both", confidence=0.95, seed=7)
    assert (at_one.lower, at_one.upper) == pytest.approx((mean.lower, mean.upper), abs=1e-9)


@pytest.mark.parametrize(
    ("n", "k", "upper", "lower"),
    [
        (7, 2, BAND, BAND),
        (8, 2, BLOCKS, BAND),
        (63, 2, BLOCKS, BAND),
        (64, 2, BLOCKS, BLOCKS),
        (127, 32, BAND, BAND),
        (128, 32, BLOCKS, BAND),
        (1024, 8, BLOCKS, BLOCKS),
        (20, 300, BAND, BAND),
    ],
)
def test_the_default_follows_from_n_and_k_alone(n: int, k: int, upper: str, lower: str) -> None:
    both = upper if upper == lower else f"{upper} above, {lower} below"
    for scores in (np.zeros(n), np.ones(n), np.linspace(0, 1, n)):
        for side, method in (("upper", upper), ("lower", lower), ("both", both)):
            made = leak_at_k_bound(scores, k, side=side, seed=3)
            assert made.method == method
            assert made.seed == (3 if BLOCKS in method else None)
            for end, chosen in (("upper", upper), ("lower", lower)):
                own = "block-maxima" if chosen == BLOCKS else "berk-jones"
                how = {"side": side, "seed": 3, "method": own}
                assert getattr(made, end) == getattr(leak_at_k_bound(scores, k, **how), end)
    assert leak_at_k_bound(np.zeros(n), [k], side="both").method == BAND  # for every k at once


def test_beyond_a_quarter_of_the_draws_there_is_no_point_estimate() -> None:
    """Of those with a score; its bounds are there, and the estimates that ask for no bound."""
    scores, hits = np.arange(8) / 8, [3, 0]
    assert leak_at_k([0.1, 0.7, 0.4], 3) == pytest.approx(0.7)
    made = np.asarray(leak_at_k_bound(scores, [1, 2, 3], missing=9).value)
    assert made[:2].tolist() == [pytest.approx(leak_at_k(scores, k)) for k in (1, 2)]
    assert np.isnan(made[2])  # 12 draws of 17, of which 8 have a score
    of_hits = leak_at_k_proportion_bound(hits, 8, [2, 3], side="both")
    assert np.isnan(of_hits.value).tolist() == [[False, True]] * 2
    assert (np.asarray(of_hits.lower) < of_hits.upper).all()
    stopped = stopped_leak_at_k_bound(hits, 8, [2, 3], 8, missing=[0, 1])
    assert np.isnan(stopped.value).tolist() == [[False, True], [True, True]]


def test_an_exact_mass_has_one_and_a_remainder_counts_as_far_as_it_goes() -> None:
    """A tenth is left, of which 4 draws say as much as 40 of the whole."""
    whole, part = Mass([0.5, 0.5], [0, 1], [0, 1]), Mass([0.4, 0.5], [0, 1], [0, 1], 0.1)
    for made in (
        mass_leak_at_k_bound(part, [10, 11], [0, 0, 1, 1]),
        mass_leak_at_k_proportion_bound(part, [10, 11], 2, 4),
    ):
        assert np.isnan(made.value).tolist() == [False, True]
    for made in (mass_leak_at_k_bound(whole, [8]), mass_leak_at_k_proportion_bound(whole, [8])):
        assert made.value == pytest.approx(1 - 0.5**8)


def test_each_row_goes_by_its_own_n() -> None:
    rng = np.random.default_rng(1)
    scores, counts = rng.random((3, 12)).round(2), np.stack([np.full(12, c) for c in (1, 10, 2)])
    made = leak_at_k_bound(scores, 4, counts, seed=[5, 6, 7], side="both")
    assert made.method == f"{BAND} or {BLOCKS} above, {BAND} below"
    for row, seed in enumerate((5, 6, 7)):
        alone = leak_at_k_bound(scores[row], 4, counts[row], seed=seed, side="both")
        assert (made.lower[row], made.upper[row]) == (alone.lower, alone.upper)  # type: ignore[index]


def hits_and_truth(k: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Three values with chances .9, .07, .03: equal tallies are frequent."""
    values, p = np.array([0.0, 0.5, 1.0]), np.array([0.9, 0.07, 0.03])
    return values, p, float(0.5 * (1 - p[0] ** k) + 0.5 * (1 - (p[0] + p[1]) ** k))


@pytest.mark.parametrize(("n", "k"), [(64, 2), (128, 2), (40, 8), (1, 1)])
@pytest.mark.thorough
def test_equal_tallies_are_covered_by_default(n: int, k: int) -> None:
    values, p, truth = hits_and_truth(k)
    rows, alpha = 300, 0.1
    counts = np.random.default_rng([n, k]).multinomial(n, p, rows)
    for side in ("upper", "lower", "both"):
        made = leak_at_k_bound(np.tile(values, (rows, 1)), k, counts, confidence=0.9, side=side)
        missed = (truth > np.asarray(made.upper)) | (truth < np.asarray(made.lower))
        assert missed.sum() <= binom.ppf(1 - 1e-4, rows, alpha)


@pytest.mark.parametrize("leaks_fail", [False, True])
def test_failed_draws_count_as_leaks_above_and_as_clean_below(leaks_fail: bool) -> None:
    """In a law of 0 and .5 some draws fail: half of the leaks, or as many of the others."""
    rows, n, k, truth = 200, 128, 2, 0.5 * (1 - 0.7**2)
    rng = np.random.default_rng(4)
    hits = rng.binomial(n, 0.3, rows)
    gone = rng.binomial(hits, 0.5)
    clean = n - hits - (0 if leaks_fail else gone)
    counts = np.stack([clean, hits - (gone if leaks_fail else 0)], axis=1)
    made = leak_at_k_bound(
        np.tile([0.0, 0.5], (rows, 1)), k, counts, missing=gone, confidence=0.9, side="both"
    )
    assert made.method == BLOCKS
    missed = (truth > np.asarray(made.upper)) | (truth < np.asarray(made.lower))
    assert missed.sum() <= binom.ppf(1 - 1e-4, rows, 0.1)


@pytest.mark.parametrize(("k", "at_least", "at_most"), [(2, 0.4, 0.65), (8, 0.5, 0.75)])
def test_one_k_is_narrower_than_all(k: int, at_least: float, at_most: float) -> None:
    scores = np.random.default_rng(5).beta(1, 20, (12, 1024))
    one = leak_at_k_bound(scores, k, side="both")
    every = leak_at_k_bound(scores, [k], side="both")

    def width(made: Estimate) -> float:
        return float(np.mean(np.asarray(made.upper) - made.lower))

    assert at_least < width(one) / width(every) < at_most


def test_what_block_maxima_cannot_do_is_refused() -> None:
    with pytest.raises(InputError, match=r"one `k` fixed beforehand, got a row of 2"):
        leak_at_k_bound(np.zeros(20), [2, 4], method="block-maxima")
    with pytest.raises(InputError, match=r"at most n, got k = 21 for n = 20"):
        leak_at_k_bound(np.zeros(20), 21, method="block-maxima")
    with pytest.raises(InputError, match=r"must be one of 'default', 'block-maxima', 'berk"):
        leak_at_k_bound(np.zeros(20), 2, method="blocks")


def test_ends_never_cross() -> None:
    """Each end may fail at this confidence, and they rest on two methods."""
    rng = np.random.default_rng(6)
    scores = (rng.random((400, 12)) < 0.3).astype(float)
    made = leak_at_k_bound(scores, 3, confidence=0.02, side="both")
    assert "above" in made.method
    assert (np.asarray(made.lower) <= np.asarray(made.upper)).all()
