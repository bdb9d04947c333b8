"""Negative preference optimisation (Zhang et al. 2024). No deviation."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import logsigmoid

from residua.errors import InputError
from residua.losses.inputs import LossInputs
from residua.losses.likelihood import sequence_nll


def npo(batch: LossInputs, *, beta: float = 0.1) -> Tensor:
    """-(2/β) log σ(β(nll - nll_ref)) of each answer, [B], β > 0 (Zhang et al., eq. 3).

    (2/β) ln 2 where the model still is its reference; falls to 0 as the answer becomes unlikely;
    its gradient tends to that of gradient ascent as β tends to 0. Takes `reference_nll`.
    """
    if beta <= 0:
        raise InputError(f"`beta` of npo must be positive, got {beta}. The default is 0.1.")
    if batch.reference_nll is None:
        raise InputError("npo needs `reference_nll`, got None. Run the reference model first.")
    excess = sequence_nll(batch) - batch.reference_nll.detach()
    return -(2 / beta) * logsigmoid(beta * excess)
