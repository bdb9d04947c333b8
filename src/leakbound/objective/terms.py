"""A weighted sum of losses, each over one split, and the parts that a forward pass must provide."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean, harmonic_mean
from typing import Literal, get_args

from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses import LossInputs, Needs, Over, Setting, loss_named

Reduce = Literal["sequence", "tokens", "pairs", "joined"]


@dataclass(frozen=True, slots=True)
class Dual:
    """A bound on a term's mean, whose multiplier is the term's weight (Entesari et al. 2025).

    The term contributes λ (mean - `at_most`) to the objective. The initial λ is the term's weight.
    After the first `warmup` epochs, each forward pass changes λ to max(0, λ + `step` (mean -
    `at_most`)).

    Attributes:
        at_most: the bound, in the unit of the loss.
        step: the change of λ in each forward pass, per unit of (mean - `at_most`), 0 or more.
        warmup: the number of epochs for which λ is constant, 0 or more.

    Raises:
        InputError: a bound that is not finite, or a step or a warm-up below 0.
    """

    at_most: float
    step: float = 1.0
    warmup: float = 0.0

    def __post_init__(self) -> None:
        for name, least in (("at_most", -math.inf), ("step", 0.0), ("warmup", 0.0)):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= least):
                want = "finite" if least < 0 else "a finite number, 0 or more"
                raise InputError(f"`{name}` of a bound must be {want}, got {value}.")


@dataclass(frozen=True, slots=True)
class Term:
    """A term of an objective: `weight` times the mean of one loss over one split.

    Attributes:
        loss: a loss's name.
        split: "forget" or "retain"; "train" if a model is taught by `finetune`.
        weight: the factor of the mean; with a negative factor, training raises the loss.
        settings: the values of the loss's settings.
        reduce: the way in which rows are averaged, for a loss whose values are means over tokens.
            "sequence" (default): each row has equal weight. "tokens": each token of a step has
            equal weight. "pairs": the mean of (sum of row i) / (length of row j) over all pairs i,
            j. "joined": each token of all "joined" terms of the objective has equal weight.
        dual: makes the weight a multiplier that changes during training (None: the weight is
            constant).

    Raises:
        InputError: an unknown loss, settings that it refuses, a weight that is not a finite number,
            an unknown `reduce`, or a `reduce` other than "sequence" for a loss that is not a mean
            over tokens.
    """

    loss: str
    split: str
    weight: float = 1.0
    settings: Mapping[str, Setting] = field(default_factory=dict)
    reduce: Reduce = "sequence"
    dual: Dual | None = None

    def __post_init__(self) -> None:
        loss_named(self.loss).check(self.loss, self.settings)
        if not math.isfinite(self.weight):
            raise InputError(
                f"the weight of {self.loss} on {self.split} must be finite, got {self.weight}."
            )
        if self.reduce not in get_args(Reduce):
            raise InputError(
                f"`reduce` of {self.loss} on {self.split} must be one of "
                f"{', '.join(get_args(Reduce))}, got {self.reduce!r}."
            )
        if self.reduce != "sequence" and self.over is None:
            raise InputError(
                f"{self.loss} is not a mean over tokens, so `reduce` must be 'sequence', got "
                f"{self.reduce!r}. Omit it."
            )

    @property
    def needs(self) -> Needs:
        """The parts and activations that a forward pass over the split must provide."""
        return loss_named(self.loss).needed(self.settings)

    @property
    def over(self) -> Over | None:
        """The tokens over which the loss is a mean; None if the loss is not a mean over tokens."""
        return loss_named(self.loss).mean_over(self.settings)

    def length(self, batch: LossInputs) -> float:
        """Return the mean over rows of the number of tokens that the loss averages over."""
        mean = harmonic_mean if self.reduce == "pairs" else fmean
        return batch.mean_length(self.over, mean) if self.over else 0.0

    @property
    def trains(self) -> bool:
        """Whether the term contributes: its weight is not 0, or a bound may change the weight."""
        return self.weight != 0 or self.dual is not None

    def mean(self, batch: LossInputs, joint: float | None = None) -> Tensor:
        """Return the number that the weight multiplies: the mean loss on a batch, minus any bound.

        Args:
            batch: the split's rows, with the parts in `needs`.
            joint: the `length` of all joined terms together (None: the `length` of this term).

        Raises:
            InputError: a loss that does not return one value per row, [B].
        """
        values = loss_named(self.loss).function(batch, **self.settings)
        shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
        if shape != (batch.rows,):
            raise InputError(
                f"loss {self.loss!r} must return one value per row, shape ({batch.rows},), got "
                f"{shape}. Correct the loss, or use another."
            )
        if self.reduce != "sequence" and self.over:
            total = self.length(batch) if joint is None else joint
            values = values * (batch.lengths_over(self.over) / (total or 1))  # 0: no token counts
        return values.mean() - (self.dual.at_most if self.dual else 0.0)


@dataclass(frozen=True, slots=True)
class Objective:
    """A weighted sum of losses, which training minimises.

    Attributes:
        name: the name of the objective in recipes and model cards.
        terms: one or more.
        training: the training settings of the objective's authors, by their names in
            `TrainingSettings`. Training uses them as defaults; they are not part of the sum.

    Raises:
        InputError: there is no term.
    """

    name: str
    terms: tuple[Term, ...]
    training: Mapping[str, Setting] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        if not self.terms:
            raise InputError(
                f"objective {self.name!r} has no term with a weight. Set the weight of a term."
            )

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that the objective needs.

        An epoch is a pass over the first split, whose rows are paired with rows of the other
        splits.
        """
        return tuple(dict.fromkeys(term.split for term in self.terms))

    @property
    def needs(self) -> dict[str, Needs]:
        """The parts and activations that a forward pass over each split must provide."""
        needs = dict.fromkeys(self.splits, Needs())
        for term in self.terms:
            needs[term.split] |= term.needs
        return needs

    def at_depth(self, depth: int) -> Objective:
        """Return the objective for a model with `depth` blocks, with block numbers as layers.

        A fraction of the depth becomes the last block within that fraction, but at least the first
        block.
        """

        def settled(term: Term) -> Term:
            share = term.settings.get("layer")
            if not isinstance(share, float):
                return term
            layer = max(0, int(share * depth + 1e-9) - 1)
            return replace(term, settings={**term.settings, "layer": layer})

        return replace(self, terms=tuple(map(settled, self.terms)))

    @property
    def weights(self) -> list[float]:
        """The weight of each term, with the initial multipliers."""
        return [term.weight for term in self.terms]

    @property
    def bounds(self) -> dict[int, Dual]:
        """The bounds of the terms; keys are indices of the terms."""
        return {i: term.dual for i, term in enumerate(self.terms) if term.dual}

    def means(self, batches: Mapping[str, LossInputs]) -> tuple[Tensor, ...]:
        """Return the value that each term's weight multiplies, for one batch per split."""
        joined = [term for term in self.terms if term.reduce == "joined"]
        joint = sum(term.length(batches[term.split]) for term in joined)
        return tuple(
            term.mean(batches[term.split], joint if term in joined else None) for term in self.terms
        )

    def __call__(self, batches: Mapping[str, LossInputs]) -> Tensor:
        """Return the value of the objective for one batch per split, a scalar."""
        shares = [w * mean for w, mean in zip(self.weights, self.means(batches), strict=True)]
        return sum(shares[1:], start=shares[0])

    def to_dict(self) -> dict[str, object]:
        """Return the terms as in a YAML file, without the name; equal terms give equal results."""
        terms = map(asdict, self.terms)
        return {
            "terms": [{k: v for k, v in term.items() if (k, v) != ("dual", None)} for term in terms]
        }
