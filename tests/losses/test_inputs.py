"""Work that losses share is done once."""

from __future__ import annotations

import torch

from leakbound.losses import LossInputs


def test_log_probabilities_are_made_once() -> None:
    row = torch.zeros(2, dtype=torch.long)
    batch = LossInputs(logits=torch.ones(2, 3), labels=row, row=row, rows=1)
    assert batch.log_probs is batch.log_probs
