"""Entropy of the next-token distributions along an answer (Scholten et al. 2025).

Deviation: the mean runs over the answer's own tokens; the published code averages over every
position of the padded text.
"""

from __future__ import annotations

from torch import Tensor

from residua.losses.inputs import LossInputs


def entropy(batch: LossInputs) -> Tensor:
    """Mean entropy of the T = 1 next-token distribution over each answer, in nats, [B].

    Lies in [0, ln V]. A positive weight makes the model surer, a negative one more diverse.
    """
    log_probs = batch.log_probs()
    return batch.means(-(log_probs.exp() * log_probs).sum(dim=-1))
