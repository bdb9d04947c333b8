"""Entropy of the next-token distributions along an answer (Scholten et al. 2025).

Deviation: the mean runs over the answer's own tokens. The published code averages over every
position of the padded text; `entropy_all` over prompt and answer, padding left out.
"""

from __future__ import annotations

from torch import Tensor

from leakbound.losses.inputs import LossInputs, given


def entropy(batch: LossInputs) -> Tensor:
    """Mean entropy of the T = 1 next-token distribution over each answer, in nats, [B].

    Lies in [0, ln V]. A positive weight makes the model surer, a negative one more diverse.
    """
    log_probs = batch.log_probs
    return batch.means(-(log_probs.exp() * log_probs).sum(dim=-1))


def entropy_all(batch: LossInputs) -> Tensor:
    """The same mean over every token of prompt and answer, [B]. Takes `whole`."""
    return entropy(given(batch.whole, "whole", "entropy-all"))
