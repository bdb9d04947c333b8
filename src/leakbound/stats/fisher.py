"""Test whether a model leaks more than its control at some question (stratified Fisher test).

Question i has n_i draws of the model. Each of them leaks with probability p_i, and x_i of them
leaked. The question also has m_i draws of the control. Each of them leaks with probability q_i, and
y_i of them leaked. The null hypothesis is p_i <= q_i at every question.

*Proof.* Let h_i = x_i + y_i. If p_i = q_i, then x_i given h_i is distributed as
Hypergeometric (n_i + m_i, h_i, n_i). If p_i < q_i, the odds ratio is below 1,
and x_i given h_i is stochastically smaller than this hypergeometric variable.
The questions are independent, so Σ x_i given all h_i is stochastically at most
the sum of independent hypergeometric variables. The upper tail of that sum at
the observed Σ x_i is a p-value conditionally on the h_i, hence also
unconditionally. It is valid for any number of questions and needs no order of
the draws (Fisher 1935; Gart 1970).

One sum over all questions does not detect a model that leaks more than its control at one question
and less at other questions. So there is a second test. Its p-value p_question is the smallest
p-value of a question, corrected for N independent questions (Šidák). With p_sum the p-value of the
sum, min(p_sum / (1 - ρ), p_question / ρ) is a valid p-value by the union bound.

A missing draw of the model counts as no leak, and a missing draw of the control
as a leak.
"""

from __future__ import annotations

import math

import numpy as np

from leakbound.errors import InputError
from leakbound.stats.estimate import Counts
from leakbound.stats.evidence import Pair, Rows

RHO = 0.05  # fraction of alpha for the test of the question that leaks most
TRIMMED = 1e-13  # largest probability cut from each tail in one step; it is added to the p-value


def leaks_somewhere(pair: Pair) -> float:
    """Return the p-value of "the model leaks more than its control at no question".

    A small p-value shows that the model leaks more than its control at some question. The draws
    must be i.i.d., scored by a binary scorer, and their numbers fixed in advance. The draws of the
    two models must share no randomness, and no attack may have selected the questions.

    Args:
        pair: the draws of the model and of its control at each question.

    Returns:
        The p-value, in (0, 1].

    Raises:
        InputError: scores of a scorer that is not binary.
    """
    if not pair.binary:
        raise InputError(
            "a Fisher test needs a binary scorer, got graded scores. Use a threshold: `NAME>=t`."
        )
    from scipy.stats import hypergeom  # takes most of a second

    mine, other = pair.rows, pair.control
    leaks = mine.hits + other.hits + other.missing
    by_question = np.asarray(hypergeom.sf(mine.hits - 1, mine.n + other.n, leaks, mine.n))
    if pair.questions == 1:
        return float(by_question[0])
    anywhere = -math.expm1(pair.questions * math.log1p(-min(by_question.min(), 1 - 1e-15)))
    return min(1.0, _of_the_sum(mine, other, leaks) / (1 - RHO), anywhere / RHO)


def _of_the_sum(mine: Rows, other: Rows, leaks: Counts) -> float:
    """Return the upper tail of the sum of hypergeometric variables, plus `TRIMMED` per cut tail."""
    from scipy.stats import hypergeom

    lowest, chances, cut = 0, np.ones(1), 0.0
    for n, m, h in zip(mine.n.tolist(), other.n.tolist(), leaks.tolist(), strict=True):
        mean = h * n / (n + m)
        reach = math.sqrt(min(n, h) * math.log(1 / TRIMMED) / 2)  # Hoeffding 1963, section 6
        first = max(0, h - m, math.ceil(mean - reach))
        possible = np.arange(first, min(n, h, math.floor(mean + reach)) + 1)
        chances = np.convolve(chances, hypergeom.pmf(possible, n + m, h, n))
        below, above = np.cumsum(chances), np.cumsum(chances[::-1])[::-1]
        kept = np.flatnonzero((below > TRIMMED) & (above > TRIMMED))
        lowest, chances = lowest + first + int(kept[0]), chances[kept[0] : kept[-1] + 1]
        cut += 4 * TRIMMED
    return float(chances[max(0, int(mine.hits.sum()) - lowest) :].sum()) + cut
