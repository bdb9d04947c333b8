"""Parse a scorer from its written form, `NAME[:setting=value,...][<=k][>=t]`.

Every scorer that reads thoughts has a setting `of=`. Its value is the part of each output that is
scored: `answer`, `thought` or `either`.
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
    """The methods of a scorer that wraps an inner scorer."""

    __slots__ = ()
    scorer: Scorer

    @property
    def fingerprint(self) -> JsonObject:
        """The fingerprint of the inner scorer."""
        return fingerprint(self.scorer)

    def connect(self, models: Models) -> Self:
        """Return the same wrapper around the connected inner scorer."""
        own: Any = self
        connected: Self = replace(own, scorer=connect(self.scorer, models))
        return connected

    def check_all(self, prompts: Sequence[Prompt]) -> list[str]:
        """Return the inner scorer's notes; raise InputError for a prompt that it refuses."""
        return check_prompts(self.scorer, prompts)

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return self.cut(score_texts(self.scorer, texts, prompt))

    def score_pairs(self, pairs: Sequence[tuple[str, Prompt]]) -> list[float | None]:
        """Score texts of several prompts, in one batch if the inner scorer supports it."""
        return self.cut(score_pairs(self.scorer, pairs))

    def cut(self, scores: Sequence[float | None]) -> list[float | None]:
        """Convert scores of the inner scorer to scores of this scorer."""
        return list(scores)

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """Return the bounds of the inner scorer; (0, 1) if it has none."""
        return prefix_bounds(self.scorer, prefix, prompt)


@dataclass(frozen=True, slots=True)
class PartReader(_Wrapper):
    """A scorer of one part of each output, or of either part.

    Attributes:
        scorer: the inner scorer, which reads thoughts.
        of: "answer", "thought", or "either" (the larger of the two scores).
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
    """Score 1 if `scorer` returns at least `at`, else 0; None stays None.

    Attributes:
        scorer: the inner scorer.
        at: the minimum score of a leak, in (0, 1]. It is part of the name.

    Raises:
        InputError: if `at` is outside (0, 1]. `check_all` and scoring raise it if the inner scorer
            raises it.
    """

    scorer: Scorer
    at: float

    binary: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.at <= 1:
            raise InputError(
                f"a threshold must be in (0, 1], got {self.at!r} for {self.scorer.name!r}. With 0, "
                "every completion would be a leak."
            )

    @property
    def name(self) -> str:
        short = f"{self.at:g}"
        return f"{self.scorer.name}>={short if float(short) == self.at else repr(self.at)}"

    def cut(self, scores: Sequence[float | None]) -> list[float | None]:
        """Return scores of the inner scorer, made binary by the threshold."""
        return [None if score is None else float(score >= self.at) for score in scores]

    def bounds(self, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
        """Return the inner scorer's bounds, made binary by the threshold; (0, 1) if it has none."""
        low, high = prefix_bounds(self.scorer, prefix, prompt)
        return float(low >= self.at), float(high >= self.at)


def reading_of(scorer: Scorer) -> Of | None:
    """Return the part of an output that a scorer reads.

    Args:
        scorer: any scorer. If its attribute `reads_thoughts` is False, it reads answers only.

    Returns:
        The part; None if the scorer reads thoughts and its name has no `of=`. Such a scorer reads
            either part, or only the visible parts if the thought is hidden.
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
        of: the part; None: the default reading.

    Returns:
        The scorer; unchanged if it reads answers only and `of` is "answer" or None.

    Raises:
        InputError: `of` is "thought" or "either", and the scorer reads answers only.
    """
    if isinstance(scorer, Threshold):
        return replace(scorer, scorer=with_reading(scorer.scorer, of))
    base = scorer.scorer if isinstance(scorer, PartReader) else scorer
    if not getattr(base_of(base), "reads_thoughts", True):
        if of in ("thought", "either"):
            raise InputError(
                f"scorer {base.name!r} scores answers only and has no setting `of={of}`. Omit "
                "`of`, or use a scorer for thoughts, such as `keyword`."
            )
        return base
    return base if of is None else PartReader(base, of)


@dataclass(frozen=True, slots=True)
class Logged:
    """Scores from the log of another tool. They cannot be computed again.

    Attributes:
        by: the name of the scorer in the tool's log.
        values: "binary" if the scores are only 0 and 1, else "unit" (default): scores in [0, 1].

    Raises:
        InputError: `score` always raises it.
    """

    by: str
    values: Literal["unit", "binary"] = "unit"

    reads_thoughts: ClassVar[bool] = False

    @property
    def binary(self) -> bool:
        return self.values == "binary"

    name = named("logged")

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        """Raise InputError, because the tool that computed these scores is not available."""
        raise InputError(
            f"scorer {self.name!r} cannot score texts: its scores come from the log of another "
            "tool. Import the log that has these scores."
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


_WITHIN = "within"  # the setting of `NAME<=k`
_PART = "of"
_ELSEWHERE = (
    "If it is not built in, install its package, or pass its object to `scorers` in Python."
)
_PASSED: dict[str, Scorer] = {}  # objects that were passed in this process, and their names


def require_scorer(value: object) -> None:
    """Raise InputError for an object that is not a scorer.

    Args:
        value: any object.

    Raises:
        InputError: the object is a class, lacks `name`, `binary` or `score`, or has a name that is
            not a text.
    """
    parts = ("name", "binary", "score")
    if isinstance(value, type) or not all(hasattr(value, part) for part in parts):
        raise InputError(
            "a scorer must be a name or an object with `name`, `binary` and `score`, got "
            f"{value!r}. docs/extending.md has an example."
        )
    if not isinstance(name := getattr(value, parts[0]), str):
        raise InputError(f"the `name` of {value!r} must be a text, got {name!r}. Set its `name`.")


def specs_of(scorers: str | Scorer | Iterable[str | Scorer]) -> tuple[str, ...]:
    """Return the specs of scorers, from which `make_scorer` returns the same scorers.

    Args:
        scorers: one scorer or several scorers, each a spec or an object.

    Returns:
        The specs. The spec of an object is its name.

    Raises:
        InputError: an object that is not a scorer, has a blank name or the name of another scorer,
            or has a setting that JSON cannot store.
    """
    single = isinstance(scorers, str) or not isinstance(scorers, Iterable)
    several = tuple(cast("Iterable[str | Scorer]", (scorers,) if single else scorers))
    objects = [scorer for scorer in several if not isinstance(scorer, str)]
    for scorer in objects:
        _remember(scorer)
    for scorer in objects:  # after all are stored: two may have the same name
        if make_scorer(scorer.name) != scorer:
            raise InputError(
                f"{scorer!r} has the same name as another scorer, {scorer.name!r}. Rename it."
            )
    return tuple(spec if isinstance(spec, str) else spec.name for spec in several)


def _remember(scorer: Scorer) -> None:
    """Store a scorer under its name for `make_scorer`."""
    require_scorer(scorer)
    digest(scorer)
    base = base_of(scorer)
    name = base.name.partition(":")[0]
    if not name.strip():
        raise InputError(f"the `name` of {scorer!r} is blank, got {base.name!r}. Set its `name`.")
    if name not in SCORERS and name not in plug_ins("scorer"):
        _PASSED[base.name] = base


def source_of(scorer: Scorer) -> str:
    """Return a text with the origin of a scorer that is not built in, for messages.

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
    """Make the scorer that `spec` describes; its `name` is the canonical spec.

    Args:
        spec: `NAME[:setting=value,...][<=k][>=t]`. Examples: `keyword`, `keyword:require=all`,
            `rouge-l-recall>=0.5`. `entailment:NAME` is short for `entailment:model=NAME`, and other
            settings may follow; `edit<=5` is short for `edit:within=5`. `keyword:of=thought` scores
            the thought of each output. NAME is a key of `SCORERS`, a name in the entry-point group
            `leakbound.scorers`, or the name of a scorer object that was passed to leakbound in this
            process.

    Returns:
        The scorer. If it queries a model, it is not connected yet.

    Raises:
        InputError: an unknown name, setting or value (the message lists the valid choices), a
            missing setting, a threshold outside (0, 1], or a broken scorer of another package.
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
            f"scorer {name!r} counts no changes, so `<=` is not valid, got {most.strip()!r}. "
            "Use `<=` with `edit` or `hamming`, and `>=` with any scorer."
        )
    if counts:
        values[_WITHIN] = read_value(f"{name}<=", most, types[_WITHIN])
    scorer = make("scorer", name, family, values, ("name", "binary", "score"))
    return with_reading(scorer, reading)
