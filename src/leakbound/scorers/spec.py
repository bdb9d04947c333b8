"""A scorer from its written form: `NAME[:setting=value,...][<=k][>=t]`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any, Literal, get_args, get_origin, get_type_hints

from leakbound.errors import InputError
from leakbound.registry import find, opening, require_parts, suggestion
from leakbound.scorers.choice import Choice
from leakbound.scorers.distance import Edit, Hamming
from leakbound.scorers.family import setting_fields
from leakbound.scorers.judge import Judge
from leakbound.scorers.meaning import Classifier, Entailment, Similarity
from leakbound.scorers.rouge import RougeLF1, RougeLRecall
from leakbound.scorers.threshold import Logged, Threshold
from leakbound.scorers.wording import Contains, Exact, Keyword, Refusal
from leakbound.types import Scorer

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


# A comma is part of a value unless another setting follows: models have commas in their names.
_COMMA = re.compile(r",(?=\s*\w+\s*=)")
_WITHIN = "within"  # what `NAME<=k` sets


def make_scorer(spec: str) -> Scorer:
    """The scorer that `spec` describes; its `name` is the canonical form of the same.

    `keyword`, `keyword:require=all`, `rouge-l-recall>=0.5`, `entailment:NAME` for
    `entailment:model=NAME`, other settings behind it, `edit<=5` for `edit:within=5`. One that asks
    a model is not connected yet. An unknown name, setting or value raises InputError, which lists
    what there is.
    """
    written, cut, at = spec.partition(">=")
    written, counts, most = written.partition("<=")
    name, _, written_settings = written.strip().partition(":")
    scorer = _build(name, written_settings, most if counts else None)
    return Threshold(scorer, _parse(f"the threshold of {spec!r}", at, float)) if cut else scorer


def _build(name: str, written: str, most: str | None) -> Scorer:
    family = find("scorer", SCORERS, name)
    with opening("scorer", name):
        hints = _setting_types(family)
    first, *others = _COMMA.split(written)
    if first and "=" not in first and "model" in hints:
        first = f"model={first}"
    values: dict[str, object] = {}
    for pair in filter(None, (first, *others)):
        key, equals, text = (part.strip() for part in pair.partition("="))
        if not equals:
            raise InputError(f"scorer {name!r} takes `setting=value`, got {pair!r}.")
        if key not in hints:
            raise InputError(f"scorer {name!r} has no setting {key!r}. {suggestion(key, hints)}")
        values[key] = _parse(f"{name}:{key}", text, hints[key])
    if most is not None:
        if _WITHIN not in hints:
            raise InputError(
                f"scorer {name!r} counts no changes, so it takes no `<=`, got {most.strip()!r}. "
                "`edit` and `hamming` do; `>=` is for any scorer."
            )
        values[_WITHIN] = _parse(f"{name}<=", most, hints[_WITHIN])
    for needed in setting_fields(family):
        if needed.name not in values and needed.default is MISSING:
            form = f"{name}<=…" if needed.name == _WITHIN else f"{name}:{needed.name}=…"
            raise InputError(f"scorer {name!r} needs its setting {needed.name!r}. Write `{form}`.")
    with opening("scorer", name):
        scorer = family(**values)
    require_parts("scorer", name, scorer, ("name", "binary", "score"))
    return scorer


def _setting_types(family: Callable[..., Scorer]) -> dict[str, object]:
    hints = get_type_hints(family)
    return {f.name: hints[f.name] for f in setting_fields(family)}


def _parse(where: str, text: str, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        known = {str(value): value for value in get_args(hint)}
        if text not in known:
            raise InputError(f"{where} cannot be {text!r}. {suggestion(text, known)}")
        return known[text]
    if hint not in (int, float):
        return text
    try:
        return hint(text)
    except ValueError:
        kind = "whole number" if hint is int else "number"
        raise InputError(f"{where} must be a {kind}, got {text.strip()!r}.") from None
