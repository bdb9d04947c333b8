"""leak@k at one prespecified k: bets on block maxima, or the band that is valid at every k."""

from __future__ import annotations

import numpy as np
import pytest
from stretches import SCORES, lone_mean_upper

from leakbound.stats import Mass, Masses, Rows, Stopped, bound, leak_at, leak_at_k
from leakbound.stats.leak_at_k import blocks_of, maximum_method
from leakbound.stats.tail import BERK_JONES

BLOCKS, BAND = "betting on block maxima", "Berk-Jones"
SHUFFLE = 0x5B0F


def lone_blocks(scores: np.ndarray, k: int, seed: int) -> list[list[float]]:
    """Return the maxima of blocks by definition: ascending, permuted and cut."""
    draws = np.random.default_rng([SHUFFLE, seed, 0]).permutation(np.sort(scores)).tolist()
    return [draws[start : start + k] for start in range(0, len(draws) - k + 1, k)]


@pytest.mark.parametrize(
    ("name", "k"), [("ties_10", 3), ("spread_12", 2), ("grid_200", 8), ("leak_1024", 16)]
)
def test_block_maxima_are_bet_on_as_defined(name: str, k: int) -> None:
    scores, blocks = SCORES[name], blocks_of(k)
    rows = Rows.of(scores).ordered(7)
    low, high = lone_mean_upper([max(block) for block in lone_blocks(scores, k, 7)], 0.05)
    assert low - 1e-9 <= blocks.upper(rows, 0.05)[0] <= high + 1e-9
    mirrored = [min(block) for block in lone_blocks(1 - scores, k, 7)]
    low, high = lone_mean_upper(mirrored, 0.05)
    assert low - 1e-9 <= 1 - blocks.lower(rows, 0.05)[0] <= high + 1e-9
    mean = bound(rows, side="upper", confidence=0.95, seed=7)
    assert blocks_of(1).upper(rows, 0.05)[0] == pytest.approx(mean.upper, abs=1e-9)


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
def test_the_default_depends_only_on_n_and_k(n: int, k: int, upper: str, lower: str) -> None:
    both = upper if upper == lower else f"{upper} above, {lower} below"
    for scores in (np.zeros(n), np.ones(n), np.linspace(0, 1, n)):
        for side, method in (("upper", upper), ("lower", lower), ("both", both)):
            made = bound(Rows.of(scores), leak_at(k), side=side, seed=3)
            assert made.method == method
            assert made.seed == (3 if BLOCKS in method else None)
            rows, half = Rows.of(scores).ordered(3), 0.005 if side == "both" else 0.01
            for end, chosen in (("upper", upper), ("lower", lower)):
                by = blocks_of(k) if chosen == BLOCKS else maximum_method(BERK_JONES, np.array(k))
                if side in (end, "both"):
                    assert getattr(made, end) == pytest.approx(getattr(by, end)(rows, half)[0])
    assert bound(Rows.of(np.zeros(n)), leak_at([k])).method == BAND  # for every k simultaneously


def test_k_above_a_quarter_of_the_draws_has_no_point_estimate() -> None:
    scores, hits = np.arange(8) / 8, [3, 0]
    assert leak_at_k(Rows.of([0.1, 0.7, 0.4]), 3) == pytest.approx(0.7)
    made = np.asarray(bound(Rows.of(scores, missing=9), leak_at([1, 2, 3])).value)
    assert made[:2].tolist() == [pytest.approx(leak_at_k(Rows.of(scores), k)) for k in (1, 2)]
    assert np.isnan(made[2])  # 12 draws of 17, of which 8 have a score
    of_hits = bound(Rows.of_hits(hits, 8), leak_at([2, 3]))
    assert np.isnan(of_hits.value).tolist() == [[False, True]] * 2
    assert (np.asarray(of_hits.lower) < of_hits.upper).all()
    stopped = bound(Stopped(Rows.of_hits(hits, 8, [0, 1]), 8), leak_at([2, 3]))
    assert np.isnan(stopped.value).tolist() == [[False, True], [True, True]]


def test_exact_masses_have_a_point_estimate() -> None:
    whole, part = Mass([0.5, 0.5], [0, 1], [0, 1]), Mass([0.4, 0.5], [0, 1], [0, 1], 0.1)
    for made in (
        bound(Masses.of(part, Rows.of([0, 0, 1, 1])), leak_at([10, 11])),
        bound(Masses.of(part, Rows.of_hits(2, 4)), leak_at([10, 11])),
    ):
        assert np.isnan(made.value).tolist() == [False, True]
    for made in (
        bound(Masses.of(whole), leak_at([8])),
        bound(Masses.of(whole, binary=True), leak_at([8])),
    ):
        assert made.value == pytest.approx(1 - 0.5**8)


def test_each_row_has_its_own_n() -> None:
    rng = np.random.default_rng(1)
    scores, counts = rng.random((3, 12)).round(2), np.stack([np.full(12, c) for c in (1, 10, 2)])
    made = bound(Rows.of(scores, counts), leak_at(4), seed=[5, 6, 7])
    assert made.method == f"{BAND} or {BLOCKS} above, {BAND} below"
    for row, seed in enumerate((5, 6, 7)):
        alone = bound(Rows.of(scores[row], counts[row]), leak_at(4), seed=seed)
        assert (made.lower[row], made.upper[row]) == (alone.lower, alone.upper)  # type: ignore[index]


def test_bounds_never_cross() -> None:
    """Each bound may fail at this confidence, and they use two methods."""
    rng = np.random.default_rng(6)
    scores = (rng.random((400, 12)) < 0.3).astype(float)
    made = bound(Rows.of(scores), leak_at(3), confidence=0.02)
    assert "above" in made.method
    assert (np.asarray(made.lower) <= np.asarray(made.upper)).all()
