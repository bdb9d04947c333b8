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
from scipy.special import betaincinv

from leakbound.errors import InputError
from leakbound.stats.about import About
from leakbound.stats.anytime import anytime_bets, log_evidence_above
from leakbound.stats.estimand import Estimand, Rule
from leakbound.stats.estimate import (
    Array,
    BoundFunction,
    Counts,
    Estimate,
    Side,
    error_rate,
    percent,
    probability,
)
from leakbound.stats.leak_at_k import carried, whole_sizes
from leakbound.stats.leakage import Leakage
from leakbound.stats.mean import MEAN
from leakbound.stats.order import Seed
from leakbound.stats.portfolio import log_wealth
from leakbound.stats.proportion import PROPORTION, tally
from leakbound.stats.questions import failures, one_sided, share_of_side, summed

Quantity = Literal["p", "mean"]
FIRST_LOOK = 8  # draws
CLEAN_DRAWS = 300  # after how many a clean question stops, roughly; moves widths, not validity
MOST_FAILURES = 64
CLAIM = re.compile(r"\s*(p|mean)\s*<=?\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?)\s*")


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a question leaks at most so much.

    Attributes:
        quantity: what is at most `limit`: the leak probability ("p") or the mean leakage ("mean").
        limit: in (0, 1).

    Raises:
        InputError: another quantity, or a limit that does not lie in (0, 1).
    """

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
        """The quantity of a verdict on the claim."""
        if self.quantity == "p":
            return About(quantity="claim on leak probability", constant=self.limit)
        return About(quantity="claim on mean leakage", constant=self.limit)

    @property
    def text(self) -> str:
        """As `parse_claim` reads it."""
        return self.about.claimed


def parse_claim(text: str) -> Claim:
    """Read a claim in words.

    Args:
        text: "p<=0.02", "p<=2%" or "mean <= 0.1"; "<" says the same as "<=".

    Returns:
        The claim.

    Raises:
        InputError: other words, or a limit that does not lie in (0, 1).
    """
    parts = CLAIM.fullmatch(text)
    if parts is None:
        raise InputError(
            "a claim reads 'p<=0.02' (probability of a leak, for binary scorers) or 'mean<=0.1' "
            f"(mean leakage), got {text!r}."
        )
    return Claim(cast(Quantity, parts[1]), probability(parts[2]))


def stopped_proportion_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    cap: int,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound the leak probability where sampling may have stopped at any look, at most at `cap`.

    The any-time bound at half of the side's alpha; where n = cap the better of it and
    Clopper-Pearson at the other half. For i.i.d. draws of one query or an allocated pool.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        cap: the largest number of draws of a question, fixed beforehand; no n exceeds it.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: 1 above and 0 below.

    Returns:
        The leak probability's estimate, in [0, 1]; arrays [Q] where an argument is one.

    Raises:
        InputError: counts that cannot be, a cap that is none or is exceeded, or a confidence or
            side that is none.
    """
    rows = tally(hits, n, missing)
    return _stopped(PROPORTION, rows, cap, confidence=confidence, side=side)


def stopped_leak_at_k_bound(
    hits: npt.ArrayLike,
    n: npt.ArrayLike,
    k: npt.ArrayLike,
    cap: int,
    *,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
) -> Estimate:
    """Bound 1 - (1 - p)^k, the chance of a leak among k draws, for every k at once, after stopping.

    As `stopped_proportion_bound`, whose bound of p it carries over: increasing in p. Any k >= 1,
    also beyond n.

    Args:
        hits: leaks of each question, [Q] or one number.
        n: draws of each question, [Q] or one number, those `missing` among them; at least 1.
        k: of how many draws the largest is meant, a whole number >= 1; or [K], the last axis then.
        cap: the largest number of draws of a question, fixed beforehand; no n exceeds it.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: 1 above and 0 below.

    Returns:
        The estimate of leak@k, in [0, 1]: of each question, and of each k where there are several.
        `value` is that of the share that leaked: no estimate is unbiased after stopping.

    Raises:
        InputError: counts or a k that cannot be, a cap that is none or is exceeded, or a confidence
            or side that is none.
    """
    sizes = whole_sizes(k)
    leak = stopped_proportion_bound(hits, n, cap, confidence=confidence, side=side, missing=missing)
    return carried(leak, sizes)


def stopped_mean_bound(
    scores: npt.ArrayLike,
    counts: npt.ArrayLike | None = None,
    *,
    cap: int,
    confidence: float = 0.99,
    side: Side = "both",
    missing: npt.ArrayLike = 0,
    seed: Seed = None,
) -> Estimate:
    """Bound the mean leakage where sampling may have stopped at any look, at most at `cap`.

    The portfolio mixture at half of the side's alpha; where n = cap the better of it and betting at
    the other half. For i.i.d. draws of one query or an allocated pool.

    Args:
        scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
        counts: how often each score was drawn, of the shape of `scores`; None: once each.
        cap: the largest number of draws of a question, fixed beforehand; no n exceeds it.
        confidence: with which probability the bound holds, in (0, 1).
        side: "upper", "lower", or "both", each of which then spends half of alpha.
        missing: draws without a score, [Q] or one number: 1 above and 0 below.
        seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.

    Returns:
        The mean leakage's estimate, in [0, 1]; arrays [Q] where `scores` are [Q, m].

    Raises:
        InputError: scores or counts that cannot be, a cap that is none or is exceeded, or a
            confidence or side that is none.
    """
    rows = Leakage.read(scores, counts, missing)
    return _stopped(MEAN, rows, cap, confidence=confidence, side=side, seed=seed)


def mean_over_stopped_questions(
    bound: BoundFunction,
    questions: int,
    *,
    confidence: float = 0.99,
    each_confidence: float | None = None,
    side: Side = "both",
) -> Estimate:
    """Bound the mean over the questions of a quantity in [0, 1], however long each was sampled.

    For numbers of draws that depend on the scores, as after early stopping. At most
    b = BinInv(1 - alpha; N, alpha') of the bounds at `each_confidence` = 1 - alpha' fail, and one
    that fails is wrong by at most 1: the mean lies at most b/N above the mean of the U_i, and below
    that of the L_i. The draws of different questions must be independent, and alpha' fixed
    beforehand.

    Nor does the mean lie above the worst question. Its bound, the largest U_i (see
    `worst_question`), has half of what the upper end may fail with, the mean of the U_i the other
    half, and the lesser is taken; of one question they are the same, and it has all.

    Args:
        bound: a bound of the quantity with its scores filled in, one entry a question; it must hold
            for such numbers of draws (any-time).
        questions: how many there are, N: as many as `bound` has entries.
        confidence: with which probability the bound holds, in (0, 1).
        each_confidence: that of each question's own bound, in (0, 1), fixed beforehand; None: it
            follows from N and alpha alone, as the best for clean questions that stop after some
            `CLEAN_DRAWS` draws; for few questions none of the bounds may fail then.
        side: "upper", "lower", or "both", each of which then spends half of alpha.

    Returns:
        One estimate about all questions together, in [0, 1]. `value` is the mean of the point
        values; stopping biases it.

    Raises:
        InputError: no questions, another number of them than `bound` has entries, or a confidence
            or side that is none.
    """
    share = share_of_side(confidence, side, questions)
    shares = {"upper": share if questions == 1 else share / 2, "lower": share}
    rates = {
        end: _spread(questions, alpha) if each_confidence is None else error_rate(each_confidence)
        for end, alpha in shares.items()
    }
    parts = one_sided(bound, questions, side, **rates)
    fails = {end: failures(questions, rates[end], alpha) for end, alpha in shares.items()}
    first, lower, upper = next(iter(parts.values())), 0.0, 1.0
    if "lower" in parts:
        lower = float(np.mean(parts["lower"].lower)) - fails["lower"] / questions
    if "upper" in parts:
        worst = bound(confidence=1 - shares["upper"], side="upper")
        mean = float(np.mean(parts["upper"].upper)) + fails["upper"] / questions
        upper = min(mean, float(np.max(worst.upper)))
    end = "upper" if "upper" in parts else "lower"
    return replace(
        summed(first, confidence, side),
        about=replace(first.about, scope="mean", over=questions),
        value=float(np.mean(first.value)),
        lower=max(lower, 0.0),
        upper=min(upper, 1.0),
        method=f"{first.method} at {percent(1 - rates[end])} each, at most {fails[end]} fail",
    )


@dataclass(frozen=True, slots=True)
class Looks:
    """How a claim is decided question by question while sampling, and when to look again.

    The methods take scores with counts, one row a question, as every bound does; for a claim
    about p the scores are 0 or 1. Every result has one entry a question, and every question its own
    number of draws.

    Attributes:
        claim: what is to be decided of each question.
        cap: the largest number of draws of a question, fixed beforehand.
        confidence: with which probability the verdict on a question is right, in (0, 1).

    Raises:
        InputError: a confidence that does not lie in (0, 1), or a cap that is no whole number >= 1.
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
        side: Side = "both",
        missing: npt.ArrayLike = 0,
        seed: Seed = None,
    ) -> Estimate:
        """Bound the claimed quantity, by `stopped_proportion_bound` or `stopped_mean_bound`.

        Args:
            scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
            counts: how often each score was drawn, of the shape of `scores`; None: once each.
            side: "upper", "lower", or "both", each of which then spends half of alpha.
            missing: draws without a score, [Q] or one number: 1 above and 0 below.
            seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.
                It keys a mean's bound at the cap: give one key a question, always the same, or a
                verdict and the bound reported later may differ.

        Returns:
            The estimate of the leak probability or the mean leakage, one entry a question.

        Raises:
            InputError: scores or counts that cannot be, other scores than 0 and 1 for a claim about
                p, more draws than the cap, or a side that is none.
        """
        rows = self._read(scores, counts, missing)
        return _stopped(
            self._estimand, rows, self.cap, confidence=self.confidence, side=side, seed=seed
        )

    def decide(
        self,
        scores: npt.ArrayLike,
        counts: npt.ArrayLike | None = None,
        *,
        missing: npt.ArrayLike = 0,
        seed: Seed = None,
    ) -> npt.NDArray[np.str_]:
        """Decide the claim for each question, as far as the draws allow.

        It holds where the upper bound is at most the limit, and is refuted where the lower bound
        exceeds it. A question's verdict, at whatever look it falls, is wrong with probability at
        most alpha. Each side spends a whole alpha, because whatever the truth is, only one of the
        two decisions is wrong: where the claim is true only "refuted" is, and takes a lower bound
        that misses; where it is false only "holds" is, and takes an upper bound that misses.

        Args:
            scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
            counts: how often each score was drawn, of the shape of `scores`; None: once each.
            missing: draws without a score, [Q] or one number: 1 above and 0 below.
            seed: of the order in which bets meet the draws, [Q] or one number; None: a random one.
                It keys a mean's bound at the cap: give one key a question, always the same, or a
                verdict and the bound reported later may differ.

        Returns:
            "holds", "refuted" or "open" for each question, [Q].

        Raises:
            InputError: scores or counts that cannot be, other scores than 0 and 1 for a claim about
                p, or more draws than the cap.
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
        """How many draws in all each open question should have at its next look.

        Twice as many, or only as many as decide that the claim holds if none of the new ones
        leaks; at most the cap. Any rule that looks at nothing but earlier scores would do,
        because the bound holds at all numbers of draws at once; this one makes few looks, and
        wastes no draw on a clean question.

        Args:
            scores: scores in [0, 1], [m] of one question or [Q, m] of Q.
            counts: how often each score was drawn, of the shape of `scores`; None: once each.
            missing: draws without a score, [Q] or one number: 1 above and 0 below.

        Returns:
            Whole numbers, [Q].

        Raises:
            InputError: scores or counts that cannot be, other scores than 0 and 1 for a claim about
                p, or more draws than the cap.
        """
        rows = self._read(scores, counts, missing)
        _refuse_beyond(self.cap, rows.n)
        furthest = np.minimum(2 * rows.n, self.cap)
        short, enough = rows.n, furthest
        while (enough - short > 1).any():
            middle = (short + enough) // 2
            holds = self._would_hold(rows, middle)
            short, enough = np.where(holds, short, middle), np.where(holds, middle, enough)
        return np.where(self._would_hold(rows, rows.n), furthest, enough)

    @property
    def _estimand(self) -> Estimand:
        return PROPORTION if self.claim.quantity == "p" else MEAN

    def _read(
        self, scores: npt.ArrayLike, counts: npt.ArrayLike | None, missing: npt.ArrayLike
    ) -> Leakage:
        """The draws; InputError unless every score is 0 or 1 where the claim is about p."""
        rows = Leakage.read(scores, counts, missing)
        graded = rows.values[(rows.counts > 0) & ~np.isin(rows.values, (0, 1))]
        if self.claim.quantity == "p" and graded.size:
            raise InputError(
                f"a claim about p needs scores of 0 or 1, got {graded[0]:g}. Use a binary scorer, "
                "such as 'NAME>=0.5', or claim a mean."
            )
        return rows

    def _would_hold(self, rows: Leakage, n: Counts) -> npt.NDArray[np.bool_]:
        """Whether the any-time bound meets the claim if all draws up to n, (Q,), are clean."""
        limit = np.array(self.claim.limit)
        if self.claim.quantity == "p":
            evidence = log_evidence_above(rows.hits + rows.missing, n, limit)
        else:
            evidence = log_wealth(_with_clean(rows, n), limit, anytime_bets())
        return np.asarray(evidence >= math.log(2 / error_rate(self.confidence)))


def _stopped(
    estimand: Estimand,
    rows: Leakage,
    cap: int,
    *,
    confidence: float,
    side: Side,
    seed: Seed = None,
) -> Estimate:
    """By the any-time method, and at the cap by the default too, which needs n fixed."""
    _refuse_beyond(cap, rows.n)
    early, fixed = estimand.methods["any-time"], next(iter(estimand.methods.values()))

    def rule(better: np.ufunc, early: Rule, fixed: Rule) -> Rule:
        def both(rows: Leakage, alpha: float) -> Array:
            bound = early(rows, alpha / 2)
            if (rows.n < cap).all():
                return bound
            return np.where(rows.n == cap, better(bound, fixed(rows, alpha / 2)), bound)

        return both

    method = replace(
        early,
        name=f"{early.name}; {fixed.name} at the cap",
        upper=rule(np.minimum, early.upper, fixed.upper),
        lower=rule(np.maximum, early.below, fixed.below),
        shuffles=fixed.shuffles,
        stopping=f"stopped at a look, at most {cap} draws",
    )
    stopped = replace(estimand, methods={"stopped": method})
    return stopped.estimate(rows, confidence=confidence, side=side, seed=seed)


def _spread(questions: int, alpha: float) -> float:
    """alpha' so that b bounds of the questions may fail, b the best where all are clean.

    The largest alpha' with P(Bin(N, alpha') > b) <= alpha solves I_alpha'(b + 1, N - b) = alpha.
    A clean question's upper bound is about ln(1/alpha')/n, so b/N + ln(1/alpha')/n is least.
    """
    b = np.arange(min(questions, MOST_FAILURES))
    rates = betaincinv(b + 1, questions - b, alpha) * (1 - 1e-9)
    return float(rates[np.argmin(b / questions - np.log(rates) / CLEAN_DRAWS)])


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
