"""A weighted sum of losses, each over one split, and what a forward pass must bring for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import Tensor

from residua.errors import InputError
from residua.losses import LossInputs, Needs, Setting, loss_named


@dataclass(frozen=True, slots=True)
class Term:
    """`weight` times the mean of one loss over one split.

    Raises InputError for an unknown loss, for settings that it refuses, and for a weight that is
    not a finite number.
    """

    loss: str
    split: str
    weight: float = 1.0
    settings: Mapping[str, Setting] = field(default_factory=dict)

    def __post_init__(self) -> None:
        loss_named(self.loss).check(self.loss, self.settings)
        if not math.isfinite(self.weight):
            raise InputError(
                f"the weight of {self.loss} on {self.split} must be finite, got {self.weight}. "
                "Change it."
            )

    @property
    def needs(self) -> Needs:
        """What a forward pass over the split must bring."""
        return loss_named(self.loss).needed(self.settings)

    def __call__(self, batch: LossInputs) -> Tensor:
        """Its share of the objective on one batch of the split: a scalar."""
        return self.weight * loss_named(self.loss).function(batch, **self.settings).mean()


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted sum of losses; training lowers it. InputError where there is no term."""

    name: str
    terms: tuple[Term, ...]

    def __post_init__(self) -> None:
        if not self.terms:
            raise InputError(
                f"objective {self.name!r} has no term with a weight. Give one a weight."
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits it needs. An epoch runs over the first; the others are paired with it."""
        return tuple(dict.fromkeys(term.split for term in self.terms))

    @property
    def needs(self) -> dict[str, Needs]:
        """What a forward pass over each split must bring for all its terms."""
        needs = dict.fromkeys(self.splits, Needs())
        for term in self.terms:
            needs[term.split] |= term.needs
        return needs

    def values(self, batches: Mapping[str, LossInputs]) -> tuple[Tensor, ...]:
        """What each term adds on one batch a split: scalars, in the order of `terms`."""
        return tuple(term(batches[term.split]) for term in self.terms)

    def __call__(self, batches: Mapping[str, LossInputs]) -> Tensor:
        """The objective on one batch a split: a scalar."""
        total, *others = self.values(batches)
        for value in others:
            total = total + value
        return total

    def to_dict(self) -> dict[str, Any]:
        """Its terms in full, for recipe files: two names for one sum are equal here."""
        return {"terms": [asdict(term) for term in self.terms]}
