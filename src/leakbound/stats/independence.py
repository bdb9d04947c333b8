"""Test whether draws are independent. If some draws are copies of others, no bound is valid.

The tests need the log-probability of each text under the sampled distribution.
The counts of n independent draws are then Multinomial(n; p), and three tests
compare the observed counts with this distribution. If the draws are
independent, the p-value of each test is below `level` with probability at most
`level`.

*One text occurs too often.* Text y was drawn c_y times. Given that draw i is y, the number of other
draws that are y has the distribution Bin(n - 1, p_y). So T_y = P(Bin(n - 1, p_y) >= c_y - 1) is a
p-value for draw i, for any number of possible texts. A text that was drawn once has T_y = 1 and is
no evidence. (P(Bin(n, p_y) >= c_y) would reject any model with long texts, each of which has a
small probability.) The p-value of the sample is min_y T_y n / c_y. Proof: for text y, T_y < level
c_y / n from some count k on. By P(C_y = c) = (n p_y / c) P(Bin(n - 1, p_y) = c - 1), a count of at
least k has a probability of at most (n p_y / k) (level k / n) = level p_y. These probabilities add
up to at most `level` over all texts.

*All counts are multiples of m.* If the sample consists of n/m independent draws with m copies each,
counts / m is Multinomial(n/m; p). Let E_m be the ratio of the probability of the counts in this
case to their probability under independence. E_m is 0 if a count is not a multiple of m. Under
independence, E_m has mean at most 1. Let M be the number of values of m that are tried. By Markov's
inequality and the union bound, M / max_m E_m is a p-value. Texts that were not drawn cancel in the
ratio.

*Two equal chunks.* A chunk is a part of the draws that was drawn separately.
Let P(v) be the multinomial probability that a chunk has the counts v. Given
that the first chunk has the counts v, the second chunk has the same counts with
probability P(v). For each pair of chunks, P(same counts v, and P(v) < t) <= t
sum_v P(v) = t. So the smallest P(v) of two equal chunks, times the number of
pairs, is a p-value.

n must be fixed in advance. If a sample is checked at several sizes, the error
rates add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, gammaln, logsumexp

from leakbound.errors import InputError
from leakbound.stats.arrays import whole_numbers
from leakbound.stats.estimate import Array, Counts

Verdict = Literal["no objection", "copies", "not checkable"]

# Rounding of a log-probability in low precision; moves a count of 1,024 by 0.03 deviations.
ROUNDING = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """The outcome of the check, with the three p-values; a p-value is 1 if there is no evidence.

    "no objection" is no proof of independence. For example, if one text is very likely, a
    few independent draws are as similar as copies.

    Attributes:
        verdict: "copies" if a p-value is below `level`, "not checkable" if probabilities are not
            known, else "no objection".
        seen: the observation with the smallest p-value, in words.
        n: the number of draws.
        texts: the number of distinct texts.
        level: the limit below which a p-value leads to the verdict "copies", in (0, 1).
        text: the p-value of the test whether one text occurs too often.
        copies: the p-value of the test whether all counts are multiples of a number.
        chunks: the p-value of the test whether two chunks have equal counts.
    """

    verdict: Verdict
    seen: str
    n: int
    texts: int
    level: float
    text: float = 1.0
    copies: float = 1.0
    chunks: float = 1.0


def check_independence(
    counts: npt.ArrayLike,
    logprobs: Sequence[float | None] | npt.ArrayLike,
    *,
    copies: Sequence[int] = (2, 3, 4, 5, 6, 7, 8),
    level: float = 1e-9,
) -> Independence:
    """Test whether draws are independent, from the counts and log-probabilities of distinct texts.

    Args:
        counts: the number of draws with each distinct text, [d], or [C, d] with one row for each of
            C separately drawn chunks.
        logprobs: the natural logarithm of each whole text's probability under the sampled
            distribution, [d], or one number for all texts; None, NaN or infinity where it is not
            known. If the draws come from a remainder, pass probabilities given the remainder.
        copies: the numbers of copies to look for, at least one, and each at least 2.
        level: the largest probability that a test rejects independent draws, in (0, 1).

    Returns:
        The verdict and the observation: "not checkable" if there are no draws, a log-probability is
            not known, or the probabilities add up to more than 1.

    Raises:
        InputError: invalid `counts`, `copies` or `level`, or shapes that do not match.
    """
    table, logp = _read(counts, logprobs)
    if not 0 < level < 1 or not copies or min(copies) < 2:
        raise InputError(
            "`level` must be in (0, 1), and each number in `copies` at least 2, got "
            f"{level!r} and {copies!r}."
        )
    total = table.sum(axis=0)
    n, texts = int(total.sum()), len(total)
    reason = _obstacle(logp)
    if reason:
        return Independence(verdict="not checkable", seen=reason, n=n, texts=texts, level=level)
    logp = np.minimum(logp, 0.0)
    findings = (
        _too_often(total, logp),
        _multiples(total, logp, copies),
        _equal_chunks(table, logp),
    )
    least = min(findings, key=lambda finding: finding.p)
    refused = least.p < level
    return Independence(
        verdict="copies" if refused else "no objection",
        seen=f"{least.seen if refused else 'nothing beyond chance'} (p-value {least.p:.2g})",
        n=n,
        texts=texts,
        level=level,
        **dict(zip(("text", "copies", "chunks"), (f.p for f in findings), strict=True)),
    )


def require_independent(
    counts: npt.ArrayLike,
    logprobs: Sequence[float | None] | npt.ArrayLike,
    *,
    where: str = "this query",
) -> Independence:
    """Raise InputError if `check_independence` finds copies among the draws.

    Args:
        counts: the number of draws with each distinct text, [d], or [C, d] with one row for each of
            C separately drawn chunks.
        logprobs: the natural logarithm of each whole text's probability under the sampled
            distribution, [d], or one number for all texts; None, NaN or infinity where it is not
            known. If the draws come from a remainder, pass probabilities given the remainder.
        where: the name of the query or file of the draws, for the error message.

    Returns:
        The verdict and the observation: "no objection" or "not checkable".

    Raises:
        InputError: draws that contain copies, or input that `check_independence` refuses.
    """
    check = check_independence(counts, logprobs)
    if check.verdict == "copies":
        raise InputError(
            f"the {check.n} draws of {where} are not independent: {check.seen}. Bounds from them "
            "would not be valid. Draw again, with a separate seed or request id for every request."
        )
    return check


@dataclass(frozen=True, slots=True)
class _Finding:
    """A p-value of a test, and the observation behind it in words."""

    p: float
    seen: str


def _read(
    counts: npt.ArrayLike, logprobs: Sequence[float | None] | npt.ArrayLike
) -> tuple[Counts, Array]:
    """Return counts [C, d] and log-probabilities [d] of the texts with at least one draw."""
    table = np.atleast_2d(whole_numbers("counts", counts))
    logp = np.asarray(logprobs, dtype=np.float64)
    if table.ndim != 2 or logp.shape not in ((), table.shape[1:]):
        raise InputError(
            "`counts` must have shape (d,) or (chunks, d) for `logprobs` of shape (d,), got shapes "
            f"{np.shape(counts)} and {logp.shape}."
        )
    drawn = table.any(axis=0)
    return table[:, drawn], np.broadcast_to(logp, table.shape[1:])[drawn]


def _obstacle(logp: Array) -> str:
    """Return the reason why the probabilities cannot be used, or "" if they can."""
    if not logp.size:
        return "there are no draws"
    unknown = int((~np.isfinite(logp)).sum())
    if unknown:
        return f"{unknown} of {logp.size} texts have no log-probability"
    if logsumexp(logp) > math.log1p(ROUNDING):
        return f"the texts' probabilities add up to {math.exp(min(logsumexp(logp), 700)):.6g}"
    return ""


def _too_often(counts: Counts, logp: Array) -> _Finding:
    """Test whether one text occurs too often."""
    n = counts.sum()
    others = np.maximum(counts - 1, 1)
    tail = np.where(counts > 1, betainc(others, n - others, np.exp(logp)), 1.0)
    worst = int((tail / counts).argmin())
    seen = f"one text with probability {math.exp(logp[worst]):.3g} occurs {counts[worst]} times"
    return _Finding(min(1.0, float(tail[worst] * n / counts[worst])), seen)


def _multiples(counts: Counts, logp: Array, copies: Sequence[int]) -> _Finding:
    """Test whether all counts are multiples of a number, in logarithms."""
    chance = _log_chance(counts, logp)
    ratios = {m: _log_chance(counts // m, logp) - chance for m in copies if not (counts % m).any()}
    if not ratios:
        return _Finding(1.0, "")
    m = max(ratios, key=lambda m: ratios[m])
    p = math.exp(min(0.0, math.log(len(copies)) - ratios[m]))
    return _Finding(p, f"the count of every text is a multiple of {m}")


def _equal_chunks(chunks: Counts, logp: Array) -> _Finding:
    """Test whether two chunks have equal counts."""
    rows, times = np.unique(chunks[chunks.any(axis=1)], axis=0, return_counts=True)
    twice = [_log_chance(row, logp) for row in rows[times > 1]]
    if not twice:
        return _Finding(1.0, "")
    p = math.exp(min(twice)) * math.comb(len(chunks), 2)
    return _Finding(min(1.0, p), "every text occurs equally often in two chunks")


def _log_chance(counts: Counts, logp: Array) -> float:
    """Return the log multinomial probability of these counts; an unlisted text has count 0."""
    return float(gammaln(counts.sum() + 1) + counts @ logp - gammaln(counts + 1).sum())
