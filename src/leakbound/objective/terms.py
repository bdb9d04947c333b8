"""A weighted sum of losses, each over one split, and what a forward pass must bring for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal, get_args

from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses import LossInputs, Needs, Setting, loss_named

Reduce = Literal["sequence", "tokens", "joined"]


@dataclass(frozen=True, slots=True)
class Term:
    """`weight` times the mean of one loss over one split.

    `reduce` tells which mean, of a loss whose values are means over tokens: over `sequence`s, each
    of which counts alike; over all `tokens` of a step; or over these together with those of all
    other `joined` terms of the objective. Raises InputError for an unknown loss, for settings that
    it refuses, and for a weight that is not a finite number.
    """

    loss: str
    split: str
    weight: float = 1.0
    settings: Mapping[str, Setting] = field(default_factory=dict)
    reduce: Reduce = "sequence"

    def __post_init__(self) -> None:
        loss_named(self.loss).check(self.loss, self.settings)
        if not math.isfinite(self.weight):
            raise InputError(
                f"the weight of {self.loss} on {self.split} must be finite, got {self.weight}. "
                "Change it."
            )
        if self.reduce not in get_args(Reduce):
            raise InputError(
                f"`reduce` of {self.loss} on {self.split} must be one of "
                f"{', '.join(get_args(Reduce))}, got {self.reduce!r}. Change it."
            )
        if self.reduce != "sequence" and loss_named(self.loss).over is None:
            raise InputError(
                f"{self.loss} is no mean over tokens, so that `reduce` must be 'sequence', got "
                f"{self.reduce!r}. Leave it out."
            )

    @property
    def needs(self) -> Needs:
        """What a forward pass over the split must bring."""
        return loss_named(self.loss).needed(self.settings)

    def length(self, batch: LossInputs) -> float:
        """How many tokens of a row its loss is a mean over, on average in the step."""
        over = loss_named(self.loss).over
        return batch.mean_length(over) if over else 0.0

    def __call__(self, batch: LossInputs, joint: float | None = None) -> Tensor:
        """Its share of the objective on one batch of the split: a scalar.

        `joint` is the `length` of all joined terms together (None: this one's).
        """
        loss = loss_named(self.loss)
        values = loss.function(batch, **self.settings)
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        if shape != (batch.rows,):
            raise InputError(
                f"loss {self.loss!r} must give one value a row, [{batch.rows}], got {shape}. "
                "Correct it, or train by another."
            )
        if self.reduce != "sequence" and loss.over:
            total = self.length(batch) if joint is None else joint
            values = values * (batch.over(loss.over).lengths / total)
        return self.weight * values.mean()


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
        joined = [term for term in self.terms if term.reduce == "joined"]
        joint = sum(term.length(batches[term.split]) for term in joined)
        return tuple(
            term(batches[term.split], joint if term in joined else None) for term in self.terms
        )

    def __call__(self, batches: Mapping[str, LossInputs]) -> Tensor:
        """The objective on one batch a split: a scalar."""
        total, *others = self.values(batches)
        for value in others:
            total = total + value
        return total

    def to_dict(self) -> dict[str, object]:
        """Its terms in full, for recipe files: two names for one sum are equal here."""
        return {"terms": [asdict(term) for term in self.terms]}
