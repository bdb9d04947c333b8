"""Betting in rounds: its formulas, coverage at unequal distributions, and precision there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from stretches import Grown, arcsine, least

from leakbound.stats import LEAKAGE, Rows, betting, bound, leak_at
from leakbound.stats.rounds import Rounds, as_they_are, least_rejected, mean_upper

RNG = np.random.default_rng(0)


def shared(n: int, number: int) -> list[int]:
    """Return the round of each of n draws, divided evenly."""
    return [t * number // n for t in range(n)]


def one_round(
    past: list[list[float]], weights: list[float], sets: list[range]
) -> tuple[list[float], float, float]:
    """Return the centres, the mean of all and the mean square around it, from earlier draws."""
    if not all(past):
        return [0.0] * len(past), 0.5, 0.25
    means = [sum(own) / len(own) for own in past]
    centre = sum(a * m for a, m in zip(weights, means, strict=True)) / sum(weights)
    of_set = [
        sum(weights[i] * means[i] for i in own) / sum(weights[i] for i in own)
        for own in sets
        for _ in own
    ]
    between_sets = [one - centre for one in of_set]
    trust = [a * a / len(own) for a, own in zip(weights, past, strict=True)]
    trust = [one / sum(trust) for one in trust]
    apart = sum(w * (m - one) ** 2 for w, m, one in zip(trust, means, of_set, strict=True))
    if any(len(own) == 1 for own in past):
        return between_sets, centre, apart
    within = noise = 0.0
    for w, m, own in zip(trust, means, past, strict=True):
        within += w * sum((x - m) ** 2 for x in own) / (len(own) - 1)
        noise += w / len(own)
    noise *= within
    between = max(apart / max(1 - sum(w * w for w in trust), 1e-12) - noise, 0.0)
    shrunk = between / (between + noise) if between else 0.0
    spread = within + shrunk**2 * noise + (1 - shrunk) ** 2 * between
    own_parts = [shrunk * (m - one) for m, one in zip(means, of_set, strict=True)]
    return [a + b for a, b in zip(between_sets, own_parts, strict=True)], centre, spread


def lone_grown(
    draws: list[list[float]], weights: list[float], alpha: float, sets: list[range]
) -> Grown:
    """Bet draw by draw in plain arithmetic."""
    number = min(map(len, draws))
    number = number // math.ceil(number / 512)
    turns = [shared(len(own), number) for own in draws]
    stake = [
        [a / turn.count(t) for t in range(number)] for a, turn in zip(weights, turns, strict=True)
    ]
    largest = max(map(max, stake))
    most = [max(max(stake[i]) for i in own) / largest for own in sets]
    left = [
        sum(
            (stake[i][s] / largest) ** 2 * turns[i].count(s)
            for i in range(len(draws))
            for s in range(t, number)
        )
        for t in range(number)
    ]

    def grown(m: float, v: float) -> float:
        past: list[list[float]] = [[] for _ in draws]
        need, met, wealth, highest = math.log(1 / alpha), 0, 0.0, 0.0
        for t in range(number):
            d, centre, spread = one_round(past, weights, sets)
            squares = met * (spread + (m - centre) ** 2)
            guess = (squares + m * (1 - m) + math.sqrt(squares)) / (met + 1)
            bet = math.sqrt(2 * need / (left[t] * min(guess, max(m * (1 - m), spread))))
            lowest = [min(d[i] for i in own) for own in sets]
            bet = min(bet, 0.9 / max(c * (1 - e - m) for c, e in zip(most, lowest, strict=True)))
            for i, own in enumerate(draws):
                for x, turn in zip(own, turns[i], strict=True):
                    if turn == t:
                        staked = bet * stake[i][t] / largest
                        need -= math.log(1 + staked * (m - x + d[i]))
                        wealth += math.log(1 + staked * (v - x + d[i]))
                        past[i].append(x)
                        met += 1
            need, highest = max(need, 0.0), max(highest, wealth)
        return highest

    return grown


@pytest.mark.parametrize(
    ("numbers", "weights", "first"),
    [([9, 9, 9], [1.0, 1.0, 1.0], 3), ([8, 11, 17, 24], [1.0, 0.5, 2.0, 0.7], 4), ([30], [1.0], 1),
     ([520, 530], [1.0, 1.0], 2), ([9, 9, 9, 9, 9], [0.5, 0.5, 1.0, 1.0, 1.0], 2),
     ([8, 11, 17, 24], [1.0, 1.0, 0.6, 0.6], 2)],
)  # fmt: skip
def test_a_bound_is_the_least_mean_that_its_stretch_rejects(
    numbers: list[int], weights: list[float], first: int
) -> None:
    widest, ranges = max(numbers), [range(first), range(first, len(numbers))]
    sets = [own for own in ranges if len(own)]
    laws = np.linspace(0.1, 0.9, len(numbers))[:, None]
    scores = np.clip(laws + RNG.uniform(-0.1, 0.1, (len(numbers), widest)), 0, 1)
    counts = np.arange(widest) < np.array(numbers)[:, None]
    rows = Rows.of(scores, counts).ordered(4)
    bound = mean_upper(
        rows, np.array(weights), 0.05, sets=tuple(slice(own.start, own.stop) for own in sets)
    )
    draws = [Rows.of(own[kept]).ordered(4) for own, kept in zip(scores, counts, strict=True)]
    assert rows.keys is not None
    for i, row in enumerate(draws):
        assert row.keys is not None
        row.keys.rows[0] = rows.keys.rows[i]
    ordered = [row.shuffled(missing=1)[0].tolist() for row in draws]
    ends = arcsine(max(500, math.ceil(32 * math.sqrt(sum(numbers)))))
    if len(ends) > 1_000:  # testing each one is slow: keep those near the bound
        ends = [end for end in ends if end < bound + 0.01]
    low, high = least(lone_grown(ordered, weights, 0.05, sets), ends, 1.0, 0.05)
    assert low - 1e-9 <= bound <= high + 1e-9


def test_the_order_of_candidates_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Rows.of(np.random.default_rng(4).beta(1, 4, (3, 9))).ordered(1)
    alphas = np.geomspace(0.4, 0.002, 40).tolist()
    at_once = [mean_upper(rows, np.ones(3), alpha) for alpha in alphas]
    for guess in (-1.0, 2.0):
        monkeypatch.setattr(
            "leakbound.stats.rounds.RoundBets.guess", lambda *_, guess=guess: np.array([guess])
        )
        monkeypatch.setattr("leakbound.stats.rounds.TESTS", 1)
        assert [mean_upper(rows, np.ones(3), alpha) for alpha in alphas] == at_once
    assert mean_upper(rows, np.ones(3), 0.4, lambda _: np.array([0.9])) == 0.9  # none is accepted


def test_blocks_have_their_own_order() -> None:
    """Taking blocks in the order of the key that cut them would reuse its randomness."""
    rng = np.random.default_rng(3)
    scores = rng.beta(1, 5, (5, 64))
    made = bound(Rows.of(scores), leak_at(4).mean(), seed=2)
    keys = Rows.of(scores).ordered(2).keys
    assert keys is not None
    apart = keys.apart(1)
    assert apart.rows[:, :2].tolist() == keys.rows.tolist()
    places = np.tile(np.arange(16.0), (5, 1))
    assert (apart.permuted(places) != keys.permuted(places)).any(axis=1).all()
    assert made.seed == 2


GOLDEN = [0.23823668185152247, 0.4461554362860831]


def test_bounds_equal_their_golden_values() -> None:
    """Golden values, the same on every machine, for draws tested against an oracle above."""
    scores = (np.arange(60).reshape(5, 12) * 7919 % 101 / 100) ** 2
    made = bound(Rows.of(scores), LEAKAGE.mean(), confidence=0.98, side="both", seed=7)
    assert [made.lower, made.upper] == pytest.approx(GOLDEN, abs=1e-12)


def test_nan_rejects_nothing() -> None:
    draws = np.full((2, 64), 0.1)
    draws[1, 0] = np.nan
    known, unknown = betting.mean_upper(draws, 0.01)
    assert known < 0.2
    assert unknown == 1
    plan = Rounds.of(draws, np.array([64, 64]), np.ones(2), 64)
    assert least_rejected(plan.read(as_they_are), betting.arcsine(500), 0.01, 1.0) == 1
