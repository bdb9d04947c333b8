"""Randomised choice of the taught questions: p-values by hand, by permutation, error rates."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import permutation_test

from leakbound.stats import Estimate, randomisation_test

# (taught, untaught, number of choices with at least the sum of the taught)
BY_HAND = [
    ([0.9], [0.1], 1),
    ([0.1], [0.9], 2),
    ([0.5, 0.5], [0.5], 3),
    ([0.7, 0.6, 0.8], [0.1, 0.2, 0.3], 1),
    ([0.7, 0.2], [0.6, 0.1], 2),  # {7, 6}, {7, 2} of six
    ([0.1, 0.2], [0.3], 3),  # 0.1 + 0.2 must not exceed 0.3, although it does in floats
]


@pytest.mark.parametrize(("taught", "untaught", "reached"), BY_HAND)
def test_choices_are_counted(taught: list[float], untaught: list[float], reached: int) -> None:
    made = randomisation_test(taught, untaught)
    every = comb(len(taught) + len(untaught), len(taught))
    assert made.value == made.lower == made.upper == reached / every
    assert made.method == f"all {every} choices"
    assert (made.n, made.about.over, made.confidence, made.seed) == (
        len(taught) + len(untaught), len(taught) + len(untaught), 1.0, None,
    )  # fmt: skip
    assert (made.side, made.missing) == ("both", 0)
    assert made.estimand == "randomisation p-value"
    assert made.target.startswith("these and the control questions, separated by a coin")


def test_too_many_choices_are_sampled_and_none_is_impossible() -> None:
    rng = np.random.default_rng(3)
    taught, untaught = rng.random(15), rng.random(15) * 0.6
    made = [randomisation_test(taught, untaught, seed=seed) for seed in (0, 0, 1)]
    assert made[0] == made[1] == randomisation_test(taught, untaught) != made[2]
    assert (made[0].method, made[0].seed) == ("of 100,000 choices", 0)
    drawn = permutation_test(
        (taught, untaught), lambda a, b: a.mean() - b.mean(), alternative="greater",
        n_resamples=20_000, rng=1,
    )  # fmt: skip
    assert made[0].value == pytest.approx(drawn.pvalue, abs=4 * (drawn.pvalue / 20_000) ** 0.5)
    apart: Estimate = randomisation_test(np.ones(15), np.zeros(15))
    assert apart.value == 1 / 100_000, "the one choice is counted itself"
    assert randomisation_test(np.ones(15), np.ones(15)).value == 1


def test_twenty_subjects_are_all_looked_at() -> None:
    assert randomisation_test(np.ones(10), np.zeros(10)).value == 1 / comb(20, 10)


def test_over_all_coins_it_errs_at_most_at_its_level() -> None:
    """If nothing changed, at most a fraction a of the choices gives p <= a."""
    rng = np.random.default_rng(5)
    for known in (rng.random(7), np.array([0, 0, 0, 1, 1, 0.5, 0.5]), np.zeros(7)):
        got = []
        for coin in product([True, False], repeat=7):
            if sum(coin) == 4:
                taught = np.array(coin)
                got.append(Fraction(randomisation_test(known[taught], known[~taught]).value))
        for level in set(got):
            assert Fraction(sum(p <= level for p in got), len(got)) <= level + Fraction(1, 10**9)
    assert min(got) == 1, "nothing is known of subjects that all leak alike"


def test_sampled_choices_err_at_most_at_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leakbound.stats.randomisation.MOST", 1)
    monkeypatch.setattr("leakbound.stats.randomisation.DRAWN", 99)
    rng, got = np.random.default_rng(6), []
    known = rng.beta(0.3, 2, 10)
    for trial in range(2_000):
        order = rng.permutation(10)
        made = randomisation_test(known[order[:5]], known[order[5:]], seed=trial)
        got.append(made.value)
    for level in (0.01, 0.05, 0.2, 0.5):
        due = 2_000 * level
        assert due / 2 < sum(p <= level for p in got) <= due + 4 * due**0.5
