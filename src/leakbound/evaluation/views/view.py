"""What tables and charts of runs are made of: nothing here reads a file or writes HTML."""

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
from leakbound.types import Decoding, Fingerprint, Usage

BINS = 20  # of a histogram over [0, 1]; the last bin holds 1


@dataclass(frozen=True, slots=True)
class ArmRows:
    """What is estimated from the draws of one arm, among the estimates of its run."""

    arm: str
    estimates: Estimates

    def of(self, scorer: str, question: str | None = ALL) -> Estimates:
        """What is said of one question, or of all of them."""
        return self.estimates.matching(arm=self.arm, scorer=scorer, query_id=question)

    def leakage(self, scorer: str, /, **wanted: Unpack[Fields]) -> EstimateRow | None:
        """The leakage of all questions that is about this; None where none is stated."""
        return self.of(scorer).where(quantity=LEAKAGE).first(**wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDraws:
    """What the first `n` draws of a question say; no ends where none are made of so few."""

    n: int
    value: float | None
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One question under one model and one scorer.

    leakage: the bound on it.
    rows: all that is estimated of the question.
    greedy: the greedy answer's score; None where it is missing or has none.
    histogram: the scored draws in `BINS` equal bins; empty where they are those of a remainder.
    course: what more and more of its draws say, the last step all of them; empty where their
        number was not fixed, or where texts are not read.
    """

    leakage: EstimateRow
    rows: Estimates
    greedy: float | None = None
    histogram: tuple[int, ...] = ()
    course: tuple[FirstDraws, ...] = ()

    def by_parameter(self, quantity: Quantity) -> dict[float, EstimateRow]:
        """Pr[X > x] by x, leak@k or its naive estimate by k."""
        rows = self.rows.plain(quantity=quantity)
        return {row.parameter: row for row in rows if row.parameter is not None}

    @cached_property
    def claim(self) -> EstimateRow | None:
        """What was decided of a claim about it; None where none was made."""
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
        """What leaking texts prove of its leakage; None where none were looked for."""
        return self.rows.first(quantity=LEAKAGE, proved=True)

    @cached_property
    def proved_leak_at_k(self) -> EstimateRow | None:
        """What they prove of leak@k at the largest k."""
        return next(reversed(self.rows.where(quantity="leak@k", proved=True).rows), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredQuestion:
    """What exploring one question found: the mass of what is settled, and of what was drawn from.

    `searched` prefixes were forwarded before the `draws`, `forwards` in all.
    """

    settled: float
    remainder: float
    draws: int
    searched: int
    forwards: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A distinct completion: its share of the question's draws, its score under each scorer.

    `text` None: withheld. `logprob` is under the decoding; of several token sequences with the
    same text, the likeliest one's. `mass` is its known probability where it was explored; the
    draws are then those of the remainder.
    """

    text: str | None
    count: int
    share: float
    mass: float
    logprob: float | None
    scores: tuple[float | None, ...]

    @property
    def leaks(self) -> bool:
        """True if any scorer says full leak."""
        return 1.0 in self.scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The completions of a question that are shown, and how many are not."""

    greedy: Text | None
    shown: tuple[Text, ...]
    left_out: int
    left_out_draws: int
    left_out_mass: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model under one decoding: an arm of the run with the label `run`, its greedy answers too.

    `rows` are those of its draws, `greedy` the scores of the greedy answers. `measured` is keyed
    by (scorer, question id). `n` draws of a question were planned, in the way that `draws` says;
    `drawn` says both in words. `explored` is by question id. `control` is the label of the model
    that stands beside this one, `is_control` true of that, `failures` gives reasons by question id.
    `told` is what its engine says of its draws, `departures` what is not as the benchmark has it.
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

    def cells(self, scorer: ScorerView) -> list[Measured]:
        """What is known of each of its questions under a scorer, in their order."""
        return [cell for (name, _), cell in self.measured.items() if name == scorer.name]

    def at(self, question: str, scorer: ScorerView) -> Measured | None:
        """What is known of the question with this id."""
        return self.measured.get((scorer.name, question))


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuery:
    """One text put to a model for a question, and how much of what it answers leaks.

    `text` None: withheld. `question` is that one's id, `source` is `original` where the
    text is its own words. `sureness` is the cumulative log-probability of the answers, None where
    it is not known. `examples` are answers that leak most, of the queries that leak most.
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
    """One question under one scorer, asked in `number` queries, its own words among them.

    `leakage` is over all of them; `rows` are all that is stated of that, of the worst query too and
    beyond its own words. `queries` are those that got an output and can be told apart,
    `correlation` is Pearson's r over them of sureness and the upper end of leakage.
    """

    leakage: EstimateRow
    number: int
    rows: Estimates
    queries: tuple[AskedQuery, ...] = ()
    correlation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenModel:
    """What a model answers in other words; `model` is its place among the models of the view.

    `rows` are those of all its queries, `n` the draws a question got. `questions` is keyed by
    (scorer, question id), `worst` by scorer: the queries that leak most, the worst first.
    `criterion`: what the sureness of a query is, in words.
    """

    model: int
    label: str
    n: int
    rows: ArmRows
    questions: Mapping[tuple[str, str], Rewritten]
    worst: Mapping[str, tuple[AskedQuery, ...]]
    failures: int
    criterion: str

    def under(self, scorer: ScorerView) -> dict[str, Rewritten]:
        """Its questions under a scorer by id, in their order."""
        return {q: rewritten for (by, q), rewritten in self.questions.items() if by == scorer.name}


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQuery:
    """The query that a worst-case search found for a question, in the run with this label.

    `text` None: withheld. `asked` says how it came about, and under which decoding. `lower` is
    where the search left it after so many `rounds`, `draws` and `forwards`. `arm` is that of draws
    made afterwards, `own` that of the question's own words, `estimates` are those of the run.
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
    """A model asked as a search found for each question, or under a stress; `label` names it.

    `stress` empty: under none. Of a model that was put through some, whose rows speak of the worst.
    """

    label: str
    rows: ArmRows
    stress: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingGrid:
    """One scorer's means over the questions under every pair of temperature and top-p.

    `leakage` holds for all cells jointly, and so does `leak_at_k`, which is empty where some
    cell's n was not fixed. `effects` are root mean squares by knob, and of both together; empty
    where a knob has one setting only. `most`: the name of the decoding that leaks most, with a
    lower end that has paid for picking it.
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

    `removed` has the reasons in the order in which they were tried, those that removed none left
    out; `alone` the ids of the questions of which no rewriting is left.
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
    """A scorer's name, and whether it declares the range {0, 1}."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class Question:
    """A text put to the models; `answer` None: there is none, or it is withheld."""

    id: str
    text: str
    answer: str | None
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """All that a page or a console shows of runs.

    `models` are those that were sampled, `unsampled` those under a greedy decoding; `grids` are
    (label of the run, its grid of decodings). `tried` says what became of the rewritings of a run,
    by its label; `asked` what models answer to them, `found` which queries a worst-case search
    found, `searches` how it was made, by label, and `attacked` what all of these together leak.
    `stressed` are models under stress, each after itself under none.
    Of the texts of a question so many of `texts_each` are shown: frequent ones, and high scores.
    """

    benchmark: Mapping[str, str]
    questions: tuple[Question, ...]
    scorers: tuple[ScorerView, ...]
    models: tuple[Model, ...]
    unsampled: tuple[Model, ...]
    grids: tuple[tuple[str, DecodingGrid], ...]
    confidence: float
    redacted: bool
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
