"""A scorer from its written form, `NAME[:setting=value,...][<=k][>=t]`, and what scores make.

Among the settings of every scorer that reads thoughts, `of=answer`, `of=thought` or `of=either`
names the part of each output that is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from leakbound.errors import InputError
from leakbound.registry import (
    find,
    make,
    origin,
    plug_ins,
    read_settings,
    read_value,
    setting_types,
)
from leakbound.scorers.choice import Choice
from leakbound.scorers.distance import Edit, Hamming
from leakbound.scorers.family import (
    base_of,
    check_prompts,
    connect,
    digest,
    fingerprint,
    named,
    prefix_bounds,
    score_pairs,
    score_texts,
)
from leakbound.scorers.judge import Judge
from leakbound.scorers.meaning import Classifier, Entailment, Similarity
from leakbound.scorers.rouge import RougeLF1, RougeLRecall
from leakbound.scorers.wording import Contains, Exact, Keyword, Refusal
from leakbound.types import JsonObject, Models, Prompt, Scorer

Of: TypeAlias = Literal["answer", "thought", "either"]
"""The part of an output that is scored."""


class _Wrapper:
    """The methods that a scorer around another one leaves to it."""

    __slots__ = ()
    scorer: Scorer

    @property
    def fingerprint(self) -> JsonObject:
        """That of the scorer underneath."""
        return fingerprint(self.scorer)

    def connect(self, models: Models) -> Self:
        """The same around the scorer underneath, connected."""
        own: Any = self
        connected: Self = replace(own, scorer=connect(self.scorer, models))
        return connected

    def check(self, prompt: Prompt) -> None:
        """Refuse what the scorer underneath refuses."""
        check = getattr(self.scorer, "check", None)
        if check is not None:
            check(prompt)

    def check_all(self, prompts: Sequence[Prompt]) -> list[str]:
        """The notes of the scorer underneath about all prompts."""
        return check_prompts(self.scorer, prompts)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return self.cut(score_texts(self.scorer, texts, prompt))

    def score_pairs(self, pairs: Sequence[tuple[str, Prompt]]) -> list[float | None]:
        """Texts of several prompts at once, where the scorer underneath can."""
        return self.cut(score_pairs(self.scorer, pairs))

    def cut(self, scores: Sequence[float | None]) -> list[float | None]:
        """The scores that this makes of those of the scorer underneath."""
        return list(scores)

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """The bounds of the scorer underneath; (0, 1) where it has none."""
        return prefix_bounds(self.scorer, prefix, prompt)


@dataclass(frozen=True, slots=True)
class PartReader(_Wrapper):
    """A scorer that reads the named part of each output; a text has the scorer's own score.

    Attributes:
        scorer: the scorer underneath, one that reads thoughts.
        of: "answer", "thought", or "either": the larger of the scores of both.
    """

    scorer: Scorer
    of: Of

    @property
    def binary(self) -> bool:
        return self.scorer.binary

    @property
    def name(self) -> str:
        return f"{self.scorer.name}{',' if ':' in self.scorer.name else ':'}of={self.of}"


@dataclass(frozen=True, slots=True)
class Threshold(_Wrapper):
    """1 where `scorer` gives at least `at`, else 0; None stays None.

    Attributes:
        scorer: the scorer underneath.
        at: the least score of a leak, in (0, 1]; part of the name.

    Raises:
        InputError: `at` is outside (0, 1]; by `check` and scoring, as the scorer underneath does.
    """

    scorer: Scorer
    at: float

    binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.at <= 1:
            raise InputError(
                f"a threshold must lie in (0, 1], got {self.at!r} for {self.scorer.name!r}. At 0 "
                "every completion would be a leak."
            )

    @property
    def name(self) -> str:
        short = f"{self.at:g}"
        return f"{self.scorer.name}>={short if float(short) == self.at else repr(self.at)}"

    def cut(self, scores: Sequence[float | None]) -> list[float | None]:
        """Scores of the scorer underneath, made binary."""
        return [None if score is None else float(score >= self.at) for score in scores]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """The bounds of the scorer underneath, made binary; (0, 1) where it has none."""
        low, high = prefix_bounds(self.scorer, prefix, prompt)
        return float(low >= self.at), float(high >= self.at)


def reading_of(scorer: Scorer) -> Of | None:
    """Return the part of an output that a scorer reads.

    Args:
        scorer: any scorer. One with an attribute `reads_thoughts` that is False reads answers.

    Returns:
        The part; None where the scorer reads thoughts and names no part. Then it reads either part,
        or the answer only where the thought is hidden.
    """
    while isinstance(scorer, Threshold):
        scorer = scorer.scorer
    if isinstance(scorer, PartReader):
        return scorer.of
    return None if getattr(base_of(scorer), "reads_thoughts", True) else "answer"


def with_reading(scorer: Scorer, of: Of | None) -> Scorer:
    """Return the scorer that reads this part of an output.

    Args:
        scorer: any scorer.
        of: the part; None: that of the default reading.

    Returns:
        The scorer; itself where it reads answers only and `of` is "answer" or None.

    Raises:
        InputError: `of` is "thought" or "either", and the scorer reads answers only.
    """
    if isinstance(scorer, Threshold):
        return replace(scorer, scorer=with_reading(scorer.scorer, of))
    base = scorer.scorer if isinstance(scorer, PartReader) else scorer
    if not getattr(base_of(base), "reads_thoughts", True):
        if of in ("thought", "either"):
            raise InputError(
                f"scorer {base.name!r} reads answers only, so it takes no `of={of}`. Leave it out, "
                "or use a scorer that reads thoughts, such as `keyword`."
            )
        return base
    return base if of is None else PartReader(base, of)


@dataclass(frozen=True, slots=True)
class Logged:
    """Scores that another tool gave, as a log has them beside the draws; none can be given anew.

    Attributes:
        by: the tool's scorer.
        values: "binary" where that can give 0 and 1 only, else "unit" (default), [0, 1].

    Raises:
        InputError: by `score`, always.
    """

    by: str
    values: Literal["unit", "binary"] = "unit"

    reads_thoughts: ClassVar[bool] = False

    @property
    def binary(self) -> bool:
        return self.values == "binary"

    name = named("logged")

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Refused: whoever gave these scores is not at hand."""
        raise InputError(
            f"scorer {self.name!r} stands for scores that another tool gave, and cannot score "
            "anything itself. Import the log that has them."
        )


SCORERS: dict[str, Callable[..., Scorer]] = {
    "choice": Choice,
    "classifier": Classifier,
    "contains": Contains,
    "edit": Edit,
    "entailment": Entailment,
    "exact": Exact,
    "hamming": Hamming,
    "judge": Judge,
    "keyword": Keyword,
    "logged": Logged,
    "refusal": Refusal,
    "rouge-l-f1": RougeLF1,
    "rouge-l-recall": RougeLRecall,
    "similarity": Similarity,
}


_WITHIN = "within"  # what `NAME<=k` sets
_PART = "of"
_ELSEWHERE = (
    "If it is not built in, install its package, or pass its object to `scorers` in Python."
)
_PASSED: dict[str, Scorer] = {}  # objects that this process was given, by name


def require_scorer(value: object) -> None:
    """Refuse an object that is not a scorer.

    Args:
        value: any object.

    Raises:
        InputError: it is a class, or lacks `name`, `binary` or `score`.
    """
    parts = ("name", "binary", "score")
    if isinstance(value, type) or not all(hasattr(value, part) for part in parts):
        raise InputError(
            "a scorer must be a name or an object with `name`, `binary` and `score`, got "
            f"{value!r}. docs/extending.md has an example."
        )


def specs_of(scorers: str | Scorer | Iterable[str | Scorer]) -> tuple[str, ...]:
    """Return the specs of scorers; `make_scorer` finds their objects from now on.

    Args:
        scorers: one or several, each a spec or an object.

    Returns:
        The specs; of an object its name.

    Raises:
        InputError: an object that is no scorer, that has the name of another scorer, or a setting
            that JSON does not hold.
    """
    alone = isinstance(scorers, str) or not isinstance(scorers, Iterable)
    several = cast("Iterable[str | Scorer]", (scorers,) if alone else scorers)
    return tuple(spec if isinstance(spec, str) else _remembered(spec) for spec in several)


def _remembered(scorer: Scorer) -> str:
    """The name of an object, by which `make_scorer` finds it."""
    require_scorer(scorer)
    digest(scorer)
    base = base_of(scorer)
    if base.name.partition(":")[0] not in {*SCORERS, *plug_ins("scorer")}:
        _PASSED[base.name] = base
    elif make_scorer(scorer.name) != scorer:
        raise InputError(f"{scorer!r} has the name of another scorer, {scorer.name!r}. Rename it.")
    return scorer.name


def source_of(scorer: Scorer) -> str:
    """Return the origin of a scorer that is not built in.

    Args:
        scorer: any scorer.

    Returns:
        ` of the package …` or ` of the class …`; empty if it is built in.
    """
    base = base_of(scorer)
    if base.name in _PASSED:
        return f" of the class {type(base).__qualname__} in {type(base).__module__}"
    return origin(base)


def make_scorer(spec: str) -> Scorer:
    """The scorer that `spec` describes; its `name` is the canonical form of the same.

    Args:
        spec: `NAME[:setting=value,...][<=k][>=t]`: `keyword`, `keyword:require=all`,
            `rouge-l-recall>=0.5`, `entailment:NAME` for `entailment:model=NAME`, other settings
            behind it, `edit<=5` for `edit:within=5`; `keyword:of=thought` scores the thought of
            each output. A name is a key of `SCORERS`, or of the entry-point group
            `leakbound.scorers`, or of an object that was passed in this process.

    Returns:
        The scorer; one that asks a model is not connected yet.

    Raises:
        InputError: an unknown name, setting or value, which lists what there is; a setting that is
            missing; a threshold outside (0, 1]; or a scorer of another package that is broken.
    """
    written, cut, at = spec.partition(">=")
    scorer = _without_threshold(written.strip())
    return Threshold(scorer, read_value(f"the threshold of {spec!r}", at, float)) if cut else scorer


def _without_threshold(written: str) -> Scorer:
    base, _, of = written.rpartition(f"{_PART}=")
    if scorer := _PASSED.get(written):
        return scorer
    if scorer := _PASSED.get(base[:-1]):
        return with_reading(scorer, cast(Of, read_value(_PART, of, Of)))
    written, counts, most = written.partition("<=")
    name, _, settings = written.strip().partition(":")
    family = find("scorer", SCORERS, name, _ELSEWHERE)
    types = setting_types("scorer", name, family)
    values = read_settings("scorer", name, settings, {**types, _PART: Of}, first="model")
    reading = cast("Of | None", values.pop(_PART, None))
    if counts and _WITHIN not in types:
        raise InputError(
            f"scorer {name!r} counts no changes, so it takes no `<=`, got {most.strip()!r}. "
            "`edit` and `hamming` do; `>=` is for any scorer."
        )
    if counts:
        values[_WITHIN] = read_value(f"{name}<=", most, types[_WITHIN])
    scorer = make("scorer", name, family, values, ("name", "binary", "score"))
    return with_reading(scorer, reading)
