"""Betting in rounds: bound the mean over questions with different distributions.

A round has at least one draw of every question. If question i has weight a_i
and r draws in a round, the stake on each of these draws is c = a_i/r. All draws
of a round are bet on together, with one bet lambda >= 0 for the round and one
centre d_i per question. The bet and the centres are computed from earlier
rounds only, and sum_i a_i d_i = 0. In a test of the claim "the weighted mean is
m or more", a round multiplies the wealth by

    prod_i prod_t [1 + lambda c_it (m - x_it + d_i)],

where lambda is small enough that no factor is negative, for any x in [0, 1].

*Proof.* Given the past, the draws of a round are independent. So the expected
product is prod [1 + lambda c_it (m - mu_i + d_i)], with mu_i the mean of
question i. All factors are >= 0. By 1 + x <= e^x, the expected product is at
most exp(lambda sum_i a_i (m - mu_i + d_i)) = exp(lambda sum_i a_i (m - mu_i)).
If the weighted mean is m or more, this is at most 1. So the wealth is a
nonnegative supermartingale from round to round, and reaches 1/alpha with
probability at most alpha (Ville). A bet must not depend on draws of the same round. The reason is
that the wealth is a supermartingale only over complete rounds, because the mean of a single
question may be below m.

*Why centres.* A bet loses about lambda^2 times the squared residuals x_it - d_i
- m. Without centres these squares contain the spread between questions, which
is not random. The centre d_i is near the mean of question i minus the mean of
all questions, so subtracting it removes that spread. Then questions that always
leak and questions that never leak do not widen the bound.

*Sets of questions.* Questions may form sets that are expected to differ, such
as the questions and the control questions of `excess_over_sets`. One round is
enough to estimate the mean of a set, but not the mean of each question. So from
the second round on, a centre contains the mean of its set minus the mean of all
questions. From the third round on, it also contains the question's deviation
from its set. Let A_s be the total weight of set s, m_s the mean of set s, and m the mean of the m_s
weighted by A_s. Then the first part satisfies sum_i a_i d_i = sum_s A_s (m_s - m) = 0. The second
part sums to 0 within each set. Both parts are computed from earlier rounds only, so the proof above
is valid. Let C_s be the largest stake in set s, and h_s the largest possible x - d in the set. Then
the factors of set s are at least 1 - lambda C_s (h_s - m). So lambda <= c / max_s C_s (h_s - m)
keeps all factors at least 1 - c.

*Readings.* A bet may use a function of the draws (a reading) instead of the
scores, if earlier rounds determine the function and its range. If the
expectation of a reading, given earlier rounds, is above mu_i, the expected
wealth is smaller, so the test stays valid.

*Cells.* A fixed grid cuts the possible m into cells. The bets made for the lowest m of a cell test
all m of the cell. This is valid because lambda is small enough for every m of the cell, and for
given bets the wealth grows with m. The search for the bound is as in the module `betting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from leakbound.stats import betting
from leakbound.stats.betting import PRODUCT, Style, Tests, arcsine, cached
from leakbound.stats.estimate import Array, Counts
from leakbound.stats.evidence import Rows

STYLE = Style(prior=1.0, caution=0.9)
MOST = 512  # largest number: further rounds narrow bounds by less than 1 % on average
FEWEST = 8  # smallest number: with fewer rounds, the portfolio is narrower
LEARNT = {4: 100, 5: 24}  # number of rounds that suffices from this number of questions on
FINENESS = 32  # grid points, times the square root of the number of draws
GRID = (500, 20_000)
MOST_MET = 2**22  # with more draws in total, leaks of a binary scorer are processed as counts
TINY = 1e-9  # smallest width of a range, to avoid division by 0
TESTS = 65_536  # draws times means in one batch, to fill the cache; changes no result
FEWEST_TESTS = 32


@dataclass(frozen=True, slots=True)
class Met:
    """The values that a reading assigns to the units of a round, with their range."""

    values: Array
    low: float
    high: Array | float


Reading = Callable[[Counts, Array], Met]
"""A function (the row of each unit of a round, the units) -> their values; one call per round."""
Sets = tuple[slice, ...]
"""Sets of questions as slices of consecutive rows, which together cover all rows."""
ONE_SET: Sets = (slice(None),)


def mean_upper(
    rows: Rows,
    weights: Array,
    alpha: float,
    grid: Callable[[int], Array] = arcsine,
    sets: Sets = ONE_SET,
) -> float:
    """Return the upper bound at 1 - alpha on sum_i a_i mu_i / sum_i a_i, mu_i the mean of row i.

    Conditions: draws are independent; within a row they are i.i.d. and in random order
    (`rows.keys`). The numbers of draws and the weights a_i >= 0 are fixed in advance. If m is the
    smallest number of draws of a row, the number of rounds is the largest of m, m/2, m/3, ... that
    is at most `MOST`. Draws are distributed evenly over the rounds. A missing draw counts as 1.
    `grid` returns a descending grid of a given size.
    """
    plan = planned(rows, weights, sets)
    return least_rejected(plan.bets(), grid(plan.grid_size), alpha, 1.0)


def planned(rows: Rows, weights: Array, sets: Sets = ONE_SET) -> Rounds:
    """Distribute all draws over rounds; more than `MOST_MET` binary draws are handled as counts."""
    weighted = weights > 0
    rows, n = rows.only(weighted), rows.n[weighted]
    fewest = int(n.min())
    number = fewest // math.ceil(fewest / MOST)
    if rows.binary and n.sum() > MOST_MET:
        return Rounds.of_leaks(rows, weights[weighted], number, sets)
    return Rounds.of(rows.in_order(missing=1), n, weights[weighted], number, sets)


def enough(n: Counts) -> bool:
    """Return whether n draws per question are enough for bets in rounds."""
    fewest = int(n.min())
    return fewest >= FEWEST or any(
        fewest >= rounds and len(n) >= questions for rounds, questions in LEARNT.items()
    )


def as_they_are(row: Counts, scores: Array) -> Met:
    return Met(scores, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class PlannedRound:
    """The draws of a round and the forecasts for it.

    Attributes:
        residuals: x - d of each unit, its value minus its question's centre; x is in [`low`,
            `high`].
        stakes: the stake of each unit, at most 1.
        equal: whether all stakes are equal.
        counts: the number of draws of each unit.
        reach: the largest possible residual of each set of questions.
        largest: the largest stake of each set in any round.
        centre: the forecast of the mean of all draws.
        spread: the forecast of the mean square of the residuals around `centre`.
        left: the sum of squared stakes from this round on.
        before: the number of draws in earlier rounds.
    """

    residuals: Array
    stakes: Array
    equal: bool
    counts: Counts
    low: float
    high: float
    reach: Array
    largest: Array
    centre: float
    spread: float
    left: float
    before: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds of draws, as units in the order of the rounds.

    A unit is one draw, or several draws with equal scores.

    Attributes:
        units: the score of each unit, or the input of the reading.
        row: the row of each unit.
        stakes: the stake of each unit, at most 1.
        counts: the number of draws of each unit.
        cuts: the index after the last unit of each round.
        weights: the weight of each row.
        sets: the sets of questions.
    """

    units: Array
    row: Counts
    stakes: Array
    counts: Counts
    cuts: Counts
    weights: Array
    sets: Sets

    @classmethod
    def of(
        cls, units: Array, n: Counts, weights: Array, number: int, sets: Sets = ONE_SET
    ) -> Rounds:
        """Distribute the first n_i units of each row of [Q, widest, ...] over `number` rounds."""
        row, place = np.nonzero(np.arange(units.shape[1]) < n[:, None])
        # draw t of n_i is in round floor(t T/n_i): nearly equal numbers, at least one each
        turn = place * number // n[row]
        share = np.bincount(row * number + turn, minlength=len(n) * number)
        stakes = weights[row] / share[row * number + turn]
        order = np.argsort(turn.astype(np.uint16), kind="stable")
        cuts = np.cumsum(np.bincount(turn, minlength=number))
        stakes, once_each = stakes[order] / stakes.max(), np.ones(len(order), np.int64)
        return cls(units[row, place][order], row[order], stakes, once_each, cuts, weights, sets)

    @classmethod
    def of_leaks(cls, rows: Rows, weights: Array, number: int, sets: Sets) -> Rounds:
        """Distribute the draws of a binary scorer over rounds by their counts.

        A missing draw is a leak. In each round, a row has a unit for its leaks and a unit for its
        other draws. The keys of the rows decide the number of leaks per round.
        """
        assert rows.keys is not None, "rows that are bet on in rounds have keys"
        ends = -(-np.outer(rows.n, np.arange(number + 1)) // number)
        sizes = np.diff(ends, axis=1)
        leaks = np.stack(
            [
                rng.multivariate_hypergeometric(size, hits)
                for rng, size, hits in zip(
                    rows.keys.generators(), sizes, rows.hits + rows.missing, strict=True
                )
            ]
        )
        counts = np.stack([sizes - leaks, leaks], axis=-1).swapaxes(0, 1)
        shape = counts.shape
        units = np.broadcast_to([0.0, 1.0], shape)
        row = np.broadcast_to(np.arange(shape[1])[:, None], shape)
        stakes = np.broadcast_to((weights[:, None] / sizes).T[..., None], shape)
        cuts = np.arange(1, number + 1) * shape[1] * 2
        stakes = stakes.ravel() / stakes.max()
        return cls(units.ravel(), row.ravel(), stakes, counts.ravel(), cuts, weights, sets)

    @property
    def grid_size(self) -> int:
        """Return the number of grid points for this number of draws."""
        return int(np.clip(math.ceil(FINENESS * math.sqrt(self.counts.sum())), *GRID))

    def bets(self) -> list[PlannedRound]:
        """Return bets on the unchanged scores."""
        inputs = self.units, self.row, self.stakes, self.counts, self.cuts, self.weights, self.sets
        return cached(lambda: list(self.read(as_they_are)), "rounds", *inputs)

    def seen(self, rounds: int) -> tuple[Counts, Counts]:
        """Return the numbers of draws and of leaks of each row in the first rounds, [Q] each."""
        first, size = slice(0, int(self.cuts[rounds - 1])), len(self.weights)
        row, counts = self.row[first], self.counts[first]
        sums = (
            np.bincount(row, part, minlength=size) for part in (counts, counts * self.units[first])
        )
        drawn, leaks = (part.astype(np.int64) for part in sums)
        return drawn, leaks

    def read(self, reading: Reading) -> Iterator[PlannedRound]:
        """Yield each round with its reading and with forecasts from earlier rounds."""
        begin, end = np.append(0, self.cuts[:-1]).tolist(), self.cuts.tolist()
        places = list(map(slice, begin, end))
        met = [reading(self.row[place], self.units[place]) for place in places]
        values = np.concatenate([round_.values for round_ in met])
        forecast, centre, spread = self._forecasts(values)
        turn = np.repeat(np.arange(len(met)), np.subtract(end, begin))
        centres = forecast[turn, self.row]
        residuals = values - centres
        squared = np.cumsum((self.counts * self.stakes**2)[::-1])[::-1]
        before = np.cumsum(self.counts) - self.counts
        sizes = [len(self.weights[rows]) for rows in self.sets]
        own_set = np.repeat(np.arange(len(sizes)), sizes)[self.row]
        largest = _largest(self.stakes, own_set)
        for i, (place, round_) in enumerate(zip(places, met, strict=True)):
            reach = round_.high - centres[place]
            yield PlannedRound(
                residuals=residuals[place],
                stakes=self.stakes[place],
                equal=bool(np.ptp(self.stakes[place]) == 0),
                counts=self.counts[place],
                low=round_.low,
                high=float(np.max(round_.high)),
                reach=_largest(reach, own_set[place]),
                largest=largest,
                centre=float(centre[i]),
                spread=float(spread[i]),
                left=float(squared[place.start]),
                before=int(before[place.start]),
            )

    def _forecasts(self, values: Array) -> tuple[Array, Array, Array]:
        """Return centres d_i, the mean of all draws, and the mean square of x_i - d_i around it.

        Each round's forecasts use earlier rounds only. Once every question has one draw, the centre
        of a question is the mean of its set minus the mean of all questions. Once every question
        has two draws, the question's deviation from its set is added, multiplied by the part of the
        variance of such deviations that is not noise.
        """
        count, total, squares = map(self._before, (np.ones_like(values), values, values**2))
        known, twice = count.all(axis=1), (count > 1).all(axis=1)
        met = np.maximum(count, 1)
        mean = total / met
        centre = mean @ self.weights / self.weights.sum()
        apart, centres = np.empty_like(mean), np.empty_like(mean)
        for rows in self.sets:
            of_set = mean[:, rows] @ self.weights[rows] / self.weights[rows].sum()
            apart[:, rows] = mean[:, rows] - of_set[:, None]
            centres[:, rows] = np.where(known, of_set - centre, 0)[:, None]
        trust = self.weights**2 / met
        trust /= trust.sum(axis=1, keepdims=True)
        moved = (trust * apart**2).sum(axis=1)
        variance = ((squares - total * mean) / np.maximum(count - 1, 1)).clip(0)
        within = (trust * variance).sum(axis=1)
        noise = within * (trust / met).sum(axis=1)
        between = moved / np.maximum(1 - (trust**2).sum(axis=1), 1e-12) - noise
        between = np.maximum(between, 0)
        shrunk = np.divide(between, between + noise, where=between > 0, out=np.zeros_like(between))
        spread = within + shrunk**2 * noise + (1 - shrunk) ** 2 * between
        centres += np.where(twice, shrunk, 0)[:, None] * apart
        spread = np.where(twice, spread, np.where(known, moved, 0.25))
        return centres, np.where(known, centre, 0.5), spread

    def _before(self, numbers: Array) -> Array:
        """Return the sum over the draws of each question in all earlier rounds: (rounds, Q)."""
        shape = len(self.cuts), len(self.weights)
        turn = np.repeat(np.arange(shape[0]), np.diff(self.cuts, prepend=0))
        place, numbers = turn * shape[1] + self.row, self.counts * numbers
        sums = np.bincount(place, numbers, minlength=math.prod(shape))
        sums = np.roll(sums.reshape(shape), 1, axis=0)
        sums[0] = 0
        return np.asarray(np.cumsum(sums, axis=0))


def _largest(values: Array, own_set: Counts) -> Array:
    """Return the largest value in each set."""
    return np.array([values[own_set == place].max() for place in range(own_set.max() + 1)])


def least_rejected(plan: Iterable[PlannedRound], grid: Array, alpha: float, top: float) -> float:
    """Return the smallest m such that all means from m to `top` are rejected; the grid descends."""
    rounds = tuple(plan)
    most = max(TESTS // max(len(round_.stakes) for round_ in rounds), FEWEST_TESTS)
    return float(betting.least_rejected(RoundBets(rounds, len(rounds), most), grid, top, alpha)[0])


@dataclass(slots=True)
class RoundBets:
    """Bets on all draws of a round together."""

    rounds: tuple[PlannedRound, ...]
    steps: int
    most: int
    rows: int = 1
    stride: int = 1

    def guess(self, alpha: float) -> Array:
        last, goal = self.rounds[-1], math.log(1 / alpha)
        stakes = sum(float(round_.counts @ round_.stakes) for round_ in self.rounds)
        spread = last.spread * self.rounds[0].left
        return np.array([last.centre + math.sqrt(2 * goal * spread) / stakes])

    def bet(self, tests: Tests) -> Array:
        round_ = self.rounds[tests.step]
        bet = _bet(round_, tests.mean, tests.need)
        stakes = round_.stakes[:1] if round_.equal else round_.stakes
        factors = np.multiply.outer(-bet, round_.stakes * round_.residuals)
        factors += np.multiply.outer(bet * tests.mean, stakes) + 1
        if (round_.counts != 1).any():
            tests.need -= np.log(factors) @ round_.counts
        else:
            starts = np.arange(0, factors.shape[1], PRODUCT)
            tests.need -= np.log(np.multiply.reduceat(factors, starts, axis=1)).sum(axis=1)
        tests.step += 1
        return bet

    def log_wealth(self, rows: Counts, bets: Array) -> Callable[[Array], Array]:
        stakes, counts, residuals = (
            np.concatenate(parts)
            for parts in zip(
                *(
                    (b * r.stakes, r.counts, r.residuals)
                    for b, r in zip(bets, self.rounds, strict=True)
                ),
                strict=True,
            )
        )
        ends = np.cumsum([len(round_.stakes) for round_ in self.rounds]) - 1

        def wealth(m: Array) -> Array:
            grown = (counts * np.log1p(stakes * (m - residuals))).cumsum()
            return np.asarray(grown[ends].max(keepdims=True))

        return wealth


def _bet(round_: PlannedRound, m: Array, need: Array) -> Array:
    """Return the bet that reaches the goal in the remaining draws, if the forecasts are right."""
    most, prior = np.maximum((m - round_.low) * (round_.high - m), TINY), STYLE.prior
    squares = round_.before * (round_.spread + (m - round_.centre) ** 2)
    guess = (squares + prior * most + np.sqrt(prior * squares)) / (round_.before + prior)
    # The variance of centred draws may exceed m(1 - m), the limit for draws in [0, 1] of mean m.
    limit = np.maximum(most, round_.spread)
    bet = np.sqrt(2 * need / (round_.left * np.minimum(guess, limit)))
    risk = (round_.largest[:, None] * (round_.reach[:, None] - m)).max(axis=0)
    return np.asarray(np.minimum(bet, STYLE.caution / np.maximum(risk, TINY)))
