"""What the page shows, as frozen values: nothing here reads a file or writes HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from residua.types import Decoding, Usage

BINS = 20  # of a histogram over [0, 1]; the last bin holds 1


@dataclass(frozen=True, slots=True)
class Bound:
    """A point estimate with its ends; `value` None where no draw has a score."""

    value: float | None
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One question under one model and one scorer.

    `tail` is Pr[X > x] by x, `leak_at_k` by k, `histogram` the scored draws in `BINS` equal
    bins. `greedy` None: the greedy answer is missing or has no score.
    """

    leakage: Bound
    deviation: Bound
    expectation_deviation: Bound
    leak_at_k: Mapping[int, Bound]
    tail: Mapping[float, Bound] = field(default_factory=dict)
    greedy: float | None = None
    excess: Bound | None = None
    missing: int = 0
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overall:
    """Statements about all questions; None where some question has no completions."""

    mean: Bound | None = None
    worst: Bound | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A distinct completion: its share of the draws, its score under each scorer.

    `text` None: withheld. `logprob` is under the decoding; of several token sequences with the
    same text, the likeliest one's.
    """

    text: str | None
    count: int
    share: float
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model under one decoding: an arm of a run, with its greedy answers beside it.

    `measured` is keyed by (scorer, question id). `control` is the label of the model that stands
    beside this one, `failures` gives reasons by question id.
    """

    label: str
    decoding: Decoding
    n: int
    usage: Usage
    facts: Mapping[str, str]
    measured: Mapping[tuple[str, str], Measured]
    overall: Mapping[str, Overall]
    texts: Mapping[str, Texts]
    failures: Mapping[str, str]
    is_control: bool = False
    control: str | None = None


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
    """All that one page shows."""

    benchmark: Mapping[str, str]
    questions: tuple[Question, ...]
    scorers: tuple[ScorerView, ...]
    models: tuple[Model, ...]
    confidence: float
    redacted: bool
