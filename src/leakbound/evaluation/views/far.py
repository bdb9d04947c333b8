"""leak@k far beyond the draws: what is proved, what is bounded, and what is not known.

Of a scorer of 0 and 1 leak@k is 1 - (1 - p)^k, which grows with p. So a lower bound of p is one of
leak@k for every k at once, and an upper bound likewise, with just the confidence that p's has: no
law of the tail is supposed. What is proved of p, given the measured margin, holds without chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from leakbound.evaluation.statements.rows import LEAKAGE
from leakbound.evaluation.views.view import Measured, Model, ScorerView

FAR = tuple(dict.fromkeys(round(10 ** (i / 10)) for i in range(91)))
"""k from 1 to a thousand million, ten a decade where there are so many."""


@dataclass(frozen=True, slots=True)
class KnownAtK:
    """leak@k: without chance at least `proved`; with confidence from `lower` to `upper`.

    Between the larger of the first two and the last it is not known.
    """

    k: int
    proved: float
    lower: float
    upper: float


def leak_at_k(p: float, k: float) -> float:
    """1 - (1 - p)^k, exact for tiny p too."""
    return 1.0 if p >= 1 else -math.expm1(k * math.log1p(-p))


def known_of(cell: Measured, scorer: ScorerView, sizes: Sequence[int] = FAR) -> list[KnownAtK]:
    """leak@k of one question; nothing unless the scorer gives 0 or 1."""
    if not scorer.binary:
        return []
    proved = 0.0 if cell.proved is None else cell.proved.lower
    return _known(proved, cell.leakage.lower, cell.leakage.upper, sizes)


def known_of_worst(model: Model, scorer: ScorerView) -> list[KnownAtK]:
    """leak@k of the question that leaks most, whichever it is.

    For every k it is the same one, as leak@k grows with p: the bounds of its p are those of the
    worst question, and the largest proof is one of it. Nothing where no such bound is stated.
    """
    row = model.rows.leakage(scorer.name, scope="worst question", beyond=None)
    if row is None or not scorer.binary:
        return []
    cells = (cell for (name, _), cell in model.measured.items() if name == scorer.name)
    proved = max((cell.proved.lower for cell in cells if cell.proved), default=0.0)
    return _known(proved, row.lower, row.upper, FAR)


def known_of_mean(model: Model, scorer: ScorerView) -> list[KnownAtK]:
    """leak@k on average over the questions, each asked k times.

    Proved is the mean of what is proved of each. The ends follow from how many questions leak more
    than x, stated for all x of a row at once. With f(p) = 1 - (1 - p)^k and F(x) the share of the
    questions whose p exceeds x, the mean of f(p) over the questions is the integral of F f' from 0
    to 1. F falls, so from one x to the next it lies between what it is at least at the next and at
    most at the one: the integral is at least the sum of the former, and at most that of the latter,
    times the growth of f. k chooses f and nothing else: all k hold at once, with the confidence of
    that one statement. Nothing where it is not made.
    """
    counted = model.rows.of(scorer.name).where(quantity=LEAKAGE, scope="count", beyond=None)
    rows = counted.where(inputs="as asked").rows
    counts = sorted((row.parameter or 0.0, row.lower, row.upper) for row in rows)
    if not counts or not scorer.binary:
        return []
    cells = [cell for (name, _), cell in model.measured.items() if name == scorer.name]
    proofs = [cell.proved.lower for cell in cells if cell.proved]
    points = [(0.0, 0.0, len(cells)), *counts, (1.0, 0.0, 0.0)]
    found = []
    for k in FAR:
        f = [leak_at_k(x, k) for x, *_ in points]
        steps = [(b - a, i) for i, (a, b) in enumerate(pairwise(f))]
        least = math.fsum(step * points[i + 1][1] for step, i in steps)
        most = math.fsum(step * points[i][2] for step, i in steps)
        proved = math.fsum(leak_at_k(p, k) for p in proofs)
        found.append(KnownAtK(k, *(total / len(cells) for total in (proved, least, most))))
    return found


def _known(proved: float, lower: float, upper: float, sizes: Sequence[int]) -> list[KnownAtK]:
    return [KnownAtK(k, *(leak_at_k(p, k) for p in (proved, lower, upper))) for k in sizes]
