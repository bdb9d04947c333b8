"""Values that tables and charts of runs are made of: nothing here reads a file or writes HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Unpack

from leakbound.evaluation.statements.grid import Setting
from leakbound.evaluation.statements.rows import CLAIMS, LEAKAGE
from leakbound.stats.about import Quantity
from leakbound.store import ALL, ArmDraws, ArmKey, AttackRecord, EstimateRow, Estimates
from leakbound.store.estimates import Fields
from leakbound.store.record import Redaction
from leakbound.text.counting import Ledger
from leakbound.types import Decoding, Fingerprint, Usage


@dataclass(frozen=True, slots=True)
class ArmRows:
    """The estimates from the draws of one arm, among those of its run.

    Attributes:
        arm: the name of the arm.
        estimates: all those of its run.
    """

    arm: str
    estimates: Estimates

    def of(self, scorer: str, question: str | None = ALL) -> Estimates:
        """The arm's estimates of one question, or of all of them."""
        return self.estimates.matching(arm=self.arm, scorer=scorer, query_id=question)

    def leakage(self, scorer: str, /, **wanted: Unpack[Fields]) -> EstimateRow | None:
        """The leakage of all questions that is about this; None where none is stated."""
        return self.of(scorer).where(quantity=LEAKAGE).first(**wanted)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One question under one model and one scorer.

    Attributes:
        leakage: the bound on it.
        rows: all that is estimated of the question.
        greedy: the greedy answer's score; None where it is missing or has none.
    """

    leakage: EstimateRow
    rows: Estimates
    greedy: float | None = None

    def by_parameter(self, quantity: Quantity) -> dict[float, EstimateRow]:
        """Pr[X > x] by x, leak@k or its naive estimate by k."""
        rows = self.rows.plain(quantity=quantity)
        return {row.parameter: row for row in rows if row.parameter is not None}

    @cached_property
    def claim(self) -> EstimateRow | None:
        """The decision on a claim about it; None where none was made."""
        return self.rows.first(quantity=CLAIMS)

    @cached_property
    def beyond(self) -> EstimateRow | None:
        """How much more than the control's its leakage is; None where there is none."""
        return self.rows.first(quantity=LEAKAGE, beyond="control")

    @cached_property
    def surely_beyond(self) -> EstimateRow | None:
        """The same from below, jointly with all other questions; None where there is none."""
        return self.rows.first(quantity=LEAKAGE, beyond="control", jointly=True)

    @cached_property
    def proved(self) -> EstimateRow | None:
        """The leakage that leaking texts prove of it; None where none were looked for."""
        return self.rows.first(quantity=LEAKAGE, proved=True)

    @cached_property
    def proved_leak_at_k(self) -> EstimateRow | None:
        """The leak@k that they prove, at the largest k; None where they prove none."""
        return next(reversed(self.rows.where(quantity="leak@k", proved=True).rows), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredQuestion:
    """The outcome of exploring one question.

    Attributes:
        settled: the mass of what is settled, in [0, 1].
        remainder: the mass of what was drawn from, in [0, 1].
        draws: how many were drawn from the remainder.
        searched: prefixes that were forwarded before the draws.
        forwards: prefixes that were forwarded in all.
    """

    settled: float
    remainder: float
    draws: int
    searched: int
    forwards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A distinct completion: its share of the question's draws, its score under each scorer.

    Attributes:
        text: as it reads; None: withheld.
        parts: its visible thought and its answer; None: there is no visible thought, or withheld.
        count: how many draws of the question gave it.
        share: that, as a share of the question's draws.
        mass: its known probability where it was explored; the draws are then those of the
            remainder.
        logprob: under the decoding; of several token sequences with the same text, the likeliest
            one's; None where it is not known.
        scores: one a scorer, in [0, 1]; None where the scorer could not decide.
    """

    text: str | None
    count: int
    share: float
    mass: float
    logprob: float | None
    scores: tuple[float | None, ...]
    parts: tuple[str, str] | None = None

    @property
    def leaks(self) -> bool:
        """True if any scorer says full leak."""
        return 1.0 in self.scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The completions of a question that are shown, and how many are not.

    Attributes:
        greedy: the greedy answer; None where there is none.
        shown: the completions that are shown, the most frequent first, then high scores.
        left_out: how many are not shown.
        left_out_draws: the draws of these.
        left_out_mass: the known mass of these.
    """

    greedy: Text | None
    shown: tuple[Text, ...]
    left_out: int
    left_out_draws: int
    left_out_mass: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model under one decoding: an arm of a run, its greedy answers too.

    Attributes:
        label: what the model is called in the view.
        run: the label of its run.
        key: the arm's.
        decoding: that of the arm.
        n: how many draws of a question were planned.
        draws: in what way they were planned.
        drawn: both in words.
        usage: what sampling cost.
        facts: what was run, by heading.
        rows: the estimates from its draws.
        greedy: the scores of the greedy answers.
        measured: what is known of its questions, by (scorer, question id).
        texts: those that are shown, by question id; empty where texts are not read.
        failures: why questions could not be sampled, by question id.
        explored: what exploring found, by question id; empty where nothing was explored.
        is_control: whether it is the control of another model.
        control: the label of the model that stands beside this one; None where none does.
        told: what its engine says of its draws.
        departures: what is not as the benchmark has it.
        ledger: how its draws are counted.
        notes: those of its run's record.
    """

    label: str
    run: str
    key: ArmKey
    decoding: Decoding
    n: int
    draws: ArmDraws
    drawn: str
    usage: Usage
    facts: Mapping[str, str]
    rows: ArmRows
    greedy: ArmRows
    measured: Mapping[tuple[str, str], Measured]
    texts: Mapping[str, Texts]
    failures: Mapping[str, str]
    explored: Mapping[str, ExploredQuestion] = field(default_factory=dict)
    is_control: bool = False
    control: str | None = None
    told: Fingerprint = field(default_factory=Fingerprint)
    departures: tuple[str, ...] = ()
    ledger: Ledger = field(default_factory=Ledger)
    notes: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The words with which the first sentence about it in a table begins."""
        return f"{self.label}{self.ledger.within}"

    def cells(self, scorer: ScorerView) -> list[Measured]:
        """All that is known of each of its questions under a scorer, in their order."""
        return [cell for (name, _), cell in self.measured.items() if name == scorer.name]

    def at(self, question: str, scorer: ScorerView) -> Measured | None:
        """All that is known of the question with this id; None where it was not measured."""
        return self.measured.get((scorer.name, question))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuery:
    """One text put to a model for a question, and how much of what it answers leaks.

    Attributes:
        id: the query's.
        question: the id of the question.
        text: the query's words; None: withheld.
        source: where they come from; `original` where they are the question's own.
        leakage: the bound on that of its answers.
        sureness: the cumulative log-probability of the answers; None where it is not known.
        examples: answers that leak most, of the queries that leak most; else empty.
    """

    id: str
    question: str
    text: str | None
    source: str
    leakage: EstimateRow
    sureness: float | None = None
    examples: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """One question under one scorer, asked in several queries, its own words among them.

    Attributes:
        leakage: the bound on that over all queries.
        number: how many queries it was asked in.
        rows: all that is stated of that leakage, of the worst query too and beyond its own words.
        queries: those that got an output and can be told apart.
        correlation: Pearson's r, over them, of sureness and the upper end of leakage; None where
            they are too few, or one of the two does not vary.
    """

    leakage: EstimateRow
    number: int
    rows: Estimates
    queries: tuple[AskedQuery, ...] = ()
    correlation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenModel:
    """A model asked in other words.

    Attributes:
        model: its place among the models of the view, from 0.
        label: what it is called.
        n: the draws that a question got.
        rows: the estimates from the draws of all its queries.
        questions: by (scorer, question id).
        worst: by scorer, the queries that leak most, the worst first.
        failures: how many queries could not be sampled.
        criterion: what the sureness of a query is, in words.
        ledger: how its draws are counted.
    """

    model: int
    label: str
    n: int
    rows: ArmRows
    ledger: Ledger
    questions: Mapping[tuple[str, str], Rewritten]
    worst: Mapping[str, tuple[AskedQuery, ...]]
    failures: int
    criterion: str

    def under(self, scorer: ScorerView) -> dict[str, Rewritten]:
        """Its questions under a scorer by id, in their order."""
        return {q: rewritten for (by, q), rewritten in self.questions.items() if by == scorer.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQuery:
    """The query that a worst-case search found for a question.

    Attributes:
        run: the label of the run.
        question: the id of the question.
        text: the query's words; None: withheld.
        asked: how the query came about, and under which decoding.
        rounds, draws, forwards: how many of each the search made for the question.
        lower: the lower end at which the search left it.
        arm: that of the draws made afterwards.
        own: the name of the arm that asks the question's own words.
        estimates: those of the run.
    """

    run: str
    question: str
    text: str | None
    asked: str
    rounds: int
    draws: int
    forwards: int
    lower: float
    arm: ArmKey
    own: str
    estimates: Estimates

    def leakage(
        self, scorer: str, arm: object = None, /, **how: Unpack[Fields]
    ) -> EstimateRow | None:
        """That of the question as one arm asks it (None: as it was found), by a scorer."""
        rows = ArmRows(str(arm or self.arm), self.estimates).of(scorer, self.question)
        return rows.matching(quantity=LEAKAGE).first(**how)

    @property
    def proved(self) -> bool:
        """Whether a leak of it is proved."""
        return any(self.leakage(name, proved=True) for name in self.estimates.scorers)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedModel:
    """A model asked as a search found for each question, or under a stress.

    Attributes:
        label: what the model is called.
        rows: the estimates from its draws.
        stress: the stress it was put through; empty: under none. Of a model that was put through
            some, the rows under none speak of the worst.
        ledgers: how its draws are counted, by its label and, where there are several, the decoding.
    """

    label: str
    rows: ArmRows
    ledgers: Mapping[str, Ledger]
    stress: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingGrid:
    """One scorer's means over the questions under every pair of temperature and top-p.

    Attributes:
        scorer: by its name.
        temperatures, top_ps: the settings of the grid, ascending.
        leakage: the mean leakage by (temperature, top-p); holds for all cells jointly.
        leak_at_k: the mean leak@k by (temperature, top-p); holds for all cells jointly; empty where
            some cell's n was not fixed.
        k: that of leak@k; None where there is none.
        effects: root mean squares by knob, and of both together; empty where a knob has one setting
            only.
        most: the name of the decoding that leaks most, with a lower end that has paid for picking
            it.
        confidence: at which the cells hold.
    """

    scorer: str
    temperatures: tuple[float, ...]
    top_ps: tuple[float, ...]
    leakage: Mapping[Setting, EstimateRow]
    leak_at_k: Mapping[Setting, EstimateRow]
    k: int | None
    effects: Mapping[str, EstimateRow]
    most: tuple[str, EstimateRow]
    confidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritingCounts:
    """How many rewritings were tried, removed and asked, of all questions together.

    Attributes:
        source: what made them.
        design: how the draws of a question are shared among its queries.
        tried: how many were tried.
        removed: how many, by reason, in the order in which the reasons were tried; those that
            removed none are left out.
        asked: how many are left.
        alone: the ids of the questions of which no rewriting is left.
    """

    source: str
    design: str
    tried: int
    removed: Mapping[str, int]
    asked: int
    alone: tuple[str, ...]


class HasRange(Protocol):
    """A scorer, or what is said under one: whether it declares the range {0, 1}."""

    @property
    def binary(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScorerView:
    """A scorer, as a page names it.

    Attributes:
        name: the scorer's.
        binary: whether it declares the range {0, 1}.
    """

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A text put to the models.

    Attributes:
        id: the question's.
        text: its own words.
        answer: the true one; None: there is none, or it is withheld.
        keywords: those of the answer; empty where there are none, or they are withheld.
    """

    id: str
    text: str
    answer: str | None
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a page or a console shows of runs.

    Attributes:
        benchmark: its facts in the run's record, by name.
        questions: in the order of the benchmark.
        scorers: those that all runs were bounded by; verdicts speak of the first.
        models: those that were sampled.
        unsampled: those under a greedy decoding.
        grids: (label of the run, its grid of decodings).
        confidence: at which bounds on leakage hold, each by itself.
        rho: the weight of the standard deviation in the ED score.
        redacted: which texts are left out.
        tried: what became of the rewritings of a run, by its label.
        asked: what models answer to them.
        found: which queries a worst-case search found.
        searches: how it was made, by the label of the run.
        attacked: what all of these queries together leak.
        stressed: models under stress, each after itself under none.
        texts_each: how many texts of a question are shown for being frequent, and how many for high
            scores.
    """

    benchmark: Mapping[str, str]
    questions: tuple[Question, ...]
    scorers: tuple[ScorerView, ...]
    models: tuple[Model, ...]
    unsampled: tuple[Model, ...]
    grids: tuple[tuple[str, DecodingGrid], ...]
    confidence: float
    rho: float
    redacted: Redaction
    tried: Mapping[str, RewritingCounts] = field(default_factory=dict)
    asked: tuple[RewrittenModel, ...] = ()
    found: tuple[FoundQuery, ...] = ()
    searches: Mapping[str, AttackRecord] = field(default_factory=dict)
    attacked: tuple[AskedModel, ...] = ()
    stressed: tuple[AskedModel, ...] = ()
    texts_each: int = 0

    @property
    def targets(self) -> list[Model]:
        """The models that a page is about: all but controls, unless there are no others."""
        return [model for model in self.models if not model.is_control] or list(self.models)

    def control_of(self, model: Model) -> Model | None:
        """The model that stands beside this one; None where none does."""
        return next((other for other in self.models if other.label == model.control), None)
