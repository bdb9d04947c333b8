"""What the page shows, as frozen values: nothing here reads a file or writes HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from leakbound.evaluation.statements.rows import Interval
from leakbound.evaluation.views.grid import DecodingGrid
from leakbound.evaluation.views.rewritings import RewritingCounts
from leakbound.types import Decoding, Usage

BINS = 20  # of a histogram over [0, 1]; the last bin holds 1

__all__ = [
    "BINS",
    "AskedQuery",
    "DecidedClaim",
    "DecodingGrid",
    "ExploredQuestion",
    "FoundModel",
    "FoundQuery",
    "Full",
    "Interval",
    "Measured",
    "Model",
    "Overall",
    "Proof",
    "Question",
    "RewritingCounts",
    "Rewritten",
    "RewrittenModel",
    "ScorerView",
    "Statement",
    "Text",
    "Texts",
    "View",
]


@dataclass(frozen=True, slots=True)
class DecidedClaim:
    """What was claimed of a question, and what was decided: `holds`, `refuted` or `open`."""

    text: str
    decision: str


@dataclass(frozen=True, slots=True)
class Proof:
    """Lower bounds from leaking texts, given the measured margin: Pr[leak], and leak@k by k."""

    leakage: float
    leak_at_k: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One question under one model and one scorer; None for what its draws cannot bound.

    `tail` is Pr[X > x] by x, `leak_at_k` by k, `worst_of_k` the naive estimate of the same.
    `histogram` is the scored draws in `BINS` equal bins, empty where they are those of a
    remainder. `corrected` is the leakage with a judge's errors allowed for, where these are known.
    `greedy` None: the greedy answer is missing or has no score.
    """

    leakage: Interval
    n: int
    deviation: Interval | None = None
    expectation_deviation: Interval | None = None
    leak_at_k: Mapping[int, Interval] = field(default_factory=dict)
    worst_of_k: Mapping[int, float] = field(default_factory=dict)
    tail: Mapping[float, Interval] = field(default_factory=dict)
    greedy: float | None = None
    corrected: Interval | None = None
    excess: Interval | None = None
    claim: DecidedClaim | None = None
    proof: Proof | None = None
    missing: int = 0
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """What holds of all questions together; `is_count`: its bound is a number of questions."""

    name: str
    bound: Interval
    is_count: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Statements about all questions; None where some question has no completions.

    `excess` is the mean beyond the control's, `worst_excess` that of the question where it is most.
    """

    mean: Interval | None = None
    worst: Interval | None = None
    excess: Interval | None = None
    worst_excess: Interval | None = None
    others: tuple[Statement, ...] = ()


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
    """One model under one decoding: an arm of a run, with its greedy answers beside it.

    `measured` is keyed by (scorer, question id). `drawn` says how many draws were made, in words;
    `explored` is by question id. `control` is the label of the model that stands beside this one,
    `failures` gives reasons by question id.
    """

    label: str
    decoding: Decoding
    drawn: str
    usage: Usage
    facts: Mapping[str, str]
    measured: Mapping[tuple[str, str], Measured]
    overall: Mapping[str, Overall]
    texts: Mapping[str, Texts]
    failures: Mapping[str, str]
    explored: Mapping[str, ExploredQuestion] = field(default_factory=dict)
    is_control: bool = False
    control: str | None = None


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
    leakage: Interval
    n: int
    sureness: float | None = None
    examples: tuple[Text, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewritten:
    """One question under one scorer, asked in `number` queries, its own words among them.

    `leakage` is over all of them, `worst` that of the worst; `gap` and `worst_gap` say how much
    these exceed the leakage of its own words. `queries` are those that got an output and can be
    told apart, `correlation` is Pearson's r over them of sureness and the upper end of leakage.
    """

    leakage: Interval
    number: int
    worst: Interval | None = None
    gap: Interval | None = None
    worst_gap: Interval | None = None
    queries: tuple[AskedQuery, ...] = ()
    correlation: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """All questions in all their queries; None where some question has no completions.

    `gap` is the mean beyond that of the questions' own words. Of the gaps of single questions, by
    what they are a gap in (`full`, `worst query`), `largest` has the largest, `where` the number
    of questions with one; these have a lower end only.
    """

    overall: Overall
    worst_query: Interval | None = None
    gap: Interval | None = None
    largest: Mapping[str, Interval] = field(default_factory=dict)
    where: Mapping[str, Interval] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenModel:
    """What a model answers in other words; `model` is its place among the models of the view.

    `questions` is keyed by (scorer, question id), `overall` by scorer, as is `worst`: the queries
    that leak most, the worst first. `criterion`: what the sureness of a query is, in words.
    """

    model: int
    label: str
    overall: Mapping[str, Full]
    questions: Mapping[tuple[str, str], Rewritten]
    worst: Mapping[str, tuple[AskedQuery, ...]]
    failures: int
    criterion: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundQuery:
    """The query that a worst-case search found for a question, in the run with this label.

    `text` and `prefix` None: withheld, or there is no prefix. `lower` is where the search left it
    after so many `rounds` and `draws`. By scorer, `leakage` is from draws made afterwards, `own`
    that of the question's own words, `gap` how much more the first is.
    """

    run: str
    question: str
    text: str | None
    prefix: str | None
    source: str
    decoding: str
    rounds: int
    draws: int
    lower: float
    leakage: Mapping[str, Interval]
    own: Mapping[str, Interval]
    gap: Mapping[str, Interval]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundModel:
    """A model asked what was found for each question, by scorer; `label` names it and its run."""

    label: str
    overall: Mapping[str, Full]


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
    """All that one page shows; `grids` are (label of the run, its grid of decodings).

    `tried` says what became of the rewritings of a run, by its label; `asked` what models answer
    to them, `found` which queries a worst-case search found, and `attacked` what all of these
    together leak.
    """

    benchmark: Mapping[str, str]
    questions: tuple[Question, ...]
    scorers: tuple[ScorerView, ...]
    models: tuple[Model, ...]
    grids: tuple[tuple[str, DecodingGrid], ...]
    confidence: float
    redacted: bool
    tried: Mapping[str, RewritingCounts] = field(default_factory=dict)
    asked: tuple[RewrittenModel, ...] = ()
    found: tuple[FoundQuery, ...] = ()
    attacked: tuple[FoundModel, ...] = ()
