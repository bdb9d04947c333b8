"""Losses that lead the next-token law of a forgotten answer to one without the answer.

The frozen model's with the true token's logit lowered (UNDIAL, Dong et al. 2024), the model's own
without the true token (CE-U, Yang 2025), or the uniform one (the margin of PDU, Entesari et al.
2025). Deviations: a value is the mean over one answer, where the published code takes one mean over
all tokens of a batch (`reduce` of a term does). OpenUnlearning's code of UNDIAL averages over
every position, padding included, and lowers the token V - 100 where there is none to forget:
`undial_all` averages over every position but padding, and lowers nothing there. Its code of PDU
reads the margins one place late, where the answer's tokens are read: `margin_read`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakbound.losses.family import not_negative
from leakbound.losses.inputs import LossInputs, given, precise, row_means


def undial(batch: LossInputs, *, beta: float = 10.0) -> Tensor:
    """Mean over each answer's tokens of the cross-entropy to q, [B] (Dong et al. 2024).

    q is the softmax of the frozen model's logits, that of the true token lowered by β: the
    likelier it was, the more it falls.

    Args:
        batch: the packed answers; takes `logits`, `labels` and `reference_logits`.
        beta: β, in logits, 0 or more.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is below 0 or not finite, or the batch has no `reference_logits`.
    """
    not_negative("undial", beta=beta)
    reference = given(batch.reference_logits, "reference_logits", "undial")
    return batch.means(_to_lowered(batch, reference, _numbered(batch), batch.labels, beta))


def undial_all(batch: LossInputs, *, beta: float = 10.0) -> Tensor:
    """Mean over all tokens of prompt and answer but each row's last of the cross-entropy to q, [B].

    q as for `undial`, at the prompt's tokens the frozen model's own law. The last token predicts
    nothing.

    Args:
        batch: the packed answers; takes `labels`, and `logits` and `reference_logits` of `whole`.
        beta: β, in logits, 0 or more.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is below 0 or not finite, the batch has no `whole`, or that no
            `reference_logits`.
    """
    not_negative("undial-all", beta=beta)
    whole = given(batch.whole, "whole", "undial-all")
    reference = given(whole.reference_logits, "whole_reference", "undial-all")
    values = _to_lowered(whole, reference, _read(batch, whole) - 1, batch.labels, beta)
    kept = whole.row[1:] == whole.row[:-1]  # false at the last token of a row
    return row_means(values[:-1][kept], whole.row[:-1][kept], whole.rows)


def ceu(batch: LossInputs) -> Tensor:
    """Mean over each answer's tokens of the cross-entropy to q, q held, [B] (Yang 2025).

    q is the model's own law without the true token, renormalised.

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value an answer, [B], in nats, at least 0.
    """
    return batch.means(_to_others(batch))


def ceu_rest(batch: LossInputs) -> Tensor:
    """Mean over each answer's tokens but the first of the cross-entropy to q, q held, [B].

    q as for `ceu` (Yang 2025).

    Args:
        batch: the packed answers; takes `logits` and `labels`.

    Returns:
        One value an answer, [B], in nats, at least 0; 0 of an answer of one token.
    """
    kept = torch.zeros_like(batch.row, dtype=torch.bool)
    kept[1:] = batch.row[1:] == batch.row[:-1]
    return row_means(_to_others(batch)[kept], batch.row[kept], batch.rows)


def margin(batch: LossInputs) -> Tensor:
    """Mean over each answer's tokens of (largest - mean logit)², [B] (Entesari et al. 2025).

    Args:
        batch: the packed answers; takes `logits`.

    Returns:
        One value an answer, [B], in squared logits, at least 0; 0 where every token is equally
        likely.
    """
    return batch.means(_margins(batch.logits))


def margin_read(batch: LossInputs) -> Tensor:
    """Mean where each answer's tokens are read, one place late, of (largest - mean logit)², [B].

    Args:
        batch: the packed answers; takes `logits` of `whole`.

    Returns:
        One value an answer, [B], in squared logits, at least 0; 0 where every token is equally
        likely.

    Raises:
        InputError: the batch has no `whole`.
    """
    whole = given(batch.whole, "whole", "margin-read")
    return batch.means(_margins(whole.logits[_read(batch, whole)]))


def _to_lowered(
    batch: LossInputs, reference: Tensor, places: Tensor, labels: Tensor, beta: float
) -> Tensor:
    """Cross-entropy to the reference's law, with these labels at these places lowered by β, [N]."""
    lowered = precise(reference).detach().clone()
    lowered[places, labels] -= beta
    return -(lowered.softmax(dim=1) * batch.log_probs).sum(dim=1)


def _to_others(batch: LossInputs) -> Tensor:
    """Cross-entropy of every labelled token to the law without it, [N]."""
    others = precise(batch.logits).detach().scatter(1, batch.labels[:, None], -math.inf)
    return -(others.softmax(dim=1) * batch.log_probs).sum(dim=1)


def _margins(logits: Tensor) -> Tensor:
    logits = precise(logits)
    return (logits.amax(dim=1) - logits.mean(dim=1)).square()


def _read(batch: LossInputs, whole: LossInputs) -> Tensor:
    """Where in `whole` the answers' own tokens stand, [N]: at the end of each row."""
    ends, stops = whole.lengths.cumsum(0), batch.lengths.cumsum(0)
    return _numbered(batch) + (ends - stops)[batch.row]


def _numbered(batch: LossInputs) -> Tensor:
    """The numbers of its labelled tokens, from 0, [N]."""
    return torch.ones_like(batch.row).cumsum(0) - 1
