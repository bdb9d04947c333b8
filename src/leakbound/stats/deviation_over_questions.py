"""The mean over questions of the standard deviation, and of mean + rho standard deviations.

Let mu_i and sd_i be the mean and the standard deviation of question i's scores.
Tables in papers average sd_i, or mu_i + rho sd_i, over a data set. Bounds of
every question that are valid simultaneously would split alpha over the
questions. The bounds of this module do not split alpha. They bet in rounds (see `rounds`) on
statistics of the draws. For any distribution, the expectation of a statistic is at most sd_i (for
the lower bound) or at least sd_i (for the upper bound).

*Lower bound.* A question's draws are cut into blocks of b draws. By Jensen's
inequality the expected sample standard deviation of a block (divisor b - 1) is
at most sd_i, the root of the expected sample variance. So the mean of a block
plus rho times its sample standard deviation has an expectation of at most mu_i
+ rho sd_i. So a lower bound on the mean of these expectations over the questions is a lower bound
on the quantity.

*Upper bound.* For every c > 0 and every centre v, sd_i <= c/2 + Var_i/(2c) <= E[c/2 + (X -
v)^2/(2c)]. The first inequality follows from (sd_i - c)^2 >= 0. So if v and c are computed from
earlier rounds only, the expectation, given these rounds, of

    x + rho [c/2 + (x - v)^2/(2c)]

is at least mu_i + rho sd_i, and is close to mu_i + rho sd_i where v is close to mu_i and c to sd_i.
This is enough for the proof in `rounds`. The bets are against the claim that the mean over the
questions is m or more, and the proof allows values with a larger mean than the quantity. The first
draws of every question are not bet on. They determine only the first v and c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from leakbound.stats import rounds
from leakbound.stats.deviation import STD, score_of
from leakbound.stats.estimand import Terms, bounded
from leakbound.stats.estimate import Array, Counts, Estimate
from leakbound.stats.evidence import Rows
from leakbound.stats.quantity import Quantity

FEWEST_BLOCKS = 8  # blocks of a question, if each then has at least two draws
ENDS = (500, 4_000)
MOST_ROUNDS = 32  # largest number of rounds of the upper bound: more rounds gain nothing
PRIOR, TRUST = 1 / 16, 4.0  # first guess of a variance; weight of the pooled variance, in draws


def deviation_over_questions(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean over these questions of sd(X_i), or of E[X_i] + rho * sd(X_i).

    Draws must be independent, and i.i.d. within a question, with n fixed in advance. The proof is
    in the module docstring. `value` uses standard deviations with divisor n. Missing draws count as
    the worst case.
    """
    alone = quantity.reading == "standard deviation"
    estimand = STD if alone else score_of(quantity)
    level, rho = (0.0, 1.0) if alone else (1.0, quantity.rho)
    rows, most = rows.ordered(terms.seed), estimand.span[1]
    assert rows.keys is not None
    return bounded(
        replace(estimand.about, scope="mean", over=rows.questions),
        rows,
        np.array(rows.scored().each(estimand.value).mean()),
        lambda alpha: np.asarray(_lower(rows, level, rho, most, alpha)),
        lambda alpha: np.asarray(_upper(rows, level, rho, most, alpha)),
        terms,
        span=estimand.span,
        together=True,
        method="betting in rounds on deviations",
        seed=rows.keys.one,
    )


def _upper(rows: Rows, level: float, rho: float, most: float, alpha: float) -> float:
    questions, first = len(rows.n), math.isqrt(int(rows.n.min()))
    n, draws = rows.n - first, rows.in_order(missing=np.nan)
    if not n.min():
        return most
    reading = _Tangents(level, rho, math.log(1 / alpha) / n.sum(), np.zeros((3, questions)))
    for place in range(first):
        reading.learn(np.arange(questions), draws[:, place])
    fewest = int(n.min())
    number = fewest // math.ceil(fewest / MOST_ROUNDS)  # so that the rounds have nearly equal sizes
    plan = rounds.Rounds.of(draws[:, first:], n, np.ones(questions), number)
    ends = most * _steps(rows.n.sum())[::-1]
    return rounds.least_rejected(plan.read(reading), ends, alpha, most)


@dataclass(slots=True)
class _Tangents:
    """Convert draws to level * x + rho [c/2 + (x - v)^2/(2c)], with v and c from earlier draws.

    `least` is the smallest c^2 allowed, because c would be 0 for a question with constant scores.
    `met` contains the number of draws of each question, the sum of their scores and the sum of the
    squared scores.
    """

    level: float
    rho: float
    least: float
    met: Array = field(repr=False)

    def __call__(self, row: Counts, draws: Array) -> rounds.Met:
        centre, width = (guess[row] for guess in self._guess())
        curve, base = self.rho / (2 * width), self.rho * width / 2
        highest = np.maximum(self.level + curve * (1 - centre) ** 2, curve * centre**2)
        read = np.where(
            np.isnan(draws), highest, self.level * draws + curve * (draws - centre) ** 2
        )
        self.learn(row, draws)
        return rounds.Met(base + read, float(base.min()), base + highest)

    def learn(self, row: Counts, draws: Array) -> None:
        """Update the guesses of v and c with these draws; missing draws change no guess."""
        scored = ~np.isnan(draws)
        row, draws = row[scored], draws[scored]
        powers = (np.ones_like(draws), draws, draws**2)
        questions = self.met.shape[1]
        self.met += [np.bincount(row, power, minlength=questions) for power in powers]

    def _guess(self) -> tuple[Array, Array]:
        """Return the mean and the shrunken standard deviation of every question."""
        count, total, squares = self.met
        mean = np.divide(total, count, where=count > 0, out=np.full_like(total, 0.5))
        around, free = np.maximum(squares - total * mean, 0), np.maximum(count - 1, 0)
        usual = (PRIOR + around.sum()) / (1 + free.sum())
        variance = (TRUST * usual + around) / (TRUST + free)
        return mean, np.sqrt(np.maximum(variance, self.least))


def _lower(rows: Rows, level: float, rho: float, most: float, alpha: float) -> float:
    """Bound from below by bets on 1 - z/highest, z = level * mean + rho * sd of a block."""
    n = int(rows.n.min())
    number = max(FEWEST_BLOCKS, math.isqrt(n // 2))
    size = n // number if n >= 2 * number else min(n, 2)  # longer blocks have less bias
    if size < 2:
        return 0.0
    blocks, draws = rows.n // size, rows.in_order(missing=np.nan)
    cut = draws[:, : blocks.max() * size].reshape(len(draws), -1, size)
    read = level * cut.mean(axis=2) + rho * cut.std(axis=2, ddof=1)
    highest = level + rho * math.sqrt(size / (size - 1)) / 2
    falls = 1 - np.nan_to_num(read) / highest
    plan = rounds.Rounds.of(falls, blocks, np.ones(len(draws)), int(blocks.min()))
    ends = 1 - most / highest * _steps(rows.n.sum())
    return highest * (1 - rounds.least_rejected(plan.read(rounds.as_they_are), ends, alpha, 1.0))


def _steps(draws: int) -> Array:
    """Return a grid as ascending fractions of the largest possible value, finer for more draws."""
    number = int(np.clip(math.ceil(rounds.FINENESS * math.sqrt(draws)), *ENDS))
    return np.arange(1, number, dtype=np.float64) / number
