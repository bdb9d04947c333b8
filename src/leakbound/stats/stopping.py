"""Sampling that stops once a claim is decided: looks, decisions, and bounds that survive both.

A question is looked at again and again, at most until it has `cap` draws, and stops when its
bound decides the claim. Of the alpha of a side, one half pays for an any-time bound, which holds
at every look, the other for the fixed-n default at the cap, the one number of draws that was
fixed beforehand. Both halves are spent whether or not a question reaches the cap, so at the cap
the better of the two bounds holds.

For i.i.d. draws of one query or an allocated pool, not for a pool of different questions.
Whatever decides when to stop must be the scores of earlier draws: never the clock.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.anytime import log_evidence_above
from leakbound.stats.estimand import Method
from leakbound.stats.estimate import Array, Counts, Estimate, Side, error_rate
from leakbound.stats.leak_at_k import leak_at, whole_sizes
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import MEAN, mirrored
from leakbound.stats.order import Seed
from leakbound.stats.portfolio import anytime_bets, log_wealth
from leakbound.stats.proportion import METHODS, Tally, TallyMethod, among

Quantity = Literal["p", "mean"]
FIRST_LOOK = 8  # draws
CLAIM = re.compile(r"\s*(p|mean)\s*<=?\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*")


@dataclass(frozen=True, slots=True)
class Claim:
    """That a question's leak probability ("p") or mean leakage ("mean") is at most `limit`."""

    quantity: Quantity
    limit: float

    def __post_init__(self) -> None:
        if self.quantity not in get_args(Quantity):
            raise InputError(f"a claim is about 'p' or 'mean', got {self.quantity!r}.")
        if not 0 < self.limit < 1:
            raise InputError(
                "the limit of a claim must lie strictly between 0 and 1, got "
                f"{self.limit!r}. Write a share: 'p<=0.02' for two in a hundred."
            )

    @property
    def about(self) -> About:
        """What a verdict on the claim is about."""
        if self.quantity == "p":
            return About(quantity="claim on leak probability", constant=self.limit)
        return About(quantity="claim on mean leakage", constant=self.limit)

    @property
    def text(self) -> str:
        """As `parse_claim` reads it."""
        return self.about.claimed


def parse_claim(text: str) -> Claim:
    """The claim in "p<=0.02" or "mean <= 0.1"; "<" says the same. InputError for other words."""
    parts = CLAIM.fullmatch(text)
    if parts is None:
        raise InputError(
            "a claim reads 'p<=0.02' (probability of a leak, for binary scorers) or 'mean<=0.1' "
            f"(mean leakage), got {text!r}."
        )
    return Claim(cast(Quantity, parts[1]), float(parts[2]))


def stopped_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    cap: int,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the leak probability where sampling may have stopped at any look, at most at `cap`.

    Arguments as for `proportion_bound`; `n` may differ by question and must not exceed `cap`,
    which was fixed beforehand. The any-time bound at half of the side's alpha; where n = cap the
    better of it and Clopper-Pearson at the other half.
    """
    tally = Tally(hits, n, missing)
    _refuse_beyond(cap, tally.n)
    return tally.estimate(_stopped_tally(cap), confidence, side)


def stopped_leak_at_k_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    cap: int,
    *,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound 1 - (1 - p)^k, the chance of a leak among k draws, for every k at once, after stopping.

    As `stopped_proportion_bound`, whose bound of p it carries over: increasing in p. Any k >= 1,
    also beyond n; 1-D, it is the last axis of the result. `value` is that of the share that
    leaked: no estimate is unbiased after stopping.
    """
    sizes = whole_sizes(k)
    leak = stopped_proportion_bound(hits, n, cap, confidence=confidence, side=side, missing=missing)
    value, lower, upper = (among(p, sizes) for p in (leak.value, leak.lower, leak.upper))
    return replace(leak, about=leak_at(sizes), value=value, lower=lower, upper=upper)


def stopped_mean_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    cap: int,
    confidence: float = 0.99,
    side: Side = "upper",
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the mean leakage where sampling may have stopped at any look, at most at `cap`.

    Arguments as for `mean_bound`, otherwise as `stopped_proportion_bound`: the portfolio mixture,
    and at the cap betting, whose shuffle `seed` keys.
    """
    leakage = Leakage.read(scores, counts, missing)
    _refuse_beyond(cap, leakage.n)
    stopped = replace(MEAN, methods={"stopped": _stopped_mean(cap)})
    return stopped.estimate(leakage, confidence=confidence, side=side, method=None, seed=seed)


@dataclass(frozen=True, slots=True)
class Looks:
    """How a claim is decided question by question while sampling, and when to look again.

    The methods take scores with counts, one row a question, as every bound does; for a claim
    about p the scores are 0 or 1. `seed` keys the order for a mean's bound at the cap: give one key
    a question, always the same, or a verdict and the bound reported later may differ. Every
    result has one entry a question, and every question its own number of draws.
    """

    claim: Claim
    cap: int
    confidence: float = 0.99

    def __post_init__(self) -> None:
        error_rate(self.confidence)
        _refuse_beyond(self.cap, np.zeros(1, np.int64))

    @property
    def first(self) -> int:
        """Draws before the first look."""
        return min(FIRST_LOOK, self.cap)

    def bound(
        self,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        side: Side = "upper",
        missing: npt.ArrayLike = 0,
        seed: Seed = None,
    ) -> Estimate:
        """The claimed quantity, by `stopped_proportion_bound` or `stopped_mean_bound`."""
        if self.claim.quantity == "mean":
            return stopped_mean_bound(
                scores, counts, cap=self.cap, confidence=self.confidence, side=side,
                missing=missing, seed=seed,
            )  # fmt: skip
        leakage = Leakage.read(scores, counts, missing)
        each = 0 if leakage.single else ...
        return stopped_proportion_bound(
            _hits(leakage)[each], leakage.n[each], self.cap, confidence=self.confidence,
            side=side, missing=missing,
        )  # fmt: skip

    def decide(
        self,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        missing: npt.ArrayLike = 0,
        seed: Seed = None,
    ) -> npt.NDArray[np.str_]:
        """What the draws so far say of each question: "holds", "refuted" or "open", (Q,).

        It holds where the upper bound is at most the limit, and is refuted where the lower bound
        exceeds it. A question's verdict, at whatever look it falls, is wrong with probability at
        most alpha. Each side spends a whole alpha, because whatever the truth is, only one of the
        two decisions is wrong: where the claim is true only "refuted" is, and takes a lower bound
        that misses; where it is false only "holds" is, and takes an upper bound that misses.
        """
        upper = self.bound(scores, counts, side="upper", missing=missing, seed=seed).upper
        lower = self.bound(scores, counts, side="lower", missing=missing, seed=seed).lower
        limit = self.claim.limit
        verdict = np.where(upper <= limit, "holds", np.where(lower > limit, "refuted", "open"))
        return np.atleast_1d(verdict)

    def next_look(
        self,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        missing: npt.ArrayLike = 0,
    ) -> Counts:
        """How many draws in all each open question should have at its next look: (Q,).

        Twice as many, or only as many as decide that the claim holds if none of the new ones
        leaks; at most the cap. Any rule that looks at nothing but earlier scores would do,
        because the bound holds at all numbers of draws at once; this one makes few looks, and
        wastes no draw on a clean question.
        """
        leakage = Leakage.read(scores, counts, missing)
        _refuse_beyond(self.cap, leakage.n)
        furthest = np.minimum(2 * leakage.n, self.cap)
        short, enough = leakage.n, furthest
        while (enough - short > 1).any():
            middle = (short + enough) // 2
            holds = self._would_hold(leakage, middle)
            short, enough = np.where(holds, short, middle), np.where(holds, middle, enough)
        return np.where(self._would_hold(leakage, leakage.n), furthest, enough)

    def _would_hold(self, leakage: Leakage, n: Counts) -> npt.NDArray[np.bool_]:
        """Whether the any-time bound meets the claim if all draws up to n, (Q,), are clean."""
        if self.claim.quantity == "p":
            leaks = _hits(leakage) + leakage.missing
            evidence = log_evidence_above(leaks, n, np.array(self.claim.limit))
        else:
            evidence = log_wealth(
                _with_clean(leakage, n), np.array(self.claim.limit), anytime_bets()
            )
        return np.asarray(evidence >= math.log(2 / error_rate(self.confidence)))


def _stopped_tally(cap: int) -> TallyMethod:
    early, fixed = METHODS["any-time"], METHODS["clopper-pearson"]

    def upper(hits: Counts, n: Counts, alpha: float) -> Array:
        at_cap = np.where(n == cap, fixed.upper(hits, n, alpha / 2), 1.0)
        return np.minimum(early.upper(hits, n, alpha / 2), at_cap)

    def lower(hits: Counts, n: Counts, alpha: float) -> Array:
        at_cap = np.where(n == cap, fixed.lower(hits, n, alpha / 2), 0.0)
        return np.maximum(early.lower(hits, n, alpha / 2), at_cap)

    return TallyMethod(f"{early.name}; {fixed.name} at the cap", upper, lower, _stopping(cap))


def _stopped_mean(cap: int) -> Method:
    early, fixed = MEAN.methods["any-time"], MEAN.methods["betting"]

    def upper(rows: Leakage, alpha: float) -> Array:
        bound = early.upper(rows, alpha / 2)
        if rows.size < cap:
            return bound
        return np.minimum(bound, fixed.upper(rows, alpha / 2))

    name = f"{early.name}; {fixed.name} at the cap"
    return Method(name, upper, mirrored(upper), shuffles=True, stopping=_stopping(cap))


def _stopping(cap: int) -> str:
    return f"stopped at a look, at most {cap} draws"


def _hits(leakage: Leakage) -> Counts:
    """Draws that leak; InputError unless every score is 0 or 1."""
    seen = leakage.values[leakage.counts > 0]
    if not np.isin(seen, (0, 1)).all():
        raise InputError(
            "a claim about p needs scores of 0 or 1, got "
            f"{seen[~np.isin(seen, (0, 1))][0]:g}. Use a binary scorer, such as 'NAME>=0.5', or "
            "claim a mean."
        )
    return np.asarray((leakage.counts * leakage.values).sum(axis=1).astype(np.int64))


def _with_clean(leakage: Leakage, n: Counts) -> Leakage:
    """The same draws and clean ones up to n."""
    return replace(
        leakage,
        values=np.pad(leakage.values, ((0, 0), (1, 0))),
        counts=np.column_stack([n - leakage.n, leakage.counts]),
    )


def _refuse_beyond(cap: int, n: Counts) -> None:
    if cap != int(cap) or cap < 1:
        raise InputError(f"`cap` must be a whole number of draws >= 1, got {cap!r}.")
    if (n > cap).any():
        row = int(n.argmax())
        raise InputError(
            f"no question may have more draws than the cap of {cap}, got {n[row]} at question "
            f"{row}. Bound with the cap that the run was planned with."
        )
