"""How the distribution of a question is looked at: the choice between three ways of drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from leakbound.benchmarks.benchmark import DRAWS
from leakbound.evaluation.planning.until import StopRule
from leakbound.store import ArmKey, ExploredDraws, ScorerRecord
from leakbound.study import Attack, Explore, FixedN, Study, Until
from leakbound.types import ExploreMode, Scorer


@dataclass(frozen=True, slots=True)
class SteeredAttack:
    """An attack, and the scorer that steers it."""

    attack: Attack
    scorer: Scorer


@dataclass(frozen=True, slots=True)
class Exploring:
    """Explore each question with an effort of `forwards`; `scorer` says what is settled."""

    mode: ExploreMode
    forwards: int
    scorer: Scorer

    @property
    def draws(self) -> ExploredDraws:
        """As the spec of an arm holds it."""
        return ExploredDraws(
            mode=self.mode, forwards=self.forwards, scorer=ScorerRecord.of(self.scorer)
        )


@dataclass(frozen=True, slots=True)
class SteeredPlan:
    """A sampling plan with the scorer that steers it.

    n draws of every question; or at most n, `until` a claim is decided; or `exploring`.

    With a `search`, n draws too of what it finds to leak most of each question.
    """

    n: int
    until: StopRule | None = None
    exploring: Exploring | None = None
    search: SteeredAttack | None = None

    @classmethod
    def of(cls, study: Study, scorers: Sequence[Scorer]) -> SteeredPlan:
        """How a resolved study is drawn, the first scorer steering where one does.

        Raises InputError for a claim that does not fit the scorer.
        """
        match study.sampling:
            case Explore(mode, forwards):
                return cls(DRAWS, exploring=Exploring(mode, forwards, scorers[0]))
            case Until(claim, most):
                n = DRAWS if most is None else most
                rule = StopRule.read(claim, scorers[0], cap=n, confidence=study.confidence)
                return cls(n, until=rule)
            case FixedN(n):
                search = None if study.attack is None else SteeredAttack(study.attack, scorers[0])
                return cls(DRAWS if n is None else n, search=search)


def scoring(key: ArmKey) -> str:
    """The purpose of draws that an arm is given to be scored."""
    return f"score:{key}"
