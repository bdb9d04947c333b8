"""What every scorer gets for free: its name from its settings, checks before and after scoring."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from residua.errors import InputError
from residua.types import Prompt, Scorer

_ROUNDING = 1e-9


def spec_name(base: str, scorer: Any) -> str:
    """`base`, or `base:setting=value,...` with the settings that are not at their default."""
    changed = [
        f"{f.name}={getattr(scorer, f.name)}"
        for f in fields(scorer)
        if getattr(scorer, f.name) != f.default
    ]
    return f"{base}:{','.join(changed)}" if changed else base


def settings(scorer: Scorer) -> dict[str, Any]:
    """Everything that decides a scorer's values, as JSON holds it; defaults are spelt out."""
    value: Any = scorer
    own = {f.name: getattr(value, f.name) for f in fields(value)} if is_dataclass(value) else {}
    nested = {key: settings(v) if hasattr(v, "score") else v for key, v in own.items()}
    return {"name": scorer.name, "binary": scorer.binary, **nested}


def digest(scorer: Scorer) -> str:
    """Twelve hexadecimal digits that differ where the settings do: part of a file's name."""
    text = json.dumps(settings(scorer), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def answer_of(prompt: Prompt | str, scorer: str) -> str:
    """The reference answer; a missing or blank one raises InputError with the prompt's id."""
    if isinstance(prompt, str):
        answer: str | None = prompt
        where = "the reference answer"
    else:
        answer, where = prompt.answer, f"prompt {prompt.id!r}"
    if answer is None or not answer.strip():
        got = "none" if answer is None else repr(answer)
        raise InputError(
            f"scorer {scorer!r} needs an answer, got {got} at {where}. Fill the answer in, or "
            "use a scorer that needs none, such as `keyword`."
        )
    return answer


def check_prompts(scorer: Scorer, prompts: Iterable[Prompt]) -> None:
    """Raise InputError at the first prompt the scorer could never score. No model is needed."""
    check = getattr(scorer, "check", None)
    if check is not None:
        for prompt in prompts:
            check(prompt)


def score_texts(scorer: Scorer, texts: Sequence[str], prompt: Prompt | str) -> list[float | None]:
    """One score a text, in order; equal texts are scored once.

    None where the scorer could not decide. A value that is NaN or outside [0, 1] by more than
    rounding, a value between 0 and 1 from a binary scorer, or a wrong number of values raises
    InputError that names the scorer and the prompt.
    """
    distinct = list(dict.fromkeys(texts))
    scores = scorer.score(distinct, prompt) if distinct else []
    where = "a plain answer" if isinstance(prompt, str) else f"prompt {prompt.id!r}"
    if len(scores) != len(distinct):
        raise InputError(
            f"scorer {scorer.name!r} must give one score a text, got {len(scores)} for "
            f"{len(distinct)} texts at {where}. Return None for a text it cannot decide."
        )
    of_text = {
        text: _in_range(score, scorer, where) for text, score in zip(distinct, scores, strict=True)
    }
    return [of_text[text] for text in texts]


def _in_range(score: float | None, scorer: Scorer, where: str) -> float | None:
    if score is None:
        return None
    if math.isnan(score) or not -_ROUNDING <= score <= 1 + _ROUNDING:
        raise InputError(
            f"scores must lie in [0, 1], got {score!r} from scorer {scorer.name!r} at {where}. "
            "Rescale its output; return None where it cannot decide."
        )
    clipped = min(max(float(score), 0.0), 1.0)
    if scorer.binary and clipped not in (0.0, 1.0):
        raise InputError(
            f"a binary scorer gives 0 or 1, got {score!r} from {scorer.name!r} at {where}. "
            "Declare `binary = False`, or put a threshold on it."
        )
    return clipped
