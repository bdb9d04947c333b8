"""Rules to stop sampling when a claim is decided, and bounds that are valid after stopping.

A look is a time at which the scores so far are evaluated. The bound of a
question is computed again at every look. Sampling stops when the bound decides
the claim or when the question has `cap` draws. One half of a side's alpha is
for an any-time bound, which is valid at every look. The other half is for the default bound for
fixed n. It is used only at the cap, because the cap is the only number of draws that is fixed in
advance. Both halves are spent even if a question does not reach the cap. So at the cap the better
of the two bounds is valid.

These bounds are for i.i.d. draws of one query or an allocated pool, not for a
pool of different questions. Only the scores of earlier draws may decide when to
stop, never the time that drawing took.
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
from leakbound.stats.anytime import (
    anytime_bets,
    beta_mixture_lower,
    beta_mixture_upper,
    log_evidence_above,
    portfolio_upper,
)
from leakbound.stats.estimand import Method, Rule, Terms
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
from leakbound.stats.evidence import Rows, Stopped, check_cap
from leakbound.stats.mean import MEAN, mirrored
from leakbound.stats.order import Seed
from leakbound.stats.portfolio import log_wealth
from leakbound.stats.proportion import PROPORTION, tallied
from leakbound.stats.quantity import LEAKAGE, Quantity
from leakbound.stats.questions import bounds_at, failures, share_of_side, summed

Claimed = Literal["p", "mean"]
FIRST_LOOK = 8  # draws before the first look
CLEAN_DRAWS = 300  # a question without leaks stops near this number; affects widths, not validity
MOST_FAILURES = 64
EARLY_TALLY = tallied("any-time beta mixture", beta_mixture_upper, beta_mixture_lower)
EARLY_MEAN = Method(
    "any-time portfolio mixture", portfolio_upper, mirrored(portfolio_upper), any_n=True
)
CLAIM = re.compile(r"\s*(p|mean)\s*<=?\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?%?)\s*")


@dataclass(frozen=True, slots=True)
class Claim:
    """The claim that a quantity of a question is at most a limit.

    Attributes:
        quantity: the claimed quantity: the leak probability ("p") or the mean leakage ("mean").
        limit: the claimed upper limit, in (0, 1).

    Raises:
        InputError: a quantity other than "p" and "mean", or a limit outside (0, 1).
    """

    quantity: Claimed
    limit: float

    def __post_init__(self) -> None:
        if self.quantity not in get_args(Claimed):
            raise InputError(f"a claim must be about 'p' or 'mean', got {self.quantity!r}.")
        if not 0 < self.limit < 1:
            raise InputError(
                f"the limit of a claim must lie strictly between 0 and 1, got {self.limit!r}. "
                "Write for example 'p<=0.02'."
            )

    @property
    def about(self) -> About:
        """Return the `About` of a verdict on the claim."""
        if self.quantity == "p":
            return About(quantity="claim on leak probability", constant=self.limit)
        return About(quantity="claim on mean leakage", constant=self.limit)

    @property
    def text(self) -> str:
        """Return the claim as text that `parse_claim` can parse."""
        return self.about.claimed


def parse_claim(text: str) -> Claim:
    """Parse a claim such as "p<=0.02".

    Args:
        text: "p<=0.02", "p<=2%" or "mean <= 0.1"; "<" and "<=" are the same.

    Returns:
        The claim.

    Raises:
        InputError: a text that is not a claim, or a limit outside (0, 1).
    """
    parts = CLAIM.fullmatch(text)
    if parts is None:
        raise InputError(
            "a claim must be like 'p<=0.02' (leak probability, for binary scorers) or 'mean<=0.1' "
            f"(mean leakage), got {text!r}."
        )
    return Claim(cast(Claimed, parts[1]), probability(parts[2]))


def stopped_leakage(evidence: Stopped, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the leakage if sampling may have stopped at any look, with at most `cap` draws.

    The bound is the any-time bound at half of a side's alpha. If n is the cap, the bound is the
    better of this any-time bound and the default bound for fixed n at the other half of alpha.
    """
    cap, estimand = evidence.cap, PROPORTION if evidence.binary else MEAN
    early, fixed = EARLY_TALLY if evidence.binary else EARLY_MEAN, estimand.usual

    def rule(better: np.ufunc, early: Rule, at_cap: Rule) -> Rule:
        def both(rows: Rows, alpha: float) -> Array:
            bound, whole = early(rows, alpha / 2), rows.n == cap
            if whole.any():
                at_end = fixed.applied(at_cap, rows.only(whole), alpha / 2)
                bound[whole] = better(bound[whole], at_end)
            return bound

        return both

    method = replace(
        early,
        name=f"{early.name}; {fixed.name} at the cap",
        upper=rule(np.minimum, early.upper, fixed.upper),
        lower=rule(np.maximum, early.lower, fixed.lower),
        shuffles=fixed.shuffles,
        stopping=f"stopped at a look, at most {cap} draws",
    )
    return replace(estimand, usual=method)(evidence.rows, quantity, terms)


def mean_of_stopped(evidence: Stopped, quantity: Quantity, terms: Terms) -> Estimate:
    """Bound the mean leakage over stopped questions, see `mean_over_stopped_questions`."""

    def each(*, confidence: float, side: Side) -> Estimate:
        return stopped_leakage(evidence, quantity, replace(terms, confidence=confidence, side=side))

    return mean_over_stopped_questions(
        each, evidence.questions, confidence=terms.confidence, side=terms.side
    )


def mean_over_stopped_questions(
    bound: BoundFunction,
    questions: int,
    *,
    confidence: float = 0.99,
    each_confidence: float | None = None,
    side: Side = "both",
) -> Estimate:
    """Bound the mean over questions of a quantity in [0, 1], from bounds that are valid at any n.

    The numbers of draws may depend on the scores, as they do after early stopping. Let U_i and L_i
    be the bounds of question i at `each_confidence` = 1 - alpha'. With probability at least 1 -
    alpha, at most b = BinInv(1 - alpha; N, alpha') of the N bounds fail, and a bound that fails is
    wrong by at most 1. So the mean is at most b/N above the mean of the U_i, and at most b/N below
    the mean of the L_i. The draws of different questions must be independent, and alpha' fixed in
    advance.

    The mean is also at most the leakage of the worst question. So the upper bound is the smaller of
    two bounds. The first is the largest U_i (see `worst_question`), at half of the error rate. The
    second is the bound from the mean of the U_i, at the other half. For a single question the two
    bounds are the same, so one bound is computed at the complete error rate.

    Args:
        bound: the function that bounds the quantity, one entry per question. The bounds must be
            valid at any number of draws (any-time).
        questions: the number of questions, N, which is the number of entries of `bound`.
        confidence: the probability that the bound is valid, in (0, 1).
        each_confidence: the confidence of each question's own bound, in (0, 1), fixed in advance.
            None: a value that depends on N and alpha only. It is the best value for questions
            without leaks that stop after about `CLEAN_DRAWS` draws; for few questions it gives b =
            0.
        side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.

    Returns:
        One estimate about all questions together, in [0, 1]. `value` is the mean of the point
        estimates; stopping biases it.

    Raises:
        InputError: no questions, a number of questions that is not the number of entries of
            `bound`, or an invalid confidence or side.
    """
    share = share_of_side(confidence, side, questions)
    shares = {"upper": share if questions == 1 else share / 2, "lower": share}
    rates = {
        end: _spread(questions, alpha) if each_confidence is None else error_rate(each_confidence)
        for end, alpha in shares.items()
    }
    bounds = bounds_at(bound, questions, side, **rates)
    fails = {end: failures(questions, rates[end], alpha) for end, alpha in shares.items()}
    lower, upper = 0.0, 1.0
    if side != "upper":
        lower = float(np.mean(bounds.lower)) - fails["lower"] / questions
    if side != "lower":
        worst = bound(confidence=1 - shares["upper"], side="upper")
        mean = float(np.mean(bounds.upper)) + fails["upper"] / questions
        upper = min(mean, float(np.max(worst.upper)))
    end = "lower" if side == "lower" else "upper"
    return replace(
        summed(bounds, confidence, side),
        about=replace(bounds.about, scope="mean", over=questions),
        value=float(np.mean(bounds.value)),
        lower=max(lower, 0.0),
        upper=min(upper, 1.0),
        method=f"{bounds.method} at {percent(1 - rates[end])} each, at most {fails[end]} fail",
    )


@dataclass(frozen=True, slots=True)
class Looks:
    """Rules that decide a claim per question while sampling, and choose the next looks.

    The methods accept draws with one row per question; for a claim about p the scores are 0 or 1.
    Every result has one entry per question. Questions may have different numbers of draws.

    Attributes:
        claim: the claim to decide for each question.
        cap: the largest number of draws of a question, fixed in advance.
        confidence: the verdict on a question is right with at least this probability, in (0, 1).

    Raises:
        InputError: a confidence outside (0, 1), or a cap that is not a whole number >= 1.
    """

    claim: Claim
    cap: int
    confidence: float = 0.99

    def __post_init__(self) -> None:
        error_rate(self.confidence)
        check_cap(self.cap)

    @property
    def first(self) -> int:
        """Return the number of draws before the first look."""
        return min(FIRST_LOOK, self.cap)

    def bound(self, rows: Rows, *, side: Side = "both", seed: Seed = None) -> Estimate:
        """Bound the claimed quantity from draws that may have stopped at any look.

        Args:
            rows: the draws of each question.
            side: "upper", "lower" or "both"; for "both", each bound has error rate alpha/2.
            seed: the seed of the order in which bets use the draws, [Q] or one number; None: a
                random seed. The bound of a mean at the cap depends on the seed. Use the same key
                for a question in every call, or a verdict and the bound reported later may differ.

        Returns:
            The estimate of the leak probability or the mean leakage, one entry per question.

        Raises:
            InputError: scores other than 0 and 1 for a claim about p, more draws than the cap, or
                an invalid side.
        """
        stopped = Stopped(self._read(rows), self.cap)
        return stopped_leakage(stopped, LEAKAGE, Terms(self.confidence, side, seed=seed))

    def decide(self, rows: Rows, *, seed: Seed = None) -> npt.NDArray[np.str_]:
        """Decide the claim for each question, as far as the draws allow.

        The verdict is "holds" if the upper bound is at most the limit, and "refuted" if the lower
        bound exceeds the limit. A question's verdict, at any look, is wrong with probability at
        most alpha. Each bound is computed at all of alpha, because only one of the two decisions
        can be wrong. If the claim is true, only "refuted" is wrong, which needs a lower bound that
        fails. If the claim is false, only "holds" is wrong, which needs an upper bound that fails.

        Args:
            rows: the draws of each question.
            seed: the seed of the order in which bets use the draws, as in `bound`.

        Returns:
            "holds", "refuted" or "open" for each question, [Q].

        Raises:
            InputError: scores other than 0 and 1 for a claim about p, or more draws than the cap.
        """
        upper = self.bound(rows, side="upper", seed=seed).upper
        lower = self.bound(rows, side="lower", seed=seed).lower
        limit = self.claim.limit
        verdict = np.where(upper <= limit, "holds", np.where(lower > limit, "refuted", "open"))
        return np.atleast_1d(verdict)

    def next_look(self, rows: Rows) -> Counts:
        """Return the total number of draws of each open question at its next look.

        This number is twice the present number of draws, or the number at which the claim is proved
        if no later draw leaks, and at most the cap. Any rule that uses only earlier scores is
        valid, because the bound is valid at all numbers of draws simultaneously. This rule needs
        few looks, and no more draws than necessary for a question without leaks.

        Args:
            rows: the draws of each question.

        Returns:
            Whole numbers, [Q].

        Raises:
            InputError: scores other than 0 and 1 for a claim about p, or more draws than the cap.
        """
        rows = Stopped(self._read(rows), self.cap).rows
        furthest = np.minimum(2 * rows.n, self.cap)
        short, enough = rows.n, furthest
        while (enough - short > 1).any():
            middle = (short + enough) // 2
            decided = self._would_hold(rows, middle)
            short, enough = np.where(decided, short, middle), np.where(decided, middle, enough)
        return np.where(self._would_hold(rows, rows.n), furthest, enough)

    def _read(self, rows: Rows) -> Rows:
        """Return the draws; for a claim about p, raise InputError unless all scores are 0 or 1."""
        binary = self.claim.quantity == "p"
        graded = rows.values[(rows.counts > 0) & ~np.isin(rows.values, (0, 1))]
        if binary and graded.size:
            raise InputError(
                f"a claim about p needs scores of 0 or 1, got {graded[0]:g}. Use a binary scorer, "
                "such as 'NAME>=0.5', or a claim about the mean."
            )
        return replace(rows, binary=binary)

    def _would_hold(self, rows: Rows, n: Counts) -> npt.NDArray[np.bool_]:
        """Return whether the any-time bound proves the claim if no other draw up to n leaks."""
        limit = np.array(self.claim.limit)
        if rows.binary:
            evidence = log_evidence_above(rows.hits + rows.missing, n, limit)
        else:
            evidence = log_wealth(_with_clean(rows, n), limit, anytime_bets())
        return np.asarray(evidence >= math.log(2 / error_rate(self.confidence)))


def _spread(questions: int, alpha: float) -> float:
    """Return the alpha' that belongs to the best number b of bounds that may fail.

    The largest alpha' with P(Bin(N, alpha') > b) <= alpha solves I_alpha'(b + 1, N - b) = alpha.
    The upper bound of a question without leaks is about ln(1/alpha')/n, so the best b minimises b/N
    + ln(1/alpha')/n.
    """
    b = np.arange(min(questions, MOST_FAILURES))
    rates = betaincinv(b + 1, questions - b, alpha) * (1 - 1e-9)
    return float(rates[np.argmin(b / questions - np.log(rates) / CLEAN_DRAWS)])


def _with_clean(leakage: Rows, n: Counts) -> Rows:
    """Return the rows with draws of score 0 added, up to n draws each."""
    return replace(
        leakage,
        values=np.pad(leakage.values, ((0, 0), (1, 0))),
        counts=np.column_stack([n - leakage.n, leakage.counts]),
    )
