"""Bounds for questions asked in the words that a search found, under the decodings it found.

Let S be all that the search drew, and X = f(S) the query and decoding that it found for a
question. The final draws Y_1 … Y_n have keys of their own, so they are independent of S, and n is
fixed beforehand. Given S, X is one fixed query under one fixed decoding, and Y_1 … Y_n are i.i.d.
from its law. So a bound B with P(B(Y) holds) >= 1 - alpha for every law holds with that
probability given S, whatever S was, hence altogether:

    P(B holds for X) = E[ P(B holds for X | S) ] >= 1 - alpha.

No correction for the number of queries tried is due, as each question's X was chosen without its
Y. Over several questions the Y are independent given S, so `stats` corrects as for any questions.
Both fail for the search's own draws: of many queries that leak alike, it keeps the one whose draws
leaked most by chance.

What is bounded is the leakage of what was found. Its lower end bounds the worst input from below;
its upper end says nothing of inputs that were not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from leakbound import stats
from leakbound.evaluation.statements.fixed import Fixed
from leakbound.store import ArmScores


@dataclass(frozen=True, slots=True)
class Attacked:
    """The final draws of questions that were searched, whichever arms they are from."""

    draws: Fixed

    @property
    def scores(self) -> ArmScores:
        """The questions there are, and their draws' scores."""
        return self.draws.scores

    def leakage(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The expected leakage of every question: Pr[leak] for a binary scorer."""
        return as_found(self.draws.leakage(confidence=confidence, side=side))

    def mean(self, *, confidence: float, side: stats.Side) -> stats.Estimate:
        """The mean over these questions."""
        return as_found(self.draws.mean(confidence=confidence, side=side))

    def each(self, confidence: float) -> Iterator[stats.Estimate]:
        """Every quantity of every question."""
        yield from map(as_found, self.draws.each(confidence))

    def together(self, confidence: float) -> Iterator[stats.Estimate]:
        """The worst question, the mean, how many leak more than x, and the mean leak@k."""
        yield from map(as_found, self.draws.together(confidence))


def as_found(estimate: stats.Estimate) -> stats.Estimate:
    """The estimate, saying that the questions were asked as they were found."""
    return replace(estimate, about=replace(estimate.about, inputs="as found"))
