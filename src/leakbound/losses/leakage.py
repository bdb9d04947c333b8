"""Leak minimisation: descent on the expected score of the model's own answers.

Beyond the papers: no token stands for the leak, the score itself goes down. The score-function
gradient (Williams 1992) on draws that share prefixes, so that a distinct answer counts as often
as it was drawn.
"""

from __future__ import annotations

import torch
from torch import Tensor

from leakbound.errors import InputError
from leakbound.losses.inputs import LossInputs, Sampled, given, row_sums
from leakbound.losses.likelihood import sequence_nll


def leakmin(batch: LossInputs) -> Tensor:
    """Σ_a c_a (h_a - h̄) / (n - 1) · log p(y_a) over each prompt's answers, [B], h̄ = Σ c_a h_a / n.

    Its gradient is an unbiased estimate of that of E[h(Y)], Y an answer from the law that was
    drawn from, for n independent draws of the current model: the same sum is the mean over draws
    of (h_i - mean of the other draws) · log p(y_i), and what the others say is independent of
    y_i. Another *draw* is left out, not another distinct answer: to leave out all the copies of
    y_i would make the baseline depend on y_i, and be biased. Draws without a score may be left
    out of n: then Y is an answer that can be scored. The value itself tells nothing; the log has
    the leakage.

    Takes `sampled`. Scores that are all equal give exactly 0 and no gradient, as does a prompt
    without answers. Raises InputError for a prompt with a single draw.
    """
    sampled = given(batch.sampled, "sampled", "leakmin")
    log_probs = -sequence_nll(sampled.answers)
    weights = _weights(sampled, batch.rows).to(log_probs)
    return row_sums(weights * log_probs, sampled.owner, batch.rows)


@torch.no_grad()
def _weights(sampled: Sampled, rows: int) -> Tensor:
    """c_a (h_a - h̄) / (n - 1) of every answer, [A], in float64."""
    owner, counts, scores = sampled.owner, sampled.counts.double(), sampled.scores.double()
    draws = row_sums(counts, owner, rows)
    if (draws[owner] < 2).any():
        row = int(owner[draws[owner] < 2][0])
        raise InputError(
            f"leakmin needs 2 or more draws of a prompt, got {draws[row]:g} at row {row}. "
            "Draw more, or leave its answers out."
        )
    # Measured from the lowest of a prompt, equal scores deviate from their mean by exactly 0.
    lowest = scores.new_zeros(rows).scatter_reduce(0, owner, scores, "amin", include_self=False)
    above = scores - lowest[owner]
    mean = row_sums(counts * above, owner, rows) / draws
    return counts * (above - mean[owner]) / (draws[owner] - 1)
