"""Code that all scorers share: names from settings, checks before and after scoring."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, ClassVar, TypeVar

import numpy as np

from leakbound.durable import sha256_of
from leakbound.errors import InputError
from leakbound.registry import origin
from leakbound.text.keywords import normalise
from leakbound.types import RULE, JsonObject, Models, Prompt, Scorer
from leakbound.types.records import spec_of

M = TypeVar("M")

_ROUNDING = 1e-9
_ANY = (0.0, 1.0)
_CUTS = 4


def named(base: str) -> property:
    """Return the property `name` of a scorer whose settings are its fields, see `spec_of`."""
    return property(partial(spec_of, base))


class NeedsAnswer:
    """A scorer that reads the answer of the prompt."""

    __slots__ = ()
    name: Any

    def check(self, prompt: Prompt | str) -> None:
        """Raise InputError for a prompt without an answer."""
        answer_of(prompt, self.name)


class QueriesModel:
    """A scorer that queries the model in its field `connected`, for several prompts per batch."""

    __slots__ = ()
    connected: ClassVar[str]
    score_pairs: Callable[[Sequence[tuple[str, Prompt | str]]], list[float | None]]

    def score(self, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
        return self.score_pairs([(text, prompt) for text in texts])

    @property
    def fingerprint(self) -> dict[str, object]:
        """The record of the model; empty before `connect`."""
        return getattr(getattr(self, self.connected), "fingerprint", {})


def _own(scorer: Any) -> dict[str, Any]:
    """Return a scorer's settings by name: all fields except those that `connect` fills."""
    own = fields(scorer) if is_dataclass(scorer) else ()
    return {field.name: getattr(scorer, field.name) for field in own if field.compare}


def settings(scorer: Scorer) -> dict[str, object]:
    """Return everything that decides a scorer's values, as an object for JSON.

    Args:
        scorer: any scorer; the settings of a nested scorer are nested.

    Returns:
        The scorer's `name`, `binary`, the version of the counting and matching `rule`, and each
            setting, including defaults.
    """
    own = _own(scorer)
    nested = {key: settings(v) for key, v in own.items() if hasattr(v, "score")}
    return {"name": scorer.name, "binary": scorer.binary, "rule": RULE, **own, **nested}


def digest(scorer: Scorer) -> str:
    """Return twelve hexadecimal digits that identify the settings, for file names.

    Args:
        scorer: any scorer.

    Returns:
        The first digits of the SHA-256 of its `settings`.

    Raises:
        InputError: a setting that JSON cannot store.
    """
    try:
        text = json.dumps(settings(scorer), sort_keys=True, ensure_ascii=False)
    except TypeError as error:
        raise InputError(
            f"the settings of scorer {scorer.name!r} must be texts, numbers or lists ({error}). "
            "Declare other fields with `field(compare=False)`."
        ) from error
    return sha256_of(text)[:12]


def connect(scorer: Scorer, models: Models) -> Scorer:
    """Return the scorer with its opened model; unchanged if it needs no model.

    Name, settings and digest stay the same.

    Args:
        scorer: any scorer.
        models: opens models.

    Returns:
        The connected scorer.

    Raises:
        InputError: the model is unsuitable, and this is found before its weights are loaded.
        ModelError: the model cannot be opened, and this is found before its weights are loaded.
    """
    bring = getattr(scorer, "connect", None)
    connected: Scorer = scorer if bring is None else bring(models)
    return connected


def opened(model: M | None, scorer: str) -> M:
    """Return the model that `connect` added; raise InputError if `connect` was never called."""
    if model is None:
        raise InputError(
            f"scorer {scorer!r} has no open model, so it cannot score texts. Open it with "
            "`leakbound.engines.models.open_scorer`, or call its `connect`."
        )
    return model


def base_of(scorer: Scorer) -> Scorer:
    """Return the innermost scorer, without its threshold (`>=t`) and its reading (`of=`).

    Args:
        scorer: any scorer.

    Returns:
        The innermost scorer; `scorer` itself if it contains no other scorer.
    """
    inner: Any = scorer
    while hasattr(inner, "scorer"):
        inner = inner.scorer
    base: Scorer = inner
    return base


def models_of(scorer: Scorer) -> tuple[str, ...]:
    """Return the names of the models that a scorer and its nested scorers query; often empty.

    Args:
        scorer: any scorer, connected or not.

    Returns:
        The names; the name of the scorer's own model is first.
    """
    own = _own(scorer)
    names = [own["model"]] if isinstance(own.get("model"), str) else []
    return (*names, *(m for v in own.values() if hasattr(v, "score") for m in models_of(v)))


def fingerprint(scorer: Scorer) -> JsonObject:
    """Return the record of the scorer's model, with a digest of its weights.

    Args:
        scorer: any scorer.

    Returns:
        An object for JSON; empty if the scorer has no model, or is not connected.
    """
    record: JsonObject = getattr(scorer, "fingerprint", {})
    return record


def prompt_of(prompt: Prompt | str, scorer: str, part: str, fields: str) -> Prompt:
    """Return the prompt; raise InputError for a reference answer, which lacks the needed `part`."""
    if isinstance(prompt, str):
        raise InputError(
            f"scorer {scorer!r} needs the {part} of a Prompt, got the plain string {prompt!r}. "
            f"Pass Prompt(id=…, question=…{fields})."
        )
    return prompt


def answer_of(prompt: Prompt | str, scorer: str) -> str:
    """Return the reference answer; raise InputError, with the prompt's id, if there is none."""
    answer = prompt if isinstance(prompt, str) else prompt.answer
    if answer is None or not normalise(answer):
        got = "none" if answer is None else f"{answer!r} (nothing visible)"
        words = not isinstance(prompt, str) and prompt.keywords
        other = ", or use scorer `keyword`, which needs keywords only" if words else ""
        raise InputError(
            f"scorer {scorer!r} needs an answer, got {got} at {where(prompt)}. Fill in the "
            f"answer{other}."
        )
    return answer


def check_prompts(scorer: Scorer, prompts: Iterable[Prompt]) -> list[str]:
    """Raise InputError for the first prompt that the scorer can never score. No model is needed.

    Args:
        scorer: any scorer; a scorer without `check` and `check_all` accepts all prompts.
        prompts: the prompts to score.

    Returns:
        The scorer's notes about these prompts, one or two sentences each, with ids.

    Raises:
        InputError: the scorer's `check` refuses a prompt (the message has the prompt's id), or its
            `check_all` finds that the scores are meaningless for all prompts.
    """
    prompts = list(prompts)
    check, check_all = (getattr(scorer, name, None) for name in ("check", "check_all"))
    if check is not None:
        for prompt in prompts:
            check(prompt)
    return list(check_all(prompts)) if check_all is not None and prompts else []


def score_texts(scorer: Scorer, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
    """Score texts of one prompt. Equal texts are scored once.

    A score of lower precision than float64 is converted by its printed decimal; see `printed`.

    Args:
        scorer: any scorer; a scorer that queries a model must be connected.
        texts: completions.
        prompt: the prompt, or only its reference answer.

    Returns:
        One score per text, in order, in [0, 1]; None if the scorer could not decide.

    Raises:
        InputError: the scorer refuses the prompt, or does not return a list or one-dimensional
            array of the right length. Also for a score outside [0, 1] (up to rounding), and for a
            score between 0 and 1 from a binary scorer. The message contains the names of the scorer
            and the prompt.
    """
    return score_pairs(scorer, [(text, prompt) for text in texts])


def score_pairs(scorer: Scorer, pairs: Sequence[tuple[str, Prompt | str]]) -> list[float | None]:
    """Score texts of several prompts, with the checks of `score_texts`.

    A scorer with a method `score_pairs` is called once, with the distinct pairs of all prompts.
    Other scorers are called once per prompt.

    Args:
        scorer: any scorer; a scorer that queries a model must be connected.
        pairs: completions, each with its prompt or its reference answer; prompts are identified by
            id.

    Returns:
        One score per pair, in order, in [0, 1]; None if the scorer could not decide.

    Raises:
        InputError: in the same cases as `score_texts`.
    """
    together = getattr(scorer, "score_pairs", None)
    batches: dict[str, dict[tuple[str, str], tuple[str, Prompt | str]]] = {}
    for text, prompt in pairs:
        key = _key(prompt)
        batches.setdefault("" if together else key, {})[text, key] = text, prompt
    of_pair: dict[tuple[str, str], float | None] = {}
    for batch in batches.values():
        members = list(batch.values())
        prompt = members[0][1]
        texts = [text for text, _ in members]
        scores = together(members) if together else scorer.score(texts, prompt)
        kind = type(scores).__name__
        got = len(scores) if isinstance(scores, Sequence) else getattr(scores, "shape", kind)
        if got not in (len(texts), (len(texts),)):
            prompts = len({key for _, key in batch})
            place = where(prompt) if prompts == 1 else f"{prompts} prompts"
            raise InputError(
                f"scorer {scorer.name!r}{origin(scorer)} must return one score per text, got {got} "
                f"for {len(texts)} texts at {place}. Return a list or a 1-D array, with None where "
                "it cannot decide."
            )
        for (pair, (_, prompt)), score in zip(batch.items(), scores, strict=True):
            of_pair[pair] = _in_range(score, scorer, prompt)
    return [of_pair[text, _key(prompt)] for text, prompt in pairs]


def _key(prompt: Prompt | str) -> str:
    return prompt if isinstance(prompt, str) else prompt.id


def printed(score: Any) -> float:
    """Convert a score to float64 by its printed decimal: a float32 0.7 becomes 0.7, not 0.69999999.

    So a float32 0.7 reaches a threshold of 0.7, and a float32 0.3 does not exceed a threshold of
    0.3. A Python float does not change. Any value that is not a single number becomes NaN.
    """
    if isinstance(score, np.floating) and score.itemsize < np.dtype(float).itemsize:
        return float(str(score))
    single = not (isinstance(score, str | bytes) or getattr(score, "shape", None))
    try:
        return float(score) if single else math.nan
    except (TypeError, ValueError, OverflowError):
        return math.nan


def text_ranges(
    scorer: Scorer, texts: Sequence[tuple[str, bool]], prompt: Prompt | str
) -> list[tuple[float, float]]:
    """Return the lowest and the highest final score of each (text, ended) pair.

    Equal pairs are scored once.

    Args:
        scorer: any scorer; a scorer that queries a model must be connected.
        texts: beginnings of completions, each with True if the completion has ended.
        prompt: the prompt, or only its reference answer.

    Returns:
        One (low, high) per pair, in order, in [0, 1]. For a text that has ended, both numbers are
            the score, or (0, 1) if the scorer cannot decide. For any other text, they are the
            scorer's `bounds`, or (0, 1) for a scorer without `bounds`.

    Raises:
        InputError: in the same cases as `score_texts` and `prefix_bounds`.
    """
    scores = score_texts(scorer, [text for text, over in texts if over], prompt)
    of_ended = (_ANY if s is None else (s, s) for s in scores)
    growing = dict.fromkeys(text for text, over in texts if not over)
    of_growing = {text: prefix_bounds(scorer, text, prompt) for text in growing}
    return [next(of_ended) if over else of_growing[text] for text, over in texts]


def prefix_bounds(scorer: Scorer, prefix: str, prompt: Prompt | str) -> tuple[float, float]:
    """Return the scorer's `bounds` of a prefix, and check that they are valid scores.

    Args:
        scorer: any scorer.
        prefix: the beginning of a completion.
        prompt: the prompt, or only its reference answer.

    Returns:
        (low, high) in [0, 1]; (0, 1) if the scorer has no method `bounds`.

    Raises:
        InputError: the pair is not 0 <= low <= high <= 1, or has a number other than 0 and 1 for a
            binary scorer. The message contains the names of the scorer and the prompt.
    """
    bounds = getattr(scorer, "bounds", None)
    if bounds is None:
        return _ANY
    pair = bounds(prefix, prompt)
    try:
        low, high = map(printed, pair)
    except (TypeError, ValueError):  # the value is not a pair of numbers
        low = high = math.nan
    if not 0 <= low <= high <= 1 or (scorer.binary and not {low, high} <= {0.0, 1.0}):
        want = "a pair of 0 and 1" if scorer.binary else "a pair in [0, 1]"
        raise InputError(
            f"bounds must be {want}, the lower bound first, got {pair!r} from scorer "
            f"{scorer.name!r}{origin(scorer)} at {where(prompt)}. Correct or remove its `bounds`."
        )
    return low, high


def check_bounds(scorer: Scorer, texts: Sequence[str], prompt: Prompt | str) -> None:
    """Test that the scores of complete texts are within the scorer's `bounds` of their prefixes.

    Five prefixes per text are tested, from empty to complete. A passed test is no proof: another
    prefix or text may violate the bounds.

    Args:
        scorer: any scorer; a scorer without `bounds` passes.
        texts: completions.
        prompt: the prompt, or only its reference answer.

    Raises:
        InputError: a score is outside the bounds, or is None although the bounds are not (0, 1).
            The message has the scorer, the prefix and the text.
    """
    if not hasattr(scorer, "bounds"):
        return
    parts = range(_CUTS + 1)
    tried = [(t, t[: len(t) * part // _CUTS]) for t in dict.fromkeys(texts) for part in parts]
    of_text = text_ranges(scorer, [(text, True) for text, _ in tried], prompt)
    of_prefix = text_ranges(scorer, [(prefix, False) for _, prefix in tried], prompt)
    for (text, prefix), scored, bounds in zip(tried, of_text, of_prefix, strict=True):
        if scored[0] < bounds[0] - _ROUNDING or scored[1] > bounds[1] + _ROUNDING:
            got = scored[0] if scored[0] == scored[1] else None
            raise InputError(
                "`bounds` must be valid for every text that begins with the prefix, but scorer "
                f"{scorer.name!r} gives {bounds} for {prefix!r}, and {got} for {text!r} at "
                f"{where(prompt)}. Return bounds that no continuation can violate."
            )


def where(prompt: Prompt | str) -> str:
    """Return a name of a prompt, or of a reference answer without a prompt, for messages."""
    return "the reference answer" if isinstance(prompt, str) else f"prompt {prompt.id!r}"


def _in_range(score: float | None, scorer: Scorer, prompt: Prompt | str) -> float | None:
    if score is None or (type(score) is float and score in (0.0, 1.0)):
        return score
    number = printed(score)
    if not -_ROUNDING <= number <= 1 + _ROUNDING:
        fix = "Return numbers in [0, 1]" if math.isnan(number) else "Rescale its output"
        raise InputError(
            f"scores must be in [0, 1], got {score!r} from scorer {scorer.name!r}{origin(scorer)} "
            f"at {where(prompt)}. {fix}; return None where it cannot decide."
        )
    clipped = min(max(number, 0.0), 1.0)
    if scorer.binary and clipped not in (0.0, 1.0):
        raise InputError(
            f"a binary scorer must return 0 or 1, got {score!r} from {scorer.name!r}"
            f"{origin(scorer)} at {where(prompt)}. Declare `binary = False`, or add a threshold."
        )
    return clipped
