"""A prepared study: the study with its loaded benchmark, its scorers and the rule of its draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

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
    Plan,
    ScorerRecord,
    StoppedDraws,
)
from leakbound.store.trained import coin_of
from leakbound.study import Explore, Study, Until
from leakbound.study.sampling import draws_of
from leakbound.types import Crew, Decoding, Opener, Scorer


@dataclass(frozen=True)
class Prepared:
    """A resolved study with its loaded benchmark and scorers.

    The first scorer decides a claim and ranks the candidates of an attack. An exploration does not
    extend a prefix if the first scorer gives all its continuations the same score.

    Attributes:
        study: the resolved study.
        benchmark: the study's benchmark.
        scorers: the study's scorers; empty if nothing is scored.
        notes: notes on the questions and scorers.
        crew: the workers that draw and score; None: this process draws and scores.
    """

    study: Study
    benchmark: Benchmark
    scorers: tuple[Scorer, ...]
    notes: tuple[str, ...] = ()
    crew: Crew | None = None

    @property
    def n(self) -> int:
        """The largest number of draws per question."""
        return draws_of(self.study.sampling) or DRAWS

    @cached_property
    def draws(self) -> ArmDraws:
        """The rule for the number of draws; raises InputError if the scorer cannot decide a claim.

        The rule also has the scorer that decides the claim or guides the exploration.
        """
        match self.study.sampling:
            case Explore(mode, forwards):
                by = ScorerRecord.of(self.steering)
                return ExploredDraws(mode=mode, forwards=forwards, scorer=by)
            case Until(claim):
                return _until(claim, self.steering, self.n, self.study.confidence)
        return FixedDraws()

    @property
    def explores(self) -> bool:
        """True if the study computes exact probabilities of the likeliest outputs."""
        return isinstance(self.draws, ExploredDraws)

    @property
    def steering(self) -> Scorer:
        """The scorer that decides claims and guides searches."""
        return self.scorers[0]

    @property
    def at(self) -> ScoringCrew | None:
        """The workers that score; None: this process scores."""
        if self.crew is None:
            return None
        models = OpenModels(servers=self.study.trusted, **self.study.settings.loading)
        return ScoringCrew(self.crew, models)

    def arm_draws(self, key: ArmKey, decoding: Decoding) -> tuple[Plan, ArmDraws]:
        """Return the number of draws of an arm, and their rule.

        A greedy decoding has one output, so one draw is made. Only arms of the target stop early; a
        control gets the maximum number of draws.
        """
        if decoding.greedy:
            return Plan.of(1), FixedDraws()
        if self.explores:
            return Plan.exploring(), self.draws
        stops = isinstance(self.draws, StoppedDraws)
        return Plan.of(self.n), FixedDraws() if stops and key.is_control else self.draws


def _until(claim: str, scorer: Scorer, cap: int, confidence: float) -> StoppedDraws:
    """Return the rule to draw until a claim is decided; raise InputError for an unfit scorer."""
    parsed = stats.parse_claim(claim)
    quantity = "p" if scorer.binary else "mean"
    if parsed.quantity != quantity:
        gives = "0 or 1" if scorer.binary else "any score in [0, 1]"
        other = "" if scorer.binary else f", or the scorer '{scorer.name}>=0.5'"
        raise InputError(
            f"the first scorer, {scorer.name!r}, cannot decide the claim {parsed.text!r}, because "
            f"its scores are {gives}. Use '{quantity}<={parsed.limit:g}'{other}."
        )
    first = stats.Looks(parsed, cap, confidence).first
    record = ScorerRecord.of(scorer)
    return StoppedDraws(claim=parsed.text, scorer=record, confidence=confidence, first=first)


def looks_of(rule: StoppedDraws, cap: int) -> stats.Looks:
    """Return the `Looks` that decide the claim of a rule, with at most `cap` draws."""
    return stats.Looks(stats.parse_claim(rule.claim), cap, rule.confidence)


LEAST_SHARE = 1e-14  # the smallest error rate of which 1 - rate keeps two digits


def require_confidence(confidence: float, questions: int) -> None:
    """Raise InputError for a confidence that is too near 1 for some bound.

    A band over every x or k uses half of alpha, and no band is computed for an error rate below
    `LEAST_ALPHA`. The bound on the largest excess over a control among N questions uses alpha/4N.
    """
    if not 0 < confidence < 1:
        raise InputError(f"`confidence` must be in (0, 1), got {confidence!r}. Use 0.99.")
    least = max(2 * LEAST_ALPHA, 4 * questions * LEAST_SHARE)
    if 1 - confidence < least:
        raise InputError(
            f"`confidence` is too near 1, got {confidence!r}. With {questions:,} questions, bounds "
            f"in float64 need an error rate 1 - confidence of at least {least:.2g}. "
            f"Use {1 - 1.01 * least:.13g} or less."
        )


def arm_keys(decodings: Sequence[Decoding], base: ArmKey = TARGET) -> dict[ArmKey, Decoding]:
    """Return the arm keys of the decodings.

    The key of a single decoding is `base`. The keys of several decodings also contain their names.
    Raises InputError if two decodings have the same name.
    """
    names = [decoding.name for decoding in decodings]
    for name in names:
        if names.count(name) > 1:
            raise InputError(
                f"two decodings have the name {name!r}, because they are equal to six digits. List "
                "each temperature and top-p once."
            )
    if len(decodings) == 1:
        return {base: decodings[0]}
    return {base.under(how): how for how in decodings}


@dataclass(frozen=True, slots=True)
class ScorerOpener:
    """An `Opener` of a scorer that any process can use.

    Attributes:
        name: the scorer's name.
        models: opens the models that the scorer needs (None: the scorer needs no model).
        scorer: the scorer, if it needs no model.
    """

    name: str
    models: OpenModels | None = None
    scorer: Scorer | None = None

    def open(self) -> Scorer:
        if self.models is None:
            assert self.scorer is not None
            return self.scorer
        return connect(make_scorer(self.name), self.models)


def opener_at(at: ScoringCrew | None, scorer: Scorer) -> Opener[Scorer]:
    """Return the opener of a scorer for a process that draws."""
    if at is None or not models_of(scorer):
        return ScorerOpener(scorer.name, scorer=scorer)
    return at.opener(scorer)


@dataclass(frozen=True, slots=True)
class ScoringCrew:
    """Workers that score, with the opener of the models that scorers need."""

    crew: Crew
    models: OpenModels

    def opener(self, scorer: Scorer) -> ScorerOpener:
        """Return the opener of a scorer for a worker."""
        return ScorerOpener(scorer.name, self.models)

    def scores(self, scorer: Scorer) -> bool:
        """Return whether workers run this scorer: it needs a model that is not on a server."""
        return bool(models_of(scorer)) and not servers_of([scorer.name])


def by_coin(study: Study, model: object, *, controlled: bool = True) -> Study:
    """Return the study, adapted if the model was taught a random half of the subjects.

    Then the questions about the taught half become the questions of the study. The questions about
    the other half become the control questions, unless the study names other control questions. For
    other models, the study is returned unchanged. Raises InputError if the data have changed since
    the choice. `controlled` is False if the command uses no control questions.
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
