"""The inputs of losses: logits where the labels are, activations where a layer is read, as data.

The seam between losses and whatever runs a model. A loss says which parts it needs (`Loss.needs`,
`Loss.tokens`); one forward pass over a split brings them, whatever the objective; a part that no
loss needs stays away. The frozen initial model enters as values computed once, never as a model.
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
Tokens = Literal["answer", "question"]  # of a row, at which activations are read
Over = Literal["answer", "rest", "alternate", "invented", "whole", "read"]
"""The tokens of the answers, or all but the first of each; of the alternate or of the invented
answers; of prompts and answers, or all but the last of each row, which predicts nothing"""
_COUNTED: Mapping[Over, tuple[str, int]] = {
    "answer": ("answer", 0),
    "rest": ("answer", 1),
    "alternate": ("alternate", 0),
    "invented": ("invented", 0),
    "whole": ("whole", 0),
    "read": ("whole", 1),
}  # whose tokens, and how many of each row are left out


class Site(NamedTuple):
    """Where activations are read.

    Attributes:
        layer: the block whose output is read, counted from 0.
        tokens: "answer": at the answer's own tokens, its end token included, as the model reads
            them (one place after they are predicted). "question": at the question's own tokens,
            without the words of a template.
    """

    layer: int
    tokens: Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Activations:
    """Hidden states at one site: M tokens of B rows, packed end to end in order.

    Attributes:
        values: [M, d].
        row: the row that each token belongs to, [M], ascending.
        reference: the frozen initial model's at the same tokens, [M, d] (None: no loss needs them).
        centres: for each row the frozen model's activations [|x|, d] at each of its contrast
            centres x (None: no loss needs them).
        direction: the run's unit vector, [d] (None: no loss needs it).
    """

    values: Tensor
    row: Tensor
    reference: Tensor | None = None
    centres: tuple[tuple[Tensor, ...], ...] | None = None
    direction: Tensor | None = None


@dataclass(frozen=True, kw_only=True)
class LossInputs:
    """B answers, their N labelled tokens packed end to end.

    Attributes:
        logits: predict `labels`, [N, V]; N × 0 where no loss needs them.
        labels: the tokens of the answers, [N].
        row: which of the answers a token belongs to, [N]; every answer has at least one.
        rows: the number of answers, B.
        reference_nll: the frozen initial model's summed token cross-entropy of each answer, [B], in
            nats (None: no loss needs it, as with the next four).
        reference_logits: the frozen initial model's, [N, V].
        alternate: the same B prompts answered with "I don't know", with a `reference_nll` of its
            own where that is needed.
        invented: the same B prompts answered with what the frozen model made up, likewise.
        whole: the same rows with every token of prompt and answer in place of the labelled ones, of
            which the last of a row are its answer's; its labels mean nothing.
        activations: by the site where they were read.
        step_lengths: how many tokens each row has, by part, of all rows that a step takes together;
            empty where the batch is all of these.
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
        """Labelled tokens of each answer, |y|, [B]."""
        return torch.bincount(self.row, minlength=self.rows)

    @cached_property
    def log_probs(self) -> Tensor:
        """Log-softmax of the logits, [N, V], in float32 or better; made once for all losses."""
        return precise(self.logits).log_softmax(dim=-1)

    def lengths_over(self, over: Over) -> Tensor:
        """How many of the tokens that a loss is a mean over each row has, [B].

        Args:
            over: whose tokens are counted.

        Returns:
            The number of tokens of each row, [B], 0 or more.

        Raises:
            InputError: the batch has no such part.
        """
        part, fewer = _COUNTED[over]
        of = self if part == "answer" else given(getattr(self, part), part, "a mean")
        return of.lengths - fewer

    def mean_length(self, over: Over, mean: Callable[[Sequence[int]], float] = fmean) -> float:
        """How many of the tokens that a loss is a mean over a row of the step has.

        Args:
            over: whose tokens are counted.
            mean: of the numbers of all rows (default: the arithmetic one).

        Returns:
            The mean over `step_lengths`, or over the rows of the batch where these do not tell.

        Raises:
            InputError: neither `step_lengths` nor the batch has that part.
        """
        part, fewer = _COUNTED[over]
        if part in self.step_lengths:
            return mean([length - fewer for length in self.step_lengths[part]])
        return mean(self.lengths_over(over).tolist())

    def sums(self, values: Tensor) -> Tensor:
        """Sum of one value a token over each answer.

        Args:
            values: one a labelled token, [N].

        Returns:
            The sum over each answer, [B].
        """
        return row_sums(values, self.row, self.rows)

    def means(self, values: Tensor) -> Tensor:
        """Mean of one value a token over each answer.

        Args:
            values: one a labelled token, [N].

        Returns:
            The mean over each answer, [B].
        """
        return row_means(values, self.row, self.rows)

    def site(self, loss: str, site: Site) -> Activations:
        """The activations that a loss reads at a site.

        Args:
            loss: the loss's name, for the message.
            site: where they were read.

        Returns:
            The activations at `site`.

        Raises:
            InputError: the batch has none there.
        """
        return given(self.activations.get(site), f"activations[{site.layer}, {site.tokens}]", loss)


def given(part: T | None, name: str, loss: str) -> T:
    """`part`, which `loss` cannot do without; raises InputError where there is none."""
    if part is None:
        raise InputError(f"{loss} needs `{name}`, got None. Put it into the batch.")
    return part


def row_sums(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Sum of one value a token [M] over each of `rows` rows, [B]."""
    return values.new_zeros(rows).index_add(0, row, values)


def row_means(values: Tensor, row: Tensor, rows: int) -> Tensor:
    """Mean of one value a token [M] over each of `rows` rows, [B]; 0 of a row without a token."""
    return row_sums(values, row, rows) / torch.bincount(row, minlength=rows).clamp(min=1)


def precise(values: Tensor) -> Tensor:
    """The same in float32 or better."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def labelled(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every labelled position, row by row.

    Args:
        labels: padded, [B, T]; -100 marks what is not scored.

    Returns:
        Rows and columns, each [N].

    Raises:
        InputError: a row without a label.
    """
    return positions(labels != IGNORED, "a labelled token")


def positions(mask: Tensor, kind: str = "a token") -> tuple[Tensor, Tensor]:
    """Row and column of every true entry of `mask` [B, T], row by row, each [N].

    Raises InputError for a row that has none.
    """
    empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise InputError(f"every answer needs {kind}, rows {empty[:3]} have none. Drop those rows.")
    row, column = mask.nonzero(as_tuple=True)
    return row, column


def pack(logits: Tensor, labels: Tensor, reference_logits: Tensor | None = None) -> LossInputs:
    """Pack padded logits and labels, already shifted, at the labelled positions.

    Whatever stands at unlabelled positions, NaN included, reaches no loss and no gradient. What is
    not padded `dataclasses.replace` puts in.

    Args:
        logits: padded, [B, T, V].
        labels: what the logits predict, [B, T]; -100 where it is not scored.
        reference_logits: the frozen initial model's, padded alike (None: no loss needs them).

    Returns:
        The B answers with their N labelled tokens.

    Raises:
        InputError: a row without a label.
    """
    row, column = labelled(labels)
    return LossInputs(
        logits=logits[row, column],
        labels=labels[row, column],
        row=row,
        rows=len(labels),
        reference_logits=None if reference_logits is None else reference_logits[row, column],
    )


def pack_activations(hidden: Tensor, mask: Tensor, reference: Tensor | None = None) -> Activations:
    """Pack padded hidden states at the tokens that a mask names.

    Args:
        hidden: padded, [B, T, d].
        mask: true at the tokens to read, [B, T].
        reference: the frozen initial model's, padded alike (None: no loss needs them).

    Returns:
        The activations at the M true entries of the mask.

    Raises:
        InputError: a row without a token.
    """
    row, column = positions(mask)
    return Activations(
        values=hidden[row, column],
        row=row,
        reference=None if reference is None else reference[row, column],
    )
