"""Bound the mean over a data set from the pooled draws of all its questions.

The draws are independent but not identically distributed, because questions
differ. So bounds for i.i.d. draws are not valid. Three other bounds are valid. They are Hoeffding's
form of Clopper-Pearson ("Hoeffding's form" below), betting in rounds (module `rounds`), and the
portfolio mixture (module `portfolio`). The number of draws of each question must be fixed in
advance. These numbers, the weights and the scorer's declared range decide which of the three bounds
is used.

*Binary scorer, the same n for every question.* Hoeffding's form, with upper bound U, is narrower if
the questions have similar leak probabilities. Betting in rounds is narrower if these probabilities
differ.

*With at least `PILOTED` draws of each question*, a pilot selects one of these
two bounds. The pilot is the first 1 % of the rounds, at least 2 rounds. The
spread of the pilot's draws within and between questions selects the bound. The
selected bound uses only the draws after the pilot and all of alpha. Given the
pilot, the choice is fixed and the later draws are fresh, so the bound is valid.
The choice affects widths, never validity.

*With fewer draws* the upper bound is the smaller of two bounds: U at a fraction `POOLED` of alpha,
and betting in rounds at the rest of alpha. The smaller bound fails only if one of the two bounds
fails (Bonferroni). For similar questions, .9 of alpha instead of alpha widens a one-sided bound by
at most 5 % at 90 % confidence, and by some 1 % at 99 %. Betting in rounds need not test means above
U, so its grid starts at the smallest grid point that is not below U. If U is valid, the true mean
is at most U. Then the bound is below the true mean only if the test in the cell of the true mean
rejects. The probability of this event is at most the part of alpha that is spent on rounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from leakbound.errors import InputError
from leakbound.stats import portfolio, rounds
from leakbound.stats.about import Scope
from leakbound.stats.arrays import relative
from leakbound.stats.betting import arcsine
from leakbound.stats.estimand import Terms, bounded
from leakbound.stats.estimate import Array, Counts, Estimate, error_rate
from leakbound.stats.evidence import Rows, sample_mean
from leakbound.stats.leak_at_k import FEWEST_GROUPS, block_maxima, unbiased
from leakbound.stats.proportion import CLOPPER_PEARSON, clopper_pearson_upper
from leakbound.stats.quantity import LEAKAGE, Quantity
from leakbound.stats.rounds import ONE_SET, Sets

ROUNDS = "betting in rounds"
HOEFFDING = "Clopper-Pearson, Hoeffding's form"
POOLED = 0.9  # fraction of alpha for Hoeffding's form if rounds are used too
EITHER = f"{HOEFFDING}, at {POOLED:g} of alpha, or {ROUNDS} at the rest"
PILOTED = 160  # fewest draws per question for a pilot, which takes at most 1.25 %
SETS_PILOTED = 64  # `PILOTED` for two sets of questions: Hoeffding's form is rarely narrow
LEAST_PILOT = 2  # smallest number of rounds of the pilot; one shows no spread within a question
GAIN = 1.12  # select rounds only if predicted narrower by this factor
BY_PILOT = f"{HOEFFDING}, or {ROUNDS}, chosen by a pilot"
_LARGEST = ", over the largest of each"
BLOCKS = 1  # purpose of the order of blocks, independent of the order that cuts draws into blocks


def mean_over_questions(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the weighted mean over these questions of E[X_i], which is p_i for a binary scorer.

    The draws must be independent, and their number per question fixed in advance.

    *Scores in [0, 1].* The mean is bounded by betting in rounds (see `rounds`). This needs at least
    8 draws of each question with a weight above 0 (5 draws with at least 24 questions, 4 draws with
    at least 100). With fewer draws, the portfolio mixture over all draws is used. The stakes on
    question i, with weight a_i and n_i draws, are proportional to a_i/n_i. The mixture needs no
    order of the draws.

    *Binary scorer.* Clopper-Pearson on the pool of S leaks in M draws is not valid for unequal
    probabilities. Clopper-Pearson becomes valid if its upper bound is raised to at least (S + 1)/M
    and its lower bound is lowered to at most (S - 1)/M ("Hoeffding's form", Hoeffding 1956).
    Hoeffding's form needs the same a_i/n_i for every question (without weights: the same n). With
    at least 160 draws of each question, a pilot chooses between Hoeffding's form and betting in
    rounds. With fewer draws the bound is the narrower of Hoeffding's form at .9 of alpha and
    betting in rounds at .1 of alpha. If a question has fewer than 8 draws, Hoeffding's form is used
    at all of alpha. If a_i/n_i differ, the mean is bounded as for scores in [0, 1]. For a single
    question the draws are i.i.d., so the bound is Clopper-Pearson.
    """
    equal = np.ones(rows.questions) if quantity.weights is None else quantity.weights
    rows = rows.ordered(terms.seed)
    return _mean(rows, rows, relative(equal, rows.questions), terms)


def mean_over_sets(rows: Rows, sizes: tuple[int, int], terms: Terms) -> Estimate:
    """Bound the mean leakage over two sets of equal total weight; the first set's rows come first.

    This is the bound of `mean_over_questions` with weights 1/N_1 and 1/N_2 for sets of N_1 and
    N_2 questions. The centres of the rounds follow the means of the sets. With at least 64 draws of
    each question, a pilot chooses the bound.
    """
    sets = slice(sizes[0]), slice(sizes[0], None)
    rows = rows.ordered(terms.seed)
    weights = relative(1 / np.repeat(sizes, sizes), rows.questions)
    return _mean(rows, rows, weights, terms, sets)


def largest_over_questions(rows: Rows, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean over these questions of leak@k, for all given k <= n simultaneously.

    The seed determines a separate random order of the i.i.d. draws of each question. In this order,
    the draws are cut into floor(n/k) blocks of k, and the remaining draws are dropped. The block
    maxima are independent, and the expectation of a maximum is leak@k of its question. So a bound
    on the mean of these expectations is a bound on the quantity. If there are several k, alpha is
    split equally over them (Bonferroni). leak@k grows with k, and all bounds are valid
    simultaneously. So a lower bound for a smaller k is also valid for a larger k, and an upper
    bound for a larger k is also valid for a smaller k.

    `value` is the mean of the unbiased estimates over the scored draws, NaN where a question has
    fewer than 4 k scored draws. These estimates use all subsets of k draws, not only the blocks, so
    `value` may be outside a narrow interval.
    """
    sizes = quantity.sizes
    if sizes.max() > rows.n.min():
        raise InputError(
            f"`k` must not exceed the number of draws, got k = {sizes.max()} for n = "
            f"{rows.n.min()}. Draw more, or bound leak@k of each question, which allows any k."
        )
    rows = rows.ordered(terms.seed)
    shared = replace(terms, confidence=1 - error_rate(terms.confidence) / sizes.size)
    bounds = [_mean_largest(rows, int(size), shared) for size in np.sort(sizes.flat)]
    methods = " or ".join(dict.fromkeys(bound.method for bound in bounds))
    if not sizes.ndim:
        return replace(bounds[0], method=f"{methods}{_LARGEST} {sizes}")
    lower = np.maximum.accumulate([float(bound.lower) for bound in bounds])
    upper = np.minimum.accumulate([float(bound.upper) for bound in bounds[::-1]])[::-1]
    place = np.searchsorted(np.sort(sizes), sizes)
    return replace(
        bounds[0],
        about=replace(bounds[0].about, parameter=quantity.at),
        value=np.array([float(bound.value) for bound in bounds])[place],
        lower=lower[place],
        upper=upper[place],
        confidence=terms.confidence,
        method=f"{methods}{_LARGEST} k, Bonferroni over k",
    )


def _mean_largest(rows: Rows, k: int, terms: Terms) -> Estimate:
    """Bound the mean over the rows of leak@k for one k."""
    above, below = (_maxima(rows, k, missing=score) for score in (1.0, 0.0))
    bound = _mean(above, below, np.ones(rows.questions), terms)
    assert rows.keys is not None, "blocks are cut in an order"
    return replace(
        bound,
        about=replace(bound.about, quantity="leak@k", parameter=float(k)),
        value=_mean_unbiased(rows, np.array(k)),
        n=int(rows.n.sum()),
        missing=int(rows.missing.sum()),
        seed=rows.keys.one,
    )


def _mean(above: Rows, below: Rows, weights: Array, terms: Terms, sets: Sets = ONE_SET) -> Estimate:
    """Bound the weighted mean: from above by the rows `above`, from below by the rows `below`."""
    method, bound = _upper_bound(weights, above, sets)
    scored = (weights > 0) & (above.counts.sum(axis=1) > 0)
    means = sample_mean(above.only(scored))
    value = np.average(means, weights=weights[scored]) if scored.any() else np.nan
    weighted = (weights != weights[0]).any()
    scope: Scope = "weighted mean" if weighted else "mean"
    return bounded(
        replace(LEAKAGE.about(binary=above.binary), scope=scope, over=len(weights)),
        above,
        np.array(value),
        lambda alpha: 1 - bound(below.mirrored(), alpha),
        lambda alpha: bound(above, alpha),
        terms,
        together=True,
        method=method,
        seed=None
        if above.keys is None or method not in (ROUNDS, EITHER, BY_PILOT)
        else above.keys.one,
    )


def _upper_bound(
    weights: Array, rows: Rows, sets: Sets
) -> tuple[str, Callable[[Rows, float], Array]]:
    """Return the name and the rule of an upper bound of sum_i a_i mu_i / sum_i a_i.

    The choice of the rule does not depend on the scores.
    """
    n = rows.n
    share = weights / n
    equal_shares = np.ptp(share) <= 1e-12 * share.max()
    if rows.binary and len(n) == 1:
        return CLOPPER_PEARSON, lambda rows, alpha: np.asarray(
            clopper_pearson_upper(rows.hits + rows.missing, rows.n, alpha)[0]
        )
    if rows.binary and equal_shares:
        if n.min() < rounds.FEWEST:
            return HOEFFDING, hoeffding_upper
        piloted = PILOTED if sets == ONE_SET else SETS_PILOTED
        if n.min() >= piloted and n.min() == n.max():
            return BY_PILOT, partial(_piloted_upper, weights, sets)
        return EITHER, partial(_either_upper, weights, sets)
    if rounds.enough(n[weights > 0]):
        return ROUNDS, lambda rows, alpha: np.asarray(
            rounds.mean_upper(rows, weights, alpha, sets=sets)
        )
    name = "portfolio mixture" if equal_shares else "portfolio mixture, weighted"
    return name, partial(_weighted_upper, weights)


def _either_upper(weights: Array, sets: Sets, rows: Rows, alpha: float) -> Array:
    """Return the smaller of Hoeffding's form and betting in rounds, each at its part of alpha."""
    pooled = float(hoeffding_upper(rows, POOLED * alpha))

    def from_there(number: int) -> Array:
        ends = arcsine(number)
        return ends[max(np.count_nonzero(ends >= pooled) - 1, 0) :]

    betting = rounds.mean_upper(rows, weights, (1 - POOLED) * alpha, from_there, sets)
    return np.asarray(min(pooled, betting))


def _piloted_upper(weights: Array, sets: Sets, rows: Rows, alpha: float) -> Array:
    """Return the bound that a pilot chooses, computed from the draws after the pilot."""
    plan = rounds.planned(rows, weights, sets)
    pilot = max(LEAST_PILOT, len(plan.cuts) // 100)
    n, leaks = plan.seen(pilot)
    mean, chance = leaks.sum() / n.sum(), 0.5 / n.sum()
    within = math.sqrt((leaks * (n - leaks) / n / (n - 1)).mean() + chance)
    if GAIN * within < math.sqrt(mean * (1 - mean) + chance):
        bets = plan.bets()[pilot:]
        return np.asarray(rounds.least_rejected(bets, arcsine(plan.grid_size), alpha, 1.0))
    rest = rows.hits + rows.missing - leaks
    return hoeffding_upper(Rows.of_hits(rest, rows.n - n), alpha)


def _weighted_upper(weights: Array, rows: Rows, alpha: float) -> Array:
    """Return the weighted portfolio bound, with bets chosen for sum_i n_i c_i^2 draws."""
    share = weights / rows.n
    stakes = float(rows.n @ (share / share.max()) ** 2)
    bets = portfolio.bets(max(round(stakes), 1), alpha)
    return np.asarray(portfolio.weighted_mean_upper(rows, weights, alpha, bets))


def hoeffding_upper(rows: Rows, alpha: float) -> Array:
    """Bound the mean of binary draws of unequal probability from above (Hoeffding 1956).

    Missing draws count as leaks.
    """
    n = rows.n.sum()
    hits = rows.hits.sum() + rows.missing.sum()
    return np.asarray(np.maximum(clopper_pearson_upper(hits, n, alpha), (hits + 1) / n))


def _maxima(leakage: Rows, k: int, *, missing: float) -> Rows:
    """Return the largest score of each block of k shuffled draws, one row per question."""
    widest = int(leakage.n.max()) // k

    def rule(rows: Rows) -> Array:
        maxima = block_maxima(rows.shuffled(missing=missing), k)
        unused = ((0, 0), (0, widest - maxima.shape[1]))
        return np.pad(maxima, unused, constant_values=np.nan)

    maxima = leakage.each(rule)
    blocks = Rows.of(maxima, ~np.isnan(maxima), binary=leakage.binary)
    return replace(blocks, keys=None if leakage.keys is None else leakage.keys.apart(BLOCKS))


def _mean_unbiased(leakage: Rows, k: Counts) -> float:
    scored = leakage.scored()
    if (scored.n < FEWEST_GROUPS * k).any():
        return float("nan")
    return float(scored.each(partial(unbiased, k=k)).mean())
