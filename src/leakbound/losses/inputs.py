"""The inputs of losses as data: logits at the labels, and activations of layers.

Losses depend only on these inputs, not on the code that runs a model. A loss declares the parts
that it needs (`Loss.needs`, `Loss.tokens`). One forward pass over a split of the data provides only
the parts that the losses of an objective need. Values of the frozen initial model are computed once
and are parts of the inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor

from leakbound.errors import InputError

IGNORED = -100

T = TypeVar("T")
Tokens = Literal["answer", "question"]  # the tokens of a row whose activations are used
Over = Literal["answer", "rest", "alternate", "invented", "whole", "read"]
"""The tokens over which a loss averages. "answer": all tokens of the answers; "rest": these tokens
without each answer's first token; "alternate" or "invented": the tokens of the alternate or
invented answers; "whole": all tokens of prompts and answers; "read": all these tokens without each
row's last token, which predicts no token.
"""
_COUNTED: Mapping[Over, tuple[str, int]] = {
    "answer": ("answer", 0),
    "rest": ("answer", 1),
    "alternate": ("alternate", 0),
    "invented": ("invented", 0),
    "whole": ("whole", 0),
    "read": ("whole", 1),
}  # the part, and the number of its tokens that are left out of each row


class Site(NamedTuple):
    """A layer, and the tokens at which the activations of this layer are used.

    Attributes:
        layer: the block whose output is used, counted from 0.
        tokens: "answer": the answer's tokens, including the end token, at the positions where they
            are the model's input. Each such position is one after the position where the token is
            predicted. "question": the question's tokens, without the words of a chat template.
    """

    layer: int
    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Hidden states at one site: M tokens of B rows, packed end to end in order.

    Attributes:
        values: [M, d].
        row: the row of each token, [M], ascending.
        reference: the frozen initial model's hidden states at the same tokens, [M, d] (None: no
            loss needs them).
        centres: for each row and each of its contrast centres x, the frozen model's activations at
            x, [|x|, d] (None: no loss needs them).
        direction: a unit vector that is fixed for the training run, [d] (None: no loss needs it).
    """

    values: Tensor
    row: Tensor
    reference: Tensor | None = None
    centres: tuple[tuple[Tensor, ...], ...] | None = None
    direction: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class LossInputs:
    """B answers, whose N labelled tokens are packed end to end.

    Attributes:
        logits: the logits that predict `labels`, [N, V]; N × 0 if no loss needs them.
        labels: the tokens of the answers, [N].
        row: the index of each token's answer, [N]; every answer has at least one token.
        rows: the number of answers, B.
        reference_nll: the frozen initial model's summed token cross-entropy of each answer, [B], in
            nats. Here and in the next four attributes, None means that no loss needs the value.
        reference_logits: the frozen initial model's logits, [N, V].
        alternate: the same B prompts answered with "I don't know", with their own `reference_nll`
            if a loss needs it.
        invented: the same B prompts with answers that the frozen model made up, with their own
            `reference_nll` if a loss needs it.
        whole: the same rows with every token of prompt and answer instead of the labelled tokens.
            The answer's tokens are the last tokens of a row. The labels of `whole` are not used.
        activations: the activations by their site.
        step_lengths: the number of tokens of each row, by part, for all rows of one optimiser step;
            empty if the batch contains all rows of the step.
    """

    logits: Tensor
    labels: Tensor
    row: Tensor
    rows: int
    reference_nll: Tensor | None = None
    reference_logits: Tensor | None = None
    alternate: LossInputs | None = None
    invented: LossInputs | None = None
    whole: LossInputs | None = None
    activations: Mapping[Site, Activations] = field(default_factory=dict)
    step_lengths: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def lengths(self) -> Tensor:
        """The number of labelled tokens of each answer, |y|, [B]."""
        return torch.bincount(self.row, minlength=self.rows)

    @cached_property
    def log_probs(self) -> Tensor:
        """Log-softmax of the logits, [N, V], in float32 or better; computed once for all losses."""
        return precise(self.logits).log_softmax(dim=-1)

    def lengths_over(self, over: Over) -> Tensor:
        """Return the number of tokens of each row that a loss averages over, [B].

        Args:
            over: the tokens to count.

        Returns:
            The number of tokens of each row, [B], 0 or more.

        Raises:
            InputError: the batch lacks the part that contains these tokens.
        """
        part, fewer = _COUNTED[over]
        of = self if part == "answer" else given(getattr(self, part), part, "a mean")
        return of.lengths - fewer

    def mean_length(self, over: Over, mean: Callable[[Sequence[int]], float] = fmean) -> float:
        """Return the mean number of averaged tokens per row, over the rows of the optimiser step.

        Args:
            over: the tokens to count.
            mean: aggregates the numbers of all rows (default: the arithmetic mean).

        Returns:
            The mean over `step_lengths`, or over the rows of the batch if `step_lengths` lacks the
                part.

        Raises:
            InputError: neither `step_lengths` nor the batch has that part.
        """
        part, fewer = _COUNTED[over]
        if part in self.step_lengths:
            return mean([length - fewer for length in self.step_lengths[part]])
        return mean(self.lengths_over(over).tolist())

    def sums(self, values: Tensor) -> Tensor:
        """Return the sum of one value per token over each answer.

        Args:
            values: one per labelled token, [N].

        Returns:
            The sum over each answer, [B].
        """
        return values.new_zeros(self.rows).index_add(0, self.row, values)

    def means(self, values: Tensor) -> Tensor:
        """Return the mean of one value per token over each answer.

        Args:
            values: one per labelled token, [N].

        Returns:
            The mean over each answer, [B].
        """
        return row_means(values, self.row, self.rows)

    def site(self, loss: str, site: Site) -> Activations:
        """Return the activations at a site for a loss.

        Args:
            loss: the loss's name, for the message.
            site: the layer and the tokens of the activations.

        Returns:
            The activations at `site`.

        Raises:
            InputError: the batch has no activations at `site`.
        """
        return given(self.activations.get(site), f"activations[{site.layer}, {site.tokens}]", loss)


def given(part: T | None, name: str, loss: str) -> T:
    """Return a part that a loss needs; raise InputError if it is absent."""
    if part is None:
        raise InputError(f"{loss} needs `{name}`, got None. Add it to the batch.")
    return part


def row_means(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Return the mean of one value per token [M] over each row, [B]; 0 for a row without tokens."""
    sums = values.new_zeros(rows).index_add(0, row, values)
    return sums / torch.bincount(row, minlength=rows).clamp(min=1)


def precise(values: Tensor) -> Tensor:
    """Convert values to float32, unless their precision is higher."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def labelled(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the row and column of every labelled position, row by row.

    Args:
        labels: padded, [B, T]; -100 marks positions without a label.

    Returns:
        Rows and columns, each [N].

    Raises:
        InputError: a row without a label.
    """
    return positions(labels != IGNORED, "a labelled token")


def positions(mask: Tensor, kind: str = "a token") -> tuple[Tensor, Tensor]:
    """Return the row and the column of every true entry of `mask` [B, T], row by row, each [N].

    Raises InputError for a row without a true entry.
    """
    empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise InputError(
            f"every answer needs {kind}, but rows {empty[:3]} have none. Drop those rows."
        )
    row, column = mask.nonzero(as_tuple=True)
    return row, column


def pack_activations(hidden: Tensor, mask: Tensor) -> Activations:
    """Pack padded hidden states at the tokens of a mask.

    Args:
        hidden: padded, [B, T, d].
        mask: true at the tokens whose states are packed, [B, T].

    Returns:
        The activations at the M true entries of the mask.

    Raises:
        InputError: a row without a token.
    """
    row, column = positions(mask)
    return Activations(values=hidden[row, column], row=row)
