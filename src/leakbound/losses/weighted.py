"""Gradient ascent that weighs each token by its own probability: what is known loses most.

Weighted gradient ascent is Wang et al. (2025), saturation and importance weights are Yang et al.
(2025). With p_t the probability that the model gives the answer's token t, the weights are numbers
and not functions of the model: nothing is differentiated but log p_t. Deviation: a value is the
mean over one answer, where the published code takes one mean over all tokens of a batch (`reduce`
of a term does).
"""

from __future__ import annotations

from torch import Tensor

from leakbound.losses.family import not_negative
from leakbound.losses.inputs import LossInputs
from leakbound.losses.likelihood import token_nll


def wga(batch: LossInputs, *, beta: float = 1.0) -> Tensor:
    """Mean over each answer's tokens of p^β log p, p^β held, [B], β ≥ 0 (Wang et al. 2025).

    Gradient ascent for β = 0; at least -1/(eβ) and at most 0 for β > 0, so that tokens which are
    unlikely already move nothing.
    """
    not_negative("wga", beta=beta)
    return _ascent(batch, beta, 0.0)


def satimp(batch: LossInputs, *, beta1: float = 5.0, beta2: float = 1.0) -> Tensor:
    """Mean over each answer's tokens of p^β₁ (1 - p)^β₂ log p, the weights held, [B], β₁, β₂ ≥ 0.

    p^β₁ spares what is forgotten already, (1 - p)^β₂ what any model would say (Yang et al. 2025).
    """
    not_negative("satimp", beta1=beta1, beta2=beta2)
    return _ascent(batch, beta1, beta2)


def _ascent(batch: LossInputs, known: float, unsure: float) -> Tensor:
    log_p = -token_nll(batch)
    held = log_p.detach()
    return batch.means((known * held).exp() * (-held.expm1()) ** unsure * log_p)
