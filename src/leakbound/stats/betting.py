"""Finite-horizon betting: tests that turn a bounded mean into a growing stake.

For draws Y_t in [0, B_t] with mean at least v given the past, the wealth
prod_t (1 - lambda_t (Y_t - v)) of a bettor whose lambda_t is fixed before Y_t is a nonnegative
supermartingale, so it exceeds 1/alpha with probability at most alpha (Ville). The bet aims at
exceeding it by the n-th draw, hence a finite horizon.

*One bet for a stretch of candidates.* Fixed ends v_1 > v_2 > ... cut [v_last, top) into stretches
[v_j, v_(j-1)). All v of a stretch are tested by the bets that are made for its lower end: these are
feasible for the others, lambda_t <= c/(B_t - v_j) leaving every factor at least 1 - c, and for
given bets the wealth grows with v. So a stretch whose lower end is rejected is rejected as a whole,
and in the first one that is not, what is rejected lies above one point, which bisection finds. The
bound is the least v such that all above are rejected. It lies below the true mean only if the mean
itself, by the one test that it has, was rejected: chance alpha at most, whatever the ends are. A
stretch further down is never looked at, hence no bisection among the ends.

The ends cost width alone, as a bet for v_j is a little timid for what lies above it: with
32 sqrt(n) of them 0 to .7 % of what the bound lies above the mean of the draws, n from 64 to 4,096.

The wealth depends on the order of the draws, which must be random and fixed before scoring. The
mean of the final wealths over several random orders is an e-value too, but the largest such mean
along the way is none. Measured with 16 orders on coins, three values and continuous scores, n from
64 to 1,024, alpha = .01: ends depend a quarter as much on the order, and lie 0 to 13 % farther from
the truth. (The means over the first 1, 2, ... 16 orders may all be looked at, as the orders are
exchangeable: then no end lies farther, and from n = 256 on none nearer by 1 %.) At 16 times the
cost neither pays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt

from leakbound.stats.estimate import Array, Counts
from leakbound.stats.whole import halved


@dataclass(frozen=True, slots=True)
class Style:
    """How bold a bet is: it moves widths, never validity.

    `prior` (kappa): draws that the first guess of the variance weighs; `caution` (c): the largest
    share of the stake put at risk.
    """

    prior: float
    caution: float


USUAL = Style(prior=4.0, caution=0.9)
FINENESS = 32  # ends for each square root of a draw
ENDS = (256, 20_000)  # the fewest and the most of them
HALVINGS = 12  # of the stretch in which the bound lies
SLACK = 1e-12  # a last bet that aims at the goal may miss it by a rounding
FLOOR = 1e-12  # keeps the first guesses of the variance off zero
TESTS = 32_768  # run at once; changes no result
STRIDE = 16  # bets between two looks at which tests are over; changes no result
BETS = 16_384  # at most: of more draws several in turn meet one bet
PRODUCT = 64  # factors of .1 to 2 that are multiplied before their logarithm is taken
T = TypeVar("T")
_RACED: ContextVar[dict[bytes, object] | None] = ContextVar("raced", default=None)


def number_of_ends(draws: int) -> int:
    """So many that the stretches are short beside what so many draws resolve."""
    return int(np.clip(math.ceil(FINENESS * math.sqrt(draws)), *ENDS))


def arcsine(number: int) -> Array:
    """Ends in (0, 1), descending: finest at both ends, as square roots of m(1 - m) are."""
    return np.sin(np.arange(number - 1, 0, -1) * math.pi / (2 * number)) ** 2


def mean_upper(draws: Array, alpha: float, *, style: Style = USUAL) -> Array:
    """Upper bound on E[X] at 1 - alpha from ordered draws (Q, n): (Q,).

    Condition: the draws of a row are exchangeable with mean E[X] given the past (i.i.d. in
    random order), n fixed beforehand.
    """
    ends = arcsine(number_of_ends(draws.shape[1]))
    return least_rejected(draws, np.ones_like(draws), ends, 1.0, alpha, style)


def std_upper(draws: Array, alpha: float) -> Array:
    """Upper bound on the standard deviation from ordered draws (Q, n); NaN marks a missing one.

    Bets on the squares Y_t = (X_t - m_{t-1})^2 around the running mean m: their mean given the
    past is at least the variance. A missing draw counts as the largest square there could be.
    """
    missing = np.isnan(draws)
    filled = np.where(missing, 0.0, draws)
    before = np.cumsum(filled, axis=1) - filled
    scored = np.cumsum(~missing, axis=1) - ~missing
    centre = (0.5 + before) / (scored + 1)
    ceilings = np.maximum(centre, 1 - centre) ** 2
    squares = np.where(missing, ceilings, (filled - centre) ** 2)
    number = number_of_ends(draws.shape[1]) // 2
    ends = (np.arange(number - 1, 0, -1) / (2 * number)) ** 2
    return np.sqrt(least_rejected(squares, ceilings, ends, 0.25, alpha))


@contextmanager
def raced_once() -> Iterator[None]:
    """Run no race twice meanwhile: several statements bet on the same draws at the same alpha.

    No result changes, and what is kept is gone at the end.
    """
    token = _RACED.set({})
    try:
        yield
    finally:
        _RACED.reset(token)


def once(make: Callable[[], T], *settings: object) -> T:
    """Make a value of arrays and of settings that have words; within `raced_once` make it once."""
    results = _RACED.get()
    if results is None:
        return make()
    total = sha256()
    for value in settings:
        header = (value.shape, value.dtype) if isinstance(value, np.ndarray) else value
        total.update(f"{header!r}\n".encode())
        if isinstance(value, np.ndarray):
            total.update(np.ascontiguousarray(value).data)
    key = total.digest()
    if key not in results:
        results[key] = make()
    return cast(T, results[key])


def least_rejected(
    draws: Array,
    ceilings: Array,
    ends: Array,
    top: float,
    alpha: float,
    style: Style = USUAL,
) -> Array:
    """The least v such that all means from it to `top` are rejected at alpha, of each row: (Q,).

    `draws` and their upper limits `ceilings` are (Q, n), `ends` descend.
    """
    race = draws, ceilings, ends, alpha, style
    fallen, bets = once(lambda: raced(*race), *race)
    high = np.append(top, ends)[fallen]
    open_ = np.flatnonzero(fallen < len(ends))
    bets, met = bets[:, open_], draws[open_].T

    def won(mean: Array) -> npt.NDArray[np.bool_]:
        wealth = np.log1p(bets * (mean - met)).cumsum(axis=0).max(axis=0)
        return np.asarray(wealth >= math.log(1 / alpha) - SLACK)

    high[open_] = halved(won, high[open_], ends[fallen[open_]], HALVINGS)[0]
    return high


def raced(
    draws: Array, ceilings: Array, ends: Array, alpha: float, style: Style
) -> tuple[Counts, Array]:
    """How many ends each row rejects, and the bets (n, Q) made for the first one that stands.

    `draws` and their upper limits `ceilings` are (Q, n), `ends` descend. First those down to a
    little below where the bound may be are tested, then a few more at a time.
    """
    count = np.zeros(len(draws), np.int64)
    bets = np.zeros(draws.shape[::-1])
    more = -(-len(ends) // 64)
    near = np.searchsorted(-ends, -_guess(draws, alpha)) + more // 2
    limit = np.minimum(near + 1, len(ends))
    rows = np.arange(len(draws))
    while rows.size:
        run = np.cumsum(limit[rows] - count[rows]) // TESTS
        for group in (rows[run == batch] for batch in np.unique(run)):
            size = limit[group] - count[group]
            begin = np.cumsum(size) - size
            place = np.arange(size.sum()) + np.repeat(count[group] - begin, size)
            question = np.repeat(np.arange(len(group)), size)
            tests = _Tests(draws[group].T, ceilings[group].T, question, ends[place], alpha, style)
            stands = tests.stand()
            first = np.minimum.reduceat(np.where(stands, place, limit[group][question]), begin)
            ended = first < limit[group]
            if ended.any():
                bets[:, group[ended]] = tests.bets_of((begin + first - count[group])[ended])
            count[group] = first
        rows = rows[(count[rows] == limit[rows]) & (limit[rows] < len(ends))]
        limit[rows] = np.minimum(limit[rows] + more, len(ends))
    return count, bets


def _guess(draws: Array, alpha: float) -> Array:
    """Near the bound of each row: how many tests run at once, and no result, depends on it."""
    n, goal = draws.shape[1], math.log(1 / alpha)
    spread = draws.var(axis=1) + 1 / (4 * n)
    return np.asarray(draws.mean(axis=1) + np.sqrt(2 * spread * goal / n) + goal / (3 * n))


class _Tests:
    """Tests of many means at once, `mean[i]` by the draws of row `question[i]`; (n, Q) draws."""

    def __init__(
        self,
        draws: Array,
        ceilings: Array,
        question: Counts,
        mean: Array,
        alpha: float,
        style: Style,
    ) -> None:
        self.draws, self.style = np.ascontiguousarray(draws), style
        constant = bool((ceilings == ceilings.flat[0]).all()) if ceilings.size else True
        self.ceilings = None if constant else np.ascontiguousarray(ceilings)
        self.ceiling = ceilings.flat[0] if ceilings.size else 1.0
        # Draws that meet one bet: one each where its limit follows from the draw before.
        self.together = -(-len(draws) // BETS) if constant else 1
        self.question, self.mean, self.t = question, mean, 0
        self.ledger: list[tuple[Counts, Array]] = []  # which tests were open, and their bets
        self.need = np.full(len(mean), math.log(1 / alpha))
        self.squares = np.full(len(mean), FLOOR)  # `prior` takes it off again
        self._set_limits()

    def _set_limits(self) -> None:
        """Largest variance and largest bet of each candidate under its present ceiling."""
        if self.ceilings is not None:
            self.ceiling = self.ceilings[self.t][self.question]
        self.variance = self.mean * (self.ceiling - self.mean)
        self.prior = self.style.prior * self.variance - FLOOR
        self.largest_bet = self.style.caution / (self.ceiling - self.mean)

    def bet(self) -> Array:
        """Bet on the next draw, or on as many as meet one bet; returns what was bet."""
        if self.ceilings is not None:
            self._set_limits()
        # The guess of the variance: what was seen, a prior, and a margin for small t.
        spread = np.sqrt(self.squares)
        spread *= math.sqrt(self.style.prior) * self.ceiling
        spread += self.squares
        spread += self.prior
        spread *= 1 / (self.t + self.style.prior)
        np.minimum(spread, self.variance, out=spread)
        # The bet that reaches the goal in the draws that are left, if the guess is right.
        bet: Array = np.divide(self.need, spread)
        bet *= 2 / (len(self.draws) - self.t)
        np.sqrt(bet, out=bet)
        np.minimum(bet, self.largest_bet, out=bet)
        if self.together > 1:
            self._bet_on_several(bet)
            return bet
        gap = np.subtract(self.mean, self.draws[self.t][self.question], out=spread)
        gain = bet * gap
        self.need -= np.log1p(gain, out=gain)
        np.maximum(self.need, 0, out=self.need)
        gap *= gap
        self.squares += gap
        self.t += 1
        return bet

    def _bet_on_several(self, bet: Array) -> None:
        """Make one bet on each of the next draws."""
        gap = self.mean - self.draws[self.t : self.t + self.together, self.question]
        factors = bet * gap
        factors += 1
        starts = np.arange(0, len(gap), PRODUCT)
        self.need -= np.log(np.multiply.reduceat(factors, starts)).sum(axis=0)
        np.maximum(self.need, 0, out=self.need)
        self.squares += np.einsum("tk,tk->k", gap, gap)
        self.t += len(gap)

    def stand(self) -> np.ndarray:
        """Bet on all draws: which of the means no bet rejects."""
        n, left = len(self.draws), np.arange(len(self.mean))
        stands = np.zeros(len(left), bool)
        while left.size and self.t < n:
            steps = min(STRIDE, -(-(n - self.t) // self.together))
            bets = np.array([self.bet() for _ in range(steps)])
            self.ledger.append((left, bets))
            open_ = ~(self.need <= SLACK)  # not a number rejects nothing
            left = left[open_]
            for name in ("question", "mean", "need", "squares"):
                setattr(self, name, getattr(self, name)[open_])
            if self.t < n:
                self._set_limits()
        stands[left] = True
        return stands

    def bets_of(self, stood: Counts) -> Array:
        """All bets of tests that stood: (n, tests)."""
        bets = np.concatenate([bets[:, np.searchsorted(left, stood)] for left, bets in self.ledger])
        return np.repeat(bets, self.together, axis=0)[: len(self.draws)]
