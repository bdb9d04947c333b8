"""Betting in rounds: the mean over questions that are not alike, each draw centred on its own.

The draws of the questions are met in rounds, in each of which every question has its share: with
weights a_i and r draws of question i in a round, each is staked by c = a_i/r. In a round all of
them are bet on at once, with one bet lambda >= 0 and one centre d_i a question, both made of
earlier rounds alone, the centres such that sum_i a_i d_i = 0. Against the claim "the weighted mean
is m or more" the wealth is multiplied by

    prod_i prod_t [1 + lambda c_it (m - x_it + d_i)],

where lambda is small enough that no factor is negative, whatever x in [0, 1].

*It holds.* Given the past the draws of a round are independent, so the expected product is
prod [1 + lambda c_it (m - mu_i + d_i)], of factors >= 0, and by 1 + x <= e^x at most
exp(lambda sum_i a_i (m - mu_i + d_i)) = exp(lambda sum_i a_i (m - mu_i)). If the weighted mean is m
or more, that is at most 1: the wealth is a nonnegative supermartingale from round to round, and
reaches 1/alpha with chance at most alpha (Ville). Within a round nothing may be learnt: the draws
of one question alone say nothing of the mean over all.

*Why centres.* What a bet loses is about lambda^2 times the squares of what it is on. Without
centres those are the spread of all questions' scores together; d_i, near question i's own mean less
the mean of all, takes away what lies between the questions, which is no chance. Questions that
always leak and questions that never do then cost nothing.

*What is bet on* may be any reading of the draws between limits that earlier rounds fix, and where
its expectation given these is above mu_i, the proof above holds the more.

*Stretches.* Fixed ends cut the values that m may have into stretches, and all m of one are tested
by the bets made for its lower end: lambda is small enough for the others too, and for given bets
the wealth grows with m. What follows is as in `betting`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from leakbound.stats.betting import HALVINGS, PRODUCT, SLACK, Style, arcsine, once
from leakbound.stats.estimate import Array, Counts
from leakbound.stats.evidence import Rows
from leakbound.stats.whole import halved

STYLE = Style(prior=1.0, caution=0.9)
MOST = 512  # rounds: more take longer, and ends lie less than 1 % nearer on the whole
FEWEST = 8  # rounds below which there is too little to learn from, and the portfolio is narrower
LEARNT = {4: 100, 5: 24}  # fewer rounds that suffice, of so many questions
FINENESS = 32  # ends for each square root of a draw
GRID = (500, 20_000)
MOST_MET = 2**22  # draws in all beyond which those of a binary scorer are met by their counts
TINY = 1e-9  # of what no draw can reach: a bet on it cannot lose
TESTS = 65_536  # draws times means at once, to fill the cache; changes no result


@dataclass(frozen=True, slots=True)
class Met:
    """One round as it is read: a value for each unit, between limits known before the round."""

    values: Array
    low: float
    high: Array | float


Reading = Callable[[Counts, Array], Met]
"""(the row of each unit of a round, the units) -> the round as it is read; rounds come in turn."""


def mean_upper(
    rows: Rows, weights: Array, alpha: float, grid: Callable[[int], Array] | None = None
) -> float:
    """Upper bound at 1 - alpha on sum_i a_i mu_i / sum_i a_i, mu_i the mean of row i.

    Conditions: independent draws, those of a row of one law and in random order (`rows.keys`),
    numbers of draws and weights a_i >= 0 fixed beforehand. As many rounds as the row with fewest
    draws has, or the half, a third ... of them, `MOST` at most; draws are shared out evenly. A
    missing draw counts as 1. `grid` gives the ends, descending, for a number of them that follows
    from that of the draws.
    """
    plan = planned(rows, weights)
    return least_rejected(plan.bets(), (grid or arcsine)(plan.ends), alpha, 1.0)


def planned(rows: Rows, weights: Array) -> Rounds:
    """The rounds of all draws; of more than `MOST_MET` leaks and other draws, by their counts."""
    weighted = weights > 0
    rows, n = rows.only(weighted), rows.n[weighted]
    fewest = int(n.min())
    number = fewest // math.ceil(fewest / MOST)
    if rows.binary and n.sum() > MOST_MET:
        return Rounds.of_leaks(rows, weights[weighted], number)
    return Rounds.of(rows.in_order(missing=1), n, weights[weighted], number)


def enough(n: Counts) -> bool:
    """Whether so many draws of each question teach bets in rounds enough; scores play no part."""
    fewest = int(n.min())
    return fewest >= FEWEST or any(
        fewest >= rounds and len(n) >= questions for rounds, questions in LEARNT.items()
    )


def as_they_are(row: Counts, scores: Array) -> Met:
    return Met(scores, 0.0, 1.0)


@dataclass(frozen=True, slots=True)
class RoundBets:
    """The bets of one round: residuals x - d and stakes, one a draw, largest stake 1.

    Each residual is of `counts` draws. All x lie in [`low`, `high`], and `reach` is the largest
    residual there could be; `centre` and `spread` forecast the mean of all and the mean square
    around it; `left` is the sum of squared stakes from this round on, `before` the number of draws
    until it.
    """

    residuals: Array
    stakes: Array
    counts: Counts
    low: float
    high: float
    reach: float
    centre: float
    spread: float
    left: float
    before: int


@dataclass(frozen=True, slots=True)
class Rounds:
    """All rounds in turn: units, each a draw or several, their rows and stakes.

    `cuts` ends each round; each unit is there `counts` times.
    """

    units: Array
    row: Counts
    stakes: Array
    counts: Counts
    cuts: Counts
    weights: Array

    @classmethod
    def of(cls, units: Array, n: Counts, weights: Array, number: int) -> Rounds:
        """Share the units of each row, (Q, widest, ...) of which n_i count, among so many rounds.

        There are `number` <= min n of them.
        """
        row, place = np.nonzero(np.arange(units.shape[1]) < n[:, None])
        # draw t of n_i is in round floor(t T/n_i): evenly many in each, at least one
        turn = place * number // n[row]
        share = np.bincount(row * number + turn, minlength=len(n) * number)
        stakes = weights[row] / share[row * number + turn]
        order = np.lexsort((place, row, turn))
        cuts = np.cumsum(np.bincount(turn, minlength=number))
        stakes, once_each = stakes[order] / stakes.max(), np.ones(len(order), np.int64)
        return cls(units[row, place][order], row[order], stakes, once_each, cuts, weights)

    @classmethod
    def of_leaks(cls, rows: Rows, weights: Array, number: int) -> Rounds:
        """Share the draws of a binary scorer by their counts: the places of the leaks are random.

        A missing draw is a leak. In each round, a row has a unit for its leaks and one for its
        other draws.
        """
        assert rows.keys is not None, "rows that are met in rounds have an order"
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
        return cls(units.ravel(), row.ravel(), stakes, counts.ravel(), cuts, weights)

    @property
    def ends(self) -> int:
        """The number of ends that so many draws need."""
        return int(np.clip(math.ceil(FINENESS * math.sqrt(self.counts.sum())), *GRID))

    def bets(self) -> list[RoundBets]:
        """The bets on the draws as they are."""
        inputs = self.units, self.row, self.stakes, self.counts, self.cuts, self.weights
        return once(lambda: list(self.read(as_they_are)), "rounds", *inputs)

    def seen(self, rounds: int) -> tuple[Counts, Counts]:
        """The number of draws of each row in the first rounds, and how many of them leak: (Q,)."""
        first, size = slice(0, int(self.cuts[rounds - 1])), len(self.weights)
        row, counts = self.row[first], self.counts[first]
        sums = (
            np.bincount(row, part, minlength=size) for part in (counts, counts * self.units[first])
        )
        drawn, leaks = (part.astype(np.int64) for part in sums)
        return drawn, leaks

    def read(self, reading: Reading) -> Iterator[RoundBets]:
        """Each round, read in turn, with what earlier ones say of it."""
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
        for i, (place, round_) in enumerate(zip(places, met, strict=True)):
            yield RoundBets(
                residuals=residuals[place],
                stakes=self.stakes[place],
                counts=self.counts[place],
                low=round_.low,
                high=float(np.max(round_.high)),
                reach=float(np.max(round_.high - centres[place])),
                centre=float(centre[i]),
                spread=float(spread[i]),
                left=float(squared[place.start]),
                before=int(before[place.start]),
            )

    def _forecasts(self, values: Array) -> tuple[Array, Array, Array]:
        """The centres d_i, the mean of all, and the mean square of x_i - d_i around it.

        Of each round, by those before it. d_i is the question's mean less that of all, shrunk by
        what of the differences between the means seen is not chance; 0 as long as each question
        was drawn once at most.
        """
        count, total, squares = map(self._before, (np.ones_like(values), values, values**2))
        known, twice = count.all(axis=1), (count > 1).all(axis=1)
        met = np.maximum(count, 1)
        mean = total / met
        centre = mean @ self.weights / self.weights.sum()
        apart = mean - centre[:, None]
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
        centres = np.where(twice, shrunk, 0)[:, None] * apart
        spread = np.where(twice, spread, np.where(known, moved, 0.25))
        return centres, np.where(known, centre, 0.5), spread

    def _before(self, numbers: Array) -> Array:
        """The sum over the draws of each question in all rounds before each: (rounds, Q)."""
        shape = len(self.cuts), len(self.weights)
        turn = np.repeat(np.arange(shape[0]), np.diff(self.cuts, prepend=0))
        place, numbers = turn * shape[1] + self.row, self.counts * numbers
        sums = np.bincount(place, numbers, minlength=math.prod(shape))
        sums = np.roll(sums.reshape(shape), 1, axis=0)
        sums[0] = 0
        return np.asarray(np.cumsum(sums, axis=0))


def least_rejected(plan: Iterable[RoundBets], ends: Array, alpha: float, top: float) -> float:
    """The least m such that all from it to `top` are rejected; `ends` descend."""
    rounds = list(plan)
    most = max(TESTS // max(len(round_.stakes) for round_ in rounds), 32)
    high, start, goal = top, 0, math.log(1 / alpha)
    near = np.count_nonzero(ends > _guess(rounds, goal)) + len(ends) // 512
    while start < len(ends):
        size = near - start if start < near else len(ends) // 64 + 1
        block = ends[start : start + min(size, most)]
        stands = _stands(rounds, block, goal)
        if stands.any():
            first = int(stands.argmax())
            return _within(rounds, block[first], block[first - 1] if first else high, alpha)
        high, start = float(block[-1]), start + len(block)
    return high


def _guess(rounds: list[RoundBets], goal: float) -> float:
    """Near the bound: how many tests run at once, and no result, depends on it."""
    last, stakes = rounds[-1], sum(float(round_.counts @ round_.stakes) for round_ in rounds)
    return last.centre + math.sqrt(2 * goal * last.spread * rounds[0].left) / stakes


def _stands(rounds: list[RoundBets], means: Array, goal: float) -> np.ndarray:
    """Which means no bet rejects."""
    need, open_ = np.full(len(means), goal), np.arange(len(means))
    for round_ in rounds:
        m = means[open_]
        factors = np.subtract.outer(m, round_.residuals)
        factors *= np.multiply.outer(_bet(round_, m, need[open_]), round_.stakes)
        factors += 1
        need[open_] -= _logs(factors, round_.counts)
        open_ = open_[~(need[open_] <= SLACK)]  # not a number rejects nothing
        if not open_.size:
            break
    stands = np.zeros(len(means), bool)
    stands[open_] = True
    return stands


def _logs(factors: Array, counts: Counts) -> Array:
    """The sum of the logarithms of each row of factors, each taken `counts` times."""
    if (counts != 1).any():
        return np.asarray(np.log(factors) @ counts)
    starts = np.arange(0, factors.shape[1], PRODUCT)
    return np.asarray(np.log(np.multiply.reduceat(factors, starts, axis=1)).sum(axis=1))


def _within(rounds: list[RoundBets], low: float, high: float, alpha: float) -> float:
    """The least m in [low, high] that the bets made for `low` reject."""
    mean, need = np.array([low]), np.array([math.log(1 / alpha)])
    bets = []
    for round_ in rounds:
        bets.append(_bet(round_, mean, need) * round_.stakes)
        gained = np.log1p(bets[-1] * (mean - round_.residuals)) @ round_.counts
        need = np.maximum(need - gained, 0)
    ends = np.cumsum([len(bet) for bet in bets]) - 1
    stake = np.concatenate(bets)
    counts = np.concatenate([round_.counts for round_ in rounds])
    residuals = np.concatenate([round_.residuals for round_ in rounds])

    def won(m: Array) -> np.ndarray:
        wealth = (counts * np.log1p(stake * (m - residuals))).cumsum()
        return np.asarray(wealth[ends].max(keepdims=True) >= math.log(1 / alpha) - SLACK)

    return float(halved(won, np.array([high]), mean, HALVINGS)[0][0])


def _bet(round_: RoundBets, m: Array, need: Array) -> Array:
    """The bet that reaches the goal in the draws that are left, if the forecasts are right."""
    most, prior = np.maximum((m - round_.low) * (round_.high - m), TINY), STYLE.prior
    squares = round_.before * (round_.spread + (m - round_.centre) ** 2)
    guess = (squares + prior * most + np.sqrt(prior * squares)) / (round_.before + prior)
    # Centred draws may spread more than m(1 - m), which limits the variance around m itself.
    limit = np.maximum(most, round_.spread)
    bet = np.sqrt(2 * need / (round_.left * np.minimum(guess, limit)))
    return np.minimum(bet, STYLE.caution / np.maximum(round_.reach - m, TINY))
