"""Preference losses against the true answer (Rafailov 2023, Zhang 2024, Fan 2024).

AltPO (Mekala et al. 2024) prefers an answer that the model made up.

Deviation: `dpo` has the factor 2/β of OpenUnlearning's code, so that the gradients of all
preference losses have the same scale. Rafailov et al. and TOFU's code (Maini et al. 2024) do not
have this factor. The setting `textbook` removes it.
"""

from __future__ import annotations

import math

from torch import Tensor
from torch.nn.functional import logsigmoid

from leakbound.losses.family import positive, require
from leakbound.losses.inputs import LossInputs, given
from leakbound.losses.likelihood import nll, sequence_nll


def npo(batch: LossInputs, *, beta: float = 0.1) -> Tensor:
    """Return -(2/β) log σ(β(nll - nll_ref)) of each answer, [B] (Zhang et al., eq. 3).

    The loss is (2/β) ln 2 if the model equals its reference, and tends to 0 as the answer becomes
    unlikely. As β tends to 0, its gradient tends to the gradient of gradient ascent.

    Args:
        batch: the packed answers; uses `logits`, `labels` and `reference_nll`.
        beta: β, above 0.

    Returns:
        One value per answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, or the batch has no `reference_nll`.
    """
    positive("npo", beta=beta)
    return -(2 / beta) * logsigmoid(beta * _excess(batch, "npo"))


def dpo(batch: LossInputs, *, beta: float = 0.1, textbook: bool = False) -> Tensor:
    """Return -(2/β) log σ(β[Δ of the answer - Δ of the alternate]) for Δ = nll - nll_ref, [B].

    The alternate is a second answer to the same prompt, such as "I don't know". The loss is (2/β)
    ln 2 if the model equals its reference (Rafailov et al. 2023).

    Args:
        batch: the packed answers; uses `logits`, `labels` and `reference_nll` of the answers and of
            `alternate`.
        beta: β, above 0.
        textbook: whether to omit the factor 2/β, as Rafailov et al. do.

    Returns:
        One value per answer, [B], in nats (`textbook`: dimensionless), at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, the batch has no `alternate`, or the batch
            or its `alternate` has no `reference_nll`.
    """
    positive("dpo", beta=beta)
    return -(1 if textbook else 2 / beta) * logsigmoid(beta * _margin(batch, "alternate", "dpo"))


def altpo(batch: LossInputs, *, beta: float = 0.1) -> Tensor:
    """Return -(2/β) log σ(β[Δ of the answer - Δ of the invented]) for Δ = nll - nll_ref, [B].

    The invented answer was made up by the frozen model. This is `dpo` with the invented answer in
    place of the alternate answer (Mekala et al. 2024). The loss is (2/β) ln 2 if the model equals
    its reference.

    Args:
        batch: the packed answers; uses `logits`, `labels` and `reference_nll` of the answers and of
            `invented`.
        beta: β, above 0.

    Returns:
        One value per answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, the batch has no `invented`, or the batch
            or its `invented` has no `reference_nll`.
    """
    positive("altpo", beta=beta)
    return -(2 / beta) * logsigmoid(beta * _margin(batch, "invented", "altpo"))


def simnpo(batch: LossInputs, *, beta: float = 4.5, delta: float = 0.0) -> Tensor:
    """Return -(2/β) log σ(β(nll/|y| - δ)) of each answer, [B] (Fan et al. 2024).

    This is `npo` with the cross-entropy per token instead of the difference from a reference.

    Args:
        batch: the packed answers; uses `logits` and `labels`.
        beta: β, above 0.
        delta: δ, the margin, in nats per token.

    Returns:
        One value per answer, [B], in nats per token, at least 0.

    Raises:
        InputError: `beta` is not above 0 or not finite, or `delta` is not finite.
    """
    positive("simnpo", beta=beta)
    require(abs(delta) < math.inf, "simnpo", "delta", delta, "finite")
    return -(2 / beta) * logsigmoid(beta * (nll(batch) - delta))


def _margin(batch: LossInputs, part: str, loss: str) -> Tensor:
    """Return `_excess` of the answers minus `_excess` of the answers in `part`, in nats, [B]."""
    return _excess(batch, loss) - _excess(given(getattr(batch, part), part, loss), loss)


def _excess(batch: LossInputs, loss: str) -> Tensor:
    """Return the cross-entropy of each answer minus the reference's, in nats, [B]."""
    return sequence_nll(batch) - given(batch.reference_nll, "reference_nll", loss).detach()
