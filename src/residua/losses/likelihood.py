"""The answer's own likelihood: down for what is kept, up for what is forgotten.

Gradient ascent is Yao et al. (2023), as used by Maini et al. (2024), per answer token. No
deviation.
"""

from __future__ import annotations

from torch import Tensor

from residua.losses.inputs import LossInputs


def token_nll(batch: LossInputs) -> Tensor:
    """Cross-entropy of every labelled token, in nats, [N]."""
    return -batch.log_probs().gather(1, batch.labels[:, None]).squeeze(1)


def sequence_nll(batch: LossInputs) -> Tensor:
    """Summed token cross-entropy of each answer, in nats, [B]."""
    return batch.sums(token_nll(batch))


def nll(batch: LossInputs) -> Tensor:
    """Mean token cross-entropy of each answer, nll/|y|, [B]."""
    return batch.means(token_nll(batch))


def ga(batch: LossInputs) -> Tensor:
    """Gradient ascent, -nll/|y|, [B]; unbounded below."""
    return -nll(batch)
