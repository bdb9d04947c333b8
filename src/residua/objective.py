"""Objectives: weighted sums of losses over named splits, and the recipes known by name.

A recipe is a function of its settings that returns terms; joined recipes add up their terms, so
`npo+entropy` is negative preference optimisation with entropy regularisation, and
`npo:beta=0.05+entropy:retain=-0.1` the same with settings.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from residua.errors import InputError
from residua.losses import LOSSES, LossInputs


@dataclass(frozen=True, slots=True)
class Term:
    """`weight` times the mean of one loss over one split."""

    loss: str
    split: str
    weight: float = 1.0
    settings: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted sum of losses; training lowers it."""

    name: str
    terms: tuple[Term, ...]

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it needs. An epoch runs over the first; the others are paired with it."""
        return tuple(dict.fromkeys(term.split for term in self.terms))

    @property
    def referenced(self) -> frozenset[str]:
        """The splits on which the frozen initial model must be run."""
        return frozenset(term.split for term in self.terms if LOSSES[term.loss].reference)

    def __call__(self, batches: Mapping[str, LossInputs]) -> Tensor:
        """The objective on one batch a split: a scalar."""
        values = [
            term.weight * LOSSES[term.loss].function(batches[term.split], **term.settings).mean()
            for term in self.terms
        ]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def to_dict(self) -> dict[str, Any]:
        """Its terms in full, for recipe files: two names for one sum are equal here."""
        return {"terms": [asdict(term) for term in self.terms]}


def finetune() -> tuple[Term, ...]:
    """Plain fine-tuning: mean token cross-entropy on the rows given."""
    return (Term("nll", "train"),)


def ga() -> tuple[Term, ...]:
    """Gradient ascent on the forget set alone."""
    return (Term("ga", "forget"),)


def gd(*, forget: float = 1.0, retain: float = 1.0) -> tuple[Term, ...]:
    """Gradient difference (Liu et al. 2022): ascent on forget, descent on retain."""
    return (Term("ga", "forget", forget), Term("nll", "retain", retain))


def npo(*, beta: float = 0.1, retain: float = 1.0) -> tuple[Term, ...]:
    """Negative preference optimisation (Zhang et al. 2024) with descent on retain."""
    return (Term("npo", "forget", settings={"beta": beta}), Term("nll", "retain", retain))


def entropy(*, forget: float = 1.0, retain: float = -0.25) -> tuple[Term, ...]:
    """Entropy regularisation (Scholten et al. 2025): surer on forget, not so on retain."""
    return (Term("entropy", "forget", forget), Term("entropy", "retain", retain))


OBJECTIVES: dict[str, Callable[..., tuple[Term, ...]]] = {
    "entropy": entropy,
    "finetune": finetune,
    "ga": ga,
    "gd": gd,
    "npo": npo,
}


def parse_objective(text: str) -> Objective:
    """The objective that `text` names: recipes joined by `+`, settings after a colon.

    Terms of weight 0 are left out. Raises InputError for an unknown recipe or setting, and where
    nothing is left to train.
    """
    terms = [term for part in text.split("+") for term in _recipe(part.strip())]
    kept = tuple(term for term in terms if term.weight != 0)
    if not kept:
        raise InputError(f"objective {text!r} has no term with a weight. Give one a weight.")
    return Objective(text, kept)


def _recipe(text: str) -> tuple[Term, ...]:
    name, _, rest = text.partition(":")
    if name not in OBJECTIVES:
        raise InputError(
            f"there is no objective {name!r}. Known, and joined by '+': {', '.join(OBJECTIVES)}."
        )
    recipe = OBJECTIVES[name]
    settings = dict(_setting(item) for item in rest.split(",") if rest)
    allowed = inspect.signature(recipe).parameters
    unknown = sorted(set(settings) - set(allowed))
    if unknown:
        raise InputError(
            f"objective {name!r} has no setting {unknown[0]!r}. "
            f"It takes: {', '.join(allowed) or 'none'}."
        )
    return recipe(**settings)


def _setting(text: str) -> tuple[str, float]:
    key, _, value = text.partition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"a setting is written NAME=NUMBER, got {text!r}.")
    return key.strip(), number
