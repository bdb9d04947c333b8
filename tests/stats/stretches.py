"""Reference implementation of the bets on intervals of means, draw by draw, and golden values."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binom

from leakbound.stats import LEAKAGE, Estimate, Rows, Side
from leakbound.stats.betting import Style
from leakbound.stats.estimand import Method, Terms
from leakbound.stats.mean import MEAN, mirrored
from leakbound.stats.portfolio import bets, mean_upper
from leakbound.stats.proportion import PROPORTION
from leakbound.stats.stopping import EARLY_MEAN, EARLY_TALLY

Grown = Callable[[float, float], float]
"""(bound, v) -> the largest log wealth against the mean v by the bets made for this bound."""


def least(grown: Grown, ends: Sequence[float], top: float, alpha: float) -> tuple[float, float]:
    """Return the interval of the bound: the root, and the root plus 2^-12 of its stretch."""
    goal, high = math.log(1 / alpha) - 1e-12, top
    for end in map(float, ends):
        if grown(end, end) < goal:
            break
        high = end
    else:
        return high, high
    if grown(end, high) < goal:
        return high, high
    root = float(brentq(lambda v: grown(end, v) - goal, end, high, xtol=1e-14))
    return root, root + (high - end) / 4096


def arcsine(number: int) -> list[float]:
    return [math.sin(j * math.pi / (2 * number)) ** 2 for j in range(number - 1, 0, -1)]


def lone_grown(
    x: Sequence[float],
    ceilings: Sequence[float],
    alpha: float,
    style: Style = Style(prior=4.0, caution=0.9),  # noqa: B008 (frozen)
    together: int = 1,
) -> Grown:
    k, c = style.prior, style.caution

    def grown(end: float, v: float) -> float:
        need, squares, wealth, most = math.log(1 / alpha), 0.0, 0.0, 0.0
        for t, (y, b) in enumerate(zip(x, ceilings, strict=True)):
            if t % together == 0:
                cap, need, gained = end * (b - end), max(need, 0.0), 0.0
                guess = (squares + k * cap + b * math.sqrt(k * (squares + 1e-12))) / (t + k)
                bet = math.sqrt(2 * need / ((len(x) - t) * min(cap, guess)))
                bet = min(bet, c / (b - end))
                seen = 0.0
            wealth += math.log(1 - bet * (y - v))
            gained += math.log(1 - bet * (y - end))
            seen += (y - end) ** 2
            last = (t + 1) % together == 0 or t + 1 == len(x)
            most = max(most, wealth) if last or v > end else most  # bounds are checked once per bet
            if last:
                need, squares = need - gained, squares + seen
        return most

    return grown


def lone_mean_upper(x: Sequence[float], alpha: float, together: int = 1) -> tuple[float, float]:
    ends = arcsine(max(256, math.ceil(32 * math.sqrt(len(x)))))
    grown = lone_grown(x, [1.0] * len(x), alpha, together=together)
    return least(grown, ends, 1.0, alpha)


def lone_std_upper(x: Sequence[float], alpha: float) -> tuple[float, float]:
    centres = [(0.5 + sum(x[:t])) / (t + 1) for t in range(len(x))]
    squares = [(one - centre) ** 2 for one, centre in zip(x, centres, strict=True)]
    ceilings = [max(centre, 1 - centre) ** 2 for centre in centres]
    number = max(256, math.ceil(32 * math.sqrt(len(x)))) // 2
    ends = [(j / (2 * number)) ** 2 for j in range(number - 1, 0, -1)]
    low, high = least(lone_grown(squares, ceilings, alpha), ends, 0.25, alpha)
    return math.sqrt(low), math.sqrt(high)


# Reference values of `tests/golden/statistics.json`.
GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "statistics.json").read_text()
)
EXTRAS = GOLDEN["extras"]
SCORES = {name: np.array(values, float) for name, values in GOLDEN["score_sets"].items()}


def allowed(trials: int, alpha: float) -> int:
    """Return the largest number of misses that 9,999 of 10,000 correct tests stay within."""
    return int(binom.ppf(1 - 1e-4, trials, alpha))


def spread_order(scores: np.ndarray) -> np.ndarray:
    """Return the fixed order, shape (1, n), in which the betting references take their draws."""
    n = len(scores)
    return scores[(7919 * np.arange(n)) % n][None]


def label(case: dict[str, Any]) -> str:
    return "-".join(str(case[key]) for key in ("set", "n", "s", "alpha", "k", "rho") if key in case)


def made_by(
    method: Method, rows: Rows, *, confidence: float = 0.99, side: Side = "both"
) -> Estimate:
    """Bound the leakage by one method of an estimand."""
    estimand = PROPORTION if rows.binary else MEAN
    return replace(estimand, usual=method)(rows, LEAKAGE, Terms(confidence, side))


def early(rows: Rows, **how: Any) -> Estimate:
    return made_by(EARLY_TALLY if rows.binary else EARLY_MEAN, rows, **how)


def pooled(scores: Any, counts: Any = None, **how: Any) -> Estimate:
    """Bound the leakage by the portfolio mixture over all scores as one row."""
    rows = Rows.of(np.ravel(scores), None if counts is None else np.ravel(counts))

    def upper(rows: Rows, alpha: float) -> Any:
        return mean_upper(rows, alpha, bets(rows.size, alpha))

    return made_by(Method("portfolio mixture", upper, mirrored(upper)), rows, **how)
