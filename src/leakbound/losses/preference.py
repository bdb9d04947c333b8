"""Preference losses: the true answer is the one to lose (Rafailov 2023, Zhang 2024, Fan 2024).

AltPO (Mekala et al. 2024) prefers an answer that the model made up.

Deviation: `dpo` has the factor 2/β of OpenUnlearning's code, so that all three have gradients of
one size; Rafailov et al. and TOFU's code (Maini et al. 2024) have none: `textbook` drops it.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import logsigmoid

from leakbound.losses.family import positive, require
from leakbound.losses.inputs import LossInputs, given
from leakbound.losses.likelihood import nll, sequence_nll


def npo(batch: LossInputs, *, beta: float = 0.1) -> Tensor:
    """-(2/β) log σ(β(nll - nll_ref)) of each answer, [B] (Zhang et al., eq. 3).

    (2/β) ln 2 where the model still is its reference; falls to 0 as the answer becomes unlikely;
    its gradient tends to that of gradient ascent as β tends to 0.

    Args:
        batch: the packed answers; takes `logits`, `labels` and `reference_nll`.
        beta: β, above 0.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, or the batch has no `reference_nll`.
    """
    positive("npo", beta=beta)
    return -(2 / beta) * logsigmoid(beta * _excess(batch, "npo"))


def dpo(batch: LossInputs, *, beta: float = 0.1, textbook: bool = False) -> Tensor:
    """-(2/β) log σ(β[(nll - nll_ref) of the answer - the same of the alternate]), [B].

    (2/β) ln 2 where the model still is its reference (Rafailov et al. 2023).

    Args:
        batch: the packed answers; takes `logits`, `labels` and `reference_nll`, of these and of
            `alternate`.
        beta: β, above 0.
        textbook: leave out 2/β, as Rafailov et al. do.

    Returns:
        One value an answer, [B], in nats (`textbook`: a pure number), at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, the batch has no `alternate`, or one of the
            two no `reference_nll`.
    """
    positive("dpo", beta=beta)
    margin = _margin(batch, batch.alternate, "alternate", "dpo")
    return -(1 if textbook else 2 / beta) * logsigmoid(beta * margin)


def altpo(batch: LossInputs, *, beta: float = 0.1) -> Tensor:
    """-(2/β) log σ(β[(nll - nll_ref) of the answer - the same of the invented]), [B].

    `dpo` with an answer that the frozen model made up in place of the alternate one (Mekala et al.
    2024). (2/β) ln 2 where the model still is its reference.

    Args:
        batch: the packed answers; takes `logits`, `labels` and `reference_nll`, of these and of
            `invented`.
        beta: β, above 0.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, the batch has no `invented`, or one of the
            two no `reference_nll`.
    """
    positive("altpo", beta=beta)
    margin = _margin(batch, batch.invented, "invented", "altpo")
    return -(2 / beta) * logsigmoid(beta * margin)


def simnpo(batch: LossInputs, *, beta: float = 4.5, delta: float = 0.0) -> Tensor:
    """-(2/β) log σ(β(nll/|y| - δ)) of each answer, [B] (Fan et al. 2024).

    `npo` without a reference: the length of the answer takes its place.

    Args:
        batch: the packed answers; takes `logits` and `labels`.
        beta: β, above 0.
        delta: δ, the margin, in nats a token.

    Returns:
        One value an answer, [B], in nats a token, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, or `delta` is not finite.
    """
    positive("simnpo", beta=beta)
    require(abs(delta) < math.inf, "simnpo", "delta", delta, "finite")
    return -(2 / beta) * logsigmoid(beta * (nll(batch) - delta))


def _margin(batch: LossInputs, other: LossInputs | None, part: str, loss: str) -> Tensor:
    """By how much more the answer lost than the other one did, in nats, [B]."""
    return _excess(batch, loss) - _excess(given(other, part, loss), loss)


def _excess(batch: LossInputs, loss: str) -> Tensor:
    """By how much the answer is less likely than it was to the reference, in nats, [B]."""
    return sequence_nll(batch) - given(batch.reference_nll, "reference_nll", loss).detach()
