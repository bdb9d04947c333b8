"""Quantities derived from a tally: deviations of a coin, and leaks behind an erring judge."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

from leakbound.stats import LEAKAGE, SD, Estimate, Rows, bound, corrected_bound, ed

N, ALPHA = 40, 0.1
HITS = np.arange(N + 1)
PEAK = (1 + 1 / np.sqrt(5)) / 2
P = np.concatenate([np.linspace(0, 1, 201), [PEAK - 1e-4, PEAK + 1e-4, 0.4999, 0.5001]])
CASES = {
    "std": (SD, lambda p: np.sqrt(p * (1 - p))),
    "ED": (ed(), lambda p: p + 2 * np.sqrt(p * (1 - p))),
}


@pytest.mark.parametrize("side", ["upper", "lower", "both"])
@pytest.mark.parametrize("name", CASES)
def test_no_p_is_missed_more_often_than_alpha(name: str, side: str) -> None:
    quantity, f = CASES[name]
    made = bound(Rows.of_hits(HITS, N), quantity, confidence=1 - ALPHA, side=side)
    truth = f(P)[:, None]
    missed = (made.lower > truth + 1e-12) | (made.upper < truth - 1e-12)
    chance = (binom.pmf(HITS, N, P[:, None]) * missed).sum(axis=1)
    assert chance.max() <= ALPHA
    assert chance.max() > ALPHA / 4  # and the interval is not simply wide


def test_half_a_deviation_may_be_added_and_none() -> None:
    whole, half, none = (bound(Rows.of_hits(4, 40), ed(rho)).upper for rho in (1.0, 0.5, 0.0))
    assert none == bound(Rows.of_hits(4, 40)).upper
    assert none < half < whole  # type: ignore[operator]


@pytest.mark.parametrize("name", CASES)
def test_bounds_are_the_extremes_over_the_interval(name: str) -> None:
    """Against a separately computed fine grid of p inside the Clopper-Pearson interval."""
    quantity, f = CASES[name]
    for hits in (0, 3, 20, 33, 40):
        low = beta.ppf(ALPHA / 2, hits, N - hits + 1) if hits else 0.0
        high = beta.isf(ALPHA / 2, hits + 1, N - hits) if hits < N else 1.0
        inside = f(np.linspace(low, high, 20_001))
        made = bound(Rows.of_hits(hits, N), quantity, confidence=1 - ALPHA)
        assert made.upper == pytest.approx(inside.max(), abs=1e-7)
        assert made.lower == pytest.approx(inside.min(), abs=1e-12)
        assert made.value == pytest.approx(f(hits / N))
        assert (made.confidence, made.seed) == (1 - ALPHA, None)


def test_missing_draws_may_have_leaked_or_not() -> None:
    for quantity, f in CASES.values():
        gone = bound(Rows.of_hits(2, 30, 5), quantity)
        for leaks in range(6):
            known = bound(Rows.of_hits(2 + leaks, 30), quantity)
            assert gone.upper >= known.upper - 1e-12
            assert gone.lower <= known.lower + 1e-12
        assert gone.value == pytest.approx(f(2 / 25))


def judged(hits: Any, n: Any, missing: Any = 0, **how: Any) -> Estimate:
    """The leak probability behind a judge that calls `hits` of `n` draws a leak."""
    return corrected_bound(partial(bound, Rows.of_hits(hits, n, missing)), **how)


GOOD: dict[str, Any] = {"positives": (46, 50), "negatives": (2, 60)}


# ((hits, n) of draws, leaks and others), bounds at alpha = .01 from binomial sums of 30 digits
JUDGED = [
    (((46, 100), (46, 50), (2, 60)), 0.2062788603770087, 0.7882933161429553),
    (((0, 100), (46, 50), (2, 60)), 0.0, 0.07123384802988057),
    (((3, 100), (50, 50), (0, 60)), 0.0, 0.12365618895607587),
    (((100, 100), (46, 50), (2, 60)), 0.9483024375041643, 1.0),
    (((46, 100), (3, 5), (2, 6)), 0.0, 1.0),
    (((9, 12), (30, 40), (10, 40)), 0.0, 1.0),
    (((20, 100), (10, 50), (40, 60)), 0.0, 1.0),
    (((95, 100), (20, 60), (3, 60)), 1.0, 1.0),
]


@pytest.mark.parametrize(("case", "lower", "upper"), JUDGED, ids=str)
def test_judged_golden_values(
    case: tuple[tuple[int, int], ...], lower: float, upper: float
) -> None:
    shown, true, false = case
    ends = (
        getattr(judged(*shown, positives=true, negatives=false, side=side), side)
        for side in ("lower", "upper")
    )
    assert tuple(ends) == pytest.approx((lower, upper), abs=1e-10)


RATES = [(0.9, 0.05), (1.0, 0.0), (0.6, 0.4), (0.5, 0.5), (0.2, 0.7), (0.99, 0.5)]


@pytest.fixture(scope="module")
def ends() -> dict[tuple[Any, int, int], Any]:
    """The bounds for every number of hits in 24, by the hits among 7 items of each kind."""
    return {
        (side, t, f): judged(
            np.arange(25), 24, positives=(t, 7), negatives=(f, 7), confidence=0.9, side=side
        )
        for side in ("upper", "lower")
        for t, f in product(range(8), repeat=2)
    }


@pytest.mark.parametrize(("true", "false"), RATES)
def test_it_covers(ends: dict[tuple[Any, int, int], Any], true: float, false: float) -> None:
    """Summed exactly over every outcome, including judges that are no better than chance."""
    weights = [binom.pmf(np.arange(8), 7, rate) for rate in (true, false)]
    for p in (0.0, 0.05, 0.5, 1.0):
        law = binom.pmf(np.arange(25), 24, p * true + (1 - p) * false)
        missed = {"upper": 0.0, "lower": 0.0}
        for (side, t, f), made in ends.items():
            beyond = made.upper < p if side == "upper" else made.lower > p
            missed[side] += weights[0][t] * weights[1][f] * law[beyond].sum()
        assert max(missed.values()) <= 0.1 + 1e-12


def test_false_alarms_are_taken_off_and_missed_leaks_added() -> None:
    many: dict[str, Any] = {"positives": (9000, 10_000), "negatives": (1000, 10_000)}
    alarms = judged(102, 1024, side="both", **many)
    assert alarms.lower == 0
    assert alarms.value < 0.001
    assert judged(900, 1024, side="lower", **many).lower > 0.9
    assert judged(500, 1024, **many).value == pytest.approx((500 / 1024 - 0.1) / 0.8)


@pytest.mark.parametrize(
    ("positives", "negatives", "noted"),
    [((3, 5), (2, 6), True), ((20, 60), (30, 60), True), ((46, 50), (2, 60), False)],
)
def test_too_few_items_are_named(
    positives: tuple[int, int], negatives: tuple[int, int], noted: bool
) -> None:
    made = judged(46, 100, positives=positives, negatives=negatives)
    assert made.method.endswith("too few to tell the two apart") == noted
    assert ((made.lower, made.upper) == (0, 1)) == noted
    assert np.isnan(made.value) == (positives == (20, 60))


def test_questions_are_rows_and_a_mean_is_corrected_as_they_are() -> None:
    hits, n, missing = [46, 0, 90], [100, 200, 100], [0, 7, 3]
    made = judged(hits, n, missing, side="both", **GOOD)
    for i in range(3):
        alone = judged(hits[i], n[i], missing[i], side="both", **GOOD)
        assert (made.lower[i], made.upper[i]) == (alone.lower, alone.upper)
        assert (made.value[i], made.n[i], made.missing[i]) == (alone.value, n[i], missing[i])
    mean = corrected_bound(partial(bound, Rows.of_hits(hits, [100] * 3), LEAKAGE.mean()), **GOOD)
    assert mean.target == "the mean over these questions under this decoding"
    assert 0.4 < mean.value < mean.upper < 0.8


@pytest.mark.parametrize("side", ["upper", "lower"])
def test_trivial_bounds_keep_the_shape_of_the_questions(side: Any) -> None:
    made = judged([46, 0], 100, positives=(20, 60), negatives=(30, 60), side=side)
    assert made.lower.tolist() == [0, 0]
    assert made.upper.tolist() == [1, 1]
    assert np.isnan(made.value).all()
