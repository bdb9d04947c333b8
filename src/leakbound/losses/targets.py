"""Losses that lead the next-token law of a forgotten answer to one without the answer.

The frozen model's with the true token's logit lowered (UNDIAL, Dong et al. 2024), the model's own
without the true token (CE-U, Yang 2025), or the uniform one (the margin of PDU, Entesari et al.
2025). Deviations: a value is the mean over one answer, where the published code takes one mean over
all tokens of a batch (`reduce` of a term does). OpenUnlearning's code of UNDIAL averages over
every position, padding included, and lowers the token V - 100 where there is none to forget:
over "all" the mean is over every position but padding, and nothing is lowered there. Its code of
PDU reads the margins one place late, where the answer's tokens are read: over "read".
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from leakbound.losses.family import covered, frozen_logits, not_negative, require
from leakbound.losses.inputs import LossInputs, precise, row_means


def undial(batch: LossInputs, *, beta: float = 10.0, over: str = "answer") -> Tensor:
    """Mean over each answer's tokens of the cross-entropy to q, [B] (Dong et al. 2024).

    q is the softmax of the frozen model's logits, that of the true token lowered by β: the
    likelier it was, the more it falls. At the prompt's tokens q is the frozen model's own law.

    Args:
        batch: the packed answers; takes `labels`, and `logits` and `reference_logits`, of `whole`
            over "all".
        beta: β, in logits, 0 or more.
        over: "answer", or "all" for every token of prompt and answer but the last of each row,
            which predicts nothing.

    Returns:
        One value an answer, [B], in nats, at least 0.

    Raises:
        InputError: `beta` is below 0 or not finite, another `over`, or a part that the batch has
            not.
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
    """Mean over each answer's tokens of the cross-entropy to q, q constant, [B] (Yang 2025).

    q is the model's own law without the true token, renormalised.

    Args:
        batch: the packed answers; takes `logits` and `labels`.
        over: "answer", or "rest" for all of its tokens but the first.

    Returns:
        One value an answer, [B], in nats, at least 0; over "rest" 0 of an answer of one token.

    Raises:
        InputError: another `over`.
    """
    require(over in ("answer", "rest"), "ceu", "over", over, "answer or rest")
    values, kept = _to_others(batch), torch.ones_like(batch.row, dtype=torch.bool)
    if over == "rest":
        kept[0] = False
        kept[1:] = batch.row[1:] == batch.row[:-1]
    return row_means(values[kept], batch.row[kept], batch.rows)


def margin(batch: LossInputs, *, over: str = "answer") -> Tensor:
    """Mean over each answer's tokens of (largest - mean logit)², [B] (Entesari et al. 2025).

    Args:
        batch: the packed answers; takes `logits`, of `whole` over "read".
        over: "answer", or "read" for where the answer's tokens are read, one place late.

    Returns:
        One value an answer, [B], in squared logits, at least 0; 0 where every token is equally
        likely.

    Raises:
        InputError: another `over`, or the batch has no `whole`.
    """
    part = covered(batch, "margin", over, "read")
    logits = precise(part.logits[_read(batch, part)])
    return batch.means((logits.amax(dim=1) - logits.mean(dim=1)).square())


def _to_others(batch: LossInputs) -> Tensor:
    """Cross-entropy of every labelled token to the law without it, [N]."""
    others = precise(batch.logits).detach().scatter(1, batch.labels[:, None], -math.inf)
    return -(others.softmax(dim=1) * batch.log_probs).sum(dim=1)


def _read(batch: LossInputs, whole: LossInputs) -> Tensor:
    """Where in `whole` the answers' own tokens stand, [N]: at the end of each row."""
    ends, stops = whole.lengths.cumsum(0), batch.lengths.cumsum(0)
    return _numbered(batch) + (ends - stops)[batch.row]


def _numbered(batch: LossInputs) -> Tensor:
    """The numbers of its labelled tokens, from 0, [N]."""
    return torch.ones_like(batch.row).cumsum(0) - 1
