"""Importance sampling: the mean of X under one law, bounded from draws of another.

The law p of a model is asked about, and r is any other law of the same outputs: a *proposal*, under
which leaks are likelier. Each draw Y is one of the mixture q = mix r + (1 - mix) p and counts
with its weight

    w(Y) = p(Y)/q(Y) = 1/((1 - mix) + mix r(Y)/p(Y))  <=  1/(1 - mix).

So E_q[w(Y) h(Y)] = sum_y p(y) h(y) = E_p[h] for every h: the mean of w h is unbiased whatever r is,
and (1 - mix) w h lies in [0, 1] if h does, which bounds need. (A defensive mixture: Hesterberg,
Technometrics 37, 1995; Owen and Zhou, JASA 95, 2000.) A proposal that knows nothing costs a factor
1/(1 - mix) and nothing else.

Where log-probabilities are known to within a margin, or ends, w, which rises with p and falls with
r, lies between its values at these: the lower bound is that of the least weights, the upper that of
the largest, so both hold for the laws that were drawn from, whichever within the ends these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats import betting, portfolio
from leakbound.stats.about import About
from leakbound.stats.estimand import bounded
from leakbound.stats.estimate import Array, Estimate, Side
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import sample_mean
from leakbound.stats.order import Seed
from leakbound.stats.whole import numbers

Within = Sequence[npt.ArrayLike]
IMPORTANCE = About(quantity="importance-sampled mean leakage")
ROUNDING = 1e-9  # by which a log-probability may exceed 0


@dataclass(frozen=True)
class DrawWeights:
    """Weights p/q of draws of q = mix r + (1 - mix) p: what they are, at least and at most.

    `value`, `lower` and `upper` have the shape of the draws' scores. `mix` in [0, 1) is the share
    of the proposal r. Raises InputError for another mix, and weights that are no numbers, are in
    no order, below 0 or above 1/(1 - mix).
    """

    value: Array
    lower: Array
    upper: Array
    mix: float

    def __post_init__(self) -> None:
        _require_share(self.mix)
        for name in ("value", "lower", "upper"):
            object.__setattr__(self, name, numbers(f"weights.{name}", getattr(self, name)))
        if not self.value.shape == self.lower.shape == self.upper.shape:
            raise InputError(
                "`weights` must be of one shape, got "
                f"{self.value.shape}, {self.lower.shape} and {self.upper.shape}."
            )
        ordered = (self.lower >= 0) & (self.lower <= self.value) & (self.value <= self.upper)
        bad = ~(ordered & (self.upper <= self.largest))
        if bad.any():
            ends = (float(each[bad].flat[0]) for each in (self.lower, self.value, self.upper))
            raise InputError(
                "`weights` must satisfy 0 <= lower <= value <= upper <= 1/(1 - mix) = "
                f"{self.largest:g}, got {', '.join(f'{end:g}' for end in ends)}. Make them of "
                "log-probabilities with DrawWeights.of."
            )

    @property
    def largest(self) -> float:
        """The most that a weight can be, 1/(1 - mix)."""
        return 1 / (1 - self.mix)

    @classmethod
    def of(
        cls,
        logprob: npt.ArrayLike,
        proposal_logprob: npt.ArrayLike,
        *,
        mix: float,
        margin: npt.ArrayLike = 0.0,
        proposal_margin: npt.ArrayLike = 0.0,
    ) -> DrawWeights:
        """The weights of draws whose natural log-probabilities are known, each within a margin.

        `logprob` under the model, `proposal_logprob` under the proposal; -inf is impossible,
        whatever the margin. `mix` was fixed before the draws. Raises InputError for
        log-probabilities above 0 or NaN, and margins below 0.
        """
        _require_share(mix)
        p, r = _log(logprob, "logprob"), _log(proposal_logprob, "proposal_logprob")
        own, theirs = _margin(margin, "margin"), _margin(proposal_margin, "proposal_margin")
        return cls._of((p - own, p, p + own), (r - theirs, r, r + theirs), mix)

    @classmethod
    def between(cls, logprob: Within, proposal_logprob: Within, *, mix: float) -> DrawWeights:
        """The weights of draws whose natural log-probabilities are known (at least, as computed,
        at most), each of the three of the draws' shape; otherwise as `of`.
        """
        _require_share(mix)
        p, r = (
            tuple(_log(each, name) for each in ends)
            for ends, name in ((logprob, "logprob"), (proposal_logprob, "proposal_logprob"))
        )
        for least, value, most in (p, r):
            if not ((least <= value) & (value <= most)).all():
                raise InputError(
                    "`logprob` and `proposal_logprob` must be (at least, as computed, at most), in "
                    "this order. Give all three of each draw."
                )
        return cls._of(p, r, mix)

    @classmethod
    def _of(cls, p: tuple[Array, ...], r: tuple[Array, ...], mix: float) -> DrawWeights:
        """The weight rises with p and falls with r: it is least at the least p and the most r."""
        if p[1].shape != r[1].shape:
            raise InputError(
                "`logprob` and `proposal_logprob` must be of one shape, got "
                f"{p[1].shape} and {r[1].shape}."
            )
        value = _weight(p[1], r[1], mix)
        lower = np.minimum(_weight(p[0], r[2], mix), value)
        upper = np.maximum(_weight(p[2], r[0], mix), value)
        return cls(value, lower, np.minimum(upper, 1 / (1 - mix)), mix)

    def times(self, scores: npt.ArrayLike) -> tuple[Array, Array, Array]:
        """(1 - mix) w h in [0, 1] for the scores h: as it is, at least and at most."""
        given = numbers("scores", scores)
        if given.shape != self.value.shape:
            raise InputError(
                f"`weights` must have the shape of `scores`, {given.shape}, got {self.value.shape}."
            )
        value, lower, upper = (
            given * each * (1 - self.mix) for each in (self.value, self.lower, self.upper)
        )
        return value, lower, upper


def importance_bound(
    scores: npt.ArrayLike,
    weights: DrawWeights | None = None,
    counts: npt.ArrayLike | None = None,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound E_p[X], X in [0, 1], from i.i.d. draws of the mixture that `weights` are of; n fixed.

    `scores` with `counts`, 1-D or one row a question, are those of the draws, the weights beside
    them (None: plain draws of p). The upper end is that of `mean_bound` by betting, on weighted
    scores scaled to [0, 1] and shuffled by `seed`. The lower end bets on the same scores in
    proportion to what they are tested against (`portfolio.mean_lower`), which asks of them to be
    >= 0 and no more: so it also tells means far below the largest weight from 0, and needs no
    order. A missing draw counts as the largest weight above and 0 below.

    Nothing brings the upper end below about ln(1/alpha)/((1 - mix) n), what a leak that the
    proposal never says leaves unseen; plain draws have ln(1/alpha)/n. `value` is unbiased; it may
    exceed 1, the ends do not. Proof: the module's text. Raises InputError as `mean_bound`, and
    for weights of another shape.
    """
    checked = Leakage.read(scores, counts, missing)  # of scores, whatever their weights
    if weights is None:
        value, least, most, largest = checked, checked, checked, 1.0
    else:
        value, least, most = (Leakage.read(x, counts, missing) for x in weights.times(scores))
        largest = weights.largest
    most = most.ordered(seed)

    def lower(alpha: float) -> Array:
        return largest * least.each(lambda alike: portfolio.mean_lower(alike, alpha))

    def upper(alpha: float) -> Array:
        return largest * most.each(lambda a: betting.mean_upper(a.shuffled(missing=1), alpha))

    return bounded(
        IMPORTANCE,
        most,
        largest * value.scored().each(sample_mean),
        lower,
        upper,
        confidence=confidence,
        side=side,
        method="importance sampling, finite-horizon betting",
        seed=most.seed,
    )


def standard_error(
    scores: npt.ArrayLike, weights: DrawWeights | None = None, counts: npt.ArrayLike | None = None
) -> float | Array:
    """The standard error of the `value` of `importance_bound`: s/sqrt(n) of the scored draws.

    One number, or one a question; NaN where fewer than two draws are scored. It sees the leaks
    that were drawn and no others, so it may be 0 where much is missed: a bound it is not.
    Arguments and errors as there.
    """
    checked = Leakage.read(scores, counts, empty=True)
    rows = checked
    if weights is not None:
        rows = Leakage.read(weights.times(scores)[0], counts, empty=True)
    largest = 1.0 if weights is None else weights.largest

    def rule(alike: Leakage) -> Array:
        if alike.size < 2:
            return np.full(len(alike.n), np.nan)
        away = (alike.values - sample_mean(alike)[:, None]) ** 2
        n = alike.size
        return np.asarray(np.sqrt((alike.counts * away).sum(axis=1) / (n - 1) / n))

    return rows.single_or_all(largest * rows.each(rule))


def _weight(p: Array, r: Array, mix: float) -> Array:
    """1/((1 - mix) + mix r/p), of logarithms."""
    with np.errstate(all="ignore"):
        odds = np.exp(np.log(mix) + r - p)
        return np.asarray(np.where(p > -np.inf, 1 / (1 - mix + odds), 0.0))


def _require_share(mix: float) -> None:
    if not 0 <= mix < 1:
        raise InputError(
            f"`mix` must lie in [0, 1), got {mix!r}. With 1 a leak that the proposal never says "
            "would stay unseen for good; use 0.5."
        )


def _log(given: npt.ArrayLike, name: str) -> Array:
    found = numbers(name, given)
    if not (found <= ROUNDING).all():
        raise InputError(
            f"`{name}` must be natural log-probabilities, at most 0, got {np.max(found):g}."
        )
    return found


def _margin(given: npt.ArrayLike, name: str) -> Array:
    found = numbers(name, given)
    if not (found >= 0).all():
        raise InputError(f"`{name}` must be at least 0, got {np.min(found):g}.")
    return found
