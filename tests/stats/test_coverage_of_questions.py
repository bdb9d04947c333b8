"""Coverage of statements about heterogeneous questions: one row each.

A row whose simpler bound would be wrong also checks that the simpler bound misses far more often.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom
from stretches import pooled as pool_of

from leakbound.stats import (
    LEAKAGE,
    SD,
    Estimate,
    Mass,
    Masses,
    Pair,
    Quantity,
    Rows,
    bound,
    ed,
    excess_over_sets,
    leak_at,
)

ALPHA = 0.2  # error rate of each bound
Draws = Any
Generator = np.random.Generator


@dataclass(frozen=True, kw_only=True)
class Case:
    """Draws of a data set, their bound, the truth; `wrong`: whether a simpler bound misses."""

    draw: Callable[[Generator], Draws]
    bound: Callable[..., Estimate]
    truth: npt.ArrayLike
    trials: int = 60
    wrong: Callable[[Draws, float], bool] | None = None


def coins(p: npt.ArrayLike, n: int) -> Callable[[Generator], Draws]:
    chances = np.asarray(p)[:, None]
    return lambda g: (g.random((len(chances), n)) < chances) * 1.0


def tallies(p: npt.ArrayLike, n: npt.ArrayLike) -> Callable[[Generator], Draws]:
    return lambda g: g.binomial(n, p)


def spread(*laws: str) -> dict[str, Case]:
    """The mean deviation, and the mean ED, of questions with unequal numbers of draws."""
    got = {}
    counts = np.arange(40) < np.array([24, 40, 31, 40, 26, 24])[:, None]
    for law in laws:
        draw, means, deviations = SPREADS[law]
        for name, quantity, of in (("sd", SD, deviations), ("ED", ed(), means + 2 * deviations)):
            bounded = of_scores(quantity.mean(), counts)
            got[f"{name} of {law}"] = Case(draw=draw, bound=bounded, truth=of.mean(), trials=40)
    return got


def of_scores(quantity: Quantity, counts: Draws = None) -> Callable[..., Estimate]:
    return lambda scores, **how: bound(Rows.of(scores, counts), quantity, **how)


def excess(quantity: Quantity) -> Case:
    """A model's leakage minus its control's, both of coins."""
    gaps = UNLIKE - BASE
    return Case(
        draw=lambda g: (coins(UNLIKE, 24)(g), coins(BASE, 61)(g)),
        bound=lambda both, **how: bound(Pair(*map(Rows.of, both)), quantity, **how),
        truth=gaps if quantity is LEAKAGE else gaps.mean(),
        trials=24,
    )


def unequal() -> Case:
    """The question that leaks most has the fewest draws; a plain pool bounds another mean."""
    n, p = np.array([20, 60, 300]), np.array([0.6, 0.2, 0.02])
    counted = np.arange(300) < n[:, None]

    def pooled(scores: Draws, truth: float) -> bool:
        pool = pool_of(scores[counted], confidence=1 - ALPHA, side="upper")
        return bool(pool.upper < truth)

    return Case(
        draw=lambda g: coins(p, 300)(g) * g.random((3, 300)),
        bound=of_scores(LEAKAGE.mean(), counted),
        truth=p.mean() / 2,
        trials=40,
        wrong=pooled,
    )


def repeated() -> Case:
    """leak@5; blocks cut from sorted draws give bounds that are too low."""
    p, k = np.linspace(0, 0.3, 12), 5

    def cut(scores: Draws, truth: float) -> bool:
        blocks = scores[:, : 43 // k * k].reshape(12, -1, k).max(axis=2)
        made = bound(Rows.of(blocks), LEAKAGE.mean(), confidence=1 - ALPHA, side="upper", seed=0)
        return bool(made.upper < truth)

    return Case(
        draw=lambda g: np.sort(coins(p, 43)(g), axis=1),
        bound=of_scores(leak_at(k).mean()),
        truth=np.mean(1 - (1 - p) ** k),
        trials=40,
        wrong=cut,
    )


def of_masses(binary: bool, trials: int) -> Case:
    """Half of each distribution scores .2, a remainder of .4 is unknown, a tenth scores 0."""
    known = [Mass(np.array([0.5]), np.array([0.2]), np.array([0.2]), 0.4)] * 5
    chances = np.random.default_rng(5).uniform(0, 0.6, 5)
    return Case(
        draw=coins(chances, 40),
        bound=lambda scores, **how: bound(
            Masses.of(known, Rows.of(scores, binary=binary, empty=True)), LEAKAGE.mean(), **how
        ),
        truth=0.5 * 0.2 + 0.4 * chances.mean(),
        trials=trials,
    )


def two_sets(binary: bool, p: npt.ArrayLike, q: npt.ArrayLike, n: int, trials: int = 60) -> Case:
    def difference(sets: Draws, **how: Any) -> Estimate:
        return excess_over_sets(*(Rows.of(own, binary=binary) for own in sets), **how)

    return Case(
        draw=lambda g: (coins(p, n)(g), coins(q, n)(g)),
        bound=difference,
        truth=np.mean(p) - np.mean(q),
        trials=trials,
    )


SMOOTH = np.arange(1, 7)[:, None]
UNLIKE, BASE = np.array([0.9, 0.5, 0.05, 0.3, 0.0]), np.array([0.05, 0.5, 0.0, 0.05, 0.0])
COINS, SHAPES = np.array([0.0, 0.02, 0.3, 1.0, 0.5, 0.1]), np.array([0.3, 1, 4, 8, 20, 60])
SPREADS: dict[str, tuple[Callable[[Generator], Draws], np.ndarray, np.ndarray]] = {
    **{
        name: (coins(p, 40), p, np.sqrt(p * (1 - p)))
        for name, p in (
            ("unlike coins", COINS),
            ("rare and large", np.full(6, 0.01)),
        )
    },
    "smooth": (
        lambda g: g.beta(SHAPES[:, None] / 2, SHAPES[:, None] / 2, (6, 40)),
        np.full(6, 0.5),
        0.5 / np.sqrt(SHAPES + 1),
    ),
}
TALLIED = {
    "half": np.repeat([0.0, 1.0], 12),
    "one leaks": np.append(np.zeros(23), 0.3),
}
WEIGHTS = np.array([4.0, 0.5, 1.0, 0.0])
FEW = np.linspace(0, 0.3, 8)
APART = np.array([0.3, 0.1, 0.85])


def tallied(*laws: str) -> dict[str, Case]:
    """Eight draws of each of 24 questions: Hoeffding's form, and betting in rounds."""
    return {
        f"tallies, {law}": Case(
            draw=tallies(TALLIED[law], 8),
            bound=lambda hits, **how: bound(Rows.of_hits(hits, 8), LEAKAGE.mean(), **how),
            truth=TALLIED[law].mean(),
            trials=100,
        )
        for law in laws
    }


QUICK: dict[str, Case] = {
    **spread("unlike coins", "smooth"),
    "unequal numbers": unequal(),
    "weighted": Case(
        draw=tallies([0.7, 0.3, 0.1, 0.0], 50),
        bound=lambda hits, **how: bound(Rows.of_hits(hits, 50), LEAKAGE.mean(WEIGHTS), **how),
        truth=np.array([0.7, 0.3, 0.1, 0.0]) @ WEIGHTS / WEIGHTS.sum(),
        trials=40,
    ),
    "leak@5": repeated(),
    "leak@k, three k": Case(
        draw=coins(FEW, 40),
        bound=lambda scores, **how: bound(
            Rows.of(scores, binary=True), leak_at([1, 4, 10]).mean(), **how
        ),
        truth=(1 - (1 - FEW[:, None]) ** np.array([1, 4, 10])).mean(axis=0),
        trials=40,
    ),
    "masses, binary": of_masses(True, 60),
    "two sets, binary, one leaks": two_sets(True, [0.9, 0.05, 0.4], [0.0, 0.02, 0.0], 24),
    **tallied("half"),
}
THOROUGH: dict[str, Case] = {
    **spread("rare and large"),
    "masses": of_masses(False, 150),
    "two sets, both leak": two_sets(False, np.linspace(0.1, 0.8, 4), [0.3, 0.0], 24),
    "two sets, binary, by a pilot": two_sets(True, [0.5, 0.6, 0.4], [0.5, 0.1, 0.9], 64, 100),
    "a pilot chooses either form": Case(
        draw=tallies(APART, 160),
        bound=lambda hits, **how: bound(Rows.of_hits(hits, 160), LEAKAGE.mean(), **how),
        truth=APART.mean(),
        trials=100,
    ),
    "excess": excess(LEAKAGE),
    "excess, mean": excess(LEAKAGE.mean()),
    **tallied("one leaks"),
    "mean of smooth": Case(
        draw=lambda g: g.beta(2, SMOOTH, (6, 24)),
        bound=of_scores(LEAKAGE.mean()),
        truth=np.mean(2 / (2 + SMOOTH)),
        trials=70,
    ),
}


@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.thorough) for name in THOROUGH)]
)
def test_each_bound_misses_at_most_at_its_rate(name: str) -> None:
    """If the bounds are not valid simultaneously, count each entry of an estimate."""
    case, rng = (QUICK | THOROUGH)[name], np.random.default_rng(zlib.crc32(name.encode()))
    truth, above, below, wrong, made = np.asarray(case.truth), 0, 0, 0, 0
    for seed in range(case.trials):
        draws = case.draw(rng)
        got = case.bound(draws, confidence=1 - 2 * ALPHA, side="both", seed=seed)
        jointly = np.size(got.n) == 1  # several entries with one n are valid simultaneously
        misses = np.asarray(got.upper) < truth - 1e-12, np.asarray(got.lower) > truth + 1e-12
        above, below = (
            before + int(each.any() if jointly else each.sum())
            for before, each in zip((above, below), misses, strict=True)
        )
        made += 1 if jointly else truth.size
        wrong += bool(case.wrong and case.wrong(draws, float(truth)))
    allowed = int(binom.ppf(1 - 1e-4, made, ALPHA))
    assert max(above, below) <= allowed
    assert not case.wrong or wrong > 0.9 * case.trials
