"""Losses that move next-token distributions towards a target without the forgotten answer.

There are three targets. For UNDIAL (Dong et al. 2024), the target is the frozen model's
distribution with a lower logit of the true token. For CE-U (Yang 2025), it is the trained model's
own distribution without the true token. For the margin loss of PDU (Entesari et al. 2025), it is
the uniform distribution.

Deviations: A value is the mean over the tokens of one answer. The published code computes one mean
over all tokens of a batch, as the setting `reduce` of a term can do. OpenUnlearning's code of
UNDIAL averages over every position, including padding, and lowers the logit of token V - 100 at
positions without a token to forget. In this package, `over` "all" averages over every position
except padding, and no logit is lowered at the prompt's tokens. OpenUnlearning's code of PDU
computes the margins one position late: at the positions of the answer's tokens, not at the
positions that predict these tokens. `over` "read" does the same.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakbound.losses.family import covered, frozen_logits, not_negative, require
from leakbound.losses.inputs import LossInputs, precise, row_means


def undial(batch: LossInputs, *, beta: float = 10.0, over: str = "answer") -> Tensor:
    """Return the mean cross-entropy to q over each answer's tokens, [B] (Dong et al. 2024).

    q is the softmax of the frozen model's logits with the true token's logit lowered by β. Lowering
    a logit by β changes a high probability more than a low probability. At the prompt's tokens q is
    the frozen model's own distribution.

    Args:
        batch: the packed answers; uses `labels`, and `logits` and `reference_logits`, which are
            parts of `whole` if `over` is "all".
        beta: β, in logits, 0 or more.
        over: "answer", or "all" for every token of prompt and answer, without the last token of
            each row, which predicts nothing.

    Returns:
        One value per answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is below 0 or not finite, an unknown `over`, or a part that the batch
            lacks.
    """
    not_negative("undial", beta=beta)
    part = covered(batch, "undial", over, "all")
    places = _numbered(batch) if over == "answer" else _read(batch, part) - 1
    lowered = precise(frozen_logits(part, "undial", over)).detach().clone()
    lowered[places, batch.labels] -= beta
    values = -(lowered.softmax(dim=1) * part.log_probs).sum(dim=1)
    if over == "answer":
        return batch.means(values)
    kept = part.row[1:] == part.row[:-1]  # false at the last token of a row
    return row_means(values[:-1][kept], part.row[:-1][kept], part.rows)


def ceu(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Return the mean cross-entropy to q over each answer's tokens, [B] (Yang 2025).

    q is the model's own distribution without the true token, renormalised. It is treated as a
    constant: no gradient flows through q.

    Args:
        batch: the packed answers; uses `logits` and `labels`.
        over: "answer", or "rest" for all tokens of the answer except the first.

    Returns:
        One value per answer, [B], in nats, at least 0. With `over` "rest", the value of an answer
            with a single token is 0.

    Raises:
        InputError: an unknown `over`.
    """
    require(over in ("answer", "rest"), "ceu", "over", over, "answer or rest")
    others = precise(batch.logits).detach().scatter(1, batch.labels[:, None], -math.inf)
    values = -(others.softmax(dim=1) * batch.log_probs).sum(dim=1)
    if over == "answer":
        return batch.means(values)
    kept = batch.row[1:] == batch.row[:-1]  # false at the first token of a row
    return row_means(values[1:][kept], batch.row[1:][kept], batch.rows)


def margin(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Return the mean of (largest - mean logit)² over each answer's tokens, [B] (Entesari et al.).

    Args:
        batch: the packed answers; uses `logits`, a part of `whole` if `over` is "read".
        over: "answer": the positions that predict the answer's tokens. "read": the positions at
            which these tokens are the input, one position later.

    Returns:
        One value per answer, [B], in squared logits, at least 0; 0 if every token is equally
            likely.

    Raises:
        InputError: an unknown `over`, or a batch without `whole`.
    """
    part = covered(batch, "margin", over, "read")
    logits = precise(part.logits[_read(batch, part)])
    return batch.means((logits.amax(dim=1) - logits.mean(dim=1)).square())


def _read(batch: LossInputs, whole: LossInputs) -> Tensor:
    """Return the indices in `whole` of the answers' tokens, [N].

    The answer's tokens are the last tokens of a row.
    """
    ends, stops = whole.lengths.cumsum(0), batch.lengths.cumsum(0)
    return _numbered(batch) + (ends - stops)[batch.row]


def _numbered(batch: LossInputs) -> Tensor:
    """Return the indices of the labelled tokens, from 0, [N]."""
    return torch.ones_like(batch.row).cumsum(0) - 1
