"""How a study is drawn: the choice between three ways, the arms by their decodings, who scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from leakbound import stats
from leakbound.benchmarks import Benchmark
from leakbound.benchmarks.benchmark import DRAWS
from leakbound.engines.addresses import servers_of
from leakbound.engines.models import OpenModels
from leakbound.errors import InputError
from leakbound.scorers import connect, make_scorer, models_of
from leakbound.stats.tail import LEAST_ALPHA
from leakbound.store import (
    TARGET,
    ArmDraws,
    ArmKey,
    ExploredDraws,
    FixedDraws,
    ScorerRecord,
    StoppedDraws,
)
from leakbound.store.trained import coin_of
from leakbound.study import Attack, Explore, FixedN, Prove, Study, Until
from leakbound.types import Crew, Decoding, Opener, Scorer


@dataclass(frozen=True, slots=True)
class SteeredPlan:
    """A sampling plan with the scorer that steers it.

    n: draws of every question, or the most of them.
    draws: what decides how many: n itself, a claim, or how far each question is explored.
    scorer: what decides the claim, settles what is explored, or steers the attack.
    attack: the search for the worst input, of which n are drawn too.
    prove: the search for rare leaks, once all is drawn and scored.
    at: the workers that score; None where this process does.
    """

    n: int
    draws: ArmDraws = field(default_factory=FixedDraws)
    scorer: Scorer | None = None
    attack: Attack | None = None
    prove: Prove | None = None
    at: ScoringCrew | None = None

    @classmethod
    def of(cls, study: Study, scorers: Sequence[Scorer]) -> SteeredPlan:
        """How a resolved study is drawn, the first scorer steering where one does.

        Raises InputError for a claim that does not fit the scorer.
        """
        how = cls(DRAWS, attack=study.attack, prove=study.prove)
        match study.sampling:
            case Explore(mode, forwards):
                by = ScorerRecord.of(scorers[0])
                draws = ExploredDraws(mode=mode, forwards=forwards, scorer=by)
                return replace(how, draws=draws, scorer=scorers[0])
            case Until(claim, most):
                n = DRAWS if most is None else most
                rule = _until(claim, scorers[0], n, study.confidence)
                return replace(how, n=n, draws=rule, scorer=scorers[0])
            case FixedN(n):
                first = None if study.attack is None else scorers[0]
                return replace(how, n=DRAWS if n is None else n, scorer=first)

    @property
    def explores(self) -> bool:
        """True if masses are explored."""
        return isinstance(self.draws, ExploredDraws)

    @property
    def steering(self) -> Scorer:
        """The scorer, of a plan that one steers."""
        assert self.scorer is not None
        return self.scorer


@dataclass(frozen=True, slots=True)
class Prepared:
    """A study with all of it said, its benchmark and scorers loaded, and how it is drawn.

    notes: on its questions and scorers.
    crew: the workers that draw; None where this process does.
    """

    study: Study
    benchmark: Benchmark
    scorers: tuple[Scorer, ...]
    drawing: SteeredPlan
    notes: tuple[str, ...] = ()
    crew: Crew | None = None

    def by(self, crew: Crew | None) -> Prepared:
        """The same, drawn and scored by workers where there are any."""
        if crew is None:
            return self
        models = OpenModels(servers=self.study.trusted, **self.study.settings.loading)
        at = ScoringCrew(crew, models)
        return replace(self, crew=crew, drawing=replace(self.drawing, at=at))


def _until(claim: str, scorer: Scorer, cap: int, confidence: float) -> StoppedDraws:
    """Draws until the scorer decides a claim; InputError where the two do not fit."""
    parsed = stats.parse_claim(claim)
    quantity = "p" if scorer.binary else "mean"
    if parsed.quantity != quantity:
        gives = "0 or 1" if scorer.binary else "any score in [0, 1]"
        other = "" if scorer.binary else f", or name the scorer '{scorer.name}>=0.5'"
        raise InputError(
            f"the first scorer decides the claim {parsed.text!r}, and {scorer.name!r} gives "
            f"{gives}. Say '{quantity}<={parsed.limit:g}'{other}."
        )
    first = stats.Looks(parsed, cap, confidence).first
    record = ScorerRecord.of(scorer)
    return StoppedDraws(claim=parsed.text, scorer=record, confidence=confidence, first=first)


def looks_of(rule: StoppedDraws, cap: int) -> stats.Looks:
    """How the claim of a rule is decided, with at most so many draws."""
    return stats.Looks(stats.parse_claim(rule.claim), cap, rule.confidence)


LEAST_SHARE = 1e-14  # of alpha: 1 less that keeps two digits of it


def require_confidence(confidence: float, questions: int) -> None:
    """Refuse, before anything is sampled for it, a confidence that some statement cannot have.

    A band, of every x or k at once, spends half of alpha, and none is solved below `LEAST_ALPHA`.
    The largest excess over a control among N questions spends alpha/4N on one bound.
    """
    if not 0 < confidence < 1:
        raise InputError(
            f"`confidence` must lie strictly between 0 and 1, got {confidence!r}. Use 0.99."
        )
    least = max(2 * LEAST_ALPHA, 4 * questions * LEAST_SHARE)
    if 1 - confidence < least:
        raise InputError(
            f"`confidence` is too near 1, got {confidence!r}: shared among the statements about "
            f"{questions:,} questions, an error rate below {least:.2g} is more than float64 can "
            f"tell from none. Use {1 - 1.01 * least:.13g} or less."
        )


def arm_keys(decodings: Sequence[Decoding], base: ArmKey = TARGET) -> dict[ArmKey, Decoding]:
    """The arm of each decoding: `base` alone, or with the decoding's name where they are several.

    InputError where two of them have one name.
    """
    names = [decoding.name for decoding in decodings]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two decodings are called {name!r}: the same, or alike to six digits. "
                "List each temperature and top-p once."
            )
    if len(decodings) == 1:
        return {base: decodings[0]}
    return {base.under(how): how for how in decodings}


@dataclass(frozen=True, slots=True)
class HeldScorer:
    """An `Opener` of a scorer that is open, or that needs no opening."""

    scorer: Scorer

    def open(self) -> Scorer:
        return self.scorer


def opener_at(at: ScoringCrew | None, scorer: Scorer) -> Opener[Scorer]:
    """How a process that draws opens a scorer; only one that asks a model needs opening."""
    return HeldScorer(scorer) if at is None or not models_of(scorer) else at.opener(scorer)


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


def by_coin(study: Study, model: object, *, controlled: bool = True) -> Study:
    """The study as it is put to a model of which a coin chose the subjects that it was taught.

    Of the benchmark that the coin halved those questions are asked that were taught, the others as
    control questions unless some are named; any other study is as it was. InputError for data that
    is not what it was then. `controlled`: whether control questions are asked.
    """
    coin = coin_of(model)
    task = None if coin is None or study.benchmark is None else study.load()
    half = task if coin is None or task is None else coin.taught_of(task)
    if coin is None or task is None or half is task or task.loaded is None:
        return study
    others = study.control_questions
    if controlled:
        others = others or f"untaught:{coin.seed},{task.loaded.spec}"
    return replace(
        study, benchmark=half, data=None, limit=None, profile=None, control_questions=others
    )
