"""The mean of deviations over questions: its proofs, its formulas, and miss rates."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from stretches import Grown, least
from test_rounds import one_round

from leakbound.errors import InputError
from leakbound.stats import LEAKAGE, SD, Quantity, Rows, bound, ed

RNG = np.random.default_rng(0)


def ordered(scores: np.ndarray, seed: int) -> list[list[float]]:
    """Return each question's draws in the order of the seed."""
    rows: list[list[float]] = Rows.of(scores).ordered(seed).in_order(missing=1).tolist()
    return rows


Met = tuple[list[int], list[float], list[float], list[float]]
"""One round: the question of each unit, its value, and its least and largest possible value."""


def lone_grown(rounds: list[Met], questions: int, alpha: float) -> Grown:
    """Bet unit by unit in plain arithmetic; a question's units share its stake."""
    stakes = [[1 / row.count(i) for i in row] for row, *_ in rounds]
    largest = max(map(max, stakes))
    left = [sum((c / largest) ** 2 for one in stakes[t:] for c in one) for t in range(len(rounds))]

    def grown(m: float, v: float) -> float:
        need, met, wealth, richest = math.log(1 / alpha), 0, 0.0, 0.0
        past: list[list[float]] = [[] for _ in range(questions)]
        for t, (row, values, lows, highs) in enumerate(rounds):
            d, centre, spread = one_round(past, [1.0] * questions, [range(questions)])
            most = max((m - min(lows)) * (max(highs) - m), 1e-9)
            squares = met * (spread + (m - centre) ** 2)
            guess = (squares + most + math.sqrt(squares)) / (met + 1)
            reach = max(high - d[i] for high, i in zip(highs, row, strict=True))
            bet = math.sqrt(2 * need / (left[t] * min(guess, most)))
            bet = min(bet, 0.9 / max(reach - m, 1e-9))
            for i, value, stake in zip(row, values, stakes[t], strict=True):
                need -= math.log(1 + bet * stake / largest * (m - value + d[i]))
                wealth += math.log(1 + bet * stake / largest * (v - value + d[i]))
                past[i].append(value)
                met += 1
            need, richest = max(need, 0.0), max(richest, wealth)
        return richest

    return grown


def tangents(draws: list[list[float]], level: float, rho: float, alpha: float) -> list[Met]:
    """The rounds of the upper bound: x + rho [c/2 + (x - v)^2/(2c)], v and c from before."""
    first = math.isqrt(len(draws[0]))
    n = len(draws[0]) - first
    number = n // math.ceil(n / 32)
    least = math.log(1 / alpha) / (len(draws) * n)
    turn = [t * number // n for t in range(n)]
    rounds = []
    for this in range(number):
        seen = first + turn.index(this)
        means = [sum(own[:seen]) / seen for own in draws]
        around = [
            sum((x - v) ** 2 for x in own[:seen]) for own, v in zip(draws, means, strict=True)
        ]
        usual = (1 / 16 + sum(around)) / (1 + len(draws) * (seen - 1))
        met: Met = ([], [], [], [])
        for i, (own, v, squares) in enumerate(zip(draws, means, around, strict=True)):
            c = math.sqrt(max((4 * usual + squares) / (4 + seen - 1), least))

            def reading(x: float, v: float = v, c: float = c) -> float:
                return level * x + rho * (c / 2 + (x - v) ** 2 / (2 * c))

            for x in own[seen : seen + turn.count(this)]:
                limits = (rho * c / 2, max(reading(0.0), reading(1.0)))
                for cells, new in zip(met, (i, reading(x), *limits), strict=True):
                    cells.append(new)  # type: ignore[arg-type]
        rounds.append(met)
    return rounds


def blocks(draws: list[list[float]], level: float, rho: float) -> tuple[list[Met], float]:
    """The rounds of the lower bound, on the gap of a block to its largest possible value."""
    n = len(draws[0])
    number = max(8, math.isqrt(n // 2))
    size = n // number
    highest = level + rho * math.sqrt(size / (size - 1)) / 2
    rounds: list[Met] = []
    for b in range(n // size):
        cut = [own[b * size : (b + 1) * size] for own in draws]
        read = [
            level * sum(x) / size
            + rho * math.sqrt(sum((y - sum(x) / size) ** 2 for y in x) / (size - 1))
            for x in cut
        ]
        falls, every = [1 - one / highest for one in read], len(cut)
        rounds.append((list(range(every)), falls, [0.0] * every, [1.0] * every))
    return rounds, highest


@pytest.mark.parametrize(
    ("quantity", "level", "most"),
    [(SD.mean(), 0.0, 0.5), (ed().mean(), 1.0, (1 + math.sqrt(5)) / 2)],
)
@pytest.mark.parametrize(("questions", "n"), [(3, 40), (1, 90), (12, 17)])
def test_it_is_the_least_rejected(
    quantity: Quantity, level: float, most: float, questions: int, n: int
) -> None:
    scores = RNG.beta(np.linspace(1, 6, questions)[:, None], 6, (questions, n))
    made = bound(Rows.of(scores), quantity, confidence=0.9, seed=3)
    rho, draws = 1.0 + level, ordered(scores, 3)
    steps = min(max(math.ceil(32 * math.sqrt(questions * n)), 500), 4_000)
    above = lone_grown(tangents(draws, level, rho, 0.05), questions, 0.05)
    ends = [most * j / steps for j in range(steps - 1, 0, -1)]
    low, high = least(above, ends, most, 0.05)
    assert low - 1e-9 <= made.upper <= high + 1e-9
    rounds, highest = blocks(draws, level, rho)
    ends = [1 - most * j / steps / highest for j in range(1, steps)]
    low, high = least(lone_grown(rounds, questions, 0.05), ends, 1.0, 0.05)
    assert low - 1e-9 <= 1 - made.lower / highest <= high + 1e-9
    value = np.mean(level * scores.mean(axis=1) + rho * scores.std(axis=1))
    assert made.value == pytest.approx(value)
    assert made.lower < made.value < made.upper


@pytest.mark.parametrize("law", [[0.9, 0.0, 0.1], [0.5, 0.0, 0.5], [0.2, 0.5, 0.3]])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_blocks_deviation_is_small_and_a_tangent_large(law: list[float], size: int) -> None:
    """Exactly, over every outcome of scores 0, .4 and 1."""
    values = np.array([0.0, 0.4, 1.0])
    mean = values @ law
    sd = math.sqrt(((values - mean) ** 2) @ law)
    expected = sum(
        math.prod(law[i] for i in which) * values[list(which)].std(ddof=1)
        for which in product(range(3), repeat=size)
    )
    assert expected <= sd + 1e-12
    for c, centre in product((0.01, sd, 0.4), (mean, 0.0, 0.8)):
        tangent = c / 2 + ((values - centre) ** 2 / (2 * c)) @ law
        assert tangent >= sd - 1e-12
        assert tangent == pytest.approx(sd) or (c, centre) != (sd, mean)


def test_questions_that_never_vary_have_a_small_upper_bound() -> None:
    made = bound(Rows.of(np.full((24, 1024), 0.3)), SD.mean(), side="both", seed=0)
    assert made.value == pytest.approx(0)
    assert made.lower == 0
    assert float(made.upper) < 0.02


def test_without_a_weight_on_the_deviation_it_bounds_the_mean() -> None:
    scores = RNG.beta(2, 5, (5, 60))
    made = bound(Rows.of(scores), ed(0).mean(), side="both", seed=2)
    mean = bound(Rows.of(scores), LEAKAGE.mean(), side="both", seed=2)
    assert made.value == pytest.approx(mean.value)
    assert float(made.upper) == pytest.approx(float(mean.upper), abs=0.05)
    with pytest.raises(InputError, match="rho"):
        bound(Rows.of(scores), ed(-1).mean())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_very_few_draws_give_very_wide_bounds(n: int) -> None:
    for scores in (np.zeros((4, n)), np.tile([0.0, 1.0, 0.0], (4, 1))[:, :n]):
        made = bound(Rows.of(scores), SD.mean(), side="both", seed=0)
        assert 0 <= made.lower <= made.value <= made.upper <= 0.5
    assert bound(Rows.of(np.zeros((4, 1))), SD.mean(), seed=0).upper == 0.5
