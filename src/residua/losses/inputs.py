"""What every loss takes: logits where the labels are, and nothing where they are not."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from residua.errors import InputError

IGNORED = -100


@dataclass(frozen=True, slots=True, kw_only=True)
class LossInputs:
    """B answers, their N labelled tokens packed end to end.

    `logits` [N, V] predict `labels` [N]; `row` [N] tells which of the `rows` = B answers a token
    belongs to, and every answer has at least one. `reference_nll` [B] is the summed token
    cross-entropy of each answer under the frozen initial model, for the losses that need it:
    it comes in as data, computed once.
    """

    logits: Tensor
    labels: Tensor
    row: Tensor
    rows: int
    reference_nll: Tensor | None = None

    @property
    def lengths(self) -> Tensor:
        """Labelled tokens of each answer, |y|, [B]."""
        return torch.bincount(self.row, minlength=self.rows)

    def log_probs(self) -> Tensor:
        """Log-softmax of the logits, [N, V], in float32 or better."""
        precision = torch.promote_types(self.logits.dtype, torch.float32)
        return self.logits.to(precision).log_softmax(dim=-1)

    def sums(self, values: Tensor) -> Tensor:
        """Sum of one value a token [N] over each answer, [B]."""
        return values.new_zeros(self.rows).index_add(0, self.row, values)

    def means(self, values: Tensor) -> Tensor:
        """Mean of one value a token [N] over each answer, [B]."""
        return self.sums(values) / self.lengths


def labelled(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every labelled position of padded `labels` [B, T], each [N].

    -100 marks what is not scored. Raises InputError for a row without a label.
    """
    mask = labels != IGNORED
    empty = (~mask.any(dim=1)).nonzero().flatten().tolist()
    if empty:
        raise InputError(
            f"every answer needs a labelled token, rows {empty[:3]} have none. Drop those rows."
        )
    row, column = mask.nonzero(as_tuple=True)
    return row, column


def pack(logits: Tensor, labels: Tensor, *, reference_nll: Tensor | None = None) -> LossInputs:
    """Pack padded logits [B, T, V] and labels [B, T], already shifted, -100 where not scored.

    Whatever stands at unlabelled positions, NaN included, reaches no loss and no gradient.
    """
    row, column = labelled(labels)
    return LossInputs(
        logits=logits[row, column],
        labels=labels[row, column],
        row=row,
        rows=len(labels),
        reference_nll=reference_nll,
    )
