"""The model's forward pass, with logits made only where labels are.

For a vocabulary of 50,000 words the logits of a padded batch outweigh everything else; the
answer tokens are a third of it. The output head is therefore applied to their hidden states
alone, wherever one batch shows that this is what the model itself does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from residua.losses import LossInputs, labelled, sequence_nll
from residua.unlearning.examples import Example, Padded, pad


@dataclass(frozen=True, slots=True)
class Forward:
    """Runs `model` on padded examples; `narrow` tells that the head is applied to labels alone."""

    model: Any
    narrow: bool

    def __call__(self, batch: Padded) -> LossInputs:
        """The packed logits of a batch, one row an example."""
        row, column = labelled(batch.labels)
        run = _narrow_logits if self.narrow else _full_logits
        return LossInputs(
            logits=run(self.model, batch, row, column),
            labels=batch.labels[row, column],
            row=row,
            rows=len(batch.labels),
        )


def forward_for(model: Any, probe: Padded) -> Forward:
    """The cheapest exact forward pass: narrow if both ways agree on `probe`, else full.

    They differ for models that scale or cap their logits after the head.
    """
    row, column = labelled(probe.labels)
    with torch.no_grad():
        full = _full_logits(model, probe, row, column)
        try:
            narrow = _narrow_logits(model, probe, row, column)
        except (AttributeError, TypeError):  # no separate decoder, or no plain head
            return Forward(model, narrow=False)
    if narrow.shape != full.shape:
        return Forward(model, narrow=False)
    tolerance = max(2 * torch.finfo(full.dtype).eps, 1e-5) * full.abs().max()
    return Forward(model, narrow=bool((narrow - full).abs().max() <= tolerance))


def reference_nll(
    forward: Forward, examples: Sequence[Example], *, batch_size: int, device: torch.device
) -> Tensor:
    """Summed token cross-entropy of every example under the model as it is now, [n]."""
    values = []
    with torch.no_grad():
        for start in range(0, len(examples), batch_size):
            batch = pad(examples[start : start + batch_size]).to(device)
            values.append(sequence_nll(forward(batch)))
    return torch.cat(values)


def _full_logits(model: Any, batch: Padded, row: Tensor, column: Tensor) -> Tensor:
    output = model(input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False)
    logits: Tensor = output.logits[row, column]
    return logits


def _narrow_logits(model: Any, batch: Padded, row: Tensor, column: Tensor) -> Tensor:
    output = model.get_decoder()(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, use_cache=False
    )
    logits: Tensor = model.get_output_embeddings()(output.last_hidden_state[row, column])
    return logits
