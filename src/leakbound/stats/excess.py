"""Bounds on the excess: the leakage of a model minus the leakage of its control.

Let mu_i and nu_i be the expected leakage of question i for the model and for
its control. There are two ways to bound the excess. The difference of two bounds that share alpha
(`excess_of`) is valid even if the draws of the two models are dependent. However, the widths of the
two intervals add up. If all draws are independent, bets on the difference give narrower intervals.

*One question.* Draws x_t and y_t in random order are paired. Given the past, (x_t - y_t + 1)/2 is
in [0, 1] and has the mean (mu - nu + 1)/2, so `betting` bounds this mean. If the models have
different numbers of draws, the larger sample is cut into as many parts as the smaller sample has
draws. The mean of each part is then paired with one draw of the smaller sample.

*Over the questions.* The mean of (mu_i - nu_i) over N questions is 2 m - 1. Here m is the mean over
2N rows of draws: N rows with the draws x, and N rows with the draws 1 - y. These draws are
independent and not identically distributed, so `rounds` bounds m. The centres of `rounds` remove
the difference between rows near 0 and rows near 1.

*Two sets of questions in one model.* The mean over N_1 questions minus the mean over N_2 other
questions is 2 m - 1. Here m is the weighted mean over the rows x_i, each with weight 1/N_1, and the
rows 1 - y_j, each with weight 1/N_2. `mean_over_sets` bounds m, so only one bound spends alpha. If
neither set leaks, all x_i are 0 and all (1 - y_j) are 1. So the centres of `rounds` follow the mean
of each set from the second round on.

A lower bound on the excess is the negative of an upper bound on the control's leakage minus the
model's leakage. A missing draw counts as the worst case in both bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from leakbound.errors import InputError
from leakbound.stats import betting, rounds
from leakbound.stats.about import About, Beyond
from leakbound.stats.betting import Style
from leakbound.stats.estimand import Terms, bounded
from leakbound.stats.estimate import OPPOSITE, Array, BoundFunction, Estimate, Side, plain, share_of
from leakbound.stats.evidence import Pair, Rows, sample_mean
from leakbound.stats.mean_over_questions import mean_over_sets
from leakbound.stats.order import Keys, Seed, one_seed
from leakbound.stats.quantity import Quantity

STYLE = Style(prior=1.0, caution=0.95)
FEWEST_PAIRS = 32  # with fewer pairs the difference of two bounds may be narrower
CANDIDATE, CONTROL = 2, 3  # purposes of orders: one seed gives two independent orders


def excess(candidate: Estimate, control: Estimate, *, beyond: Beyond = "control") -> Estimate:
    """Bound the candidate's quantity minus the control's, from an estimate of each.

    The error rates add up: two estimates at confidence 1 - alpha/2 give an excess at confidence 1 -
    alpha, even if their draws are dependent. The upper bound is the candidate's upper bound minus
    the control's lower bound; the lower bound is the candidate's lower bound minus the control's
    upper bound. Missing draws count as the worst case in both bounds, as they do in each estimate.

    Args:
        candidate: an estimate of one question, or with one entry per question.
        control: an estimate of the same quantity, with the same number of entries.
        beyond: the reference that is subtracted: "control" (default), "own words", "baseline",
            "unstressed" or "other questions".

    Returns:
        The excess, with an upper bound, a lower bound or both, as far as the two estimates have the
        necessary bounds.

    Raises:
        InputError: estimates of different quantities, or both estimates bounded on the same side
            only.
    """
    ours, theirs = ((a.quantity, a.parameter, a.constant) for a in (candidate.about, control.about))
    if ours != theirs:
        raise InputError(
            f"`candidate` and `control` must bound the same quantity, got {candidate.estimand!r} "
            f"and {control.estimand!r}."
        )
    above = candidate.side != "lower" and control.side != "upper"
    below = candidate.side != "upper" and control.side != "lower"
    if not (above or below):
        raise InputError(
            "an excess needs an upper bound of one model and a lower bound of the other, got side "
            f"{candidate.side!r} for `candidate` and `control`. Use side 'both' for both."
        )
    reach = np.subtract(candidate.upper, control.lower), np.subtract(candidate.lower, control.upper)
    return replace(
        candidate,
        about=replace(candidate.about, beyond=beyond),
        value=candidate.value - control.value,
        lower=plain(reach[1]),
        upper=plain(reach[0]),
        confidence=candidate.confidence + control.confidence - 1,
        side="both" if above and below else "upper" if above else "lower",
        missing=candidate.missing + control.missing,
    )


def excess_of(
    more: BoundFunction,
    base: BoundFunction,
    *,
    beyond: Beyond = "control",
    confidence: float = 0.99,
    side: Side = "both",
) -> Estimate:
    """Bound the quantity of `more` minus the quantity of `base`, each bounded at half of alpha.

    Args:
        more: the function that bounds the quantity that may be larger.
        base: the function that bounds the quantity that is subtracted, for the same questions; its
            draws may depend on the draws of `more`.
        beyond: the reference that `base` is about: "control" (default), "own words", "baseline",
            "unstressed" or "other questions".
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        The excess, with the entries of the two bounds.

    Raises:
        InputError: bounds of different quantities, an invalid confidence or side, or input that a
            bound refuses.
    """
    share_of(confidence, side)  # raises for an invalid confidence or side
    half = (1 + confidence) / 2
    other = base(confidence=half, side=OPPOSITE[side])
    return excess(more(confidence=half, side=side), other, beyond=beyond)


def excess_over_sets(
    rows: Rows,
    others: Rows,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    seed: Seed = None,
) -> Estimate:
    """Bound the difference of mean leakage between two sets of questions in one model.

    The draws must be independent, and their numbers fixed in advance. **The draws of the two sets
    must share no random numbers.** Missing draws count as the worst case.

    Args:
        rows: the draws of the first set of questions, [N_1, d].
        others: the draws of the second set of questions, [N_2, d], scored by the same scorer.
        confidence: the probability that the bound is valid, in (0, 1).
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.
        seed: the seed of the order of the draws, as in `bound`: one number, or N_1 + N_2 keys.

    Returns:
        The estimate of the difference, in [-1, 1].

    Raises:
        InputError: different declared ranges of the two sets, or an invalid confidence or side.
    """
    if rows.binary != others.binary:
        raise InputError("`rows` and `others` need the same scorer, got binary and graded scores.")
    sizes = rows.questions, others.questions
    joined = rows.joined_with(others.mirrored())
    made = mean_over_sets(joined, sizes, Terms(confidence, side, seed=seed))
    value = sample_mean(rows.scored()).mean() - sample_mean(others.scored()).mean()
    return replace(
        made,
        about=replace(made.about, scope="mean", over=sizes[0], beyond="other questions"),
        value=float(value),
        lower=2 * float(made.lower) - 1,
        upper=2 * float(made.upper) - 1,
        n=int(rows.n.sum()),
    )


def difference(pair: Pair, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound each question's excess E[X] - E[Y], with X a score of the model and Y of its control.

    Draws must be i.i.d., and their numbers fixed in advance. **The draws of the two models must be
    independent**, so they must share no random numbers. Missing draws count as the worst case.
    """
    return _excess(pair, quantity.about(binary=pair.binary), _upper, terms, together=False)


def mean_difference(pair: Pair, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean of E[X_i] - E[Y_i] over these questions; conditions as in `difference`."""
    about = replace(quantity.about(binary=pair.binary), scope="mean", over=pair.questions)
    return _excess(pair, about, _mean_upper, terms, together=True)


def _excess(
    pair: Pair,
    about: About,
    upper: Callable[[Rows, Rows, float], Array],
    terms: Terms,
    *,
    together: bool,
) -> Estimate:
    """Bound the excess; `upper(a, b, alpha)` bounds the excess of a over b at 1 - alpha."""
    keys = Keys.read(terms.seed, pair.questions)
    mine = replace(pair.rows, keys=keys.apart(CANDIDATE))
    other = replace(pair.control, keys=keys.apart(CONTROL))
    beyond = mine.scored().each(sample_mean) - other.scored().each(sample_mean)
    made = bounded(
        replace(about, beyond="control"),
        mine,
        np.asarray(beyond.mean()) if together else beyond,
        lambda alpha: -upper(other, mine, alpha),
        lambda alpha: upper(mine, other, alpha),
        terms,
        span=(-1.0, 1.0),
        together=together,
        method=f"betting on differences{', in rounds' if together else ''}",
        seed=one_seed(mine.seed) if together else mine.seed,
    )
    missing = other.missing if isinstance(made.missing, np.ndarray) else int(other.missing.sum())
    return replace(made, missing=made.missing + missing)


def _upper(mine: Rows, other: Rows, alpha: float) -> Array:
    """Bound each question's excess from above, [Q]."""
    above, below = mine.in_order(missing=1), other.in_order(missing=0)
    numbers = np.stack([mine.n, other.n], axis=1)
    bounds = np.empty(len(numbers))
    for n, m in np.unique(numbers, axis=0).tolist():
        rows = (numbers == (n, m)).all(axis=1)
        pairs = min(n, m)
        gaps = _shares(above[rows, :n], pairs) - _shares(below[rows, :m], pairs)
        bounds[rows] = 2 * betting.mean_upper((gaps + 1) / 2, alpha, style=STYLE) - 1
    return bounds


def _mean_upper(mine: Rows, other: Rows, alpha: float) -> Array:
    rows = mine.joined_with(other.mirrored())
    return np.asarray(2 * rounds.mean_upper(rows, np.ones(len(rows.n)), alpha, _around_none) - 1)


def _around_none(number: int) -> Array:
    """Return descending grid points for (1 + excess)/2, finest at an excess of 0, -1 and 1."""
    beyond = np.sin(np.arange(number - 1, 0, -1) * math.pi / (2 * number)) ** 2
    return np.concatenate([1 + beyond, [1.0], 1 - beyond[::-1]]) / 2


def _shares(draws: Array, number: int) -> Array:
    """Cut each row into `number` nearly equal parts, and return their means, [Q, number]."""
    starts = -(-np.arange(number) * draws.shape[1] // number)
    sizes = np.diff(np.append(starts, draws.shape[1]))
    return np.asarray(np.add.reduceat(draws, starts, axis=1) / sizes)
