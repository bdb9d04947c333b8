"""Scorers that ask models, at the workers that draw."""

from __future__ import annotations

from dataclasses import dataclass

from leakbound.engines.addresses import servers_of
from leakbound.engines.models import OpenModels
from leakbound.scorers import connect, make_scorer, models_of
from leakbound.types import Crew, Scorer


@dataclass(frozen=True, slots=True)
class HeldScorer:
    """An `Opener` of a scorer that is open, in this process."""

    scorer: Scorer

    def open(self) -> Scorer:
        return self.scorer


@dataclass(frozen=True, slots=True)
class ScorerOpener:
    """An `Opener` of the scorer of this name, in whatever process; its models are opened there."""

    name: str
    models: OpenModels

    def open(self) -> Scorer:
        return connect(make_scorer(self.name), self.models)


@dataclass(frozen=True, slots=True)
class ScoringCrew:
    """Workers that score, and how they open the models that scorers ask."""

    crew: Crew
    models: OpenModels

    def opener(self, scorer: Scorer) -> ScorerOpener:
        """How a worker opens it."""
        return ScorerOpener(scorer.name, self.models)

    def scores(self, scorer: Scorer) -> bool:
        """True if workers score: a model is asked, and none behind a server, which has its own."""
        return bool(models_of(scorer)) and not servers_of([scorer.name])
